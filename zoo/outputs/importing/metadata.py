"""Facts about imported models, from a table with one row per model. Pair categories, budgets and chart colours use them.

Columns, all optional except the first: `model`, `family`, `architecture`, `dataset` (for training), `framework`,
`objective`, `seed`, `params`, `flops`, `licence`. Any other column is a hyper-parameter of the training.
"""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from zoo.cards.card import Card, Framework, Training
from zoo.cards.names import similar
from zoo.errors import InputError, ZooWarning
from zoo.outputs.importing import inputs
from zoo.outputs.outputs import Outputs

if TYPE_CHECKING:
    import pandas as pd

    from zoo.outputs.importing.inputs import Source

_SPELLINGS = {
    "name": "model", "model_name": "model", "arch": "architecture", "parameters": "params", "license": "licence",
    "loss": "objective", "trained_on": "dataset", "training_data": "dataset", "flop": "flops",
}  # fmt: skip
_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_FIELDS = ("family", "architecture", "dataset", "framework", "objective", "seed", "params", "flops", "licence")


def with_cards(made: Sequence[Outputs], meta: "Source") -> list[Outputs]:
    """Return the outputs, each with a card made from its row in `meta`, a file or frame."""
    (found,) = inputs.read_sources(meta)
    where, table = found.where, found.contents
    if isinstance(table, Mapping):
        raise InputError("holds arrays", where=where, expected="a table with one row per model")
    table = table.rename(columns=lambda name: _column(str(name)))
    if "model" not in table.columns:
        raise InputError(f"has no column 'model'; found {', '.join(map(str, table.columns))}", where=where)
    duplicates = table["model"][table["model"].duplicated()]
    if len(duplicates):
        raise InputError(f"model {duplicates.iloc[0]!r} has two rows", where=where)
    rows = {str(row["model"]): row for _, row in table.iterrows()}
    absent = [outputs.name for outputs in made if outputs.name not in rows]
    if absent:
        close = similar(absent[0], rows)
        hint = f". Did you mean {' or '.join(map(repr, close))}?" if close else ""
        warnings.warn(
            f"{where}: no row for {len(absent)} of {len(made)} models, first {absent[0]}{hint}", ZooWarning, stacklevel=3
        )
    return [
        dataclasses.replace(outputs, card=_card(outputs, rows[outputs.name], f"{where}: {outputs.name}"))
        if outputs.name in rows
        else outputs
        for outputs in made
    ]


def _card(outputs: Outputs, row: "pd.Series[Any]", where: str) -> Card:
    cells = {str(column): _plain(value) for column, value in row.items() if column != "model" and value == value}
    cells = {column: value for column, value in cells.items() if value is not None and value != ""}
    framework = str(cells.get("framework", "unknown"))
    if framework not in get_args(Framework):
        expected = f"one of {', '.join(get_args(Framework))}"
        raise InputError(f"framework is {framework!r}", where=where, expected=expected)
    seed = cells.get("seed")
    if seed is not None and not isinstance(seed, int):
        raise InputError(f"seed is {seed!r}", where=where, expected="a whole number")
    costs: dict[str, Any] = {name: _number(cells[name], f"{where}: {name}") for name in ("params", "flops") if name in cells}
    settings = {column: value for column, value in cells.items() if column not in _FIELDS}
    family = str(cells.get("family", "unknown"))
    return Card(
        name=outputs.name,
        source="reference",
        family=family,
        architecture=str(cells.get("architecture", family)),
        labels=outputs.dataset or "unknown",
        link=outputs.link,
        head="none" if outputs.kind == "embeddings" else "trained",
        training=Training(
            dataset=str(cells.get("dataset", "unknown")),
            framework=framework,  # type: ignore[arg-type]
            objective=str(cells.get("objective", "unknown")),
            # Depth and width within a family are hyper-parameters; without an architecture, the size tells them apart.
            hyperparameters=settings | {name: costs[name] for name in costs if "architecture" not in cells},
            seed=seed,
        ),
        license=str(cells.get("licence", "unknown")),
        details=costs,
    )


def _column(name: str) -> str:
    plain = name.strip().lower().replace(" ", "_").replace("-", "_")
    return _SPELLINGS.get(plain, plain)


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any, where: str) -> float:
    """Return a count, given as a number or as a text with a unit.

    >>> _number("25.6M", "params"), _number(11_000_000, "params")
    (25600000.0, 11000000.0)
    """
    text = str(value).replace(",", "").replace("_", "").strip().lower()
    unit = _UNITS.get(text[-1:], 1.0)
    try:
        number = float(text[:-1] if text[-1:] in _UNITS else text) * unit
    except ValueError as error:
        raise InputError(where=where, expected="a number such as 25600000 or 25.6M", found=value) from error
    if not 0 <= number < float("inf"):
        raise InputError(where=where, expected="a number that is not negative", found=value)
    return number
