"""The setup of a search: models on a selection split, the base, the candidates, and a separate test split."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
import torch

from ensembles.growing_ensemble import (
    AccuracyEnsemble,
    BrierEnsemble,
    CustomEnsemble,
    GrowingEnsemble,
    NLLEnsemble,
    tabulate,
)
from ensembles.inputs import EnsembleInput, Labels, Name
from ensembles.model_library import ModelLibrary, SearchKind
from ensembles.scores import ObjectiveName, ScoreFunction, find_objective, score_prefixes
from ensembles.selection_split import check_split, stratified_split
from zoo.calibration.calibrated_runs import refit_for_selection
from zoo.cards.selection import check_field, select
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.progress import Bar
from zoo.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Candidates: TypeAlias = Name | Sequence[Name] | Sequence[bool] | Array | Mapping[str, Any] | None


class SetupOptions(TypedDict, total=False):
    """Keyword arguments of `Search`."""

    kind: SearchKind
    objective: ObjectiveName | ScoreFunction
    base: Name | Sequence[Name] | None
    candidates: Candidates
    test_fraction: float
    split: "tuple[ArrayLike | Array, ArrayLike | Array] | None"
    seed: int
    device: str | torch.device | None
    progress: bool


class SearchSetup:
    """Models that were read once; see `Search` for the arguments."""

    def __init__(
        self,
        runs: EnsembleInput,
        labels: Labels = None,
        *,
        kind: SearchKind = "probabilities",
        objective: ObjectiveName | ScoreFunction = "accuracy",
        base: Name | Sequence[Name] | None = None,
        candidates: Candidates = None,
        test_fraction: float = 0.5,
        split: "tuple[ArrayLike | Array, ArrayLike | Array] | None" = None,
        seed: int = 0,
        device: str | torch.device | None = None,
        progress: bool = False,
    ) -> None:
        self.objective = find_objective(objective)
        self.seed, self.progress = arrays.seed(seed), progress
        every = ModelLibrary.read(runs, labels, kind, device)
        if kind == "predictions" and self.objective.name not in ("accuracy", "balanced-accuracy"):
            raise InputError(
                argument="objective", expected="accuracy or balanced-accuracy for votes", found=self.objective.name
            )
        if split is None:
            selection, test = stratified_split(every.labels, test_fraction, self.seed, every.ids if test_fraction else None)
        else:
            selection, test = check_split(split, len(every.labels))
        every = _refit(every, labels, selection, test, kind, device)
        self.library = _select(every, selection)  # of the selection split
        self.test = _select(every, test) if len(test) else None
        self.base = [every.position(name, "base") for name in as_list(base)]
        with Bar("reading models", len(self.library), progress) as bar:
            self.table = tabulate(self.library, bar.advance)
        self.accuracies = arrays.to_numpy(self.table.correct(self.library.labels).float().mean(1)).tolist()  # [M]
        self.candidates = select_candidates(self.library, candidates, self.accuracies)
        self.settings: dict[str, Any] = {
            "kind": kind, "objective": self.objective.name, "base": [self.library.names[m] for m in self.base],
            "candidates": len(self.candidates), "selection_examples": len(selection), "test_examples": len(test),
            "test_fraction": test_fraction if split is None else None, "seed": self.seed,
            "uncalibrated": _count_uncalibrated(every), "without_prediction": every.without_prediction,
        }  # fmt: skip

    @property
    def pool(self) -> list[int]:
        """The candidates that are not in the base, sorted by name."""
        return self.by_name(set(self.candidates) - set(self.base))

    def empty_ensemble(self) -> GrowingEnsemble:
        """Return an ensemble without members, which scores candidates by the objective."""
        if self.objective.function is not None:
            return CustomEnsemble(self.library, self.table, self.objective)
        kinds: dict[str, type[GrowingEnsemble]] = {"nll": NLLEnsemble, "brier": BrierEnsemble}
        return kinds.get(self.objective.name, AccuracyEnsemble)(self.library, self.table, self.objective)

    def by_name(self, models: Iterable[int]) -> list[int]:
        """Return models sorted by name. A set of models is always summed in this order, so that it has one score."""
        return sorted(models, key=lambda model: self.library.names[model])

    def test_score(self, members: Sequence[int]) -> float | None:
        """Return the score of an ensemble of these members on the test split; None without one."""
        return None if self.test is None else score_prefixes(self.test, members, self.objective).score[-1]


def _refit(
    library: ModelLibrary,
    labels: Labels,
    selection: np.ndarray,
    test: np.ndarray,
    kind: SearchKind,
    device: str | torch.device | None,
) -> ModelLibrary:
    """Return the models with cross-fitted temperatures refitted on the selection split, so that no test label leaks."""
    if library.runs is None or kind == "predictions" or not len(test):
        return library
    refitted = refit_for_selection(library.runs, np.isin(np.arange(len(library.labels)), selection))
    return library if refitted is library.runs else ModelLibrary.read(refitted, labels, kind, device)


def _select(library: ModelLibrary, rows: np.ndarray) -> ModelLibrary:
    return library if len(rows) == len(library.labels) else library.select(torch.from_numpy(rows))


def _count_uncalibrated(library: ModelLibrary) -> int:
    """Return how many models are averaged at temperature 1 because none was fitted."""
    if library.runs is None or library.kind == "predictions":
        return 0
    return sum(one.kind == "logits" and one.temperature is None for one in library.runs.values())


def select_candidates(library: ModelLibrary, candidates: Candidates, accuracies: Sequence[float]) -> list[int]:
    """Return the positions of the candidates, ascending; `accuracies` [M] are measured on the selection split."""
    if candidates is None:
        return list(range(len(library)))
    if isinstance(candidates, Mapping):
        positions = _matching(library, candidates, accuracies)
    else:
        positions = _listed(library, candidates)
    if not positions:
        raise InputError(argument="candidates", expected=f"at least one of the {len(library)} models", found=candidates)
    return sorted(positions)


def as_list(values: Any) -> list[Any]:
    """Return one value, or several in any container, as a list; None as an empty one."""
    if isinstance(values, torch.Tensor):
        values = arrays.to_numpy(values)
    if isinstance(values, np.ndarray):
        return np.atleast_1d(values).tolist()
    return [] if values is None else [values] if isinstance(values, (str, int, np.integer)) else list(values)


def _listed(library: ModelLibrary, candidates: Any) -> set[int]:
    """Return the positions of names, numbers, patterns and filters, or of a mask."""
    listed = as_list(candidates)
    if listed and all(isinstance(one, (bool, np.bool_)) for one in listed):
        if len(listed) != len(library):
            expected = f"a mask of {len(library)} values, one per model"
            raise InputError(argument="candidates", expected=expected, found=len(listed))
        return set(np.flatnonzero(listed).tolist())
    if not listed or not all(isinstance(one, str) for one in (*listed, library.names[0])):
        return {library.position(one, "candidates") for one in listed}
    names = [str(name) for name in library.names]
    try:
        chosen = select(listed, dict.fromkeys(names) if library.runs is None else library.runs.cards)
    except InputError as error:
        error.argument = "candidates"
        raise
    return {names.index(name) for name in chosen}


def _matching(library: ModelLibrary, fields: Mapping[str, Any], accuracies: Sequence[float]) -> set[int]:
    """Return the positions of the models that have all of these properties."""
    positions = set(range(len(library)))
    cards = {} if library.runs is None else library.runs.cards
    for field, value in fields.items():
        if field == "accuracy":
            low, high = _accuracy_range(value)
            positions &= {model for model, accuracy in enumerate(accuracies) if low <= accuracy <= high}
        elif field == "name":
            positions &= _listed(library, value)
        else:
            check_field(field, value, {name: card for name, card in cards.items() if card is not None})
            for model in sorted(positions):
                card = cards.get(str(library.names[model]))
                if card is None:
                    raise InputError(
                        f"has no card, so its {field} is unknown",
                        where=library.describe(model),
                        argument="candidates",
                        hint="List the candidates by name",
                    )
                if not card.matches(**{field: value}):
                    positions.discard(model)
    return positions


def _accuracy_range(value: Any) -> tuple[float, float]:
    try:
        low, high = (default if end is None else float(end) for end, default in zip(value, (0.0, 1.0), strict=True))
    except (TypeError, ValueError) as error:
        raise InputError(argument="candidates", expected="a range (low, high) for accuracy", found=value) from error
    if not (0 <= low <= 1 and 0 <= high <= 1):
        raise InputError(argument="candidates", expected="accuracies between 0 and 1", found=value)
    return low, high
