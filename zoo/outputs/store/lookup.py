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
from zoo.outputs.store.layout import IMPORTED, MANIFEST, RANDOM
from zoo.outputs.store.run_folder import RunFolder


def stored(home: Path | None = None, imported: bool = False) -> list[RunFolder]:
    """Return every finished run, sorted by dataset and model. A run with a damaged manifest is skipped with a warning.

    Args:
        home: where outputs are stored; default `ZOO_HOME`.
        imported: whether to return imports only.
    """

    def warn(error: ZooError) -> None:
        warnings.warn(f"{error}; skipped, `zoo verify` reports details", ZooWarning, stacklevel=5)

    folders = f"[!.]*-{IMPORTED}/[!.]*" if imported else "[!.]*/[!.]*"
    runs = [RunFolder(*run) for run in layout.current(layout.finished_runs(home, warn, folders))]
    return sorted(runs, key=lambda run: (run.identity.dataset or "", run.identity.name, run.path.name))


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
    selectors = [models] if isinstance(models, str) else list(models)
    runs = stored(None if home is None else Path(home))
    if data is not None:
        runs = on_dataset(runs, data if any(run.identity.dataset == data for run in runs) else canonical(data))
    picked = select_runs(selectors, runs)
    specs = sorted({run.identity.dataset or "unnamed" for run in picked})
    if len(specs) > 1:
        raise InputError(
            f"stored outputs of {', '.join(selectors)} are on several datasets ({', '.join(specs)})",
            hint="Choose one with {data}",
        )
    explicit = {split_suffix(name)[0] for name in selectors if not is_pattern(name) and not is_filter(name)}
    optional = {run.identity.name for run in picked if not any(matches(run.identity.name, name) for name in explicit)}
    return Runs(fitting(list(_open_each(one_per_name(picked), check, optional)), optional))


def open_run(run: RunFolder, check: bool = True) -> Outputs:
    """Open a stored run. An import that was replaced since it was listed is opened as it is now."""
    while True:
        try:
            return run.open(check)
        except ZooError:
            if (run.path / MANIFEST).exists():
                raise
            imports = imports_like(run)
            if not imports or imports[-1].path == run.path:
                raise
            run = imports[-1]


def imports_like(run: RunFolder) -> list[RunFolder]:
    """Return the stored imports with the name and dataset of a run, the newest last. Only the newest is in use."""
    home, folders = run.path.parents[2], f"{run.path.parent.name}/{layout.slug(run.identity.name)}-*"
    runs = [RunFolder(*found) for found in layout.finished_runs(home, lambda error: None, folders)]
    return sorted((one for one in runs if one.identity.replaces(run.identity)), key=lambda one: layout.order(one.path))


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
    return run.identity.digest.startswith(suffix)


def _open_each(runs: list[RunFolder], check: bool, optional: set[str]) -> Iterator[Outputs]:
    for run in runs:
        try:
            yield open_run(run, check)
        except ZooError as error:
            if run.identity.name not in optional:
                raise
            warnings.warn(f"{error}; skipped", ZooWarning, stacklevel=3)


def split_suffix(entry: str) -> tuple[str, str]:
    """Return a name and the suffix that chooses among its outputs: `run`, `import`, the start of a digest, or no text.

    >>> split_suffix("resnet18@import"), split_suffix("resnet18@0123abcd"), split_suffix("resnet8-cosine.digits@epoch4")
    (('resnet18', 'import'), ('resnet18', '0123abcd'), ('resnet8-cosine.digits@epoch4', ''))
    """
    name, at, suffix = entry.rpartition("@")
    is_digest = len(suffix) >= 8 and all(c in "0123456789abcdef" for c in suffix)
    return (name, suffix) if name and at and (suffix in ("run", "import") or is_digest) else (entry, "")


def on_dataset(runs: list[RunFolder], spec: str | None) -> list[RunFolder]:
    """Return the runs on the present contents of a dataset, or on its spec if the dataset is not on this machine."""
    runs = [run for run in runs if run.identity.dataset == spec]
    fingerprints = {run.identity.fingerprint for run in runs} - {IMPORTED}
    if not fingerprints or spec is None:
        return runs
    try:
        current = load(spec).fingerprint
    except ZooError as error:
        if len(fingerprints) > 1:
            raise InputError(
                f"outputs on {len(fingerprints)} versions of the dataset are stored, and it is not on this machine: {error}",
                where=spec,
            ) from error
        (current,) = fingerprints
    return [run for run in runs if run.identity.fingerprint in (current, IMPORTED)]


def one_per_name(runs: Iterable[RunFolder]) -> list[RunFolder]:
    """Return one run per name.

    Trained weights are preferred to random ones, runs with embeddings to runs without, and the dataset's default resize mode
    to others. Runs that differ otherwise are an error.
    """
    from zoo.datasets import resize_mode_of

    by_name: dict[str, list[RunFolder]] = {}
    for run in runs:
        by_name.setdefault(run.identity.name, []).append(run)
    chosen = []
    for name, candidates in by_name.items():
        for is_preferred in (
            lambda run: not run.identity.weights.startswith(RANDOM),
            lambda run: run.identity.embeddings,
            lambda run: run.identity.resize_mode == resize_mode_of(run.identity.dataset),
        ):
            candidates = [run for run in candidates if is_preferred(run)] or candidates
        if len(candidates) > 1:
            fields = ("weights", "precision", "transform", "classes", "kind", "shard_rows", "fingerprint")
            differ = [f for f in fields if len({getattr(run.identity, f) for run in candidates}) > 1]
            listed = " or ".join(f"{name}@{run.identity.digest[:8]}" for run in candidates)
            raise InputError(
                f"{len(candidates)} stored runs differ in {', '.join(differ)}", where=name, hint=f"Choose {listed}"
            )
        chosen += candidates
    return chosen
