"""What the linear and the multi-label probe share: regularised fits whose strength a held-out part of the rows decides."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from probes._design import Design, Stream
from probes._examples import Examples
from probes._inputs import features, handed_back, weights
from probes._logistic import Solution, path, solve
from probes._losses import Loss
from probes._rows import Rows, below
from zoo.core.progress import Report, in_time
from zoo.core.splits import hold_out
from zoo.core.threads import threads_for
from zoo.errors import InputError, ZooWarning

STRENGTHS = tuple(np.logspace(-6, 5, 45).tolist())  # [KA] A.2
SMALL = 2**20  # multiplications in a product up to which float64 costs nothing to speak of


@dataclass(frozen=True)
class Sample:
    """Rows [N, D] with their labels, [N] or [N, K], and weights [N] float64 where rows do not count alike."""

    rows: Rows
    labels: Tensor
    weights: Tensor | None = None

    def part(self, index: np.ndarray) -> "Sample":
        at = torch.from_numpy(index).to(self.labels.device)
        return Sample(self.rows.rows(index), self.labels[at], None if self.weights is None else self.weights[at])

    def with_below(self, other: "Sample") -> "Sample":
        """All rows of both; those of the other count once."""
        counts = None
        if self.weights is not None:
            counts = torch.cat([self.weights, self.weights.new_ones(len(other.rows))])
        return Sample(below(self.rows, other.rows), torch.cat([self.labels, other.labels.to(self.labels)]), counts)


class RegularisedProbe(BaseEstimator):  # type: ignore[misc]
    """G problems solved side by side, of which each takes the strength with its own best validation score."""

    COLUMNS: tuple[str, ...]  # of `path_`

    def __init__(
        self,
        strengths: Sequence[float] | None,
        validation: Any,
        metric: str,
        tolerance: float,
        seed: int,
        memory: float,
        progress: bool,
    ) -> None:
        self.strengths = strengths
        self.validation = validation
        self.metric = metric
        self.tolerance = tolerance
        self.seed = seed
        self.memory = memory
        self.progress = progress

    @abstractmethod
    def _learn(self, y: Any, rows: Rows) -> Tensor:
        """Check the labels to fit on, and remember what they tell of the classes; as numbers."""

    @abstractmethod
    def _known(self, y: Any, rows: Rows) -> Tensor:
        """The labels of a validation set, as numbers; what was not learnt is an error."""

    @abstractmethod
    def _strata(self, labels: Tensor) -> np.ndarray:
        """[N] the groups of which the same share is held out."""

    @abstractmethod
    def _loss(self, labels: Tensor, weights: Tensor | None = None) -> Loss: ...

    @abstractmethod
    def _judge(self, parameters: Tensor, examples: Examples, held: Sample) -> tuple[Tensor, Tensor]:
        """([G] scores, [G] mean losses) of parameters on held-out examples."""

    def _fit(self, x: Any, y: Any, sample_weight: Any) -> np.ndarray:
        """Choose each problem's strength, [G], and set `coef_` and `intercept_` at it."""
        strengths = check_strengths(self.strengths)
        if not self.memory > 0:
            raise InputError(f"memory: expected gigabytes above 0, found {self.memory!r}")
        sample = self._sample(x, y, sample_weight)
        with (
            in_time(type(self).__name__, len(strengths) + 1, self.progress) as report,
            threads_for(_multiplications(sample.rows, self._loss(sample.labels))),
        ):
            if isinstance(self.validation, tuple | list):
                rows = features(self, self.validation[0])
                held = Sample(rows, self._known(self.validation[1], rows).to(sample.labels.device))
                chosen, start = self._choose(sample, held, strengths, report)
                sample = sample.with_below(held)
            elif self.validation:
                kept, out = hold_out(self._strata(sample.labels), self.validation, self.seed)
                chosen, start = self._choose(sample.part(kept), sample.part(out), strengths, report)
            elif len(strengths) == 1:
                chosen, start = np.full(self._loss(sample.labels[:1]).problems, strengths[0]), None
            else:
                number = len(strengths)
                raise InputError(f"validation=0 leaves nothing to choose among {number} strengths by; give one strength")
            self.coef_, self.intercept_ = (
                handed_back(part.to(sample.rows.dtype), x) for part in self._refit(sample, chosen, start, report)
            )
            report(1)
        return chosen

    def _sample(self, x: Any, y: Any, sample_weight: Any) -> Sample:
        """Everything checked; a row of weight zero is as good as not there."""
        rows = features(self, x, fitting=True)
        counts = weights(sample_weight, len(rows))
        if counts is None:
            return Sample(rows, self._learn(y, rows))
        if not counts.all() and y is not None and len(y) == len(rows):
            there = np.flatnonzero(counts)
            y = y[torch.from_numpy(there).to(y.device)] if isinstance(y, Tensor) else np.asarray(y)[there]
            rows, counts = rows.rows(there), counts[there]
        labels = self._learn(y, rows)
        return Sample(rows, labels, torch.from_numpy(counts).to(labels.device))

    def _design(self, sample: Sample, report: Report) -> tuple[Design, Loss, bool]:
        """The rows as the solver sees them, their loss, and whether all of it is held in memory."""
        loss = self._loss(sample.labels)
        # Bytes in float32: the features, and of their outcomes logits, first and second derivatives, and a change of them.
        row = 4 * (sample.rows.shape[1] + 1) + 16 * len(loss.priors())
        held = len(sample.rows) * row <= self.memory * 1e9
        dtype = torch.float64 if _multiplications(sample.rows, loss) <= SMALL else torch.float32
        if sample.weights is not None:
            loss = self._loss(sample.labels, sample.weights.to(dtype))
        design = Design.of(sample.rows, held, dtype)
        if isinstance(design.values, Stream):
            design.values.tick = lambda: report(0)
        return design, loss, held

    def _choose(
        self, seen: Sample, held: Sample, strengths: Sequence[float], report: Report
    ) -> tuple[np.ndarray, tuple[Tensor, Tensor]]:
        """Solve the path on what is seen and judge it by what is held out: ([G] strengths, their coef and intercept)."""
        design, loss, in_memory = self._design(seen, report)
        ahead = design.rows(held.rows) if in_memory else Stream(held.rows, design)
        examples = Examples(ahead, self._loss(held.labels, None if held.weights is None else held.weights.to(design.dtype)))
        best, least = (torch.full((loss.problems,), value, dtype=torch.float64) for value in (-math.inf, math.inf))
        chosen, parameters = np.full(loss.problems, strengths[0]), torch.zeros(())
        ridges = design.ridge(strengths)[:, None].expand(-1, loss.problems)
        table = []
        for strength, found in zip(strengths, path(design.values, loss, ridges, self.tolerance), strict=True):
            scores, losses = (part.double().cpu() for part in self._judge(found.parameters, examples, held))
            table.append(_record(strength, found, scores, losses))
            scores = scores.nan_to_num(nan=-1.0)
            better = (scores > best) | ((scores == best) & (losses < least))
            best, least = torch.where(better, scores, best), torch.where(better, losses, least)
            parameters = torch.where(better[:, None].to(found.parameters.device), found.parameters, parameters)
            chosen[better.numpy()] = strength
            report(1)
        self.path_ = pd.concat(table, ignore_index=True)[list(self.COLUMNS)]
        return chosen, design.leave(parameters)

    def _refit(
        self, sample: Sample, chosen: np.ndarray, start: tuple[Tensor, Tensor] | None, report: Report
    ) -> tuple[Tensor, Tensor]:
        """Solve at the strengths chosen on all rows, from `start` where the path has been there; (coef, intercept)."""
        design, loss, _ = self._design(sample, report)
        near = None if start is None else design.enter(*start)
        found = solve(design.values, loss, design.ridge(chosen.tolist()), self.tolerance, near)
        if start is None:
            unknown = torch.full((loss.problems,), math.nan)
            self.path_ = _record(chosen[0], found, unknown, unknown)[list(self.COLUMNS)]
        self._solution = found.objective.cpu().numpy(), found.gap.cpu().numpy()
        missed = np.flatnonzero(self._solution[1] > 10 * self.tolerance * self._solution[0])
        if len(missed):
            value, gap = (part[missed[0]] for part in self._solution)
            where = f"{type(self).__name__}: at strength {chosen[missed[0]]:.3g}"
            warnings.warn(
                f"{where} the objective is within {gap:.2g} of the optimum, "
                f"not within {self.tolerance:.0e} of itself ({value:.6g}); are the features of very different scales?",
                ZooWarning,
                stacklevel=4,
            )
        return design.leave(found.parameters)


def _multiplications(rows: Rows, loss: Loss) -> int:
    """In one product of all rows with the parameters."""
    return len(rows) * (rows.shape[1] + 1) * len(loss.priors())


def check_strengths(strengths: Sequence[float] | None) -> list[float]:
    """The strengths from strong to weak, each once."""
    values = np.unique(np.asarray(STRENGTHS if strengths is None else strengths, dtype=np.float64))[::-1].tolist()
    if not values or not (np.isfinite(values).all() and values[-1] > 0):
        raise InputError(f"strengths: expected positive numbers, found {strengths!r}")
    return values


def _record(strength: float, found: Solution, scores: Tensor, losses: Tensor) -> pd.DataFrame:
    """One row per problem."""
    columns = {"objective": found.objective, "gap": found.gap, "score": scores, "log_loss": losses}
    values = {name: column.cpu().numpy() for name, column in columns.items()}
    return pd.DataFrame({"strength": strength, "class": np.arange(len(scores)), **values, "products": found.products})
