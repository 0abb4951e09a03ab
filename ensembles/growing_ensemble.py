"""Exact scores of an ensemble with each candidate added, one growing ensemble per kind of objective."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ensembles.model_library import ModelLibrary, fast_view
from ensembles.scores import Objective, custom_score, mean_nll
from zoo.core import arrays
from zoo.core.backend import backend

# Scores closer than this are equal: above the rounding error of any of the sums, below one example in 10^9.
TIE = 1e-10
# Number of other classes, those with the largest sums, that are kept for an open example.
WITNESSES = 3
# Numbers in a block of candidates x open examples; bounds the memory for a thousand candidates.
BLOCK_ELEMENTS = 2**22


@dataclass(frozen=True, eq=False)
class TopTable:
    """What is kept of M models on N examples, [M, N] each: 12 M N bytes in float32 instead of 4 M N K."""

    label: torch.Tensor  # probability of the label
    other: torch.Tensor  # highest probability among the other classes; -1 if there is only one class
    other_class: torch.Tensor  # the first class that has it, int32

    def correct(self, labels: torch.Tensor) -> torch.Tensor:
        """Return whether each model alone is correct [M, N]; ties go to the first class."""
        return (self.label > self.other) | ((self.label == self.other) & (labels < self.other_class))


def tabulate(library: ModelLibrary, advance: Callable[[], None] = lambda: None) -> TopTable:
    """Return the table of a library, in one pass that also checks every row. `advance` is called after each model."""
    shape = (len(library), len(library.labels))
    label = torch.empty(shape, dtype=library.dtype, device=library.device)
    table = TopTable(label, torch.empty_like(label), torch.empty(shape, dtype=torch.int32, device=library.device))
    row_sums, length = torch.empty_like(label[0]), min(library.chunk_rows(), shape[1])
    chunk = torch.empty((length, library.num_classes), dtype=library.dtype, device=library.device)
    starts = torch.arange(length, device=library.device) * library.num_classes  # of the rows in a chunk's memory
    copy, first, truth, sums, *columns = map(
        fast_view, (chunk, starts, library.labels, row_sums, table.label, table.other, table.other_class)
    )
    ones = fast_view(torch.ones_like(chunk[0]))
    for model in range(len(library)):
        minimum = 0.0
        of_label, of_other, other_class = (column[model] for column in columns)
        for span in library.chunks():
            rows = library.rows(model, span)  # torch widens half precision many times as fast as NumPy
            p, begin = copy[: len(rows)], first[: len(rows)]
            p[...] = fast_view(rows)
            flat, at = p.reshape(-1), begin + truth[span]
            minimum = min(minimum, float(flat.min()))
            sums[span] = p @ ones  # NaN if any entry is NaN
            of_label[span] = flat[at]
            flat[at] = -1
            other_class[span] = top = p.argmax(1)
            of_other[span] = flat[begin + top]
        library.check(model, row_sums, minimum)
        advance()
    return table


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
        """Add a member. The same model may be added again."""
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
    tie). For x, only x_y and the largest other entry x_o with its class o are kept. For S, only the witnesses w_1, w_2, ...
    are kept: the other classes with the largest sums, in descending order. Hence the example is

        certainly wrong:    S_y + x_y < S_k + x_k  for one k: o or a witness, whose entry of x is looked up
        certainly correct:  S_y + x_y > S_k + x_k  for the first t witnesses, and > S_w + x_o for w the next one.

    Both hold in floating point too, because rounding is monotone: a <= b and c <= d give fl(a + c) <= fl(b + d).
    The pairs of candidate and example that stay undecided bound each candidate's score. Candidates are tried in order of
    decreasing upper bound, by reading the rows of their undecided examples, until the bound is below the best exact score.

    Most examples are settled without looking at any candidate: the ensemble leads, or trails, by more than any candidate
    can change. Their sums are not computed; a row of S is updated only when its example is open again.
    """

    def __init__(self, library: ModelLibrary, table: TopTable, objective: Objective) -> None:
        self.label, self.other, self.other_class = map(fast_view, (table.label, table.other, table.other_class))
        self.truth, self.example_weights = map(fast_view, (library.labels, objective.weights(library.labels)))
        starts = torch.arange(min(library.chunk_rows(), len(library.labels)), device=library.device) * library.num_classes
        self.starts = fast_view(starts)  # of the rows in a chunk's memory
        super().__init__(library, table, objective)
        # The smallest lead and the largest label probability that any model adds to an example, in the sums' precision.
        min_lead = torch.full_like(self.label_sum, math.inf)
        for label, other in zip(table.label, table.other, strict=True):
            torch.minimum(min_lead, label.to(self.label_sum.dtype) - other, out=min_lead)
        self.min_lead, self.max_label = fast_view(min_lead), fast_view(table.label.amax(0))

    def reset(self, members: Sequence[int] = ()) -> None:
        def array(
            *shape: int, dtype: torch.dtype = self.weights.dtype, new: Callable[..., torch.Tensor] = torch.zeros
        ) -> Any:
            return fast_view(new(shape, dtype=dtype, device=self.library.device))

        examples = len(self.library.labels)
        self.upper_bound = array(examples)  # of S_k for all k other than y
        self.lower_bound = array(examples)  # of S_w for the first witness
        # Not zeros: pages that are never written are never allocated, and few rows ever open.
        self.sums = array(examples, self.library.num_classes, new=torch.empty)
        self.included = array(examples, dtype=torch.long)  # how many members a row of sums includes
        # The witnesses of a row of sums, and their sums. The sum of one class more bounds all the rest.
        self.witness = array(WITNESSES + 1, examples, dtype=torch.long)
        self.witness_sum = array(WITNESSES + 1, examples)
        super().reset(members)

    def add(self, model: int) -> None:
        super().add(model)
        self.upper_bound += self.other[model]
        # Elsewhere the witness is behind the label, and its bound, which stays valid, would settle nothing.
        trailing = _true((self.included > 0) & (self.lower_bound > fast_view(self.label_sum)))
        entries = self.library.entries(model, trailing, self.witness[0][trailing])
        if entries is not None:
            self.lower_bound[trailing] += entries

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        if not self.members:
            return self._single_scores(candidates)
        rows, settled = self._open_rows()
        lower, upper, undecided = self._bounds(candidates, rows)
        total_weight = float(self.weights.sum())
        best = at_least
        exact: dict[int, float] = {}
        for i in sorted(range(len(candidates)), key=lambda i: -upper[i]):
            if not every and (settled + upper[i]) / total_weight < best - TIE:
                break
            correct = settled + lower[i] + self._correct_weight(candidates[i], undecided[i])
            exact[candidates[i]] = correct / total_weight
            best = max(best, exact[candidates[i]])
        return exact

    def _single_scores(self, candidates: Sequence[int]) -> dict[int, float]:
        correct = self.table.correct(self.library.labels).to(self.weights.dtype)
        scores = arrays.to_numpy(correct @ self.weights / self.weights.sum())
        return {model: float(scores[model]) for model in candidates}

    def _open_rows(self) -> tuple[Any, float]:
        """Return the examples that some candidate could change, with updated sums, and the weight settled as correct."""
        correct, wrong = self._settled(slice(None))
        weight = float((self.example_weights * correct).sum())
        rows = _true(~(correct | wrong))
        self._update(rows[self.included[rows] < len(self.members)])
        correct, wrong = self._settled(rows)
        return rows[_true(~(correct | wrong))], weight + float((self.example_weights[rows] * correct).sum())

    def _settled(self, rows: Any) -> tuple[Any, Any]:
        """Return which of these examples are correct, and which are wrong, whichever candidate is added."""
        # The differences below are rounded. A margin of a few units in the last place of the largest sum covers that.
        margin = 8 * torch.finfo(self.label_sum.dtype).eps * (len(self.members) + 1)
        label_sum = fast_view(self.label_sum)[rows]
        correct = label_sum - self.upper_bound[rows] > margin - self.min_lead[rows]
        wrong = self.lower_bound[rows] - label_sum > margin + self.max_label[rows]
        return correct, wrong

    def _update(self, rows: Any) -> None:
        """Add to these rows of sums the members they lack, in order, and find their witnesses again."""
        rows = rows[fast_view(torch.as_tensor(self.included[rows]).argsort(stable=True))]  # fewest members first
        for start in range(0, len(rows), step := self.library.chunk_rows()):
            part = rows[start : start + step]
            included = self.included[part]
            total = self.sums[part]
            total[included == 0] = 0
            for position in range(int(included[0]), len(self.members)):
                lacking = int((included <= position).sum())
                total[:lacking] += fast_view(self.library.rows(self.members[position], torch.as_tensor(part[:lacking])))
            self.sums[part] = total
            flat, begin, top = total.reshape(-1), self.starts[: len(part)], self.truth[part]
            for witness, witness_sum in zip(self.witness, self.witness_sum, strict=True):
                flat[begin + top] = -1
                witness[part] = top = total.argmax(1)
                witness_sum[part] = flat[begin + top]
        self.upper_bound[rows] = self.lower_bound[rows] = self.witness_sum[0][rows]
        self.included[rows] = len(self.members)

    def _bounds(self, candidates: Sequence[int], rows: Any) -> tuple[list[float], list[float], list[Any]]:
        """Return bounds [C] of the weight of the open examples that are correct, and each candidate's undecided examples."""
        lower, upper, undecided = list[float](), list[float](), list[Any]()
        block = max(1, BLOCK_ELEMENTS // max(1, len(rows)))
        label_sum, highest = fast_view(self.label_sum)[rows], self.witness_sum[0][rows]
        for start in range(0, len(candidates), block):
            part = candidates[start : start + block]
            models = fast_view(torch.tensor(part).to(self.library.device))
            reached = label_sum + self.label[models[:, None], rows]
            other = self.other[models[:, None], rows]
            correct = reached > highest + other
            weight = (self.example_weights[rows] * correct).sum(1)
            # No probability is negative, so a witness that is ahead stays ahead. Only pairs in doubt are compared further.
            at = _true(~(correct | (highest > reached)).reshape(-1))
            candidate = at // max(1, len(rows))
            row = rows[at - candidate * len(rows)]
            pairs = _Pairs(candidate, row, self.truth[row], reached.reshape(-1)[at], other.reshape(-1)[at])
            rival = self.other_class[models[candidate], row]
            pairs = pairs.select(~pairs.beaten_by(rival, self.sums[row, rival] + pairs.other))
            for witness, witness_sum, next_sum in zip(self.witness, self.witness_sum, self.witness_sum[1:], strict=False):
                each = pairs.by_candidate(len(part))
                entries = [self.library.entries(model, at, witness[at]) for model, at in zip(part, each, strict=True)]
                if entries[0] is None:
                    break
                row = pairs.row
                beaten = pairs.beaten_by(witness[row], witness_sum[row] + backend(row).concatenate(entries))
                correct = ~beaten & (pairs.reached > next_sum[row] + pairs.other)
                weight += pairs.sums(self.example_weights[row] * correct, len(part))
                pairs = pairs.select(~(beaten | correct))
            lower += arrays.to_numpy(weight).tolist()
            open_weight = pairs.sums(self.example_weights[pairs.row], len(part))
            upper += arrays.to_numpy(weight + open_weight).tolist()
            undecided += pairs.by_candidate(len(part))
        return lower, upper, undecided

    def _correct_weight(self, model: int, rows: Any) -> float:
        """Return the weight of the examples `rows` that are correct with a model added, by reading the model's rows."""
        gained = 0.0
        for start in range(0, len(rows), step := self.library.chunk_rows()):
            part = rows[start : start + step]
            total = self.sums[part]
            total += fast_view(self.library.rows(model, torch.as_tensor(part)))
            gained += float((self.example_weights[part] * (total.argmax(1) == self.truth[part])).sum())
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
    """Return the products [M, M] of two models' probabilities, summed over examples and classes."""
    dtype = arrays.accumulation_dtype(library.device)
    products = torch.zeros((len(library), len(library)), dtype=dtype, device=library.device)
    for span in library.chunks():
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


def _true(mask: Any) -> Any:
    """Return the positions at which a mask [n] is true."""
    return backend(mask).argwhere(mask)[:, 0]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """P pairs of a candidate and an example, in the order of the candidates; all of them a `fast_view` [P]."""

    candidate: Any  # its position
    row: Any  # the example
    truth: Any  # y
    reached: Any  # S_y + x_y
    other: Any  # x_o

    def select(self, mask: Any) -> "_Pairs":
        """Return some of the pairs."""
        kept = _true(mask)
        return _Pairs(*(each[kept] for each in (self.candidate, self.row, self.truth, self.reached, self.other)))

    def beaten_by(self, rival: Any, rival_sum: Any) -> Any:
        """Return where another class with this sum is predicted rather than the label; the first class wins a tie."""
        return (rival_sum > self.reached) | ((rival_sum == self.reached) & (rival < self.truth))

    def sums(self, weights: Any, candidates: int) -> Any:
        """Return the sum [C] of the weights [P] of each candidate's pairs."""
        return backend(weights).bincount(self.candidate, weights, candidates)

    def by_candidate(self, candidates: int) -> list[Any]:
        """Return, for each candidate, the rows of the examples that it is paired with."""
        ends = np.cumsum(arrays.to_numpy(backend(self.candidate).bincount(self.candidate, None, candidates)))
        return [self.row[start:end] for start, end in zip([0, *ends], ends, strict=False)]
