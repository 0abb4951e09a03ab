"""The ensemble as it grows: what each candidate would make of it, exactly, and which one is best."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ensembles.compact import Table
from ensembles.library import Library
from ensembles.scores import Objective, mean_log_loss, sum_dtype
from zoo import arrays

# Scores nearer to each other than this are equal: above the rounding of any of the sums, below one example in 10^9.
TIE = 1e-10


class RunningEnsemble(ABC):
    """Members are added one by one; `scores` tells what one more would give. Scores here: more is better, always.

    The ensemble is the sum S [N, K] of its members' probabilities, added in order. The label's column of S is kept
    by every kind, since the tie rule needs it; what else is kept is the subclasses' affair.
    """

    def __init__(self, library: Library, table: Table, objective: Objective) -> None:
        self.library, self.table, self.objective = library, table, objective
        self.weights = objective.weights(library.labels)
        self.reset()

    def reset(self) -> None:
        """Back to the empty ensemble."""
        self.members: list[int] = []
        self.label_sum = torch.zeros(
            len(self.library.labels), dtype=sum_dtype(self.library.device), device=self.library.device
        )

    def add(self, model: int) -> None:
        """Make a model a member, perhaps once more."""
        self.members.append(model)
        self.label_sum += self.table.label[model]

    @abstractmethod
    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        """The exact score with each candidate added.

        Unless `every` one is wanted, those may be left out that are known to miss the best score, or `at_least`.
        """

    def score_with(self, model: int) -> float:
        """The exact score with this model added."""
        return self.scores([model], every=True)[model]

    def best(self, candidates: Sequence[int]) -> tuple[int, float]:
        """The candidate with the best score, and the score; of equal ones the lower NLL, then the first by name."""
        scores = self.scores(candidates)
        model = self.first(scores)
        return model, scores[model]

    def first(self, scores: dict[int, float]) -> int:
        """The best of these candidates under the tie rule; their order plays no part."""
        top = max(scores.values())
        tied = [model for model, score in scores.items() if score >= top - TIE]
        if len(tied) > 1:
            losses = {model: self.log_loss_with(model) for model in tied}
            least = min(losses.values())
            tied = [model for model, loss in losses.items() if loss <= least + TIE]
        return min(tied, key=lambda model: self.library.names[model])

    def log_loss_with(self, model: int) -> float:
        """Mean NLL of the ensemble with this model added."""
        return mean_log_loss(self.label_sum + self.table.label[model], len(self.members) + 1)


class LogLoss(RunningEnsemble):
    """NLL: the label's column is all it takes."""

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        return {model: -self.log_loss_with(model) for model in candidates}


class SquaredLoss(RunningEnsemble):
    """Brier score, from inner products: with S the sum of n members and x a candidate's probabilities,

        N Brier = (S.S + 2 S.x + x.x) / (n + 1)^2 - 2 (S_y + x_y) / (n + 1) + N,

    so a step costs nothing but the [M, M] products of models over all examples and classes, which are made once.
    """

    def __init__(self, library: Library, table: Table, objective: Objective) -> None:
        self.products = _inner_products(library)
        super().__init__(library, table, objective)

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        examples, weight = len(self.library.labels), len(self.members) + 1
        of_sum = self.products[self.members].sum(0)  # S.x for every x
        square = of_sum[self.members].sum() + 2 * of_sum + self.products.diagonal()
        distances = square / weight**2
        at_label = {model: float((self.label_sum + self.table.label[model]).sum()) for model in candidates}
        return {model: -((float(distances[model]) - 2 * at_label[model] / weight) / examples + 1) for model in candidates}


def _inner_products(library: Library) -> np.ndarray:
    """[M, M] sums over examples and classes of the product of two models' probabilities."""
    dtype = sum_dtype(library.device)
    products = torch.zeros((len(library), len(library)), dtype=dtype, device=library.device)
    for span in library.spans(together=max(1, len(library) // 16)):
        block = torch.stack([library.read(model, span).flatten() for model in range(len(library))]).to(dtype)
        products += block @ block.T
    return arrays.host(products)


class OwnScore(RunningEnsemble):
    """A user's function of the ensemble's probabilities: every candidate is formed and scored."""

    def reset(self) -> None:
        super().reset()
        library = self.library
        shape = (len(library.labels), library.num_classes)
        self.sum = torch.zeros(shape, dtype=sum_dtype(library.device), device=library.device)

    def add(self, model: int) -> None:
        super().add(model)
        for span in self.library.spans():
            self.sum[span] += self.library.read(model, span)

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        return {
            model: own_score(self.objective, self.library, self.sum + self._whole(model), len(self.members) + 1)
            for model in candidates
        }

    def _whole(self, model: int) -> torch.Tensor:
        return self.library.read(model, slice(0, len(self.library.labels)))


def own_score(objective: Objective, library: Library, total: torch.Tensor, weight: float) -> float:
    """A user's function of the ensemble S / w, called with the kind of array the library was made of."""
    if objective.function is None:
        raise TypeError(f"{objective.name} is not a user's function")
    given: Any = library.array_like
    return float(objective.function(arrays.give_back(total / weight, given), arrays.give_back(library.labels, given)))
