"""The papers' own numbers, from the cards: rows of tables, and what a figure or a section states."""

from collections.abc import Mapping

import pandas as pd

from zoo.cards.card import Reference
from zoo.cards.recipe_names import OBJECTIVES
from zoo.models import registry

REPRESENTATION, LOSS = "Gontijo-Lopes 2021", "Kornblith 2021"
BASE = "resnet50-ra"  # the model that the first paper compares with
Number = tuple[float, float | None]  # a value and, where the paper gives one, its standard error


def loss_table(table: str, architecture: str = "resnet50") -> dict[str, dict[str, Number]]:
    """By objective, the numbers of a table of the paper on losses, by the names that cards give them.

    >>> loss_table("3")["cosine"]["class-separation"]
    (0.641, 0.0003)
    """
    found: dict[str, dict[str, Number]] = {}
    for objective in OBJECTIVES:
        for row in registry.card(f"{architecture}-{objective}.in1k").reference:
            if row.paper == LOSS and row.table == table:
                found.setdefault(objective, {}).update(_numbers(row))
    return found


def stated(name: str, place: str) -> dict[str, float]:
    """What a figure or a section says of a model: `stated("resnet50-ra", "Section 4.6")`."""
    rows = [row for row in registry.card(name).reference if row.paper == REPRESENTATION and row.table == place]
    return {key: value for row in rows for key, value in row.results.items()}


def models(*tables: str) -> pd.DataFrame:
    """The rows of Tables 1 to 4 of the paper on representations, in percent: what each model has beside ResNet-50.

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
    """The models of Table 1 beside ResNet-50, with the gain over the mean of both, in percent."""
    frame = models("1")
    own = float(frame.loc[frame["model"] == BASE, "accuracy"].iloc[0])
    return frame.assign(gain_over_mean=frame["ensemble_accuracy"] - (frame["accuracy"] + own) / 2)


def _numbers(row: Reference) -> Mapping[str, Number]:
    values = row.results if row.accuracy is None else {"top1": row.accuracy, **row.results}
    names = {"top1": "accuracy"}
    return {name: (value, row.errors.get(names.get(name, name))) for name, value in values.items()}
