"""What is known about imported models, from a table with one row per model: categories, budgets and colours need it.

Columns, all but the first optional: `model`, `family`, `architecture`, `dataset` (what it was trained on), `framework`,
`objective`, `seed`, `params`, `flops`, `licence`. Others are taken for hyper-parameters of its training.
"""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from zoo.cards.card import Card, Framework, Training
from zoo.cards.names import near
from zoo.errors import InputError, ZooWarning
from zoo.outputs.importing import inputs
from zoo.outputs.outputs import Outputs

if TYPE_CHECKING:
    import pandas as pd

_SPELLINGS = {
    "name": "model", "model_name": "model", "arch": "architecture", "parameters": "params", "license": "licence",
    "loss": "objective", "trained_on": "dataset", "training_data": "dataset", "flop": "flops",
}  # fmt: skip
_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_FIELDS = ("family", "architecture", "dataset", "framework", "objective", "seed", "params", "flops", "licence")


def with_cards(made: Sequence[Outputs], meta: Any) -> list[Outputs]:
    """The outputs, each with a card made of its row in `meta`: a file, or a frame."""
    ((where, _, table),) = inputs.held(meta)
    if not hasattr(table, "columns"):
        raise InputError(f"{where}: expected a table with one row per model, found arrays")
    table = table.rename(columns=lambda name: _column(str(name)))
    if "model" not in table.columns:
        raise InputError(f"{where}: no column 'model'; found {', '.join(map(str, table.columns))}")
    twice = table["model"][table["model"].duplicated()]
    if len(twice):
        raise InputError(f"{where}: model {twice.iloc[0]!r} has two rows")
    rows = {str(row["model"]): row for _, row in table.iterrows()}
    absent = [outputs.name for outputs in made if outputs.name not in rows]
    if absent:
        warnings.warn(
            f"{where}: no row for {len(absent)} of {len(made)} models, first {absent[0]}{near(absent[0], rows)}",
            ZooWarning,
            stacklevel=3,
        )
    return [
        dataclasses.replace(outputs, card=_card(outputs, rows[outputs.name], f"{where} {outputs.name}"))
        if outputs.name in rows
        else outputs
        for outputs in made
    ]


def _card(outputs: Outputs, row: "pd.Series[Any]", where: str) -> Card:
    told = {str(column): _plain(value) for column, value in row.items() if column != "model" and value == value}
    told = {column: value for column, value in told.items() if value is not None and value != ""}
    framework = str(told.get("framework", "unknown"))
    if framework not in get_args(Framework):
        raise InputError(f"{where}: framework {framework!r}, expected one of {', '.join(get_args(Framework))}")
    seed = told.get("seed")
    if seed is not None and not isinstance(seed, int):
        raise InputError(f"{where}: seed {seed!r}, expected a whole number")
    costs: dict[str, Any] = {name: _number(told[name], f"{where}: {name}") for name in ("params", "flops") if name in told}
    settings = {column: value for column, value in told.items() if column not in _FIELDS}
    family = str(told.get("family", "unknown"))
    return Card(
        name=outputs.name,
        source="reference",
        family=family,
        architecture=str(told.get("architecture", family)),
        labels=outputs.dataset or "unknown",
        link=outputs.link,
        head="none" if outputs.kind == "embeddings" else "trained",
        training=Training(
            dataset=str(told.get("dataset", "unknown")),
            framework=framework,  # type: ignore[arg-type]
            objective=str(told.get("objective", "unknown")),
            # depth and width of one family are hyper-parameters, and the size tells them
            hyperparameters=settings | {name: costs[name] for name in costs if "architecture" not in told},
            seed=seed,
        ),
        license=str(told.get("licence", "unknown")),
        details=costs,
    )


def _column(name: str) -> str:
    plain = name.strip().lower().replace(" ", "_").replace("-", "_")
    return _SPELLINGS.get(plain, plain)


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any, where: str) -> float:
    """A count, maybe with its unit.

    >>> _number("25.6M", "params"), _number(11_000_000, "params")
    (25600000.0, 11000000.0)
    """
    text = str(value).replace(",", "").replace("_", "").strip().lower()
    unit = _UNITS.get(text[-1:], 1.0)
    try:
        number = float(text[:-1] if text[-1:] in _UNITS else text) * unit
    except ValueError as error:
        raise InputError(f"{where} {value!r}, expected a number such as 25600000 or 25.6M") from error
    if not 0 <= number < float("inf"):
        raise InputError(f"{where} {value!r}, expected a number that is not negative")
    return number
