"""The ensemble as it grows: what each candidate would make of it, exactly, and which one is best."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ensembles._library import Library, take_rows
from ensembles._scores import Objective, mean_log_loss, own_score, top_class
from zoo.core import arrays

# Scores nearer to each other than this are equal: above the rounding of any of the sums, below one example in 10^9.
TIE = 1e-10
# Numbers in a block of candidates by open examples, so that a thousand models do not need a thousand times the memory.
BLOCK_ELEMENTS = 2**22


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
            len(self.library.labels), dtype=arrays.accumulation_dtype(self.library.device), device=self.library.device
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


class RightCount(GrowingEnsemble):
    """Accuracy or balanced accuracy, exact, nearly without reading candidates' rows: bound, prune, look at what is left.

    Notation for one example: y its label; S the ensemble's sums [K]; x a candidate's probabilities [K]. With the candidate
    added the example is right when S_y + x_y beats S_k + x_k for every other class k (on a tie the first class wins).
    Kept of x are x_y and the greatest other entry x_o with its class o. Hence, for U >= S_k for all k other than y,

        surely right:  S_y + x_y > U + x_o
        surely wrong:  S_y + x_y < S_k + x_k  for some one k: o, or the witness w, the ensemble's own best other class.

    Both hold in floating point too, because rounding is monotone: a <= b and c <= d give fl(a + c) <= fl(b + d).
    What is neither is undecided, about one pair in a hundred. Candidates are taken by falling upper bound and their
    undecided examples decided, by x_w first and by the whole row at last, until the bound falls below the best exact score.

    Most examples are settled without looking at any candidate: the ensemble leads, or trails, by more than any of them can
    change. Their sums are not even formed; a row of S is brought up to date only when its example is open again.
    """

    def __init__(self, library: Library, table: Table, objective: Objective) -> None:
        super().__init__(library, table, objective)
        # The least lead and the greatest label probability that any model brings to an example, in the sums' precision.
        self.least_lead = torch.full_like(self.label_sum, math.inf)
        for label, other in zip(table.label, table.other, strict=True):
            torch.minimum(self.least_lead, label.to(self.label_sum.dtype) - other, out=self.least_lead)
        self.greatest_label = table.label.amax(0)

    def reset(self, members: Sequence[int] = ()) -> None:
        examples, device, dtype = len(self.library.labels), self.library.device, self.weights.dtype
        self.ceiling = torch.zeros(examples, dtype=dtype, device=device)  # U: no other class's sum is above it
        self.witness = torch.zeros(examples, dtype=torch.long, device=device)  # w
        self.witness_sum = torch.zeros_like(self.ceiling)  # not above the witness's sum
        # Not zeros: memory that is never written is never taken from the system, and few rows ever open.
        self.sums = torch.empty((examples, self.library.num_classes), dtype=dtype, device=device)
        self.included = torch.zeros(examples, dtype=torch.long, device=device)  # members in a row of sums
        super().reset(members)

    def add(self, model: int) -> None:
        super().add(model)
        self.ceiling += self.table.other[model]
        known = (self.included > 0).nonzero()[:, 0]  # the others have no witness yet
        self.witness_sum[known] += self.library.at_least(model, known, self.witness[known])

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        if not self.members:
            return self._alone(candidates)
        rows, settled = self._open_rows()
        models = torch.tensor(candidates).to(self.library.device)
        lower = torch.empty(len(models), dtype=self.weights.dtype, device=self.library.device)
        undecided = torch.empty((len(models), len(rows)), dtype=torch.bool, device=self.library.device)
        table = self.table.at(rows)
        block = max(1, BLOCK_ELEMENTS // max(1, len(rows)))
        for start in range(0, len(models), block):
            part = slice(start, start + block)
            right, undecided[part] = self._judge(models[part], rows, table)
            lower[part] = right.to(lower.dtype) @ self.weights[rows]
        upper = lower + undecided.to(lower.dtype) @ self.weights[rows]
        whole = float(self.weights.sum())
        best = at_least
        exact: dict[int, float] = {}
        limits = arrays.to_numpy((upper + settled) / whole)
        for i in np.argsort(-limits, kind="stable").tolist():
            if not every and limits[i] < best - TIE:
                break
            doubtful = self._in_doubt(candidates[i], rows[undecided[i]])
            reached = settled + float(lower[i])
            if every or (reached + float(self.weights[doubtful].sum())) / whole >= best - TIE:
                exact[candidates[i]] = (reached + self._decide(candidates[i], doubtful)) / whole
                best = max(best, exact[candidates[i]])
        return exact

    def _alone(self, candidates: Sequence[int]) -> dict[int, float]:
        """The scores of single models, which the table gives."""
        right = self.table.right(self.library.labels).to(self.weights.dtype)
        scores = arrays.to_numpy(right @ self.weights / self.weights.sum())
        return {model: float(scores[model]) for model in candidates}

    def _open_rows(self) -> tuple[torch.Tensor, float]:
        """The examples some candidate could turn, their sums up to date; and the weight of those settled right."""
        right, wrong = self._settled()
        stale = ~(right | wrong) & (self.included < len(self.members))
        if stale.any():
            self._update(stale.nonzero()[:, 0])
            right, wrong = self._settled()
        return (~(right | wrong)).nonzero()[:, 0], float(self.weights[right].sum())

    def _settled(self) -> tuple[torch.Tensor, torch.Tensor]:
        # The differences below are rounded; a margin of a few units in the last place of the largest sum covers it.
        margin = 8 * torch.finfo(self.label_sum.dtype).eps * (len(self.members) + 1)
        right = self.label_sum - self.ceiling > margin - self.least_lead
        wrong = self.witness_sum - self.label_sum > margin + self.greatest_label
        return right, wrong

    def _update(self, rows: torch.Tensor) -> None:
        """Add to these rows of sums the members they lack, in order, and find their best other class anew."""
        rows = rows[self.included[rows].argsort(stable=True)]  # the longer out of date, the earlier
        for part in rows.split(self.library.stretch(together=4)):  # sums, their copy, a member's rows twice
            included = self.included[part]
            new = int((included == 0).sum())
            total = take_rows(self.sums, part) if new < len(part) else torch.empty_like(self.sums[:new])
            total[:new] = 0
            for position in range(int(included[0]), len(self.members)):
                lacking = int((included <= position).sum())
                total[:lacking] += self.library.read(self.members[position], part[:lacking])
            self.sums[part] = total
            total.scatter_(1, self.library.labels[part, None], -1)
            top = top_class(total)
            self.witness[part] = top
            self.ceiling[part] = self.witness_sum[part] = total.gather(1, top[:, None])[:, 0]
        self.included[rows] = len(self.members)

    def _judge(self, models: torch.Tensor, rows: torch.Tensor, table: Table) -> tuple[torch.Tensor, torch.Tensor]:
        """Which pairs of candidate and open example are surely right, and which undecided: [C, R] each."""
        reached = self.label_sum[rows] + table.label[models]
        right = reached > self.ceiling[rows] + table.other[models]
        # No probability is negative, so a witness ahead already stays ahead. Every further look is at pairs still in doubt.
        i, j = (~(right | (self.witness_sum[rows] > reached))).nonzero(as_tuple=True)
        rival = table.other_class[models[i], j].long()
        rival_sum = self.sums[rows[j], rival] + table.other[models[i], j]
        doubtful = ~_ahead(rival_sum, rival, reached[i, j], self.library.labels[rows[j]])
        undecided = torch.zeros_like(right)
        undecided[i[doubtful], j[doubtful]] = True
        return right, undecided

    def _in_doubt(self, model: int, rows: torch.Tensor) -> torch.Tensor:
        """Those of a candidate's undecided examples that the ensemble's own best other class does not decide either."""
        witness = self.witness[rows]
        witness_sum = self.witness_sum[rows] + self.library.at_least(model, rows, witness)
        reached = self.label_sum[rows] + self.table.label[model, rows]
        return rows[~_ahead(witness_sum, witness, reached, self.library.labels[rows])]

    def _decide(self, model: int, rows: torch.Tensor) -> float:
        """The weight of those of these examples that are right with the candidate added, by reading its rows."""
        gained = 0.0
        for part in rows.split(self.library.stretch(together=4)):
            total = take_rows(self.sums, part) + self.library.read(model, part)
            gained += float(self.weights[part[top_class(total) == self.library.labels[part]]].sum())
        return gained


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
    dtype = arrays.accumulation_dtype(library.device)
    products = torch.zeros((len(library), len(library)), dtype=dtype, device=library.device)
    for span in library.spans(together=max(1, len(library) // 16)):
        block = torch.stack([library.read(model, span).flatten() for model in range(len(library))]).to(dtype)
        products += block @ block.T
    return arrays.to_numpy(products)


class OwnScore(GrowingEnsemble):
    """A user's function of the ensemble's probabilities: every candidate is formed and scored."""

    def reset(self, members: Sequence[int] = ()) -> None:
        shape = (len(self.library.labels), self.library.num_classes)
        self.sum = torch.zeros(shape, dtype=arrays.accumulation_dtype(self.library.device), device=self.library.device)
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


def _ahead(rival_sum: torch.Tensor, rival: torch.Tensor, reached: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Whether another class with this sum is predicted rather than the label with the sum `reached`."""
    return (rival_sum > reached) | ((rival_sum == reached) & (rival < labels))
