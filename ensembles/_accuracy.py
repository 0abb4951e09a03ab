"""Exact accuracy of every candidate, nearly without reading their rows: bound, prune, and look at what is left.

Notation for one example: y its label; S the ensemble's sums [K]; x a candidate's probabilities [K]. With the candidate
added the example is right when S_y + x_y beats S_k + x_k for every other class k (on a tie the first class wins).
Kept of x are x_y and the greatest other entry x_o with its class o. Hence, for U >= S_k for all k other than y,

    surely right:  S_y + x_y > U + x_o
    surely wrong:  S_y + x_y < S_k + x_k  for some one k: o, or the witness w, the ensemble's own best other class.

Both hold in floating point too, because rounding is monotone: a <= b and c <= d give fl(a + c) <= fl(b + d).
What is neither is undecided, about one pair in a hundred. Candidates are taken by falling upper bound and their undecided
examples decided, by x_w first and by the whole row at last, until the bound falls below the best exact score.

Most examples are settled without looking at any candidate: the ensemble leads, or trails, by more than any of them can
change. Their sums are not even formed; a row of S is brought up to date only when its example is open again.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from ensembles._ensemble import TIE, GrowingEnsemble, Table
from ensembles._library import Library, take_rows
from ensembles._scores import Objective, top_class
from zoo._numbers import arrays

# Numbers in a block of candidates by open examples, so that a thousand models do not need a thousand times the memory.
BLOCK_ELEMENTS = 2**22


class RightCount(GrowingEnsemble):
    """Accuracy or balanced accuracy of a growing ensemble."""

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
        limits = arrays.host((upper + settled) / whole)
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
        scores = arrays.host(right @ self.weights / self.weights.sum())
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


def _ahead(rival_sum: torch.Tensor, rival: torch.Tensor, reached: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Whether another class with this sum is predicted rather than the label with the sum `reached`."""
    return (rival_sum > reached) | ((rival_sum == reached) & (rival < labels))
