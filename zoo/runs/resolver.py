"""From a name to outputs, for `zoo.run` and every command alike.

A name stands for, in this order:

1. outputs imported under it for that dataset, since whoever imported them wants to see them;
2. the model of that name: its stored run, or else it is run;
3. where it cannot be loaded here, or the images are not here: any stored run of it, or the outputs that come with the
   package (`zoo.outputs.bundle`).

Where an import and a model share a name, a warning says that the import was taken. `NAME@run` means the model and
`NAME@import` the import; of several stored runs `NAME@DIGEST` is one. A pattern matches models and imports; what matches
and cannot be run here is left out, with a warning, as long as something is left.
"""

import fnmatch
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.cards.names import default_dataset
from zoo.datasets import ResizeMode, canonical, load, resize_mode_of
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning
from zoo.models import registry
from zoo.models.model import Model
from zoo.models.sources.base import Availability
from zoo.outputs import bundle
from zoo.outputs.outputs import Outputs
from zoo.outputs.store.lookup import answers, on_dataset, one_each, parted, stored
from zoo.outputs.store.run_folder import RunFolder

NAMED = 3  # models that a warning lists
FAR: tuple[Availability, ...] = ("to train", "never published")  # weights that no download brings


@dataclass(frozen=True)
class Choice:
    """What a name stands for: a model to be run, or outputs that are there already."""

    model: "str | Model"
    open: Callable[[], Outputs] | None = None
    optional: bool = False  # it matched a pattern, so that it may be left out where it does not fit or cannot be run


def choose(
    names: "str | Model | Sequence[str | Model]", spec: str | None, home: Path | None = None, random: bool = False
) -> list[Choice]:
    """What each of the names stands for on the dataset `spec`; with `random` weights only models do."""
    imports = [] if random else on_dataset(stored(home, imported=True), spec)
    chosen: dict[str, Choice] = {}
    for entry in [names] if isinstance(names, (str, Model)) else names:
        if isinstance(entry, Model):
            found = [Choice(entry)]
        elif _is_pattern(entry):
            found = [_one(name, "", spec, home, imports, optional=True) for name in _matching(entry, imports)]
        else:
            found = [_one(*parted(entry), spec, home, imports)]
        for choice in found:
            chosen.setdefault(choice.model if isinstance(choice.model, str) else choice.model.name, choice)
    if not chosen:
        raise InputError("expected at least one model, found none")
    return list(chosen.values())


def answering(names: Sequence[str], spec: str) -> list[str]:
    """The models that names and patterns stand for, of those that a pattern matches only the ones that can answer here.

    That is what `run` would leave, found out without running anything.
    """
    choices = choose(names, spec)
    images = any(choice.optional for choice in choices) and _here(spec)
    left = [str(choice.model) for choice in choices if not choice.optional or _answers(choice, spec, images)]
    if not left:
        raise InputError(f"none of the {len(choices)} models that match can be run here; `zoo list` says what each lacks")
    if len(left) < len(choices):
        gone = [str(choice.model) for choice in choices if str(choice.model) not in left]
        warnings.warn(left_out(gone, len(choices)), ZooWarning, stacklevel=2)
    return left


def _answers(choice: Choice, spec: str, images: bool) -> bool:
    name = str(choice.model)
    ready = choice.open is not None or (images and registry.availability(name) not in FAR)
    return ready or without_running(name, spec, None) is not None


def _here(spec: str) -> bool:
    try:
        return bool(len(load(spec)))
    except ZooError:
        return False


def left_out(gone: Sequence[str], of: int) -> str:
    """The warning that these of so many models are."""
    named = ", ".join(gone[:NAMED]) + (", ..." if len(gone) > NAMED else "")
    return f"{len(gone)} of {of} models that match cannot be run here and are left out ({named})"


def resolve(models: "str | Model | Sequence[str | Model]") -> "list[str | Model]":
    """Names and models with patterns replaced by the names of the models they match, each once.

    >>> resolve(["resnet50-co*", "timm:resnet18"])
    ['resnet50-cosine.in1k', 'timm:resnet18']
    """
    found: dict[str, str | Model] = {}
    for entry in [models] if isinstance(models, (str, Model)) else models:
        if isinstance(entry, Model):
            found[entry.name] = entry
        elif _is_pattern(entry):
            found |= {name: name for name in _matching(entry, [])}
        else:
            full = registry.resolve(entry)
            found[full] = full
    if not found:
        raise InputError("expected at least one model, found none")
    return list(found.values())


def dataset_of(names: "str | Model | Sequence[str | Model]", home: Path | None) -> str | None:
    """The dataset where none is named: the default one, or, where no model has these names, that of their stored outputs."""
    entries = [names] if isinstance(names, (str, Model)) else list(names)
    if all(isinstance(entry, str) and not _names_a_model(entry) for entry in entries):
        specs = {run.identity.dataset for run in stored(home) if any(answers(run, str(entry)) for entry in entries)}
        if len(specs) == 1:
            return specs.pop()
        if specs:
            listed = ", ".join(sorted(spec or "unnamed" for spec in specs))
            raise InputError(
                f"stored outputs of {', '.join(map(str, entries))} are on several datasets ({listed}); name one"
            )
    return canonical(default_dataset())


def _one(
    name: str, which: str, spec: str | None, home: Path | None, imports: list[RunFolder], optional: bool = False
) -> Choice:
    mine = [run for run in imports if run.identity.name == name]
    if not mine:  # an import has the name it was given; a model's may have been typed without its dataset
        name = registry.resolve(name)
        mine = [run for run in imports if run.identity.name == name]
    if which == "run":
        return Choice(name)
    if which not in ("", "import"):
        (run,) = _stored(name, spec, home, which)
        return Choice(name, run.open)
    if mine:
        (run,) = one_each(mine)
        if not which and _known(name) is None:
            warnings.warn(
                f"{name}: taking the outputs imported for {spec}, not the model of that name, which is {name}@run",
                ZooWarning,
                stacklevel=4,
            )
        return Choice(name, run.open, optional)
    if which:
        raise UnknownName(f"no outputs of {name!r} on {spec} were imported; `zoo import` brings some in")
    unknown = _known(name)
    if unknown is None:
        return Choice(name, optional=optional)
    try:
        (run,) = one_each(_stored(name, spec, home))
    except UnknownName:
        elsewhere = sorted(
            {run.identity.dataset or "an unnamed dataset" for run in stored(home) if run.identity.name == name}
        )
        if elsewhere:
            raise UnknownName(
                f"no outputs of {name} on {spec} are stored; there are some on {', '.join(elsewhere)}"
            ) from None
        raise unknown from None
    return Choice(name, run.open)


def _stored(name: str, spec: str | None, home: Path | None, digest: str = "") -> list[RunFolder]:
    here = [run for run in stored(home) if run.identity.name == name and run.identity.digest().startswith(digest)]
    found = on_dataset(here, spec)
    if not found:
        raise UnknownName(f"no stored outputs of {name}{'@' + digest if digest else ''} on {spec}")
    return found


def without_running(
    name: str, spec: str | None, home: Path | None, resize_mode: ResizeMode | None = None
) -> tuple[Outputs, str] | None:
    """Outputs of a model that cannot be loaded here, or on images that are not here, and what they are."""
    wanted = resize_mode or resize_mode_of(spec)
    try:
        here = [run for run in _stored(name, spec, home) if run.identity.resize_mode == wanted]
    except UnknownName:
        here = []
    if here:
        (run,) = one_each(here)
        return run.open(), "its stored run is taken"
    shipped = bundle.shipped(name, spec) if wanted == resize_mode_of(spec) else None
    return None if shipped is None else (shipped, "taking the outputs that come with the package")


def _known(name: str) -> UnknownName | None:
    """None where there is a model of that name, else the error that says so."""
    try:
        registry.card(name)
    except UnknownName as error:
        return error
    except ZooError:  # it is known, and something is wrong with it: the runner will say what
        return None
    return None


def _names_a_model(entry: str) -> bool:
    return bool(registry.list(entry)) if _is_pattern(entry) else _known(parted(entry)[0]) is None


def _matching(pattern: str, imports: Sequence[RunFolder]) -> list[str]:
    imported = (run.identity.name for run in imports if fnmatch.fnmatchcase(run.identity.name, pattern))
    found = list(dict.fromkeys([*registry.list(pattern), *imported]))
    if not found:
        raise UnknownName(f"no model matches {pattern!r}; `zoo list` shows what there is")
    return found


def _is_pattern(entry: str) -> bool:
    return any(mark in entry for mark in "*?[")
