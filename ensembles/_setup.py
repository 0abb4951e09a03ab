"""What a search is set up with: examples divided in two, every model read once, and who may be picked."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import torch

from ensembles._ensemble import GrowingEnsemble, LogLoss, OwnScore, RightCount, SquaredLoss, tabulate
from ensembles._library import Kind, Library, Name, library
from ensembles._scores import ObjectiveName, ScoreFunction, curve
from ensembles._scores import objective as find_objective
from zoo.cards import card as cards
from zoo.cards.selection import is_filter, is_pattern, select
from zoo.core import arrays
from zoo.core.progress import Bar
from zoo.core.splits import stratified_rows
from zoo.errors import InputError


class Options(TypedDict, total=False):
    """The keyword arguments that set up a search."""

    kind: Kind
    objective: ObjectiveName | ScoreFunction
    base: Name | Sequence[Name] | None
    candidates: Any
    test_fraction: float
    split: Any
    seed: int
    device: Any
    progress: bool


class Setup:
    """A search's models on its selection split, those to start from, those that may be picked, and a test split apart."""

    def __init__(
        self,
        given: Any,
        labels: Any = None,
        *,
        kind: Kind = "probabilities",
        objective: ObjectiveName | ScoreFunction = "accuracy",
        base: Name | Sequence[Name] | None = None,
        candidates: Any = None,
        test_fraction: float = 0.5,
        split: Any = None,
        seed: int = 0,
        device: Any = None,
        progress: bool = False,
    ) -> None:
        self.objective = find_objective(objective)
        seed = arrays.seed(seed)
        everything = library(given, labels, kind, device)
        if kind == "predictions" and self.objective.name not in ("accuracy", "balanced-accuracy"):
            raise InputError(f"objective: votes have an accuracy or a balanced-accuracy, not {self.objective.name}")
        if split is None:
            selection, test = stratified_split(everything.labels, test_fraction, seed)
        else:
            selection, test = check_split(split, len(everything.labels))
        self.library = _take(everything, selection)
        self.test = _take(everything, test) if len(test) else None  # the same models on examples the search never sees
        self.base = [everything.position(name, "base") for name in _several(base)]
        self.seed, self.progress = seed, progress
        with Bar("reading models", len(self.library), progress) as bar:
            self.table = tabulate(self.library, bar.advance)
        accuracies = arrays.to_numpy(self.table.right(self.library.labels).float().mean(1)).tolist()
        self.candidates = choose(self.library, candidates, accuracies)
        self.settings: dict[str, Any] = {
            "kind": kind, "objective": self.objective.name, "base": [self.library.names[m] for m in self.base],
            "candidates": len(self.candidates), "selection_examples": len(selection), "test_examples": len(test),
            "test_fraction": test_fraction if split is None else None, "seed": seed,
            "uncalibrated": _uncalibrated(everything), "outside": everything.outside,
        }  # fmt: skip

    @property
    def pool(self) -> list[int]:
        """The candidates beside the base, in the order in which a set of models is summed."""
        return self.by_name(set(self.candidates) - set(self.base))

    def ensemble(self) -> GrowingEnsemble:
        """An empty ensemble that scores candidates by the objective."""
        own = OwnScore if self.objective.function else RightCount
        kinds: dict[str, type[GrowingEnsemble]] = {"nll": LogLoss, "brier": SquaredLoss}
        return kinds.get(self.objective.name, own)(self.library, self.table, self.objective)

    def by_name(self, models: Iterable[int]) -> list[int]:
        """The order in which a set of models is summed, so that one set has one score."""
        return sorted(models, key=lambda model: self.library.names[model])

    def test_score(self, members: Sequence[int]) -> float | None:
        """The score of these members together on the test split; None without one."""
        return None if self.test is None else curve(self.test, members, self.objective).score[-1]


def _several(given: Any) -> list[Any]:
    return [] if given is None else [given] if isinstance(given, (str, int, np.integer)) else list(given)


def _take(everything: Library, rows: np.ndarray) -> Library:
    return everything if len(rows) == len(everything.labels) else everything.take(torch.from_numpy(rows))


def _uncalibrated(models: Library) -> int:
    """How many models are averaged at temperature 1 because nobody has calibrated them."""
    if models.runs is None or models.kind == "predictions":
        return 0
    return sum(one.kind == "logits" and one.temperature is None for one in models.runs.values())


def at_least_one(**values: int) -> None:
    """An error that names the first argument below 1."""
    for name, value in values.items():
        if value < 1:
            raise InputError(f"{name}: expected at least 1, found {value}")


def stratified_split(labels: Any, test_fraction: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows for the search and rows for the test, both rising; each class is divided in the same proportion.

    >>> selection, test = stratified_split([0, 0, 0, 0, 1, 1], test_fraction=0.5)
    >>> len(selection), len(test), len(set(selection) & set(test))
    (3, 3, 0)
    """
    y = arrays.to_numpy(arrays.labels(labels))
    if not 0 <= test_fraction < 1:
        raise InputError(f"test_fraction: expected 0 (no test split) up to but not 1, found {test_fraction}")
    if test_fraction == 0:
        return np.arange(len(y)), np.arange(0)
    try:
        chosen = stratified_rows(y, test_fraction, seed)
    except InputError as error:
        raise InputError(
            f"test_fraction: {len(y)} examples cannot be divided {1 - test_fraction:g} to {test_fraction:g}; "
            "pass test_fraction=0 to search on all of them"
        ) from error
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def check_split(split: Any, examples: int) -> tuple[np.ndarray, np.ndarray]:
    """A split of the user's own: two sets of rows that do not meet."""
    try:
        selection, test = split
    except (TypeError, ValueError) as error:
        raise InputError("split: expected a pair, rows for the search and rows for the test") from error
    selection, test = _rows(selection, examples, "selection"), _rows(test, examples, "test")
    shared = np.intersect1d(selection, test)
    if len(shared):
        raise InputError(
            f"split: selection and test share {len(shared)} examples, first row {shared[0]}; make them disjoint"
        )
    if not len(selection):
        raise InputError("split: expected at least one row for the search, found none")
    return selection, test


def _rows(given: Any, examples: int, name: str) -> np.ndarray:
    rows = arrays.to_numpy(given) if isinstance(given, torch.Tensor) else np.asarray(given)
    if rows.dtype == bool:
        if rows.shape != (examples,):
            raise InputError(f"split: the {name} mask has shape {list(rows.shape)}, expected [{examples}]")
        return np.flatnonzero(rows)
    if rows.size == 0:
        return np.arange(0)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise InputError(f"split: expected {name} row numbers [n], found dtype {rows.dtype} of shape {list(rows.shape)}")
    unique = np.unique(rows)
    if unique[0] < 0 or unique[-1] >= examples:
        raise InputError(f"split: {name} row {unique[0] if unique[0] < 0 else unique[-1]} is outside 0..{examples - 1}")
    if len(unique) < len(rows):
        raise InputError(f"split: {len(rows) - len(unique)} {name} rows are given twice")
    return unique


def choose(models: Library, candidates: Any, accuracies: Sequence[float]) -> list[int]:
    """The indices of the models meant by `candidates`, in the library's order; `Search` says what may be given."""
    if candidates is None:
        return list(range(len(models)))
    if isinstance(candidates, Mapping):
        found = [m for m in range(len(models)) if _matches(models, m, candidates, accuracies[m])]
    else:
        found = sorted({m for one in _listed(candidates, models) for m in _named(models, one)})
    if not found:
        raise InputError(f"candidates: none of the {len(models)} models matches {candidates!r}")
    return found


def _listed(candidates: Any, models: Library) -> list[Any]:
    if isinstance(candidates, torch.Tensor):
        candidates = arrays.to_numpy(candidates)
    listed = candidates.tolist() if isinstance(candidates, np.ndarray) else _several(candidates)
    if listed and all(isinstance(one, bool) for one in listed):
        if len(listed) != len(models):
            raise InputError(f"candidates: the mask has {len(listed)} entries for {len(models)} models")
        return [models.names[m] for m, wanted in enumerate(listed) if wanted]
    return listed


def _named(models: Library, one: Any) -> list[int]:
    if isinstance(one, str) and (is_pattern(one) or is_filter(one)):
        known = models.runs.cards if models.runs is not None else dict.fromkeys(map(str, models.names))
        chosen = set(select(one, known))
        return [m for m, name in enumerate(models.names) if str(name) in chosen]
    return [models.position(one, "candidate")]


def _matches(models: Library, model: int, fields: Mapping[str, Any], accuracy: float) -> bool:
    for key, wanted in fields.items():
        if key == "accuracy":
            if not cards.has(accuracy, _band(wanted)):
                return False
        elif key == "name":
            if not any(model in _named(models, one) for one in _listed(wanted, models)):
                return False
        else:
            card = None if models.runs is None else models.runs[str(models.names[model])].card
            if card is None:
                raise InputError(
                    f"candidates: {models.title(model)} has no card, so its {key!r} is not known; give names instead"
                )
            if not card.matches(**{key: wanted}):
                return False
    return True


def _band(wanted: Any) -> tuple[float, float]:
    try:
        low, high = (-np.inf if wanted[0] is None else float(wanted[0])), (np.inf if wanted[1] is None else float(wanted[1]))
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(f"candidates: expected an accuracy band (low, high), found {wanted!r}") from error
    if any(np.isfinite(end) and not 0 <= end <= 1 for end in (low, high)):
        raise InputError(f"candidates: accuracies are fractions between 0 and 1, found the band {wanted!r}")
    return low, high
