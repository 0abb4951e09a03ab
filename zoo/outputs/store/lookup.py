"""Stored outputs by name and dataset, without loading a model."""

import fnmatch
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from zoo.cards.names import default_dataset, full, near
from zoo.datasets import canonical, load
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning
from zoo.outputs.alignment import fitting
from zoo.outputs.outputs import Outputs, Runs
from zoo.outputs.store import layout
from zoo.outputs.store.layout import IMPORTED, MANIFEST
from zoo.outputs.store.run_folder import RunFolder


def stored(home: Path | None = None, imported: bool = False) -> list[RunFolder]:
    """Every finished run, or only what was imported, in the order of dataset and model.

    Folders with a leading dot are out of use.
    """
    found = []
    folders = f"[!.]*-{IMPORTED}" if imported else "[!.]*"
    for path in sorted(layout.outputs_folder(home).glob(f"{folders}/[!.]*/{MANIFEST}")):
        try:
            identity, _ = layout.read_manifest(path)
        except ZooError as error:  # one damaged run must not hide the others
            warnings.warn(f"{error}; passed over, `zoo verify` tells more", ZooWarning, stacklevel=2)
            continue
        found.append(RunFolder(path.parent, identity))
    return sorted(found, key=lambda run: (run.identity.dataset or "", run.identity.name, run.path.name))


def open_runs(
    names: str | Sequence[str] | None = None, data: str | None = None, home: Path | str | None = None, check: bool = True
) -> Runs:
    """Stored outputs of the models named (or matching a pattern; all by default) on one dataset.

    `data` may be left out when all that match are on one dataset. Of two runs that differ in weights or precision one is
    chosen by `name@digest`, as the error message lists them, and of a run and an import by `name@run` and `name@import`.
    With `check` every checksum is compared first. Outputs that merely match a pattern and are damaged, or of other examples
    or classes than the rest, are named and left out.
    """
    wanted = [names] if isinstance(names, str) else list(names or ["*"])
    runs = stored(None if home is None else Path(home))
    if data is not None:
        runs = on_dataset(runs, data if any(run.identity.dataset == data for run in runs) else canonical(data))
    picked: list[RunFolder] = []
    for pattern in wanted:
        matching = [run for run in runs if answers(run, pattern)]
        if not matching:
            on = f" on {data}" if data else ""
            hint = near(pattern, {run.identity.name for run in runs}) or "; `zoo run` or `zoo import` makes them"
            raise UnknownName(f"no stored outputs of {pattern!r}{on}{hint}")
        picked += [run for run in matching if run not in picked]
    specs = sorted({run.identity.dataset or "unnamed" for run in picked})
    if len(specs) > 1:
        raise InputError(
            f"stored outputs of {', '.join(wanted)} are on several datasets ({', '.join(specs)}); name one of them"
        )
    optional = {run.identity.name for run in picked} - {parted(name)[0] for name in wanted}
    return Runs(fitting(list(_opened(one_each(picked), check, optional)), optional))


def _opened(runs: list[RunFolder], check: bool, optional: set[str]) -> Iterator[Outputs]:
    for run in runs:
        try:
            yield run.open(check)
        except ZooError as error:
            if run.identity.name not in optional:
                raise
            warnings.warn(f"{error}; left out", ZooWarning, stacklevel=3)


def parted(entry: str) -> tuple[str, str]:
    """A name, and which of the outputs of that name: `run`, `import`, the beginning of a digest, or nothing.

    >>> parted("resnet18@import"), parted("resnet18@0123abcd"), parted("resnet8-cosine.digits@epoch4")
    (('resnet18', 'import'), ('resnet18', '0123abcd'), ('resnet8-cosine.digits@epoch4', ''))
    """
    name, at, which = entry.rpartition("@")
    digest = len(which) >= 8 and all(c in "0123456789abcdef" for c in which)
    return (name, which) if at and (which in ("run", "import") or digest) else (entry, "")


def answers(run: RunFolder, pattern: str) -> bool:
    name, which = parted(pattern)
    if which in ("import", "run"):
        return run.identity.name == name and (run.identity.fingerprint == IMPORTED) == (which == "import")
    if which:
        return run.identity.name == name and run.identity.digest().startswith(which)
    known = run.identity.name
    return known in (pattern, full(pattern, default_dataset())) or fnmatch.fnmatchcase(known, pattern)


def on_dataset(runs: list[RunFolder], spec: str | None) -> list[RunFolder]:
    """The runs on the dataset as it is now. One that cannot be found here any more is known by its spec alone."""
    runs = [run for run in runs if run.identity.dataset == spec]
    prints = {run.identity.fingerprint for run in runs} - {IMPORTED}
    if not prints or spec is None:
        return runs
    try:
        current = load(spec).fingerprint
    except ZooError as error:
        if len(prints) > 1:
            raise InputError(
                f"outputs on {len(prints)} versions of {spec} are stored and it is not here: {error}"
            ) from error
        (current,) = prints
    return [run for run in runs if run.identity.fingerprint in (current, IMPORTED)]


def one_each(runs: Iterable[RunFolder]) -> list[RunFolder]:
    """One run a name, else the caller must say: real weights before random ones, embeddings before none, and the images
    framed as their dataset asks before otherwise."""
    from zoo.datasets import resize_mode_of

    by_name: dict[str, list[RunFolder]] = {}
    for run in runs:
        by_name.setdefault(run.identity.name, []).append(run)
    chosen = []
    for name, candidates in by_name.items():
        for better in (
            lambda run: not run.identity.weights.startswith("random:"),
            lambda run: run.identity.embeddings,
            lambda run: run.identity.resize_mode == resize_mode_of(run.identity.dataset),
        ):
            candidates = [run for run in candidates if better(run)] or candidates
        if len(candidates) > 1:
            fields = ("weights", "precision", "transform", "classes", "kind", "shard_rows", "fingerprint")
            differ = [f for f in fields if len({getattr(run.identity, f) for run in candidates}) > 1]
            listed = " or ".join(f"{name}@{run.identity.digest()[:8]}" for run in candidates)
            raise InputError(f"{len(candidates)} stored runs of {name} differ in {', '.join(differ)}: name {listed}")
        chosen += candidates
    return chosen
