"""`Recipe`: every setting of a training run other than architecture, objective and data."""

import dataclasses
import hashlib
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from zoo.cards.card import Transform
from zoo.core.types import Precision as Precision
from zoo.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """Training settings of a network. Two runs with equal recipes on one CPU produce identical weights."""

    transform: Transform  # preprocessing for prediction; training uses the same image size
    epochs: int
    batch_size: int  # over all processes together
    learning_rate: float  # the maximum, reached after the warm-up
    weight_decay: float  # SGD: weight_decay * w is added to the gradient of each weight w; AdamW: times rate, to the step
    seed: int = 0
    name: str = ""  # of the model; initial weights and batch order derive from it and the seed. Empty: from the seed alone
    steps: int = 0  # number of steps, instead of `epochs`; 0: use `epochs`
    warmup_epochs: float = 0.0  # linear, from 0
    schedule: Literal["cosine", "linear", "exponential"] = "cosine"  # down to 0; exponential: times `decay` per epoch
    decay: float = 0.975
    optimiser: Literal["sgd", "adamw"] = "sgd"
    momentum: float = 0.9
    nesterov: bool = True  # SGD only
    decay_norms: bool = False  # whether weight decay applies to scales and biases
    ema: float = 0.0  # momentum of the exponential moving average of the weights; 0: no average
    early_side: int = 0  # side of the images in the first half of the steps, smaller to save time; 0: no change
    crop: float = 0.0  # minimum fraction of the area in random crops, aspect ratio 3/4..4/3; 0: no crops
    shift: int = 0  # maximum random shift in pixels, filled with black
    flip: bool = False  # whether to mirror half of the images
    auto_augment: Literal["", "imagenet", "cifar10"] = ""  # policy for that dataset (Cubuk et al. 2019)
    mixup: float = 0.0  # alpha of the Beta distribution of mixing weights (Zhang et al. 2018); 0: no mixup
    teacher: str = ""  # the model whose predictions the objective `distillation` learns, such as a saved ensemble
    holdout: int = 0  # number of training images held out; the weights of the epoch with the best accuracy on them are kept
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(Recipe).items():
            _check(name, hint, getattr(self, name))
        if self.warmup_epochs >= self.epochs and not self.steps:
            expected = f"below the number of epochs, {self.epochs}"
            raise InputError(argument="warmup_epochs", expected=expected, found=self.warmup_epochs)

    @property
    def settings(self) -> dict[str, Any]:
        """The hyper-parameters for the model's card: settings that are in use, without transform, seed and name."""
        omitted = {"transform", "seed", "name"} | (set() if self.schedule == "exponential" else {"decay"})
        omitted |= {"optimiser"} if self.optimiser == "sgd" else {"nesterov"}
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {name: value for name, value in values if name not in omitted and value}

    @property
    def entropy(self) -> tuple[int, ...]:
        """The integers that seed every random generator of a training run: the seed and, if set, a hash of the name."""
        digest = hashlib.sha256(self.name.encode()).digest()[:16]
        return (self.seed, int.from_bytes(digest, "big")) if self.name else (self.seed,)

    def change(self, **settings: Any) -> "Recipe":
        """Return the recipe with some settings changed and checked."""
        return dataclasses.replace(self, **settings)

    def plain(self) -> "Recipe":
        """Return the recipe without random crops and AutoAugment."""
        return self.change(crop=0.0, auto_augment="")

    def total_steps(self, images: int) -> int:
        """Return the number of training steps for a number of training images."""
        return self.steps or self.epochs * self.steps_per_epoch(images)

    def steps_per_epoch(self, images: int) -> int:
        """Return the number of full batches per epoch; images that do not fill a batch are skipped in that epoch."""
        if images < self.batch_size:
            expected = f"at most the number of training images, {images}"
            raise InputError(argument="batch_size", expected=expected, found=self.batch_size)
        return images // self.batch_size

    def rate(self, step: int, images: int) -> float:
        """Return the learning rate of a step, counted from 0.

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


# Numbers are finite and at least 0, except for these limits. Batch normalisation needs two examples.
_MINIMUM = {"epochs": 1, "batch_size": 2}
_MAXIMUM = {"seed": 2**32 - 1, "decay": 1, "momentum": 1, "ema": 1, "crop": 1}
_ABOVE_ZERO = ("learning_rate", "decay")


def _check(name: str, hint: Any, value: Any) -> None:
    if hint is bool or hint is Transform:
        valid, expected = isinstance(value, hint), "True or False" if hint is bool else "a Transform"
    elif hint in (int, float):
        low, high, inclusive = _MINIMUM.get(name, 0), _MAXIMUM.get(name, math.inf), name not in _ABOVE_ZERO
        kinds = (int,) if hint is int else (int, float)
        valid = isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high
        valid = valid and (inclusive or value > low) and math.isfinite(value)
        limit = "" if math.isinf(high) else f" and at most {high:g}"
        number = "a whole number of" if hint is int else "a number of"
        expected = f"{number} at least {low:g}{limit}" if inclusive else f"a number above {low:g}{limit}"
    elif hint is str:
        valid, expected = isinstance(value, str), "text"
    else:
        valid, expected = value in get_args(hint), f"one of {', '.join(filter(None, get_args(hint)))}"
    if not valid:
        raise InputError(argument=name, expected=expected, found=value)


def setting_names() -> set[str]:
    """Return the names of the settings that a user can change."""
    return {field.name for field in dataclasses.fields(Recipe)} - {"transform", "seed", "name"}
