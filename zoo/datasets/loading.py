"""Load a dataset by its spec, a text of one of these forms:

    digits[:split]           an embedded dataset
    NAME[:split]             a known dataset (`zoo.datasets.known`)
    folder:PATH[:split]      images in a folder
    parquet:PATH             images in parquet files
    hf:REPO[:split]          a dataset of the Hugging Face hub
    NAME                     a user-defined dataset, of which only outputs are stored

Embedded and known datasets with a training set have one more kind of split: `in1k:holdout-50046` are the training images
that `zoo train --set holdout=50046` holds out with seed 0, `in1k:holdout-50046-s1` with seed 1.

A corruption may follow: `cifar10:test~noise3` (`zoo.datasets.corruptions`). `[start:stop]` at the end selects rows, as in
`cifar10:test[:5000]`; a second range is relative to the first.
"""

import dataclasses
import os
import re
from pathlib import Path
from typing import TypeAlias

import numpy as np

from zoo.cards.names import similar
from zoo.core import settings
from zoo.core.text import check_storable
from zoo.datasets import corruptions, folder, hub, imagenet, multilabel, parquet, user_datasets, views
from zoo.datasets.dataset import Dataset, Metric, ResizeMode, joined
from zoo.datasets.digits import EMBEDDED as EMBEDDED
from zoo.datasets.known import KNOWN, Known
from zoo.errors import InputError, UnknownName, ZooError

_RANGE = re.compile(r"(?P<spec>.+)\[(?P<start>\d*):(?P<stop>\d*)\]\Z")
_CORRUPTED = re.compile(r"(?P<spec>.*[^:/])~(?P<corruption>[^~:/]+)\Z")  # `folder:~/x` is a home folder
_USER_DEFINED = "own"
_Rows: TypeAlias = tuple[int | None, int | None]
_HOLDOUT = re.compile(r"holdout-(?P<count>[1-9]\d*)(?:-s(?P<seed>\d+))?\Z")
_SPLIT_ALIASES = {"val": "validation", "dev": "validation", "calib": "calibration"}


@dataclasses.dataclass(frozen=True)
class Spec:
    """A parsed spec."""

    kind: str  # name of an embedded or known dataset, `folder`, `parquet`, `hf`, or `own` for a user-defined dataset
    place: str = ""  # path, repository, further parts of a known name, or name of a user-defined dataset
    split: str = ""
    rows: _Rows | None = None
    corruption: str = ""  # such as noise3

    def __str__(self) -> str:
        rows = "" if self.rows is None else f"[{':'.join('' if row is None else str(row) for row in self.rows)}]"
        part = f"{'~' + self.corruption if self.corruption else ''}{rows}"
        if self.kind == _USER_DEFINED:
            return f"{self.place}{part}"
        if self.kind in ("folder", "parquet", "hf"):
            return f"{self.kind}:{self.place}{':' + self.split if self.split else ''}{part}"
        return f"{self.kind}{'/' + self.place if self.place else ''}:{self.split}{part}"


def parse(spec: str, new: bool = False) -> Spec:
    """Return the parts of a spec, with the default split filled in and paths made absolute.

    Args:
        spec: the spec.
        new: whether to accept the name of a user-defined dataset that is not stored yet.

    >>> str(parse("digits")), str(parse("cifar10:test[:100]")), str(parse("digits[:9]~blur2"))
    ('digits:test', 'cifar10:test[:100]', 'digits:test~blur2[:9]')
    """
    if not isinstance(spec, str) or not spec or "\0" in spec:
        raise InputError(argument="data", expected="a spec such as digits:test, cifar10 or folder:PATH", found=spec)
    check_storable([spec], "dataset")
    ranged = _RANGE.match(spec)
    if ranged:
        start, stop = (int(ranged[end]) if ranged[end] else None for end in ("start", "stop"))
        inner = parse(ranged["spec"], new)
        return dataclasses.replace(inner, rows=_subrange(inner.rows, start, stop))
    kind, _, rest = spec.partition(":")
    corrupted = _CORRUPTED.match(spec)
    if corrupted and not (kind in ("folder", "parquet") and os.path.exists(_absolute(rest))):
        return _corrupt(parse(corrupted["spec"], new), corrupted["corruption"], spec)
    if kind in ("folder", "parquet"):
        if not rest:
            raise InputError(argument="data", expected=f"{kind}:PATH", found=spec)
        return _folder_spec(rest, spec) if kind == "folder" else Spec(kind, _absolute(rest))
    if kind == "hf":
        repo, _, split = rest.partition(":")
        return Spec("hf", repo, split or "test")
    name, _, place = kind.partition("/")
    if name in EMBEDDED and not place:
        return Spec(name, split=_split(rest or "test", dict.fromkeys(EMBEDDED[name].splits, ""), spec))
    if name in KNOWN:
        return Spec(name, _place(place, KNOWN[name], spec), _split(rest or KNOWN[name].default, KNOWN[name].splits, spec))
    if user_datasets.is_name(spec) and (new or user_datasets.exists(spec)):
        return Spec(_USER_DEFINED, spec)
    raise _unknown(spec)


def split_rows(spec: str) -> tuple[str, slice | None]:
    """Return the spec without its range, and the rows of the range; None for a spec without one.

    >>> split_rows("cifar10:test[:100]"), split_rows("digits")
    (('cifar10:test', slice(None, 100, None)), ('digits:test', None))
    """
    parsed = parse(spec)
    whole = str(dataclasses.replace(parsed, rows=None))
    return whole, None if parsed.rows is None else slice(*parsed.rows)


def _corrupt(clean: Spec, word: str, spec: str) -> Spec:
    where = f"dataset {spec!r}"
    if clean.corruption:
        raise InputError(where=where, expected="one corruption", found=f"{clean.corruption} and {word}")
    if clean.kind == _USER_DEFINED:
        raise InputError(f"{clean.place} has stored outputs only, and no images to corrupt", where=where)
    return dataclasses.replace(clean, corruption=corruptions.check(word, spec))


def is_user_dataset(spec: str) -> bool:
    """Return whether a spec is the name of a user-defined dataset, stored or new.

    >>> is_user_dataset("cifar10.1-v6"), is_user_dataset("cifar10"), is_user_dataset("folder:x")
    (True, False, False)
    """
    try:
        return dataclasses.replace(parse(spec, new=True), place="") == Spec(_USER_DEFINED)  # without rows or corruption
    except InputError:
        return False


def _unknown(spec: str) -> UnknownName:
    known = [*EMBEDDED, *KNOWN, *user_datasets.specs()]
    return UnknownName(
        kind="dataset",
        name=spec,
        suggestions=similar(spec.partition(":")[0].partition("/")[0], known),
        hint=f"Known: {', '.join(known)}, folder:PATH, parquet:PATH and hf:REPO[:split]; `zoo import --data {spec}` creates "
        "one from outputs",
    )


def _subrange(rows: _Rows | None, start: int | None, stop: int | None) -> _Rows:
    """Return the rows from `start` to `stop` of a range.

    >>> _subrange((100, 200), None, 10), _subrange((100, 105), 2, None)
    ((100, 110), (102, 105))
    """
    if rows is None:
        return start, stop
    first = (rows[0] or 0) + (start or 0)
    ends = [end for end in (rows[1], None if stop is None else (rows[0] or 0) + stop) if end is not None]
    return first, max(first, min(ends)) if ends else None


def _folder_spec(rest: str, spec: str) -> Spec:
    """Return the spec of a folder, with the named split, or the default one if the folder contains splits."""
    path, _, word = rest.rpartition(":")
    split = folder.split_named(word) if path else None
    place = _absolute(path if split else rest)
    return Spec("folder", place, split or next(iter(folder.splits(Path(place), spec)), ""))


def _absolute(path: str) -> str:
    return os.path.abspath(Path(path).expanduser())


def canonical(spec: str, new: bool = False) -> str:
    """Return the canonical form of a spec: with its split, and with an absolute path.

    Args:
        spec: the spec.
        new: whether to accept the name of a user-defined dataset that is not stored yet.

    >>> canonical("digits"), canonical("in1k:val[:50]"), canonical("folder:/data/dogs/../cats")
    ('digits:test', 'in1k:validation[:50]', 'folder:/data/cats')
    """
    return str(parse(spec, new))


def calibration_split(spec: str) -> str | None:
    """Return the spec of the calibration split that belongs to a test split; None if the dataset has none.

    >>> calibration_split("digits"), calibration_split("cifar10:test")
    ('digits:calibration', None)
    """
    parsed = parse(spec)
    if parsed.kind in EMBEDDED and parsed.split == "test" and "calibration" in EMBEDDED[parsed.kind].splits:
        return str(Spec(parsed.kind, split="calibration", corruption=parsed.corruption))
    return None


def training_split(spec: str) -> str | None:
    """Return the spec of the training set of a dataset, without corruption; None if it has none.

    >>> training_split("cifar10:test"), training_split("digits-holes"), training_split("folder:x")
    ('cifar10:train', 'digits:train', None)
    """
    parsed = parse(spec)
    if parsed.kind in EMBEDDED:
        return str(Spec(parsed.kind if "train" in EMBEDDED[parsed.kind].splits else "digits", split="train"))
    if parsed.kind in KNOWN and "train" in KNOWN[parsed.kind].splits:
        return str(dataclasses.replace(parsed, split="train", rows=None, corruption=""))
    return None


def holdout_spec(spec: str, count: int, seed: int = 0) -> str:
    """Return the spec of the training images of a dataset that a training run with this holdout leaves out.

    Args:
        spec: of any split of the dataset.
        count: number of images held out, `Recipe.holdout`.
        seed: of the training run. The images depend on it and on the number only.

    >>> holdout_spec("digits", 200), holdout_spec("cifar10:train", 5000, seed=3)
    ('digits:holdout-200', 'cifar10:holdout-5000-s3')
    """
    parsed = dataclasses.replace(parse(spec), rows=None, corruption="")
    return str(parse(str(dataclasses.replace(parsed, split=f"holdout-{count}-s{seed}"))))


def holdout_rows(images: int, count: int, seed: int = 0) -> np.ndarray:
    """Return the rows [count], in ascending order, that training holds out of a training set.

    Args:
        images: number of training images.
        count: number of images held out.
        seed: of the training run.
    """
    import torch

    # The same draw as in `zoo.training.batches.split_rows`; 1 is `zoo.training.randomness.For.HOLDOUT`.
    state = np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0] >> np.uint64(1)
    shuffled = torch.randperm(images, generator=torch.Generator().manual_seed(int(state))).numpy()
    return np.sort(shuffled[:count])


def metric_of(spec: str | None) -> Metric:
    """Return the metric that a dataset's authors recommend. Its images need not be on this machine.

    >>> metric_of("flowers:test"), metric_of("chexpert"), metric_of("digits"), metric_of(None)
    ('mean-per-class', 'auc', 'accuracy', 'accuracy')
    """
    known = _known(spec)
    return "accuracy" if known is None else known.metric


def resize_mode_of(spec: str | None) -> ResizeMode:
    """Return the default resize mode of a dataset.

    >>> resize_mode_of("in-c/fog/3"), resize_mode_of("in1k")
    ('transfer', 'evaluation')
    """
    known = _known(spec)
    return "evaluation" if known is None else known.resize_mode


def _known(spec: str | None) -> Known | None:
    try:
        return None if spec is None else KNOWN.get(parse(spec).kind)
    except InputError:  # not a spec but the name of stored outputs
        return None


def load(spec: "str | Dataset") -> Dataset:
    """Return the dataset of a spec. Images are decoded only when they are requested.

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
        raise InputError(f"selects none of {len(whole)} rows", where=spec)
    return dataclasses.replace(chosen, spec=str(parsed))


def _load(spec: Spec) -> Dataset:
    holdout = _HOLDOUT.match(spec.split) if spec.kind in EMBEDDED or spec.kind in KNOWN else None
    if holdout:
        return _load_holdout(spec, int(holdout["count"]), int(holdout["seed"] or 0))
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
    if spec.kind == _USER_DEFINED:
        dataset = user_datasets.find(spec.place)
        if dataset is None:
            raise _unknown(spec.place)
        return dataset
    known = KNOWN[spec.kind]
    if known.view_of:
        return views.VIEWS[spec.kind](_load(dataclasses.replace(spec, kind=known.view_of)), spec.kind, str(spec))
    dataset = _load_known(spec, known)
    if known.label_set == imagenet.IMAGENET:
        dataset = imagenet.in_imagenet(dataset, known.subset)
    return dataclasses.replace(dataset, name=spec.kind, metric=known.metric, resize_mode=known.resize_mode)


def _load_holdout(spec: Spec, count: int, seed: int) -> Dataset:
    training = _load(dataclasses.replace(spec, split="train"))
    if count >= len(training):
        expected = f"a holdout of fewer than the {len(training)} images of {training.spec}"
        raise InputError(where=f"dataset {str(spec)!r}", expected=expected, found=count)
    return dataclasses.replace(training.select(holdout_rows(len(training), count, seed)), spec=str(spec))


def _with_label_set(dataset: Dataset) -> Dataset:
    return imagenet.in_imagenet(dataset) if imagenet.is_imagenet(dataset.classes) else dataset


def _load_known(spec: Spec, known: Known) -> Dataset:
    """Return a known dataset from a data folder or the hub. One of our splits may consist of several of the hub's."""
    hub_splits = known.splits[spec.split].split("+")
    parts = []
    for hub_split in hub_splits:
        split = spec.split if len(hub_splits) == 1 else hub_split
        parts.append(_from_data_folders(spec, split, hub_split) or _from_hub(spec, known, split, hub_split))
    return parts[0] if len(parts) == 1 else joined(parts)


def _from_data_folders(spec: Spec, split: str, hub_split: str) -> Dataset | None:
    """Return a known dataset from the first folder of ZOO_DATA that has it, in any of the usual layouts."""
    text = str(spec)
    aliases = (alias for alias, name in _SPLIT_ALIASES.items() if name == split)
    split_names = list(dict.fromkeys((split, hub_split, *aliases)))
    for root in settings.data_folders():
        base = root / spec.kind / spec.place
        for name in split_names:
            files = [base / f"{name}.parquet"] if (base / f"{name}.parquet").is_file() else []
            files = files or sorted(base.glob(f"{name}-*.parquet")) or sorted(base.glob(f"data/{name}-*.parquet"))
            if files:
                return parquet.load(files, text, spec.kind)
            if spec.kind == "voc2007" and (dataset := multilabel.voc(base, name, text)):
                return dataset
            if spec.kind == "chexpert" and (dataset := multilabel.chexpert(base, name, text)):
                return dataset
            if (base / name).is_dir():
                return folder.load(base / name, text, spec.kind)
        if base.is_dir() and len(KNOWN[spec.kind].splits) == 1:
            return folder.load(base, text, spec.kind)
    return None


def _from_hub(spec: Spec, known: Known, split: str, hub_split: str) -> Dataset:
    folders = ", ".join(str(root) for root in settings.data_folders()) or "none, ZOO_DATA is not set"
    searched = f"Data folders searched: {folders}"
    if known.hub is None:
        place = f"{spec.kind}{'/' + spec.place if spec.place else ''}/{split}"
        hint = f"Get it from {known.source} and put it into a folder of ZOO_DATA, as {place}. {searched}"
        raise ZooError("is not on this machine, and the hub does not have it", where=spec, hint=hint)
    try:
        return hub.load(known.hub, hub_split, str(spec), spec.kind)
    except ZooError as error:
        error.hint = f"{error.hint}. {searched}" if error.hint else searched
        raise


def _split(split: str, known: dict[str, str], spec: str) -> str:
    """Return our name of a split that is given by our name, the hub's or an alias."""
    split = _SPLIT_ALIASES.get(split, split)
    if split in known:
        return split
    if "train" in known and _HOLDOUT.match(split):
        return split.removesuffix("-s0")
    ours = next((name for name, hub_split in known.items() if hub_split == split), None)
    if ours is None:
        raise UnknownName(kind="split", name=split, where=f"dataset {spec!r}", hint=f"Known: {', '.join(known)}")
    return ours


def _place(place: str, known: Known, spec: str) -> str:
    """Return the further parts of a known dataset's spec, such as `fog/3`, after checking them."""
    values = place.split("/") if place else []
    where = f"dataset {spec!r}"
    if len(values) != len(known.parts):
        name = spec.partition("/")[0].partition(":")[0]
        raise InputError(where=where, expected="/".join([name, *(part.upper() for part in known.parts)]), found=spec)
    for value, (part, allowed) in zip(values, known.parts.items(), strict=True):
        if value not in allowed:
            raise UnknownName(kind=part, name=value, where=where, hint=f"Known: {', '.join(allowed)}")
    return place
