"""Mistakes that are found before any model is run: paths in place of names, missing weights, models of different classes."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.errors import InputError, ZooError

if TYPE_CHECKING:
    import pandas as pd

_ADDRESSES = ("http:/", "https:/", "hf:/", "s3:/", "gs:/")  # one slash, because a Path joins two


def check_files(paths: Iterable[Path], argument: str) -> None:
    """Raise an error unless each path is a file or folder of this machine."""
    for path in paths:
        if str(path).startswith(_ADDRESSES):
            raise InputError("is an address; only files of this machine are read", where=path, argument=argument)
        if not os.path.exists(path):  # unlike Path.exists, False for a name that is too long
            raise InputError("no such file or folder", where=path, argument=argument)


def read_by_id(path: Path, argument: str) -> "pd.DataFrame":
    """Return a .csv file of texts by example id, after checking that it has a column id and that no id occurs twice."""
    import pandas as pd

    check_files([path], argument)
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, OSError) as error:  # ValueError: not UTF-8, or not a table
        raise InputError(f"is not a .csv file that can be read ({error})", where=path, argument=argument) from error
    if "id" not in table:
        raise InputError(
            where=path, argument=argument, expected="a .csv file with a column id", found=", ".join(map(str, table))
        )
    if table["id"].duplicated().any():
        twice = table["id"][table["id"].duplicated()].iloc[0]
        raise InputError(f"id {twice!r} occurs twice", where=path, argument=argument)
    return table.set_index("id")


def check_names(models: Iterable[str]) -> None:
    """Raise an error for a model that is a path or an address instead of a name."""
    for model in models:
        if model.startswith(_ADDRESSES):
            hint = "Download the file and pass file:PATH, with {architecture=NAME} and {classes=FILE}"
            raise InputError("is an address, not a model", where=model, argument="models", hint=hint)
        if "/" in model and ":" not in model:
            exists = Path(model).expanduser().exists()
            problem = "is a path, not a model" if exists else "is no model, and there is no such file or folder"
            hint = "Pass file:PATH for weights; outputs in files are read by `zoo import`, or by --from where there is one"
            raise InputError(problem, where=model, argument="models", hint=hint)


def check_same_classes(models: Sequence[str], data: str | None) -> None:
    """Raise an error if models that are named one by one would predict different classes on a dataset.

    Only cards are read. Models without a card or with stored outputs, and datasets whose images are missing, are not
    checked.
    """
    from zoo.cards.selection import is_filter, is_pattern
    from zoo.datasets import canonical, load
    from zoo.datasets.class_matching import match
    from zoo.models import registry
    from zoo.outputs.stored_names import stored_names
    from zoo.runs.resolver import infer_dataset

    names = [model for model in models if not (is_filter(model) or is_pattern(model) or "@" in model)]
    try:
        cards = {name: registry.card(name) for name in names}
        stored = stored_names()
        found = {name: card for name, card in cards.items() if card.name not in stored}
        if len({card.labels for card in found.values()}) < 2:
            return
        spec = infer_dataset(list(models), None) if data is None else canonical(data)
        dataset = load(spec or "")
    except ZooError:  # explained when the models are run
        return
    from zoo.models.sources.assembly import card_classes

    classes = {name: frozenset(match(dataset, card_classes(card)).classes) for name, card in found.items()}
    first, *others = classes
    for other in others:
        if classes[other] != classes[first]:
            raise InputError(
                f"predict different classes on {dataset.spec}: {len(classes[first])} and {len(classes[other])}, "
                f"{len(classes[first] & classes[other])} of them the same",
                where=f"{first} and {other}",
            )


def explain_missing_weights(models: Sequence[str]) -> None:
    """Raise an error for the first model, of those named one by one, whose weights nobody can download.

    Called after a dataset was not found, because missing weights are the greater obstacle.
    """
    from zoo.cards.selection import is_filter, is_pattern
    from zoo.datasets.loading import EMBEDDED
    from zoo.models import registry
    from zoo.outputs.store.lookup import split_suffix
    from zoo.runs.resolver import NOT_DOWNLOADABLE

    for model in models:
        if is_filter(model) or is_pattern(model):
            continue
        card = registry.card(split_suffix(model)[0])
        if card.dataset not in EMBEDDED and registry.available(card) in NOT_DOWNLOADABLE:
            registry.load(card.name)
