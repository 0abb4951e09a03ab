"""From a spec string to a dataset: `digits[:split]`, `NAME[:split]`, `folder:PATH[:split]`, `parquet:PATH`,
`hf:REPO[:split]`, or a name of one's own, of which there are outputs alone.

Any spec may end in `[start:stop]`, the rows from `start` up to `stop`, e.g. `cifar10:test[:5000]`; a second such part
counts within the first. Images may be damaged: `cifar10:test~noise3` (`corruptions.py`).
"""

import dataclasses
import os
import re
from pathlib import Path
from typing import TypeAlias

from zoo.cards.names import near
from zoo.core import settings
from zoo.core.text import check_storable
from zoo.datasets import (
    corruptions,
    digits,
    folder,
    holes,
    hub,
    label_sets,
    multilabel,
    parquet,
    rotated,
    user_datasets,
    views,
)
from zoo.datasets.dataset import Dataset, Metric, ResizeMode, joined
from zoo.datasets.known import KNOWN, Known
from zoo.errors import InputError, UnknownName, ZooError

_SLICE = re.compile(r"(?P<spec>.+)\[(?P<start>\d*):(?P<stop>\d*)\]\Z")
_CORRUPTED = re.compile(r"(?P<spec>.*[^:/])~(?P<corruption>[^~:/]+)\Z")  # `folder:~/x` is a home folder
EMBEDDED = {"digits": digits, holes.NAME: holes, rotated.NAME: rotated}
_OWN = "own"
_Rows: TypeAlias = tuple[int | None, int | None]
_ALIASES = {"val": "validation", "dev": "validation", "calib": "calibration"}


@dataclasses.dataclass(frozen=True)
class Spec:
    """A parsed spec: `kind` is `digits`, a known name, `folder`, `parquet`, `hf` or `own`."""

    kind: str
    place: str = ""  # path, repository, the further parts of a known name, or a name of one's own
    split: str = ""
    rows: _Rows | None = None
    corruption: str = ""  # such as noise3

    def __str__(self) -> str:
        rows = "" if self.rows is None else f"[{':'.join('' if row is None else str(row) for row in self.rows)}]"
        part = f"{'~' + self.corruption if self.corruption else ''}{rows}"
        if self.kind == _OWN:
            return f"{self.place}{part}"
        if self.kind in ("folder", "parquet", "hf"):
            return f"{self.kind}:{self.place}{':' + self.split if self.split else ''}{part}"
        return f"{self.kind}{'/' + self.place if self.place else ''}:{self.split}{part}"


def parse(spec: str, new: bool = False) -> Spec:
    """The parts of a spec, with the default split filled in and paths made absolute; with `new` it may be one to be made.

    >>> str(parse("digits")), str(parse("cifar10:test[:100]")), str(parse("digits[:9]~blur2"))
    ('digits:test', 'cifar10:test[:100]', 'digits:test~blur2[:9]')
    """
    if not isinstance(spec, str) or not spec or "\0" in spec:
        raise InputError(f"dataset {spec!r}: expected a spec such as digits:test, cifar10 or folder:PATH")
    check_storable([spec], "dataset")
    sliced = _SLICE.match(spec)
    if sliced:
        start, stop = (int(sliced[part]) if sliced[part] else None for part in ("start", "stop"))
        whole = parse(sliced["spec"], new)
        return dataclasses.replace(whole, rows=_within(whole.rows, start, stop))
    kind, _, rest = spec.partition(":")
    damaged = _CORRUPTED.match(spec)
    if damaged and not (kind in ("folder", "parquet") and os.path.exists(_absolute(rest))):
        return _corrupted(parse(damaged["spec"], new), damaged["corruption"], spec)
    if kind in ("folder", "parquet"):
        if not rest:
            raise InputError(f"dataset {spec!r}: expected {kind}:PATH")
        return _folder_spec(rest, spec) if kind == "folder" else Spec(kind, _absolute(rest))
    if kind == "hf":
        repo, _, split = rest.partition(":")
        return Spec("hf", repo, split or "test")
    name, _, place = kind.partition("/")
    if name in EMBEDDED and not place:
        return Spec(name, split=_split(rest or "test", dict.fromkeys(EMBEDDED[name].SPLITS, ""), spec))
    if name in KNOWN:
        return Spec(name, _place(place, KNOWN[name], spec), _split(rest or KNOWN[name].default, KNOWN[name].splits, spec))
    if user_datasets.is_name(spec) and (new or user_datasets.exists(spec)):
        return Spec(_OWN, spec)
    raise _unknown(spec)


def split_rows(spec: str) -> tuple[str, slice | None]:
    """Return the spec of the whole dataset, and the rows of it that a spec stands for; None for all of them.

    >>> split_rows("cifar10:test[:100]"), split_rows("digits")
    (('cifar10:test', slice(None, 100, None)), ('digits:test', None))
    """
    parsed = parse(spec)
    whole = str(dataclasses.replace(parsed, rows=None))
    return whole, None if parsed.rows is None else slice(*parsed.rows)


def _corrupted(whole: Spec, word: str, spec: str) -> Spec:
    if whole.corruption:
        raise InputError(f"dataset {spec!r}: expected one corruption, found {whole.corruption} and {word}")
    if whole.kind == _OWN:
        raise InputError(f"dataset {spec!r}: there are outputs on {whole.place} and no images, so none to corrupt")
    return dataclasses.replace(whole, corruption=corruptions.check(word, spec))


def is_user_dataset(spec: str) -> bool:
    """Whether a spec is a name of one's own, known or to be made: not of a known dataset, nor a place where images are.

    >>> is_user_dataset("cifar10.1-v6"), is_user_dataset("cifar10"), is_user_dataset("folder:x")
    (True, False, False)
    """
    try:
        return dataclasses.replace(parse(spec, new=True), place="") == Spec(_OWN)  # whole, not some rows of it
    except InputError:
        return False


def _unknown(spec: str) -> UnknownName:
    known = [*EMBEDDED, *KNOWN, *user_datasets.specs()]
    return UnknownName(
        f"unknown dataset {spec!r}{near(spec.partition(':')[0].partition('/')[0], known) or ';'} expected "
        f"{', '.join(known)}, folder:PATH, parquet:PATH or hf:REPO[:split]; `zoo import --data {spec}` makes one of outputs"
    )


def _within(rows: _Rows | None, start: int | None, stop: int | None) -> _Rows:
    """The part from `start` up to `stop` of a part.

    >>> _within((100, 200), None, 10), _within((100, 105), 2, None)
    ((100, 110), (102, 105))
    """
    if rows is None:
        return start, stop
    first = (rows[0] or 0) + (start or 0)
    ends = [end for end in (rows[1], None if stop is None else (rows[0] or 0) + stop) if end is not None]
    return first, max(first, min(ends)) if ends else None


def _folder_spec(rest: str, spec: str) -> Spec:
    """A folder, with the split that was named, or the one to report on where it holds splits."""
    path, _, word = rest.rpartition(":")
    split = folder.split_named(word) if path else None
    place = _absolute(path if split else rest)
    return Spec("folder", place, split or next(iter(folder.splits(Path(place), spec)), ""))


def _absolute(path: str) -> str:
    return os.path.abspath(Path(path).expanduser())


def canonical(spec: str, new: bool = False) -> str:
    """The one way to write a spec: with its split, and an absolute path; with `new` it may be one to be made.

    >>> canonical("digits"), canonical("in1k:val[:50]"), canonical("folder:/data/dogs/../cats")
    ('digits:test', 'in1k:validation[:50]', 'folder:/data/cats')
    """
    return str(parse(spec, new))


def calibration_split(spec: str) -> str | None:
    """The split beside a test split that temperatures are fitted on, where the dataset has one.

    >>> calibration_split("digits"), calibration_split("cifar10:test")
    ('digits:calibration', None)
    """
    parsed = parse(spec)
    if parsed.kind in EMBEDDED and parsed.split == "test" and "calibration" in EMBEDDED[parsed.kind].SPLITS:
        return str(Spec(parsed.kind, split="calibration", corruption=parsed.corruption))
    return None


def training_split(spec: str) -> str | None:
    """The images that models of a spec's classes learn from, where the dataset has any.

    >>> training_split("cifar10:test"), training_split("digits-holes"), training_split("folder:x")
    ('cifar10:train', 'digits:train', None)
    """
    parsed = parse(spec)
    if parsed.kind in EMBEDDED:
        return str(Spec(parsed.kind if "train" in EMBEDDED[parsed.kind].SPLITS else "digits", split="train"))
    if parsed.kind in KNOWN and "train" in KNOWN[parsed.kind].splits:
        return str(dataclasses.replace(parsed, split="train", rows=None, corruption=""))
    return None


def metric_of(spec: str | None) -> Metric:
    """What the authors of a dataset ask results to be scored by; known by its name alone, its images may be elsewhere.

    >>> metric_of("flowers:test"), metric_of("chexpert"), metric_of("digits"), metric_of(None)
    ('mean-per-class', 'auc', 'accuracy', 'accuracy')
    """
    known = _known(spec)
    return "accuracy" if known is None else known.metric


def resize_mode_of(spec: str | None) -> ResizeMode:
    """How much of its images networks are shown where nobody says otherwise.

    >>> resize_mode_of("in-c/fog/3"), resize_mode_of("in1k")
    ('transfer', 'evaluation')
    """
    known = _known(spec)
    return "evaluation" if known is None else known.resize_mode


def _known(spec: str | None) -> Known | None:
    try:
        return None if spec is None else KNOWN.get(parse(spec).kind)
    except InputError:  # a name that outputs were stored under
        return None


def load(spec: "str | Dataset") -> Dataset:
    """The dataset a spec stands for; nothing is decoded yet.

    >>> dataset = load("digits:calibration")
    >>> len(dataset), dataset[0].size, dataset.classes[int(dataset.labels[0])]
    (299, (8, 8), '5')
    """
    if isinstance(spec, Dataset):
        return spec
    parsed = parse(spec)
    whole = _load(dataclasses.replace(parsed, rows=None, corruption=""))
    if parsed.corruption:
        whole = corruptions.corrupted(whole, parsed.corruption, str(dataclasses.replace(parsed, rows=None)))
    if parsed.rows is None:
        return whole
    chosen = whole.select(slice(*parsed.rows))
    if len(chosen) == 0:
        raise InputError(f"{spec}: no rows left of {len(whole)}")
    return dataclasses.replace(chosen, spec=str(parsed))


def _load(spec: Spec) -> Dataset:
    if spec.kind in EMBEDDED:
        return EMBEDDED[spec.kind].load(spec.split)
    if spec.kind == "folder":
        if spec.split:
            return _with_label_set(folder.load_split(Path(spec.place), spec.split, str(spec)))
        return _with_label_set(folder.load(Path(spec.place), str(spec)))
    if spec.kind == "parquet":
        return _with_label_set(parquet.load(parquet.expand(Path(spec.place), str(spec)), str(spec)))
    if spec.kind == "hf":
        return _with_label_set(hub.load(spec.place, spec.split, str(spec)))
    if spec.kind == _OWN:
        found = user_datasets.find(spec.place)
        if found is None:
            raise _unknown(spec.place)
        return found
    known = KNOWN[spec.kind]
    if known.view_of:
        return views.VIEWS[spec.kind](_load(dataclasses.replace(spec, kind=known.view_of)), spec.kind, str(spec))
    dataset = _found(spec, known)
    if known.label_set == label_sets.IMAGENET:
        dataset = label_sets.in_imagenet(dataset, known.subset)
    return dataclasses.replace(dataset, name=spec.kind, metric=known.metric, resize_mode=known.resize_mode)


def _with_label_set(dataset: Dataset) -> Dataset:
    return label_sets.in_imagenet(dataset) if label_sets.is_imagenet(dataset.classes) else dataset


def _found(spec: Spec, known: Known) -> Dataset:
    """The set from a data folder or the hub, one split of theirs after the other where ours is several."""
    parts = []
    for split in known.splits[spec.split].split("+"):
        alone = spec.split if split == known.splits[spec.split] else split
        parts.append(_local(spec, alone, split) or _from_hub(spec, known, alone, split))
    return parts[0] if len(parts) == 1 else joined(parts)


def _local(spec: Spec, ours: str, theirs: str) -> Dataset | None:
    """The set from the first ZOO_DATA folder that has it, in any of the layouts people keep such sets in."""
    text = str(spec)
    for root in settings.data_folders():
        base = root / spec.kind / spec.place
        aliases = (alias for alias, split in _ALIASES.items() if split == ours)
        for split in dict.fromkeys((ours, theirs, *aliases)):
            files = [base / f"{split}.parquet"] if (base / f"{split}.parquet").is_file() else []
            files = files or sorted(base.glob(f"{split}-*.parquet")) or sorted(base.glob(f"data/{split}-*.parquet"))
            if files:
                return parquet.load(files, text, spec.kind)
            if spec.kind == "voc2007" and (found := multilabel.voc(base, split, text)):
                return found
            if spec.kind == "chexpert" and (found := multilabel.chexpert(base, split, text)):
                return found
            if (base / split).is_dir():
                return folder.load(base / split, text, spec.kind)
        if base.is_dir() and len(KNOWN[spec.kind].splits) == 1:
            return folder.load(base, text, spec.kind)
    return None


def _from_hub(spec: Spec, known: Known, ours: str, theirs: str) -> Dataset:
    folders = ", ".join(str(root) for root in settings.data_folders()) or "ZOO_DATA is not set"
    here = f"{spec.kind}{'/' + spec.place if spec.place else ''}"
    if known.hub is None:
        raise ZooError(
            f"{spec}: not found in the data folders ({folders}); get it from {known.source} and put it there "
            f"as {here}/{ours}"
        )
    try:
        return hub.load(known.hub, theirs, str(spec), spec.kind)
    except ZooError as error:
        raise type(error)(f"{error}; data folders searched: {folders}") from error


def _split(split: str, known: dict[str, str], spec: str) -> str:
    split = _ALIASES.get(split, split)
    if split in known:
        return split
    ours = next((name for name, theirs in known.items() if theirs == split), None)
    if ours is None:
        raise InputError(f"dataset {spec!r}: no split {split!r}; it has {', '.join(known)}")
    return ours


def _place(place: str, known: Known, spec: str) -> str:
    given = place.split("/") if place else []
    form = "/".join(part.upper() for part in known.parts)
    if len(given) != len(known.parts):
        expected = f"{spec.partition('/')[0].partition(':')[0]}/{form}" if form else spec.partition("/")[0]
        raise InputError(f"dataset {spec!r}: expected {expected}")
    for value, (part, allowed) in zip(given, known.parts.items(), strict=True):
        if value not in allowed:
            raise InputError(f"dataset {spec!r}: no {part} {value!r}; it has {', '.join(allowed)}")
    return place
