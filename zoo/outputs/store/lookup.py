"""Stored outputs by name and dataset, without loading a model."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from zoo.cards.selection import is_filter, is_pattern, matches, select
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
    models: str | Sequence[str] = "*", data: str | None = None, home: Path | str | None = None, check: bool = True
) -> Runs:
    """Open the stored outputs of models on one dataset.

    Args:
        models: names, patterns, filters or named sets. `NAME@DIGEST` chooses among runs that differ in weights or precision,
            `NAME@run` and `NAME@import` between a run and an import.
        data: the dataset; may be left out if all selected outputs are on one dataset.
        home: where outputs are stored; default `ZOO_HOME`.
        check: whether to verify every checksum first.

    Outputs that a pattern selects are skipped with a warning if they are damaged, or on other examples or classes than the
    rest.
    """
    wanted = [models] if isinstance(models, str) else list(models)
    runs = stored(None if home is None else Path(home))
    if data is not None:
        runs = on_dataset(runs, data if any(run.identity.dataset == data for run in runs) else canonical(data))
    picked = select_runs(wanted, runs)
    specs = sorted({run.identity.dataset or "unnamed" for run in picked})
    if len(specs) > 1:
        raise InputError(
            f"stored outputs of {', '.join(wanted)} are on several datasets ({', '.join(specs)})",
            hint="Choose one with {data}",
        )
    explicit = {split_suffix(name)[0] for name in wanted if not is_pattern(name) and not is_filter(name)}
    optional = {run.identity.name for run in picked if not any(matches(run.identity.name, name) for name in explicit)}
    return Runs(fitting(list(_open_each(one_per_name(picked), check, optional)), optional))


def select_runs(models: Sequence[str], runs: Sequence[RunFolder]) -> list[RunFolder]:
    """Return the stored runs that selectors stand for, in the order of the selectors."""
    suffixed = [entry for entry in models if split_suffix(entry)[1]]
    picked: list[RunFolder] = []
    for entry in suffixed:
        name, suffix = split_suffix(entry)
        found = [run for run in runs if run.identity.name == name and _has_suffix(run, suffix)]
        if not found:
            raise UnknownName(f"no outputs of {entry!r} are stored", kind="stored model", name=entry)
        picked += found
    others = [entry for entry in models if entry not in suffixed]
    if others:
        names = select(others, {run.identity.name: run.card for run in runs}, what="stored model")
        picked += [run for name in names for run in runs if run.identity.name == name and run not in picked]
    return picked


def _has_suffix(run: RunFolder, suffix: str) -> bool:
    if suffix in ("import", "run"):
        return (run.identity.fingerprint == IMPORTED) == (suffix == "import")
    return run.identity.digest().startswith(suffix)


def _open_each(runs: list[RunFolder], check: bool, optional: set[str]) -> Iterator[Outputs]:
    for run in runs:
        try:
            yield run.open(check)
        except ZooError as error:
            if run.identity.name not in optional:
                raise
            warnings.warn(f"{error}; skipped", ZooWarning, stacklevel=3)


def split_suffix(entry: str) -> tuple[str, str]:
    """Return a name and which of its outputs are meant: `run`, `import`, the beginning of a digest, or an empty text.

    >>> split_suffix("resnet18@import"), split_suffix("resnet18@0123abcd"), split_suffix("resnet8-cosine.digits@epoch4")
    (('resnet18', 'import'), ('resnet18', '0123abcd'), ('resnet8-cosine.digits@epoch4', ''))
    """
    name, at, suffix = entry.rpartition("@")
    is_digest = len(suffix) >= 8 and all(c in "0123456789abcdef" for c in suffix)
    return (name, suffix) if name and at and (suffix in ("run", "import") or is_digest) else (entry, "")


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


def one_per_name(runs: Iterable[RunFolder]) -> list[RunFolder]:
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
