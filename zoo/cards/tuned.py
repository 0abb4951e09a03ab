"""Tuned hyper-parameters of each objective, by dataset. Importing this module does not import torch."""

from zoo.cards import labels
from zoo.cards.published import SHORT_EPOCHS
from zoo.cards.recipe_names import OBJECTIVES

# Kornblith et al. (2021), Table A.1, bold values.
IMAGENET: dict[str, dict[str, float]] = {
    "label-smoothing": {"alpha": 0.1},
    "dropout": {"rho": 0.7},
    "extra-l2": {"lambda_final": 8e-4},
    "logit-penalty": {"beta": 6e-4},
    "logit-norm": {"tau": 0.04},
    "cosine": {"tau": 0.05},
    "squared-error": {"kappa": 9.0, "M": 60.0, "loss_scale": 10.0},
}

# The earlier version of that paper (Demystifying Loss Functions for Classification), Table A.2.
CIFAR10: dict[str, dict[str, float]] = {
    "label-smoothing": {"alpha": 0.04},
    "dropout": {"rho": 0.65},
    "extra-l2": {"lambda_final": 10**-1.5},
    "logit-penalty": {"beta": 10**-2.83},
    "logit-norm": {"tau": 0.14},
    "cosine": {"tau": 0.08},
    "squared-error": {"kappa": 8.0, "M": 0.83, "loss_scale": 1.0},
}
CIFAR100: dict[str, dict[str, float]] = {
    "label-smoothing": {"alpha": 0.18},
    "dropout": {"rho": 0.75},
    "extra-l2": {"lambda_final": 10**-3.33},
    "logit-penalty": {"beta": 10**-2.83},
    "logit-norm": {"tau": 0.11},
    "cosine": {"tau": 0.1},
    "squared-error": {"kappa": 6.0, "M": 12.0, "loss_scale": 1.0},
}

# Of our short recipes on CIFAR-10, tuned with resnet7 by `zoo train --search` for three epochs on 5,000 held-out training
# images; comments list the values tried. The learning rate found with them is `zoo.cards.published.SHORT_RATE`. Dropout and
# extra L2 were not searched beyond these values: in so few epochs the least regularisation wins. A weight decay of half or
# twice 5e-4 was no better.
SHORT: dict[str, dict[str, float]] = {
    "label-smoothing": {"alpha": 0.04},  # of 0.02, 0.04, 0.08
    "dropout": {"rho": 0.8},  # of 0.5, 0.65, 0.8
    "extra-l2": {"lambda_final": 0.01},  # of 0.003, 0.01, 0.03
    "logit-penalty": {"beta": 0.0045},  # of 0.0005, 0.0015, 0.0045
    "logit-norm": {"tau": 0.14},  # of 0.07, 0.14, 0.28
    "cosine": {"tau": 0.08},  # of 0.04, 0.08, 0.16
    "squared-error": {"kappa": 2.8, "M": 2.0, "loss_scale": 1.0},  # of 0.7, 1.4, 2.8 and 2, 5, 12
}

# Tuned for this package.
DIGITS: dict[str, dict[str, float]] = {
    "label-smoothing": {"alpha": 0.1},
    "dropout": {"rho": 0.7},
    "extra-l2": {"lambda_final": 1e-2},
    "logit-penalty": {"beta": 5e-3},
    "logit-norm": {"tau": 0.2},
    "cosine": {"tau": 0.15},
    "squared-error": {"kappa": 1.0, "M": 10.0, "loss_scale": 0.3},
}

_TABLES = {"in1k": IMAGENET, "cifar10": CIFAR10, "fashion-mnist": CIFAR10, "cifar100": CIFAR100, "digits": DIGITS}


def defaults(objective: str, dataset: str = "in1k", architecture: str = "") -> dict[str, float]:
    """Return the tuned hyper-parameters of an objective or a combination; for an untuned dataset, those for ImageNet.

    Args:
        objective: an objective, or several joined by `+`.
        dataset: the training images.
        architecture: the network; only those with a short recipe (`resnet7`, ...) have hyper-parameters of their own.

    >>> defaults("cosine", "cifar10"), defaults("cosine", "cifar10-half"), defaults("sigmoid+dropout")
    ({'tau': 0.08}, {'tau': 0.08}, {'rho': 0.7})
    """
    whole = labels.whole(dataset)
    short = architecture in SHORT_EPOCHS and whole in ("cifar10", "fashion-mnist")
    table = SHORT if short else _TABLES.get(whole, IMAGENET)
    parts = [part for part in objective.split("+") if part in OBJECTIVES]
    return {key: value for part in parts for key, value in table.get(part, {}).items()}
