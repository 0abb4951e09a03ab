"""The names that recipes are made of, readable without loading torch."""

OBJECTIVES: tuple[str, ...] = (
    "softmax",
    "label-smoothing",
    "dropout",
    "extra-l2",
    "logit-penalty",
    "logit-norm",
    "cosine",
    "sigmoid",
    "squared-error",
)

SMALL_ARCHITECTURES: tuple[str, ...] = ("resnet8", "resnet8x2", "resnet20", "all-cnn-c", "wrn-16-8")
