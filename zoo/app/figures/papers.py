"""Numbers printed in the papers, read from the model cards: rows of tables, and values stated in figures and sections."""

from collections.abc import Mapping

import pandas as pd

from zoo.cards.card import Reference
from zoo.cards.recipe_names import OBJECTIVES
from zoo.models import registry

REPRESENTATION, LOSS = "Gontijo-Lopes 2021", "Kornblith 2021"
BASE = "resnet50-ra"  # the ResNet-50 that Gontijo-Lopes et al. compare all models with
Number = tuple[float, float | None]  # a value and its standard error, if the paper states one

# Numbers of the earlier version of Kornblith et al., Demystifying Loss Functions for Classification, left out of the paper:
# IN(50k), the accuracy of linear classifiers of ImageNet learnt from 50,046 training images (Tables 3 and 4), and standard
# errors of the top-1 and top-5 accuracy of Inception v3 (Table B.1).
IN50K = {
    "softmax": 71.1, "squared-error": 76.7, "dropout": 74.8, "label-smoothing": 74.5, "extra-l2": 75.9,
    "logit-penalty": 76.4, "logit-norm": 75.1, "cosine": 76.9, "sigmoid": 74.3,
}  # fmt: skip
IN50K_OF_TAU = {0.01: 67.0, 0.02: 70.8, 0.03: 74.3, 0.04: 75.7, 0.05: 76.4, 0.06: 76.6, 0.07: 76.8, 0.08: 77.0}
INCEPTION_ERRORS = {
    "softmax": (0.03, 0.03), "squared-error": (0.03, 0.01), "dropout": (0.02, 0.04), "label-smoothing": (0.03, 0.03),
    "extra-l2": (0.03, 0.01), "logit-penalty": (0.06, 0.02), "logit-norm": (0.11, 0.04), "cosine": (0.06, 0.03),
    "sigmoid": (0.07, 0.02),
}  # fmt: skip


def loss_table(table: str, architecture: str = "resnet50") -> dict[str, dict[str, Number]]:
    """Return a table of Kornblith et al. 2021, as values by objective and by the quantity's name on the cards.

    >>> loss_table("3")["cosine"]["class-separation"]
    (0.641, 0.0003)
    """
    values: dict[str, dict[str, Number]] = {}
    for objective in OBJECTIVES:
        for row in registry.card(f"{architecture}-{objective}.in1k").reference:
            if row.paper == LOSS and row.table == table:
                values.setdefault(objective, {}).update(_numbers(row))
    return values


def inception_table() -> dict[str, dict[str, Number]]:
    """Return Table B.1, with the standard errors of the earlier version.

    >>> inception_table()["sigmoid"]["top1"]
    (79.1, 0.07)
    """
    table = loss_table("B.1", "inception_v3")
    for objective, errors in INCEPTION_ERRORS.items():
        for column, error in zip(("top1", "top5"), errors, strict=True):
            table[objective][column] = table[objective][column][0], error
    return table


def stated(model: str, place: str) -> dict[str, float]:
    """Return what a figure or section of Gontijo-Lopes et al. 2021 states about a model.

    Args:
        model: name of the model.
        place: as on the card, such as "Section 4.6".
    """
    rows = [row for row in registry.card(model).reference if row.paper == REPRESENTATION and row.table == place]
    return {key: value for row in rows for key, value in row.results.items()}


def models(*tables: str) -> pd.DataFrame:
    """Return rows of Tables 1 to 4 of Gontijo-Lopes et al. 2021, in percent: each model and its ensemble with ResNet-50.

    >>> len(models("1")), float(models("1").set_index("model").loc["efficientnet-b0", "ensemble_accuracy"])
    (50, 78.65)
    """
    fields = ("accuracy", "temperature", "inconsistency", "ensemble_accuracy", "category")
    rows = [
        {"model": name, "row": row.row, **{field: getattr(row, field) for field in fields}}
        for name, card in registry.known_models().items()
        for row in card.reference
        if row.paper == REPRESENTATION and row.table in tables
    ]
    frame = pd.DataFrame(rows, columns=["model", "row", *fields])
    return frame.assign(inconsistency=100 * frame["inconsistency"].astype(float))


def pairs() -> pd.DataFrame:
    """Return Table 1 of Gontijo-Lopes et al. 2021 with the gain over the mean of model and ResNet-50, in percent."""
    frame = models("1")
    base_accuracy = float(frame.loc[frame["model"] == BASE, "accuracy"].iloc[0])
    return frame.assign(gain_over_mean=frame["ensemble_accuracy"] - (frame["accuracy"] + base_accuracy) / 2)


def _numbers(row: Reference) -> Mapping[str, Number]:
    values = row.results if row.accuracy is None else {"top1": row.accuracy, **row.results}
    error_names = {"top1": "accuracy"}
    return {name: (value, row.errors.get(error_names.get(name, name))) for name, value in values.items()}
