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

SMALL_ARCHITECTURES: tuple[str, ...] = ("resnet8", "resnet20", "all-cnn-c", "wrn-16-8")

DATASETS: tuple[str, ...] = ("digits", "cifar10", "cifar100", "fashion-mnist", "in1k")  # those with settings of their own

_registered: list[str] = []


def known() -> tuple[str, ...]:
    """The nine objectives, and those a user registered: each makes recipe names at once."""
    return (*OBJECTIVES, *_registered)


def add(name: str) -> None:
    _registered.append(name)


def remove(name: str) -> None:
    _registered.remove(name)
