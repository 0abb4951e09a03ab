"""What every search stands on: models read once on the selection split, who may be picked, and a test split apart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ensembles.bounds import RightCount
from ensembles.choosing import choose
from ensembles.compact import Table, tabulate
from ensembles.evaluation import curve
from ensembles.library import Library, library
from ensembles.progress import progress_bar
from ensembles.running import LogLoss, OwnScore, RunningEnsemble, SquaredLoss
from ensembles.scores import Objective
from ensembles.scores import objective as find_objective
from ensembles.splits import check_split, stratified_split
from zoo import arrays


@dataclass(frozen=True, eq=False)
class Ground:
    """A library seen on the selection split, its table, the models to start from and those that may be picked."""

    library: Library
    table: Table
    objective: Objective
    base: list[int]
    candidates: list[int]
    test: Library | None  # the same models on examples the search never sees

    def ensemble(self) -> RunningEnsemble:
        """An empty ensemble that scores candidates by the objective."""
        if self.objective.function is not None:
            return OwnScore(self.library, self.table, self.objective)
        kinds = {"nll": LogLoss, "brier": SquaredLoss}
        return kinds.get(self.objective.name, RightCount)(self.library, self.table, self.objective)

    def by_name(self, models: Iterable[int]) -> list[int]:
        """The order in which a set of models is summed, so that one set has one score."""
        return sorted(models, key=lambda model: self.library.names[model])

    def test_score(self, members: Sequence[int]) -> float | None:
        """The score of the members' mean on the test split, as the objective counts; None without one."""
        return None if self.test is None else curve(self.test, members, self.objective).score[-1]


def survey(
    probs: Any,
    labels: Any = None,
    *,
    objective: Any = "accuracy",
    base: Any = None,
    candidates: Any = None,
    test_fraction: float = 0.5,
    split: Any = None,
    seed: int = 0,
    device: Any = None,
    progress: bool = False,
) -> Ground:
    """Divide the examples, and read and check every model on those of the search; the arguments are those of `greedy`."""
    chosen = find_objective(objective)
    everything = library(probs, labels, device)
    if split is None:
        selection, test = stratified_split(everything.labels, test_fraction, seed)
    else:
        selection, test = check_split(split, len(everything.labels))
    searched = _take(everything, selection)
    given: list[Any] = [] if base is None else [base] if isinstance(base, (str, int, np.integer)) else list(base)
    start = [everything.position(name, "base") for name in given]
    with progress_bar("reading models", len(searched), progress) as advance:
        table = tabulate(searched, advance)
    accuracies = arrays.host(table.right(searched.labels).float().mean(1)).tolist()
    open_to = choose(searched, candidates, accuracies)
    return Ground(searched, table, chosen, start, open_to, _take(everything, test) if len(test) else None)


def _take(everything: Library, rows: np.ndarray) -> Library:
    if len(rows) == len(everything.labels):
        return everything
    return everything.take(torch.from_numpy(rows))
