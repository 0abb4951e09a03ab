"""The ensemble as it grows: what each candidate would make of it, exactly, and which one is best."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ensembles._library import Library
from ensembles._scores import Objective, mean_log_loss, own_score, top_class
from zoo._numbers import arrays

# Scores nearer to each other than this are equal: above the rounding of any of the sums, below one example in 10^9.
TIE = 1e-10


@dataclass(frozen=True, eq=False)
class Table:
    """What is kept of M models on N examples, [M, N] each: M N (4 + 4 + 4) bytes for float32 instead of M N K 4."""

    label: torch.Tensor  # probability of the true class
    other: torch.Tensor  # greatest probability among the other classes; -1 where there is no other class
    other_class: torch.Tensor  # the first class that has it, int32

    def at(self, examples: torch.Tensor) -> "Table":
        """The table of some examples."""
        return Table(*(column.index_select(1, examples) for column in (self.label, self.other, self.other_class)))

    def right(self, labels: torch.Tensor) -> torch.Tensor:
        """[M, N] whether each model alone is right; of equal probabilities the first class is predicted."""
        return (self.label > self.other) | ((self.label == self.other) & (labels < self.other_class))


def tabulate(library: Library, advance: Callable[[], None] = lambda: None) -> Table:
    """The table of a library, in one pass that also checks every row; `advance` is called after each model."""
    shape = (len(library), len(library.labels))
    label = torch.empty(shape, dtype=library.dtype, device=library.device)
    other = torch.empty_like(label)
    other_class = torch.empty(shape, dtype=torch.int32, device=library.device)
    spans = [(span, library.labels[span, None]) for span in library.spans()]
    scratch = torch.empty((len(spans[0][1]), library.num_classes), dtype=library.dtype, device=library.device)
    totals = torch.empty_like(label[0])
    for model in range(len(library)):
        least = 0.0
        for span, truth in spans:
            stored = library.stored(model, span)
            if has_signs(stored):
                least = -math.inf  # the check will look more closely
            p = scratch[: len(truth)].copy_(stored)
            torch.sum(p, 1, out=totals[span])  # NaN shows here
            torch.gather(p, 1, truth, out=label[model, span, None])
            p.scatter_(1, truth, -1)
            top = top_class(p)[:, None]
            torch.gather(p, 1, top, out=other[model, span, None])
            other_class[model, span, None] = top
        library.check(model, totals, least)
        advance()
    return Table(label, other, other_class)


def has_signs(values: torch.Tensor) -> bool:
    """Whether any sign bit is set, as in negative numbers and -0. Read as whole numbers: float16 has no fast minimum."""
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
    return bool(values.view(whole).amin() < 0)


class GrowingEnsemble(ABC):
    """Members are added one by one; `scores` tells what one more would give. Scores here: more is better, always.

    The ensemble is the sum S [N, K] of its members' probabilities, added in order. The label's column of S is kept
    by every kind, since the tie rule needs it; what else is kept is up to the subclasses.
    """

    def __init__(self, library: Library, table: Table, objective: Objective) -> None:
        self.library, self.table, self.objective = library, table, objective
        self.weights = objective.weights(library.labels)
        self.reset()

    def reset(self, members: Sequence[int] = ()) -> None:
        """Back to the empty ensemble, or to that of these members."""
        self.members: list[int] = []
        self.label_sum = torch.zeros(
            len(self.library.labels), dtype=arrays.wide(self.library.device), device=self.library.device
        )
        for model in members:
            self.add(model)

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

    def score_of(self, members: Sequence[int]) -> float:
        """The exact score of these members; the ensemble is left without the last."""
        self.reset(members[:-1])
        return self.score_with(members[-1])

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
        """Mean NLL of the ensemble with this model added; of votes, that of the label's share of them."""
        return mean_log_loss(self.label_sum + self.table.label[model], len(self.members) + 1)


class LogLoss(GrowingEnsemble):
    """NLL: the label's column is all it takes."""

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        return {model: -self.log_loss_with(model) for model in candidates}


class SquaredLoss(GrowingEnsemble):
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
    dtype = arrays.wide(library.device)
    products = torch.zeros((len(library), len(library)), dtype=dtype, device=library.device)
    for span in library.spans(together=max(1, len(library) // 16)):
        block = torch.stack([library.read(model, span).flatten() for model in range(len(library))]).to(dtype)
        products += block @ block.T
    return arrays.host(products)


class OwnScore(GrowingEnsemble):
    """A user's function of the ensemble's probabilities: every candidate is formed and scored."""

    def reset(self, members: Sequence[int] = ()) -> None:
        shape = (len(self.library.labels), self.library.num_classes)
        self.sum = torch.zeros(shape, dtype=arrays.wide(self.library.device), device=self.library.device)
        super().reset(members)

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
