"""A recipe: every setting that decides what a network becomes, beside its architecture, its objective and the data."""

import dataclasses
import hashlib
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from zoo.cards.card import Transform
from zoo.errors import InputError

Precision = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Recipe:
    """How a network is trained. Two runs with equal recipes on one CPU end with the same weights, bit for bit."""

    transform: Transform  # what prediction does to an image; training starts from the same size
    epochs: int
    batch_size: int  # over all processes together
    learning_rate: float  # the highest, reached after the warm-up
    weight_decay: float  # each weight w adds weight_decay * w to its gradient; AdamW: to its step, times the rate
    seed: int = 0
    name: str = ""  # of the model; with the seed it decides initial weights and batch order. Empty: the seed alone decides
    steps: int = 0  # where the number of steps counts rather than epochs; 0: epochs do
    warmup_epochs: float = 0.0  # linear, from nothing
    schedule: Literal["cosine", "linear", "exponential"] = "cosine"  # down to zero, or by a factor an epoch
    decay: float = 0.975  # that factor
    optimiser: Literal["sgd", "adamw"] = "sgd"
    momentum: float = 0.9
    nesterov: bool = True  # of SGD
    decay_norms: bool = False  # whether scales and biases take part in weight decay
    ema: float = 0.0  # momentum of the running average of the weights; 0: the weights themselves
    early_side: int = 0  # side of the images in the first half of the steps, which are then the faster; 0: as ever
    crop: float = 0.0  # random crops of at least this share of the area, aspect 3/4..4/3; 0: none
    shift: int = 0  # random shifts of up to so many pixels; what comes in is black
    flip: bool = False  # mirror half of the images
    auto_augment: Literal["", "imagenet", "cifar10"] = ""  # the policy found on that dataset (Cubuk et al. 2019)
    mixup: float = 0.0  # alpha of the Beta distribution of mixing weights (Zhang et al. 2018); 0: none
    teacher: str = ""  # the model, such as a saved ensemble, whose predictions the objective `distillation` learns
    holdout: int = 0  # training images kept back; the epoch that is best on them is the result
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(Recipe).items():
            _check(name, hint, getattr(self, name))
        if self.warmup_epochs >= self.epochs and not self.steps:
            raise InputError(
                f"recipe: warmup_epochs is {self.warmup_epochs:g}, expected fewer than the {self.epochs} epochs"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The plain values of what is switched on, but for the transform and the seed: a card's hyper-parameters."""
        off = {"transform", "seed", "name"} | (set() if self.schedule == "exponential" else {"decay"})
        off |= {"optimiser"} if self.optimiser == "sgd" else {"nesterov"}
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {name: value for name, value in values if name not in off and value}

    @property
    def entropy(self) -> tuple[int, ...]:
        """The integers that every random draw of a training run depends on: the seed and, where there is one, the name."""
        digest = hashlib.sha256(self.name.encode()).digest()[:16]
        return (self.seed, int.from_bytes(digest, "big")) if self.name else (self.seed,)

    def change(self, **settings: Any) -> "Recipe":
        """The recipe with other values; they are checked like those of a new one."""
        return dataclasses.replace(self, **settings)

    def plain(self) -> "Recipe":
        """The recipe without random crops and AutoAugment: images as prediction sees them."""
        return self.change(crop=0.0, auto_augment="")

    def total_steps(self, images: int) -> int:
        """How many batches it takes; what does not fill a batch waits for the next epoch's order."""
        return self.steps or self.epochs * self.steps_per_epoch(images)

    def steps_per_epoch(self, images: int) -> int:
        if images < self.batch_size:
            raise InputError(
                f"recipe: batch_size is {self.batch_size}, but there are {images} training images; set a smaller one"
            )
        return images // self.batch_size

    def rate(self, step: int, images: int) -> float:
        """The learning rate of a step, counted from zero.

        >>> spec = Transform((3, 8, 8), (8, 8), "bilinear", (0.0,) * 3, (1.0,) * 3)
        >>> recipe = Recipe(spec, epochs=4, batch_size=10, learning_rate=1.0, weight_decay=0.0, warmup_epochs=1)
        >>> [round(recipe.rate(step, images=20), 3) for step in range(8)]
        [0.5, 1.0, 1.0, 0.933, 0.75, 0.5, 0.25, 0.067]
        """
        per_epoch, total = self.steps_per_epoch(images), self.total_steps(images)
        warmup = self.warmup_epochs * per_epoch
        if step < warmup:
            return self.learning_rate * min(1.0, (step + 1) / warmup)
        if self.schedule == "exponential":
            return self.learning_rate * self.decay ** ((step - warmup) / per_epoch)
        if self.schedule == "linear":
            return self.learning_rate * (total - step) / (total - warmup)
        return self.learning_rate * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


# What each number must be: least value, whether it may be equal to that, and greatest.
_RANGES: dict[str, tuple[float, bool, float]] = {
    "epochs": (1, True, math.inf),
    "batch_size": (2, True, math.inf),  # batch normalisation needs two
    "learning_rate": (0, False, math.inf),
    "weight_decay": (0, True, math.inf),
    "seed": (0, True, 2**32 - 1),
    "steps": (0, True, math.inf),
    "warmup_epochs": (0, True, math.inf),
    "decay": (0, False, 1),
    "momentum": (0, True, 1),
    "ema": (0, True, 1),
    "early_side": (0, True, math.inf),
    "crop": (0, True, 1),
    "shift": (0, True, math.inf),
    "mixup": (0, True, math.inf),
    "holdout": (0, True, math.inf),
}


def _check(name: str, hint: Any, value: Any) -> None:
    if hint is bool or hint is Transform:
        right, expected = isinstance(value, hint), "yes or no" if hint is bool else "a Transform"
    elif name in _RANGES:
        low, inclusive, high = _RANGES[name]
        kinds = (int,) if hint is int else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high
        right = right and (inclusive or value > low) and math.isfinite(value)
        limit = "" if math.isinf(high) else f", at most {high:g}"
        expected = f"{'a whole number' if hint is int else 'a number'} {'at least' if inclusive else 'above'} {low:g}{limit}"
    elif hint is str:
        right, expected = isinstance(value, str), "text"
    else:
        right, expected = value in get_args(hint), f"one of {', '.join(filter(None, get_args(hint)))}"
    if not right:
        raise InputError(f"recipe: {name} is {value!r}, expected {expected}")


def setting_names() -> set[str]:
    """The settings of a recipe that can be changed by name."""
    return {field.name for field in dataclasses.fields(Recipe)} - {"transform", "seed", "name"}
