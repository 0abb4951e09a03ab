"""Exact scores of an ensemble with each candidate added, one growing ensemble per kind of objective."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ensembles.model_library import ModelLibrary, take_rows
from ensembles.scores import Objective, custom_score, mean_nll, top_class
from zoo.core import arrays

# Scores closer than this are equal: above the rounding error of any of the sums, below one example in 10^9.
TIE = 1e-10
# Numbers in a block of candidates x open examples; bounds the memory for a thousand candidates.
BLOCK_ELEMENTS = 2**22


@dataclass(frozen=True, eq=False)
class TopTable:
    """What is kept of M models on N examples, [M, N] each: 12 M N bytes in float32 instead of 4 M N K."""

    label: torch.Tensor  # probability of the label
    other: torch.Tensor  # highest probability among the other classes; -1 if there is only one class
    other_class: torch.Tensor  # the first class that has it, int32

    def select(self, examples: torch.Tensor) -> "TopTable":
        """Return the table of some examples."""
        return TopTable(*(column.index_select(1, examples) for column in (self.label, self.other, self.other_class)))

    def correct(self, labels: torch.Tensor) -> torch.Tensor:
        """Return [M, N] whether each model alone is correct; of equal probabilities the first class is predicted."""
        return (self.label > self.other) | ((self.label == self.other) & (labels < self.other_class))


def tabulate(library: ModelLibrary, advance: Callable[[], None] = lambda: None) -> TopTable:
    """Return the table of a library, in one pass that also checks every row. `advance` is called after each model."""
    shape = (len(library), len(library.labels))
    label = torch.empty(shape, dtype=library.dtype, device=library.device)
    other = torch.empty_like(label)
    other_class = torch.empty(shape, dtype=torch.int32, device=library.device)
    chunks = [(span, library.labels[span, None]) for span in library.chunks()]
    scratch = torch.empty((len(chunks[0][1]), library.num_classes), dtype=library.dtype, device=library.device)
    sums = torch.empty_like(label[0])
    for model in range(len(library)):
        minimum = 0.0
        for span, truth in chunks:
            stored = library.stored_rows(model, span)
            if has_sign_bit(stored):
                minimum = -math.inf  # makes the check read the rows again
            p = scratch[: len(truth)].copy_(stored)
            torch.sum(p, 1, out=sums[span])  # NaN if any entry is NaN
            torch.gather(p, 1, truth, out=label[model, span, None])
            p.scatter_(1, truth, -1)
            top = top_class(p)[:, None]
            torch.gather(p, 1, top, out=other[model, span, None])
            other_class[model, span, None] = top
        library.check(model, sums, minimum)
        advance()
    return TopTable(label, other, other_class)


def has_sign_bit(values: torch.Tensor) -> bool:
    """Return whether any value is negative or -0. The bits are compared as integers: float16 has no fast minimum."""
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
    return bool(values.view(integers).amin() < 0)


class GrowingEnsemble(ABC):
    """An ensemble to which members are added one by one, and its score with each candidate added. Higher is always better.

    The ensemble is the sum S [N, K] of its members' probabilities, added in order. Every subclass keeps the label's column
    of S, which breaks ties, and what else it needs.
    """

    def __init__(self, library: ModelLibrary, table: TopTable, objective: Objective) -> None:
        self.library, self.table, self.objective = library, table, objective
        self.weights = objective.weights(library.labels)
        self.reset()

    def reset(self, members: Sequence[int] = ()) -> None:
        """Start again with these members."""
        self.members: list[int] = []
        self.label_sum = torch.zeros(
            len(self.library.labels), dtype=arrays.accumulation_dtype(self.library.device), device=self.library.device
        )
        for model in members:
            self.add(model)

    def add(self, model: int) -> None:
        """Add a member, possibly once more."""
        self.members.append(model)
        self.label_sum += self.table.label[model]

    @abstractmethod
    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        """Return the exact score with each candidate added.

        Unless `every` candidate is needed, those that cannot reach the best score, or `at_least`, may be left out.
        """

    def score_with(self, model: int) -> float:
        """Return the exact score with this model added."""
        return self.scores([model], every=True)[model]

    def score_of(self, members: Sequence[int]) -> float:
        """Return the exact score of these members. The ensemble then holds all of them but the last."""
        self.reset(members[:-1])
        return self.score_with(members[-1])

    def best(self, candidates: Sequence[int]) -> tuple[int, float]:
        """Return the candidate with the best score, and the score. Ties go to the lower NLL, then to the first name."""
        scores = self.scores(candidates)
        model = self.break_ties(scores)
        return model, scores[model]

    def break_ties(self, scores: dict[int, float]) -> int:
        """Return the best of these candidates by score, then by NLL, then by name; their order does not matter."""
        top = max(scores.values())
        tied = [model for model, score in scores.items() if score >= top - TIE]
        if len(tied) > 1:
            losses = {model: self.nll_with(model) for model in tied}
            lowest = min(losses.values())
            tied = [model for model, loss in losses.items() if loss <= lowest + TIE]
        return min(tied, key=lambda model: self.library.names[model])

    def nll_with(self, model: int) -> float:
        """Return the mean NLL with this model added. With votes, p is the fraction of votes for the label."""
        return mean_nll(self.label_sum + self.table.label[model], len(self.members) + 1)


class AccuracyEnsemble(GrowingEnsemble):
    """Accuracy or balanced accuracy, exact although few rows of candidates are read: bound, prune, read what is left.

    Notation for one example: y is its label, S the ensemble's sums [K], x a candidate's probabilities [K]. With the
    candidate added, the example is correct if S_y + x_y exceeds S_k + x_k for every other class k (the first class wins a
    tie). Of x are kept x_y and the largest other entry x_o with its class o. Hence, with U >= S_k for all k other than y,

        certainly correct:  S_y + x_y > U + x_o
        certainly wrong:    S_y + x_y < S_k + x_k  for one k: o, or the witness w, the ensemble's own best other class.

    Both hold in floating point too, because rounding is monotone: a <= b and c <= d give fl(a + c) <= fl(b + d).
    About one pair in a hundred is undecided. Candidates are tried in order of decreasing upper bound. Their undecided
    examples are decided by x_w if possible, else by the whole row, until the upper bound is below the best exact score.

    Most examples are settled without looking at any candidate: the ensemble leads, or trails, by more than any candidate
    can change. Their sums are not computed; a row of S is updated only when its example is open again.
    """

    def __init__(self, library: ModelLibrary, table: TopTable, objective: Objective) -> None:
        super().__init__(library, table, objective)
        # The smallest lead and the largest label probability that any model adds to an example, in the sums' precision.
        self.min_lead = torch.full_like(self.label_sum, math.inf)
        for label, other in zip(table.label, table.other, strict=True):
            torch.minimum(self.min_lead, label.to(self.label_sum.dtype) - other, out=self.min_lead)
        self.max_label = table.label.amax(0)

    def reset(self, members: Sequence[int] = ()) -> None:
        examples, device, dtype = len(self.library.labels), self.library.device, self.weights.dtype
        self.upper_bound = torch.zeros(examples, dtype=dtype, device=device)  # U
        self.witness = torch.zeros(examples, dtype=torch.long, device=device)  # w
        self.witness_sum = torch.zeros_like(self.upper_bound)  # a lower bound of S_w
        # Not zeros: pages that are never written are never allocated, and few rows ever open.
        self.sums = torch.empty((examples, self.library.num_classes), dtype=dtype, device=device)
        self.included = torch.zeros(examples, dtype=torch.long, device=device)  # how many members a row of sums includes
        super().reset(members)

    def add(self, model: int) -> None:
        super().add(model)
        self.upper_bound += self.table.other[model]
        with_witness = (self.included > 0).nonzero()[:, 0]
        self.witness_sum[with_witness] += self.library.lower_bounds(model, with_witness, self.witness[with_witness])

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        if not self.members:
            return self._single_scores(candidates)
        rows, settled = self._open_rows()
        models = torch.tensor(candidates).to(self.library.device)
        lower = torch.empty(len(models), dtype=self.weights.dtype, device=self.library.device)
        undecided = torch.empty((len(models), len(rows)), dtype=torch.bool, device=self.library.device)
        table = self.table.select(rows)
        block = max(1, BLOCK_ELEMENTS // max(1, len(rows)))
        for start in range(0, len(models), block):
            part = slice(start, start + block)
            correct, undecided[part] = self._decide_by_bounds(models[part], rows, table)
            lower[part] = correct.to(lower.dtype) @ self.weights[rows]
        upper = lower + undecided.to(lower.dtype) @ self.weights[rows]
        total_weight = float(self.weights.sum())
        best = at_least
        exact: dict[int, float] = {}
        limits = arrays.to_numpy((upper + settled) / total_weight)
        for i in np.argsort(-limits, kind="stable").tolist():
            if not every and limits[i] < best - TIE:
                break
            doubtful = self._undecided_by_witness(candidates[i], rows[undecided[i]])
            reached = settled + float(lower[i])
            if every or (reached + float(self.weights[doubtful].sum())) / total_weight >= best - TIE:
                exact[candidates[i]] = (reached + self._correct_weight(candidates[i], doubtful)) / total_weight
                best = max(best, exact[candidates[i]])
        return exact

    def _single_scores(self, candidates: Sequence[int]) -> dict[int, float]:
        correct = self.table.correct(self.library.labels).to(self.weights.dtype)
        scores = arrays.to_numpy(correct @ self.weights / self.weights.sum())
        return {model: float(scores[model]) for model in candidates}

    def _open_rows(self) -> tuple[torch.Tensor, float]:
        """Return the examples that some candidate could change, with updated sums, and the weight settled as correct."""
        correct, wrong = self._settled()
        stale = ~(correct | wrong) & (self.included < len(self.members))
        if stale.any():
            self._update(stale.nonzero()[:, 0])
            correct, wrong = self._settled()
        return (~(correct | wrong)).nonzero()[:, 0], float(self.weights[correct].sum())

    def _settled(self) -> tuple[torch.Tensor, torch.Tensor]:
        # The differences below are rounded. A margin of a few units in the last place of the largest sum covers that.
        margin = 8 * torch.finfo(self.label_sum.dtype).eps * (len(self.members) + 1)
        correct = self.label_sum - self.upper_bound > margin - self.min_lead
        wrong = self.witness_sum - self.label_sum > margin + self.max_label
        return correct, wrong

    def _update(self, rows: torch.Tensor) -> None:
        """Add to these rows of sums the members they lack, in order, and find their best other class again."""
        rows = rows[self.included[rows].argsort(stable=True)]  # rows that lack the most members first
        for part in rows.split(self.library.chunk_rows(arrays_in_cache=4)):  # sums, their copy, a member's rows twice
            included = self.included[part]
            new = int((included == 0).sum())
            total = take_rows(self.sums, part) if new < len(part) else torch.empty_like(self.sums[:new])
            total[:new] = 0
            for position in range(int(included[0]), len(self.members)):
                lacking = int((included <= position).sum())
                total[:lacking] += self.library.rows(self.members[position], part[:lacking])
            self.sums[part] = total
            total.scatter_(1, self.library.labels[part, None], -1)
            top = top_class(total)
            self.witness[part] = top
            self.upper_bound[part] = self.witness_sum[part] = total.gather(1, top[:, None])[:, 0]
        self.included[rows] = len(self.members)

    def _decide_by_bounds(
        self, models: torch.Tensor, rows: torch.Tensor, table: TopTable
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return [C, R] which pairs of candidate and open example are certainly correct, and which are undecided."""
        reached = self.label_sum[rows] + table.label[models]
        correct = reached > self.upper_bound[rows] + table.other[models]
        # No probability is negative, so a witness that is ahead stays ahead. Only pairs still in doubt are compared further.
        i, j = (~(correct | (self.witness_sum[rows] > reached))).nonzero(as_tuple=True)
        rival = table.other_class[models[i], j].long()
        rival_sum = self.sums[rows[j], rival] + table.other[models[i], j]
        doubtful = ~_beats_label(rival_sum, rival, reached[i, j], self.library.labels[rows[j]])
        undecided = torch.zeros_like(correct)
        undecided[i[doubtful], j[doubtful]] = True
        return correct, undecided

    def _undecided_by_witness(self, model: int, rows: torch.Tensor) -> torch.Tensor:
        """Return those of a candidate's undecided examples that the ensemble's own best other class does not decide."""
        witness = self.witness[rows]
        witness_sum = self.witness_sum[rows] + self.library.lower_bounds(model, rows, witness)
        reached = self.label_sum[rows] + self.table.label[model, rows]
        return rows[~_beats_label(witness_sum, witness, reached, self.library.labels[rows])]

    def _correct_weight(self, model: int, rows: torch.Tensor) -> float:
        """Return the weight of those of these examples that are correct with the candidate added, by reading its rows."""
        gained = 0.0
        for part in rows.split(self.library.chunk_rows(arrays_in_cache=4)):
            total = take_rows(self.sums, part) + self.library.rows(model, part)
            gained += float(self.weights[part[top_class(total) == self.library.labels[part]]].sum())
        return gained


class NLLEnsemble(GrowingEnsemble):
    """NLL, which needs the label's column only."""

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        return {model: -self.nll_with(model) for model in candidates}


class BrierEnsemble(GrowingEnsemble):
    """Brier score, from inner products: with S the sum of n members and x a candidate's probabilities,

        N Brier = (S.S + 2 S.x + x.x) / (n + 1)^2 - 2 (S_y + x_y) / (n + 1) + N,

    so a step needs only the [M, M] products of models over all examples and classes, which are computed once.
    """

    def __init__(self, library: ModelLibrary, table: TopTable, objective: Objective) -> None:
        self.products = _inner_products(library)
        super().__init__(library, table, objective)

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        examples, weight = len(self.library.labels), len(self.members) + 1
        with_sum = self.products[self.members].sum(0)  # S.x for every x
        square = with_sum[self.members].sum() + 2 * with_sum + self.products.diagonal()
        squared_norms = square / weight**2
        at_label = {model: float((self.label_sum + self.table.label[model]).sum()) for model in candidates}
        return {
            model: -((float(squared_norms[model]) - 2 * at_label[model] / weight) / examples + 1) for model in candidates
        }


def _inner_products(library: ModelLibrary) -> np.ndarray:
    """Return [M, M] sums over examples and classes of the products of two models' probabilities."""
    dtype = arrays.accumulation_dtype(library.device)
    products = torch.zeros((len(library), len(library)), dtype=dtype, device=library.device)
    for span in library.chunks(arrays_in_cache=max(1, len(library) // 16)):
        block = torch.stack([library.rows(model, span).flatten() for model in range(len(library))]).to(dtype)
        products += block @ block.T
    return arrays.to_numpy(products)


class CustomEnsemble(GrowingEnsemble):
    """A custom objective: the ensemble with every candidate is computed and scored."""

    def reset(self, members: Sequence[int] = ()) -> None:
        shape = (len(self.library.labels), self.library.num_classes)
        self.sum = torch.zeros(shape, dtype=arrays.accumulation_dtype(self.library.device), device=self.library.device)
        super().reset(members)

    def add(self, model: int) -> None:
        super().add(model)
        for span in self.library.chunks():
            self.sum[span] += self.library.rows(model, span)

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        all_rows = slice(0, len(self.library.labels))
        return {
            model: custom_score(
                self.objective, self.library, self.sum + self.library.rows(model, all_rows), len(self.members) + 1
            )
            for model in candidates
        }


def _beats_label(
    rival_sum: torch.Tensor, rival: torch.Tensor, label_sum: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return whether another class with this sum is predicted rather than the label; the first class wins a tie."""
    return (rival_sum > label_sum) | ((rival_sum == label_sum) & (rival < labels))
