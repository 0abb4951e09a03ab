"""Numbers printed in the papers, read from the model cards: rows of tables, and values stated in figures and sections."""

from collections.abc import Mapping

import pandas as pd

from zoo.cards.card import Reference
from zoo.cards.recipe_names import OBJECTIVES
from zoo.models import registry

REPRESENTATION, LOSS = "Gontijo-Lopes 2021", "Kornblith 2021"
# The earlier version of Kornblith et al. It has numbers left out later: IN(50k), the accuracy of linear classifiers
# of ImageNet learnt from 50,046 training images, and standard errors.
EARLIER = "Demystifying 2021"
BASE = "resnet50-ra"  # the ResNet-50 that Gontijo-Lopes et al. compare all models with
Number = tuple[float, float | None]  # a value and its standard error, if the paper states one

PaperNumbers = Mapping[str, Mapping[str, Number]]  # by row or objective, and by column


def loss_table(table: str, architecture: str = "resnet50", paper: str = LOSS) -> dict[str, dict[str, Number]]:
    """Return a table of Kornblith et al. 2021, as values by objective and by the quantity's name on the cards.

    >>> loss_table("3")["cosine"]["class-separation"], loss_table("B.1", "inception_v3", EARLIER)["sigmoid"]["top1"]
    ((0.641, 0.0003), (79.1, 0.07))
    """
    values: dict[str, dict[str, Number]] = {}
    for objective in OBJECTIVES:
        for row in registry.card(f"{architecture}-{objective}.in1k").reference:
            if row.paper == paper and row.table == table:
                values.setdefault(objective, {}).update(_numbers(row))
    return values


def joined(*tables: PaperNumbers) -> PaperNumbers:
    """Return the columns of several tables, of the rows of the first; a later table replaces columns of the same name."""
    return {row: {key: x for table in tables for key, x in table.get(row, {}).items()} for row in tables[0]}


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
