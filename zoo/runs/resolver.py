"""Resolves selectors to models and outputs, for `zoo.run` and every command.

A name stands for, in this order:

1. outputs that were imported under it for that dataset;
2. the model of that name: its shipped outputs or its stored run, else the model is run;
3. if the model cannot be loaded here, or the images are missing: any stored run of it.

A saved ensemble or cascade is run only if outputs of a member are missing; else these are combined (`zoo.outputs.combined`).
Outputs on a whole dataset serve for a slice of it, such as `cifar10:test[:2000]`.

If an import and a model share a name, a warning says that the import was taken. `NAME@run` means the model, `NAME@import`
the import, and `NAME@DIGEST` one of several stored runs. A pattern selects models and imports; on a dataset that is known
only by its outputs, it selects the models that have outputs there. Models that a pattern selects and that cannot be run here
are skipped with a warning, unless none would be left.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from zoo.cards.card import Card
from zoo.cards.names import canonical_dataset, default_dataset
from zoo.cards.selection import is_filter, is_pattern, select
from zoo.datasets import KNOWN, ResizeMode, canonical, is_user_dataset, load, resize_mode_of
from zoo.datasets.loading import EMBEDDED, split_rows
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning
from zoo.models import registry
from zoo.models.sources.base import Availability
from zoo.outputs import bundle
from zoo.outputs.importing import dataset_check
from zoo.outputs.outputs import Outputs
from zoo.outputs.store.layout import IMPORTED
from zoo.outputs.store.lookup import on_dataset, one_per_name, open_run, select_runs, split_suffix, stored
from zoo.outputs.store.run_folder import RunFolder

if TYPE_CHECKING:
    from zoo.models.model import Model

Models: TypeAlias = Union[str, "Model", Sequence[Union[str, "Model"]]]  # quoted, so that no model imports torch

MAX_LISTED = 3  # models that a warning names
NOT_DOWNLOADABLE: tuple[Availability, ...] = ("to train", "never published")


@dataclass(frozen=True)
class Choice:
    """What a name stands for: a model, or outputs that exist already."""

    model: "str | Model"
    open: Callable[[], Outputs] | None = None
    optional: bool = False  # selected by a pattern, so it may be skipped if it does not fit or cannot be run

    @property
    def name(self) -> str:
        return self.model if isinstance(self.model, str) else self.model.name


def choose(models: "Models", spec: str | None, home: Path | None = None, imports: bool = True) -> list[Choice]:
    """Return what each selected model stands for on the dataset `spec`.

    Args:
        models: names, patterns, filters, named sets or loaded models.
        spec: the dataset.
        home: where stored outputs are looked for.
        imports: whether imported outputs may stand for a name.
    """
    imported = _on_dataset_or_whole(stored(home, imported=True), spec) if imports else []
    entries = _entries(models)
    filters = [entry for entry in entries if isinstance(entry, str) and is_filter(entry)]
    if filters and len(filters) == len(entries):
        entries = ["*", *filters]
    chosen: dict[str, Choice] = {}
    for entry in entries:
        if not isinstance(entry, str):
            found = [Choice(entry)]
        elif is_filter(entry):
            continue
        elif is_pattern(entry):
            known = _selectable(spec, home, imported, snapshots="@" in entry[1:])
            found = [_choice(name, "", spec, home, imported, optional=True) for name in select([entry, *filters], known)]
        else:
            found = [_choice(*split_suffix(entry), spec, home, imported)]
            if filters:
                select([found[0].name, *filters], {found[0].name: _card(found[0], imported)})
        for choice in found:
            chosen.setdefault(choice.name, choice)
    if not chosen:
        raise InputError(argument="models", expected="at least one model", found=models)
    return list(chosen.values())


def runnable(models: Sequence[str], spec: str) -> list[str]:
    """Return the names of the selected models, without running any of them.

    As in `zoo.run`, models that a pattern selects are skipped with a warning if they have no outputs and cannot be run here.
    """
    choices = choose(models, spec)
    images = any(choice.optional for choice in choices) and _has_images(spec)
    left = [choice.name for choice in choices if not choice.optional or _is_runnable(choice, spec, images)]
    if not left:
        raise InputError(
            f"none of the {len(choices)} selected models can be run here", hint="`zoo list` shows what each of them needs"
        )
    if len(left) < len(choices):
        skipped = [choice.name for choice in choices if choice.name not in left]
        warnings.warn(skipped_models(skipped, len(choices)), ZooWarning, stacklevel=2)
    return left


def resolve(models: "Models") -> "list[str | Model]":
    """Return names and loaded models, with selectors replaced by the full names of the models they select, each once.

    >>> resolve(["resnet50-co*", "timm:resnet18"])
    ['resnet50-cosine.in1k', 'timm:resnet18']
    """
    entries = _entries(models)
    selectors = [entry for entry in entries if isinstance(entry, str)]
    if len(selectors) == len(entries) and any(map(is_filter, selectors)):
        return [*_require(registry.matching(selectors), selectors)]
    found: dict[str, str | Model] = {}
    for entry in entries:
        if not isinstance(entry, str):
            found[entry.name] = entry
        elif is_pattern(entry):
            found |= {name: name for name in _require(registry.matching(entry), [entry])}
        else:
            full = registry.resolve(entry)
            found[full] = full
    if not found:
        raise InputError(argument="models", expected="at least one model", found=models)
    return list(found.values())


def infer_dataset(models: "Models", home: Path | None) -> str | None:
    """Return the dataset to evaluate on if none is given.

    This is the test split of the dataset whose classes all the models predict. For names without a model, it is the only
    dataset of their stored outputs. Models of different datasets are an error that asks for `data`.
    """
    entries = _entries(models)
    cards = _cards_of_models(entries)
    if not cards:
        runs = [run for run in stored(home) if any(_selects(str(entry), run) for entry in entries)]
        specs = {run.identity.dataset for run in runs}
        if len(specs) == 1:
            return specs.pop()
        if specs:
            listed = ", ".join(sorted(spec or "unnamed" for spec in specs))
            raise InputError(
                f"stored outputs of {', '.join(map(str, entries))} are on several datasets ({listed})",
                hint="Choose one with {data}",
            )
        return canonical(default_dataset())
    label_sets = sorted({canonical_dataset(card.labels) for card in cards if card.labels != "none"})
    known = [name for name in label_sets if name in KNOWN or name in EMBEDDED]
    if len(label_sets) > 1:
        raise InputError(
            f"the models predict classes of different datasets ({', '.join(label_sets)})", hint="Choose one with {data}"
        )
    return canonical(known[0] if known else default_dataset())


def existing_outputs(
    name: str, spec: str | None, home: Path | None, resize_mode: ResizeMode | None = None
) -> tuple[Outputs, str] | None:
    """Return stored or shipped outputs of a model that cannot be run here, and a phrase that says which; or None."""
    mode = resize_mode or resize_mode_of(spec)
    try:
        runs = [run for run in _stored(name, spec, home) if run.identity.resize_mode == mode]
    except UnknownName:
        runs = []
    if runs:
        (run,) = one_per_name(runs)
        return _open(run, spec), "using stored outputs"
    shipped = shipped_outputs(name, spec) if mode == resize_mode_of(spec) else None
    if shipped is not None:
        return shipped, "using shipped outputs"
    combined = combined_outputs(name, lambda member: (existing_outputs(member, spec, home, mode) or (None,))[0])
    return None if combined is None else (combined, "combining outputs of its members")


def shipped_outputs(name: str, spec: str | None) -> Outputs | None:
    """Return the shipped outputs of a model on a dataset or on a slice of it, or None."""
    whole, rows = split_spec(spec)
    outputs = bundle.shipped(name, whole)
    return outputs if outputs is None or rows is None else dataclasses.replace(outputs.select(rows), dataset=spec)


def combined_outputs(name: str, outputs_of: Callable[[str], Outputs | None]) -> Outputs | None:
    """Return the outputs of a saved ensemble, combined from those of its members; None for any other model.

    Args:
        name: of the ensemble.
        outputs_of: returns the outputs of a member, or None if there are none. The result is then None.
    """
    card = registry.card(name) if registry.is_name(name) else None
    if card is None or not card.members:
        return None
    try:
        registry.made_of(card)
    except ZooError:  # a member is unknown, or the ensemble contains itself; running it raises the error
        return None
    members = []
    for member in card.members:
        outputs = outputs_of(member.name)
        if outputs is None:
            return None
        members.append(outputs)
    from zoo.outputs.combined import combine

    return combine(card, members)


def split_spec(spec: str | None) -> tuple[str | None, slice | None]:
    """Return the spec of the whole dataset, and the slice that `spec` stands for; None if it is not a slice."""
    try:
        return (None, None) if spec is None else split_rows(spec)
    except InputError:  # of a dataset in memory, such as one made by `Dataset.select`
        return spec, None


def slice_by_id(outputs: Outputs, ids: Sequence[str], spec: str | None) -> Outputs:
    """Return the rows of the given ids, in the order of the ids, of outputs on a whole dataset; `spec` is the slice."""
    row_of = {row_id: row for row, row_id in enumerate(outputs.ids.tolist())}
    rows = [row_of[row_id] for row_id in ids if row_id in row_of]
    if not rows:
        raise InputError(f"has none of the examples of {spec}", where=outputs.name)
    selected = set(ids)
    undecodable = [entry for entry in outputs.details.get("undecodable", ()) if entry["id"] in selected]
    details = outputs.details | {"undecodable": undecodable}
    return dataclasses.replace(outputs.select(rows), dataset=spec, path=None, details=details)


def skipped_models(names: Sequence[str], total: int) -> str:
    """Return the warning that some of the selected models are skipped."""
    listed = ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")
    return f"skipping {len(names)} of {total} selected models, which cannot be run here ({listed})"


def _open(run: RunFolder, spec: str | None) -> Outputs:
    """Return stored outputs on a dataset. If the run is on the whole dataset and `spec` a slice, return its rows."""
    outputs = open_run(run)
    if spec is None or outputs.dataset == spec:
        return outputs
    dataset = dataset_check.find(spec).dataset
    if dataset is not None:
        return slice_by_id(outputs, dataset.ids, spec)
    if run.identity.fingerprint == IMPORTED or outputs.details["undecodable"]:
        raise InputError(
            f"is stored for all of {outputs.dataset}, whose order of examples is not known on this machine",
            where=outputs.name,
            hint="Leave the slice out",
        )
    return slice_by_id(outputs, outputs.ids[split_spec(spec)[1]].tolist(), spec)


def _on_dataset_or_whole(runs: list[RunFolder], spec: str | None) -> list[RunFolder]:
    """Return the runs on a dataset; for a slice also the runs on the whole dataset of models without a run on the slice."""
    exact = on_dataset(runs, spec)
    whole, rows = split_spec(spec)
    if rows is None:
        return exact
    names = {run.identity.name for run in exact}
    return exact + [run for run in on_dataset(runs, whole) if run.identity.name not in names]


def _selectable(
    spec: str | None, home: Path | None, imported: Sequence[RunFolder], snapshots: bool
) -> dict[str, Card | None]:
    """Return the models that a pattern may select on a dataset, with their cards; snapshots of training on request."""
    whole, _ = split_spec(spec)
    if whole is not None and is_user_dataset(whole):
        return {run.identity.name: run.card for run in _on_dataset_or_whole(stored(home), spec)}
    cards = registry.matching("*") | (registry.matching("*@*") if snapshots else {})
    return {**cards, **{run.identity.name: run.card for run in imported}}


def _choice(
    name: str, suffix: str, spec: str | None, home: Path | None, imported: Sequence[RunFolder], optional: bool = False
) -> Choice:
    imports = [run for run in imported if run.identity.name == name]
    if not imports:  # an import's name is complete; a model's may lack its dataset
        name = registry.resolve(name)
        imports = [run for run in imported if run.identity.name == name]
    if suffix == "run":
        return Choice(name)
    if suffix not in ("", "import"):
        (run,) = _stored(name, spec, home, suffix)
        return Choice(name, functools.partial(_open, run, spec))
    if imports:
        (run,) = one_per_name(imports)
        if not suffix and registry.is_name(name):
            warnings.warn(
                f"{name}: using the outputs imported for {spec}, not the model of that name, which is {name}@run",
                ZooWarning,
                stacklevel=4,
            )
        return Choice(name, functools.partial(_open, run, spec), optional)
    if suffix:
        raise UnknownName(
            f"no outputs of {name!r} on {spec} were imported",
            kind="imported model",
            name=name,
            hint="`zoo import` imports some",
        )
    if registry.is_name(name):
        return Choice(name, optional=optional)
    try:
        (run,) = one_per_name(_stored(name, spec, home))
    except UnknownName:
        datasets = sorted(
            {run.identity.dataset or "an unnamed dataset" for run in stored(home) if run.identity.name == name}
        )
        if datasets:
            raise UnknownName(
                f"no outputs of {name} on {spec} are stored, but there are some on {', '.join(datasets)}",
                kind="model", name=name, hint="Choose one with {data}",
            ) from None  # fmt: skip
        registry.card(name)  # raises the error that suggests similar names
        raise
    return Choice(name, functools.partial(_open, run, spec), optional)


def _stored(name: str, spec: str | None, home: Path | None, digest: str = "") -> list[RunFolder]:
    runs = [run for run in stored(home) if run.identity.name == name and run.identity.digest.startswith(digest)]
    found = _on_dataset_or_whole(runs, spec)
    if not found:
        asked = f"{name}@{digest}" if digest else name
        raise UnknownName(f"no outputs of {asked} on {spec} are stored", kind="model", name=asked)
    return found


def _card(choice: Choice, imported: Sequence[RunFolder]) -> Card | None:
    if not isinstance(choice.model, str):
        return choice.model.card
    if registry.is_name(choice.model):
        return registry.card(choice.model)
    return next((run.card for run in imported if run.identity.name == choice.model), None)


def _is_runnable(choice: Choice, spec: str, images: bool) -> bool:
    ready = choice.open is not None or (images and registry.availability(choice.name) not in NOT_DOWNLOADABLE)
    return ready or existing_outputs(choice.name, spec, None) is not None


def _has_images(spec: str) -> bool:
    try:
        return bool(len(load(spec)))
    except ZooError:
        return False


def _entries(models: Any) -> "list[str | Model]":
    """Return one or several selectors as a list. A loaded model, unlike a list of models, has a card."""
    return [models] if isinstance(models, str) or hasattr(models, "card") else list(models)


def _cards_of_models(entries: "Sequence[str | Model]") -> list[Card]:
    """Return the cards of the models that selectors stand for, ignoring names that only have stored outputs."""
    selectors = [split_suffix(entry)[0] for entry in entries if isinstance(entry, str)]
    filters = [selector for selector in selectors if is_filter(selector)]
    cards = [entry.card for entry in entries if not isinstance(entry, str)]
    for selector in ["*", *filters] if filters and len(filters) == len(selectors) else selectors:
        if is_pattern(selector):
            cards += registry.matching([selector, *filters]).values()
        elif not is_filter(selector) and registry.is_name(registry.resolve(selector)):
            cards.append(registry.card(selector))
    return cards


def _selects(selector: str, run: RunFolder) -> bool:
    try:
        return bool(select_runs([selector], [run]))
    except UnknownName:
        return False


def _require(found: dict[str, Card], selectors: Sequence[str]) -> dict[str, Card]:
    if not found:
        asked = ", ".join(map(repr, selectors))
        raise UnknownName(f"no model matches {asked}", kind="model", name=asked, hint="`zoo list` shows the known models")
    return found
