"""Model names: which are valid, which known names are similar to a mistyped one, and the grammar of recipe names.

A recipe's full name is `arch-objective[-sSEED].dataset`. Users may omit the dataset or use an alias for it; `full` returns
the full name, by the same rule everywhere and without reading a file. Every name of this form names a recipe, so a user's
card cannot have it. `NAME@epochN` names a snapshot: the model NAME after N epochs of training.
"""

import difflib
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from zoo.cards import recipe_names
from zoo.core import settings
from zoo.errors import InputError, UnknownName

MAX_BYTES = 120
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z")
_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?\Z", re.IGNORECASE)
_DATASET_ALIASES = {"imagenet-1k": "in1k", "imagenet": "in1k", "imagenet1k": "in1k"}
_LABEL_SETS = {"in1k": "imagenet-1k", "in-a": "imagenet-a", "in-r": "imagenet-r"}  # their names on cards
_SNAPSHOT = re.compile(r"(.+)@epoch([1-9]\d{0,8})\Z")
_ROWS = re.compile(r"\[\d*:\d*\]\Z")
_ENDING = re.compile(r"\.[a-zA-Z][^.]*\Z")


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are similar to a mistyped one, ignoring case; the closest first.

    >>> similar("resnet50-cosin", ["resnet50-cosine", "resnet20-cosine", "vgg19"])
    ['resnet50-cosine']
    >>> similar("r7x2", ["r7x2.cifar10", "r7-mixup.cifar10"])
    ['r7x2.cifar10']
    """
    folded = {candidate.lower(): candidate for candidate in known}
    beginnings = [candidate for candidate in folded if candidate.startswith(f"{name.lower()}.")]
    close = beginnings[:3] or difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    ratios = [difflib.SequenceMatcher(None, candidate, name.lower()).ratio() for candidate in close]
    return [folded[candidate] for candidate, ratio in zip(close, ratios, strict=True) if ratio >= ratios[0] - 0.05]


def unknown(kind: str, name: str, known: Iterable[str], list_known: bool = False, **fields: Any) -> UnknownName:
    """Return the error for an unknown name, which suggests similar known names.

    Args:
        kind: what kind of name it is, such as "model".
        name: the unknown name.
        known: the names that exist.
        list_known: whether the hint lists all of them.
        fields: further fields of the error.
    """
    every = list(known)
    if list_known:
        listed = f"Known: {', '.join(every) or 'none'}"
        fields["hint"] = f"{listed}. {fields['hint']}" if "hint" in fields else listed
    return UnknownName(kind=kind, name=name, suggestions=similar(name, every), **fields)


def check_safe(name: str, what: str = "name") -> str:
    """Return `name` if it is a valid file name on every system: no separators, `..`, NUL or drive letters, and short.

    Args:
        name: the name to check.
        what: the argument's name in errors.
    """
    if len(name.encode()) > MAX_BYTES:
        raise InputError(argument=what, expected=f"at most {MAX_BYTES} bytes long", found=name)
    if not _SAFE.match(name) or ".." in name or name.endswith(".") or _WINDOWS_DEVICE.match(name):
        expected = "letters, digits and . _ + - only, starting with a letter or digit"
        raise InputError(argument=what, expected=expected, found=name)
    return name


def check_user_name(name: str, what: str = "name") -> str:
    """Return `name` if a user may give it to a model: a valid file name that is not a recipe's name."""
    if parse_recipe(check_safe(name, what)) is not None:
        expected = "a name that is not of the form ARCHITECTURE-OBJECTIVE, which always names a recipe"
        raise InputError(argument=what, expected=expected, found=name)
    return name


@dataclass(frozen=True)
class RecipeName:
    """The parts of a name `arch-objective[-sSEED][.dataset]`, such as `resnet50-cosine-s2.in1k`."""

    architecture: str
    objective: str
    seed: int = 0
    dataset: str | None = None

    def __str__(self) -> str:
        seed = f"-s{self.seed}" if self.seed else ""
        return f"{self.architecture}-{self.objective}{seed}{'.' + self.dataset if self.dataset else ''}"


def parse_recipe(name: str) -> RecipeName | None:
    """Return the parts of a recipe name, with the dataset's canonical name; None if the name does not have that form.

    Architecture and objective may both contain hyphens (`wrn-16-8-label-smoothing`), so the list of objectives decides where
    to split. An architecture may contain dots too, so the dataset is what follows the dot after the objective.

    >>> parse_recipe("wrn-16-8-label-smoothing-s3.cifar10")
    RecipeName(architecture='wrn-16-8', objective='label-smoothing', seed=3, dataset='cifar10')
    >>> str(parse_recipe("resnet50-cosine-s0.imagenet-1k"))
    'resnet50-cosine.in1k'
    """
    match = _recipe_form(tuple(recipe_names.known())).match(name)
    if match is None:
        return None
    architecture, objective, seed, dataset = match.groups()
    return RecipeName(architecture, objective, int(seed or 0), dataset and canonical_dataset(dataset))


@functools.cache
def _recipe_form(objectives: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of recipe names, cached because a selection needs it thousands of times."""
    objective = "|".join(re.escape(known) for known in sorted(objectives, key=len, reverse=True))
    return re.compile(rf"(.+?)-((?:{objective})(?:\+(?:{objective}))*)(?:-s(\d{{1,10}}))?(?:\.([a-z0-9-]+))?\Z")


def full(name: str, default_dataset: str) -> str:
    """Return the full name of a recipe whose dataset may be omitted; any other name is returned unchanged.

    >>> full("resnet50-cosine", "digits"), full("resnet50-cosine-s0.imagenet-1k", "digits"), full("clip-vit-b32", "digits")
    ('resnet50-cosine.digits', 'resnet50-cosine.in1k', 'clip-vit-b32')
    """
    model, epoch = split_snapshot(name)
    if epoch is not None:
        return snapshot(full(model, default_dataset), epoch)
    parts = None if ":" in name else parse_recipe(name)
    return name if parts is None else str(replace(parts, dataset=parts.dataset or dataset_name(default_dataset)))


def snapshot(name: str, epoch: int) -> str:
    """Return the name of the snapshot of a model after an epoch, such as `resnet8-cosine.digits@epoch4`."""
    return f"{name}@epoch{epoch}"


def split_snapshot(name: str) -> tuple[str, int | None]:
    """Return the model and the epoch of a snapshot's name; for any other name the name itself and None."""
    match = _SNAPSHOT.match(name)
    return (match[1], int(match[2])) if match else (name, None)


def bare(name: str) -> str:
    """Return a recipe's name without its dataset; any other name is returned unchanged.

    >>> bare("resnet50-cosine-s2.in1k"), bare("resnet50-cosine.in1k@epoch8"), bare("resnet50-ra-wd-0.001")
    ('resnet50-cosine-s2', 'resnet50-cosine@epoch8', 'resnet50-ra-wd-0.001')
    """
    model, epoch = split_snapshot(name)
    if epoch is not None:
        return snapshot(bare(model), epoch)
    parts = None if ":" in name else parse_recipe(name)
    return name if parts is None else str(replace(parts, dataset=None))


def shared_ending(names: Iterable[str]) -> str:
    """Return the `.dataset` that all names end in, or an empty text.

    >>> shared_ending(["resnet7-softmax.cifar10", "my-head.cifar10"]), shared_ending(["a-wd-0.001", "b-wd-0.001"])
    ('.cifar10', '')
    """
    endings = {found[0] if (found := _ENDING.search(name)) else "" for name in names}
    return endings.pop() if len(endings) == 1 else ""


def among(name: str, known: Iterable[str]) -> str | None:
    """Return `name` if it is known, else the only known name that is `name` with a dataset; None if there is no such name.

    >>> among("resnet8-cosine", ["resnet8-cosine.digits", "resnet8-softmax.digits"])
    'resnet8-cosine.digits'
    """
    known = list(known)
    alike = [name] if name in known else [other for other in known if bare(other) == name]
    return alike[0] if len(alike) == 1 else None


def canonical_dataset(name: str) -> str:
    """Return the canonical name of a dataset, given its name or an alias: `in1k` for `imagenet-1k`."""
    return _DATASET_ALIASES.get(name, name)


def default_dataset() -> str:
    """Return the canonical name of the dataset that recipe names may omit: `ZOO_DATASET`, by default `digits`."""
    return canonical_dataset(settings.default_dataset())


def dataset_name(spec: str) -> str:
    """Return the name of a spec's dataset for use in a model's name; for a path or repository, its last part.

    >>> dataset_name("cifar10:train[:100]"), dataset_name("folder:/data/My Birds"), dataset_name("hf:me/cats:train")
    ('cifar10', 'my-birds', 'cats')
    """
    kind, _, place = _ROWS.sub("", spec).partition(":")
    if kind not in ("folder", "parquet", "hf"):
        return canonical_dataset(kind)
    place = place.partition(":")[0] if kind == "hf" else place
    last = place.rstrip("/").rpartition("/")[2].removesuffix(".parquet")
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-") or kind


def label_set(dataset: str) -> str:
    """Return the name that cards use for a dataset and its label set, such as `imagenet-1k` for `in1k`."""
    return _LABEL_SETS.get(dataset, dataset)
