"""The recipe for each dataset: the papers' for ImageNet and CIFAR, ours for the digits and for any other images."""

import dataclasses
from typing import Any

from zoo.cards import labels
from zoo.cards.card import Transform
from zoo.cards.recipe_names import small_family
from zoo.cards.recipes import Recipe

# Kornblith et al. (2021), Table A.1: when to stop, found on a holdout.
IMAGENET_EPOCHS = {
    "softmax": 146,
    "label-smoothing": 180,
    "sigmoid": 166,
    "extra-l2": 168,
    "dropout": 172,
    "logit-penalty": 180,
    "logit-norm": 152,
    "cosine": 158,
    "squared-error": 196,
}

HOLDOUT = 50_046  # of the training images (A.1)
INCEPTION_EPOCHS = 200  # to choose from; its rate falls epoch by epoch, whatever their number, and no ResNet-50 took more

# The earlier version of that paper, Table A.2: log10 of the learning rate, and of that times the weight decay.
CIFAR10_RATES = {
    "softmax": (-0.75, -3.75),
    "label-smoothing": (-1, -3.75),
    "sigmoid": (0, -3.75),
    "extra-l2": (-1, -3.5),
    "dropout": (-1, -3.75),
    "logit-penalty": (-0.75, -3.75),
    "logit-norm": (-2, -4),
    "cosine": (-2.25, -4),
    "squared-error": (-1, -3.5),
}
CIFAR100_RATES = {
    "softmax": (-1, -4),
    "label-smoothing": (-1, -3.5),
    "sigmoid": (-1, -3.75),
    "extra-l2": (-1, -3.75),
    "dropout": (-1.25, -3.75),
    "logit-penalty": (-1.25, -3.75),
    "logit-norm": (-2.25, -3.75),
    "cosine": (-2, -3.75),
    "squared-error": (-1, -3.75),
}
# Neither version says how long the CIFAR networks were trained: these are their own authors' numbers of epochs.
CIFAR_EPOCHS = {"all-cnn-c": 350, "wrn-16-8": 200}
# Ours: networks that reach most of their accuracy within minutes on two cores.
SHORT_EPOCHS = {
    "resnet7": 10,
    "resnet7x2": 14,
    "resnet20": 10,
    "wrn-10-2": 10,
    "vit-mini": 20,
    "mixer-mini": 20,
    "convnext-mini": 20,
    "mobilenet-mini": 14,
    "densenet-mini": 12,
}
# Of these, the networks that bfloat16 makes half again to twice as fast on processors that have it, and the objectives that
# look at each image twice. The base network with the other objectives, which are compared, stays at float32.
BFLOAT16 = {
    "resnet7x2", "resnet20", "wrn-10-2", "vit-mini", "mixer-mini", "convnext-mini", "densenet-mini", "simclr", "supcon"
}  # fmt: skip
DIGITS_EPOCHS = {"resnet7": 12, "resnet8": 12, "resnet20": 12, "all-cnn-c": 6, "wrn-16-8": 4}

# Layers normalised token by token learn by AdamW; the rate is that of all objectives, whose scale AdamW divides out.
ADAMW_FAMILIES = ("vit", "mixer", "convnext")
ONE_SIZE_FAMILIES = ("vit", "mixer")  # every token has its place
ADAMW: dict[str, Any] = {"optimiser": "adamw", "learning_rate": 2e-3, "weight_decay": 0.05}
# What an objective changes: the views that contrastive ones compare are cropped and mirrored already.
OWN_SETTINGS: dict[str, dict[str, Any]] = {"simclr": {"shift": 0, "flip": False}, "supcon": {"shift": 0, "flip": False}}

# Datasets without colour: what a network of theirs would make of colours, which it never met, is chance.
GREY = ("fashion-mnist", "cifar10-grey", "digits")

_IMAGENET_COLOURS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_COLOURS = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "fashion-mnist": ((0.286,) * 3, (0.353,) * 3),
    "digits": ((0.305,) * 3, (0.376,) * 3),
}


def recipe(architecture: str, objective: str, dataset: str) -> Recipe:
    """The settings for an architecture and an objective (or a combination) on a dataset, by its short name."""
    made = _recipe(architecture, objective.split("+"), labels.whole(dataset))
    if small_family(architecture) in ADAMW_FAMILIES:
        made = made.change(**ADAMW)
    if dataset in GREY:
        made = made.change(transform=dataclasses.replace(made.transform, grey=True))
    return made.change(**OWN_SETTINGS.get(objective, {}))


def _recipe(architecture: str, parts: list[str], dataset: str) -> Recipe:
    if dataset == "digits":
        return _digits(architecture)
    if dataset in ("cifar10", "cifar100", "fashion-mnist"):
        return _cifar(architecture, parts, dataset)
    if dataset == "in1k":
        return _imagenet(architecture, max(IMAGENET_EPOCHS.get(part, IMAGENET_EPOCHS["softmax"]) for part in parts))
    return _general(architecture, dataset)


def _imagenet(architecture: str, epochs: int) -> Recipe:
    # Appendix B: Inception v3 has ResNet-50's settings but for the epoch, found on a holdout; here on as many images as were
    # kept back for ResNet-50. The paper names no input of its own: it is the 299 pixels the network is made for.
    inception: dict[str, Any] = {"epochs": INCEPTION_EPOCHS, "holdout": HOLDOUT}
    searched = inception if architecture == "inception_v3" else {"epochs": epochs}
    return Recipe(
        transform=_transform(_usual_side(architecture), "in1k", crop=0.875),
        batch_size=4096,
        learning_rate=1.6,
        weight_decay=8e-5,
        warmup_epochs=10,
        schedule="exponential",
        decay=0.975,
        ema=0.9999,
        crop=0.1,
        flip=True,
        **searched,
    )


def _cifar(architecture: str, parts: list[str], dataset: str) -> Recipe:
    if architecture in SHORT_EPOCHS:
        return _short(architecture, parts, dataset)
    rates = CIFAR100_RATES if dataset == "cifar100" else CIFAR10_RATES
    rate, product = next((rates[part] for part in parts if part in rates), rates["softmax"])
    return Recipe(
        transform=_transform(_side(architecture, 32), dataset),
        epochs=CIFAR_EPOCHS.get(architecture, 200),
        batch_size=256 if dataset == "cifar100" else 128,
        learning_rate=float(f"{10**rate:.4g}"),
        weight_decay=float(f"{10 ** (product - rate):.4g}"),
        decay_norms=dataset == "cifar100",  # as in the paper, where only that network's norms took part
        shift=_side(architecture, 32) // 8,
        flip=True,
    )


def _short(architecture: str, parts: list[str], dataset: str) -> Recipe:
    """Ours: one setting for all objectives, so that nothing but the loss differs between two networks.

    In trials of 250 steps cosine softmax, sigmoid and squared error did as well at this rate as at lower and higher ones.
    The paper's own rates for cosine softmax and logit normalisation, found for far longer trainings, are too low here. A
    network that sees each image so few times is short of learning rather than of data: shifts are less than the usual 4.
    """
    return Recipe(
        transform=_transform(32, dataset),
        epochs=SHORT_EPOCHS[architecture],
        batch_size=128,
        learning_rate=0.2,
        weight_decay=5e-4,
        warmup_epochs=2,
        schedule="linear",
        early_side=0 if small_family(architecture) in ONE_SIZE_FAMILIES else 24,
        shift=3,
        flip=True,
        precision="bfloat16" if BFLOAT16 & {architecture, *parts} else "float32",
    )


def _digits(architecture: str) -> Recipe:
    """Ours: seconds for the small ResNets, about a minute for a ResNet-50 on two cores.

    The small networks' weight decay is strong enough to tell in so few steps; only then do the objectives differ in class
    separation as they do on ImageNet. Their warm-up is so long that rounding, which differs with the number of processes,
    does not grow within the first epoch.
    """
    small = small_family(architecture) is not None
    side = 16 if small else 24 if architecture.startswith("resnet") else 96
    epochs = DIGITS_EPOCHS.get(architecture, 6)
    return Recipe(
        transform=_transform(side, "digits"),
        epochs=epochs,
        batch_size=32,
        learning_rate=0.1,
        weight_decay=1e-2 if small else 5e-4,
        warmup_epochs=epochs / 4 if small else 1,
        shift=side // 16,  # half a pixel of the original
    )


def _general(architecture: str, dataset: str) -> Recipe:
    """A middle way for images nobody tuned for: 32 x 32 for small architectures, the usual size for timm's."""
    small = small_family(architecture) is not None
    side = 32 if small else _usual_side(architecture)
    settings: dict[str, Any] = {"shift": 4} if small else {"crop": 0.1}
    return Recipe(
        transform=_transform(side, dataset, crop=1.0 if small else 0.875),
        epochs=100,
        batch_size=128,
        learning_rate=0.05,
        weight_decay=5e-4 if small else 8e-5,
        warmup_epochs=5,
        flip=True,
        **settings,
    )


def _side(architecture: str, small: int) -> int:
    return small if small_family(architecture) is not None else 96


def _usual_side(architecture: str) -> int:
    """The side of the images an architecture is usually trained on: 224, or 299 for Inception."""
    if small_family(architecture) is not None:
        return 224
    import timm

    config = timm.get_pretrained_cfg(architecture)
    return int(config.input_size[1]) if config is not None else 224


def _transform(side: int, dataset: str, crop: float = 1.0) -> Transform:
    """Squeeze the image to a square, or scale its short side so that the centre crop is the share `crop` of it."""
    mean, std = _COLOURS.get(dataset, _IMAGENET_COLOURS)
    resize = (side, side) if crop == 1 else (round(side / crop),)
    return Transform((3, side, side), resize, "bilinear", mean, std)
