"""Exact accuracy of every candidate, nearly without reading their rows: bound, prune, and look at what is left.

Notation for one example: y its label; S the ensemble's sums [K]; x a candidate's probabilities [K]. With the candidate
added the example is right when S_y + x_y beats S_k + x_k for every other class k (on a tie the first class wins).
Kept of x are x_y and the greatest other entry x_o with its class o. Hence, for U >= S_k for all k other than y,

    surely right:  S_y + x_y > U + x_o
    surely wrong:  S_y + x_y < S_k + x_k  for some one k: o, or the witness w, the ensemble's own best other class.

Both hold in floating point too, because rounding is monotone: a <= b and c <= d give fl(a + c) <= fl(b + d).
What is neither is undecided, about one pair in a hundred. Candidates are taken by falling upper bound and their undecided
examples decided by reading those rows, until the bound falls below the best exact score.

Most examples are settled without looking at any candidate: the ensemble leads, or trails, by more than any of them can
change. Their sums are not even formed; a row of S is brought up to date only when its example is open again.
"""

import math
from collections.abc import Sequence

import torch

from ensembles.compact import Table
from ensembles.library import Library
from ensembles.running import TIE, RunningEnsemble
from ensembles.scores import Objective, top_class

# Numbers in a block of candidates by open examples, so that a thousand models do not need a thousand times the memory.
BLOCK_ELEMENTS = 2**22


class RightCount(RunningEnsemble):
    """Accuracy or balanced accuracy of a growing ensemble."""

    def __init__(self, library: Library, table: Table, objective: Objective) -> None:
        # The least lead and the greatest label probability that any model brings to an example.
        self.least_lead = (table.label - table.other).amin(0)
        self.greatest_label = table.label.amax(0)
        super().__init__(library, table, objective)

    def reset(self) -> None:
        super().reset()
        examples = len(self.library.labels)
        self.ceiling = torch.zeros_like(self.label_sum)  # U: no other class's sum is above it
        self.witness = torch.zeros(examples, dtype=torch.long, device=self.library.device)  # w
        self.witness_sum = torch.zeros_like(self.label_sum)  # not above the witness's sum
        # Not zeros: memory that is never written is never taken from the system, and few rows ever open.
        self.sums = torch.empty((examples, self.library.num_classes), dtype=self.label_sum.dtype, device=self.library.device)
        self.included = torch.zeros(examples, dtype=torch.long, device=self.library.device)  # members in a row of sums

    def add(self, model: int) -> None:
        super().add(model)
        self.ceiling += self.table.other[model]
        rows = torch.arange(len(self.witness), device=self.library.device)
        known = self.included > 0  # the others have no witness yet
        rows = rows[known]
        of_model = torch.full_like(rows, model)
        self.witness_sum[known] += self.library.at_least(of_model, rows, self.witness[known])

    def scores(self, candidates: Sequence[int], every: bool = False, at_least: float = -math.inf) -> dict[int, float]:
        if not self.members:
            return self._alone(candidates)
        rows, settled = self._open_rows()
        models = torch.tensor(candidates, device=self.library.device)
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
        limits = ((upper + settled) / whole).tolist()
        for i in sorted(range(len(candidates)), key=lambda i: -limits[i]):
            if not every and limits[i] < best - TIE:
                break
            gained = self._decide(candidates[i], rows[undecided[i]])
            exact[candidates[i]] = (settled + float(lower[i]) + gained) / whole
            best = max(best, exact[candidates[i]])
        return exact

    def _alone(self, candidates: Sequence[int]) -> dict[int, float]:
        """The scores of single models, which the table gives."""
        right = self.table.right(self.library.labels)[list(candidates)].to(self.weights.dtype)
        return dict(zip(candidates, (right @ self.weights / self.weights.sum()).tolist(), strict=True))

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
        for part in rows.split(self.library.stretch()):
            included = self.included[part]
            total = self.sums[part]
            total[: int((included == 0).sum())] = 0
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
        wrong = self.witness_sum[rows] > reached
        i, j = (~(right | wrong)).nonzero(as_tuple=True)  # every further look is at the pairs still in doubt
        for rival in (self._best_of_candidate, self._best_of_ensemble):
            rival_class, least = rival(models[i], j, rows, table)
            target, labels = reached[i, j], self.library.labels[rows[j]]
            in_doubt = ~((least > target) | ((least == target) & (rival_class < labels)))
            i, j = i[in_doubt], j[in_doubt]
        undecided = torch.zeros_like(right)
        undecided[i, j] = True
        return right, undecided

    def _best_of_candidate(
        self, models: torch.Tensor, columns: torch.Tensor, rows: torch.Tensor, table: Table
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """For pairs of a candidate and a column of `rows`: the candidate's best other class, and its sum."""
        other, other_class = table.other[models, columns], table.other_class[models, columns].long()
        return other_class, self.sums[rows[columns], other_class] + other

    def _best_of_ensemble(
        self, models: torch.Tensor, columns: torch.Tensor, rows: torch.Tensor, table: Table
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same for the ensemble's best other class; the sum may be a lower bound."""
        at = rows[columns]
        return self.witness[at], self.witness_sum[at] + self.library.at_least(models, at, self.witness[at])

    def _decide(self, model: int, rows: torch.Tensor) -> float:
        """The weight of those of these examples that are right with the candidate added, by reading its rows."""
        gained = 0.0
        for part in rows.split(self.library.stretch()):
            total = self.sums[part] + self.library.read(model, part)
            gained += float(self.weights[part[top_class(total) == self.library.labels[part]]].sum())
        return gained
