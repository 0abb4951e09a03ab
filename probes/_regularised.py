"""Base of the linear and multi-label probes: regularised fits whose strength is chosen on held-out rows."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from probes._design import Design
from probes._examples import Examples
from probes._inputs import check_positive, features, is_fraction, like_input, sample_weights
from probes._logistic import Solution, path, solve
from probes._losses import Loss
from probes._rows import Features, Rows, Values, vstack
from zoo.core import arrays
from zoo.core.progress import Report, in_time
from zoo.core.splits import hold_out
from zoo.core.threads import threads_for
from zoo.errors import InputError, ZooWarning

STRENGTHS = tuple(np.logspace(-6, 5, 45).tolist())  # Kornblith et al. (2021), A.2
SMALL_PRODUCT = 2**20  # multiplications in a product up to which float64 is as fast as float32
Validation: TypeAlias = float | tuple[Features, Values]  # a fraction, or features and labels; 0 for none


@dataclass(frozen=True)
class Sample:
    """Features [N, D] with their labels, [N] or [N, K], and optional sample weights [N] in float64."""

    rows: Rows
    labels: Tensor
    weights: Tensor | None = None

    def select(self, index: np.ndarray) -> "Sample":
        positions = torch.from_numpy(index).to(self.labels.device)
        weights = None if self.weights is None else self.weights[positions]
        return Sample(self.rows.rows(index), self.labels[positions], weights)

    def append(self, other: "Sample") -> "Sample":
        """Return the rows of both samples; rows of `other` have weight 1."""
        weights = None
        if self.weights is not None:
            weights = torch.cat([self.weights, self.weights.new_ones(len(other.rows))])
        return Sample(vstack(self.rows, other.rows), torch.cat([self.labels, other.labels.to(self.labels)]), weights)


class RegularisedProbe(BaseEstimator):  # type: ignore[misc]
    """Base of the probes that solve G problems together, each at the strength with its own best validation score."""

    PATH_COLUMNS: tuple[str, ...]

    def __init__(
        self,
        strengths: Sequence[float] | None = None,
        validation: Validation = 0.2,
        metric: str = "accuracy",
        tolerance: float = 1e-5,
        seed: int = 0,
        memory: float = 2.0,
        progress: bool = True,
    ) -> None:
        self.strengths = strengths
        self.validation = validation
        self.metric = metric
        self.tolerance = tolerance
        self.seed = seed
        self.memory = memory
        self.progress = progress

    @abstractmethod
    def _learn_classes(self, y: Values, rows: Rows) -> Tensor:
        """Check the training labels, store their classes, and return them as numbers."""

    @abstractmethod
    def _encode_validation(self, y: Values, rows: Rows) -> Tensor:
        """Return the labels of a validation set as numbers; a class without training rows is an error."""

    @abstractmethod
    def _strata(self, labels: Tensor) -> np.ndarray:
        """Return the group [N] of each row; the same fraction of every group is held out."""

    @abstractmethod
    def _loss(self, labels: Tensor, weights: Tensor | None = None) -> Loss: ...

    @abstractmethod
    def _evaluate(self, parameters: Tensor, examples: Examples, held_out: Sample) -> tuple[Tensor, Tensor]:
        """Return ([G] scores, [G] mean losses) of parameters on held-out examples."""

    def _fit(self, X: Features, y: Values, sample_weight: Values | None) -> np.ndarray:
        """Choose each problem's strength, set `coef_` and `intercept_` at it, and return the strengths [G]."""
        strengths = self._check_parameters()
        sample = self._sample(X, y, sample_weight)
        with (
            in_time(type(self).__name__, len(strengths) + 1, self.progress) as report,
            threads_for(_multiplications(sample.rows, self._loss(sample.labels))),
        ):
            if isinstance(self.validation, tuple | list):
                try:
                    rows = features(self, self.validation[0])
                except InputError as error:
                    error.inside("validation")
                    raise
                held_out = Sample(rows, self._encode_validation(self.validation[1], rows).to(sample.labels.device))
                chosen, start = self._choose(sample, held_out, strengths, report)
                sample = sample.append(held_out)
            elif self.validation:
                kept, held = hold_out(self._strata(sample.labels), self.validation, self.seed)
                chosen, start = self._choose(sample.select(kept), sample.select(held), strengths, report)
            else:
                chosen, start = np.full(self._loss(sample.labels[:1]).problems, strengths[0]), None
            self.coef_, self.intercept_ = (
                like_input(part.to(sample.rows.dtype), X) for part in self._refit(sample, chosen, start, report)
            )
            report(1)
        return chosen

    def _check_parameters(self) -> list[float]:
        """Check the parameters of the estimator and return the strengths, from strong to weak, each once."""
        try:
            values = np.asarray(STRENGTHS if self.strengths is None else self.strengths, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.full(1, np.nan)
        if not values.size or not (np.isfinite(values) & (values > 0)).all():
            raise InputError(argument="strengths", expected="positive numbers", found=self.strengths)
        if isinstance(self.validation, tuple | list):
            if len(self.validation) != 2:
                found = len(self.validation)
                raise InputError(argument="validation", expected="two entries long if it is a pair (X, y)", found=found)
        elif self.validation and not is_fraction(self.validation):
            expected = "a fraction between 0 and 1, a pair (X, y), or 0"
            raise InputError(argument="validation", expected=expected, found=self.validation)
        elif not self.validation and np.unique(values).size > 1:
            problem = f"no rows are held out to choose among {np.unique(values).size} strengths"
            raise InputError(
                problem, argument="validation", hint="Pass a fraction such as {validation=0.2}, or one strength"
            )
        check_positive(self.tolerance, "tolerance")
        check_positive(self.memory, "memory")
        arrays.seed(self.seed)
        strengths: list[float] = np.unique(values)[::-1].tolist()
        return strengths

    def _sample(self, X: Features, y: Values, sample_weight: Values | None) -> Sample:
        """Return the checked training set, without rows of weight zero."""
        rows = features(self, X, fitting=True)
        weights = sample_weights(sample_weight, len(rows))
        if weights is None:
            return Sample(rows, self._learn_classes(y, rows))
        if not weights.all() and y is not None and len(y) == len(rows):  # type: ignore[arg-type]
            used = np.flatnonzero(weights)
            y = y[torch.from_numpy(used).to(y.device)] if isinstance(y, Tensor) else np.asanyarray(y)[used]
            rows, weights = rows.rows(used), weights[used]
        labels = self._learn_classes(y, rows)
        return Sample(rows, labels, torch.from_numpy(weights).to(labels.device))

    def _design(self, sample: Sample, report: Report) -> tuple[Design, Loss, bool]:
        """Return (the design matrix, the loss of its rows, whether both are held in memory)."""
        loss = self._loss(sample.labels)
        # Bytes per row in float32: the features; logits, first and second derivatives, and a change of the logits.
        row = 4 * (sample.rows.shape[1] + 1) + 16 * len(loss.priors())
        in_memory = len(sample.rows) * row <= self.memory * 1e9
        dtype = torch.float64 if _multiplications(sample.rows, loss) <= SMALL_PRODUCT else torch.float32
        if sample.weights is not None:
            loss = self._loss(sample.labels, sample.weights.to(dtype))

        def watched(block: Tensor) -> Tensor:
            report(0)  # one pass may take minutes: the progress bar appears in the middle of it
            return block

        return Design.of(sample.rows.map(watched), in_memory, dtype), loss, in_memory

    def _choose(
        self, kept: Sample, held_out: Sample, strengths: Sequence[float], report: Report
    ) -> tuple[np.ndarray, tuple[Tensor, Tensor]]:
        """Solve the path on `kept`, score it on `held_out`, and return ([G] best strengths, their coef and intercept)."""
        design, loss, in_memory = self._design(kept, report)
        values = design.transform(held_out.rows)
        weights = None if held_out.weights is None else held_out.weights.to(design.dtype)
        examples = Examples(values.tensor() if in_memory else values, self._loss(held_out.labels, weights))
        best_score, best_loss = (torch.full((loss.problems,), value, dtype=torch.float64) for value in (-math.inf, math.inf))
        chosen, parameters = np.full(loss.problems, strengths[0]), torch.zeros(())
        ridges = design.ridge(strengths)[:, None].expand(-1, loss.problems)
        table = []
        for strength, solution in zip(strengths, path(design.values, loss, ridges, self.tolerance), strict=True):
            scores, losses = (part.double().cpu() for part in self._evaluate(solution.parameters, examples, held_out))
            table.append(_record(strength, solution, scores, losses))
            scores = scores.nan_to_num(nan=-1.0)
            better = (scores > best_score) | ((scores == best_score) & (losses < best_loss))
            best_score, best_loss = torch.where(better, scores, best_score), torch.where(better, losses, best_loss)
            parameters = torch.where(better[:, None].to(solution.parameters.device), solution.parameters, parameters)
            chosen[better.numpy()] = strength
            report(1)
        self.path_ = pd.concat(table, ignore_index=True)[list(self.PATH_COLUMNS)]
        return chosen, design.from_design(parameters)

    def _refit(
        self, sample: Sample, chosen: np.ndarray, start: tuple[Tensor, Tensor] | None, report: Report
    ) -> tuple[Tensor, Tensor]:
        """Return (coef, intercept) on all rows at the chosen strengths; `start` is the path's solution there, if any."""
        design, loss, _ = self._design(sample, report)
        guess = None if start is None else design.to_design(*start)
        solution = solve(design.values, loss, design.ridge(chosen.tolist()), self.tolerance, guess)
        if start is None:
            unknown = torch.full((loss.problems,), math.nan)
            self.path_ = _record(chosen[0], solution, unknown, unknown)[list(self.PATH_COLUMNS)]
        self._objectives, self._gaps = solution.objective.cpu().numpy(), solution.gap.cpu().numpy()
        missed = np.flatnonzero(self._gaps > 10 * self.tolerance * self._objectives)
        if len(missed):
            gap, objective = self._gaps[missed[0]], self._objectives[missed[0]]
            warnings.warn(
                f"{type(self).__name__}: at strength {chosen[missed[0]]:.3g} the objective {objective:.6g} may be {gap:.2g} "
                f"above the optimum, more than the tolerance {self.tolerance:.0e}. Standardise the features if their scales "
                "differ widely.",
                ZooWarning,
                stacklevel=4,
            )
        return design.from_design(solution.parameters)


def _multiplications(rows: Rows, loss: Loss) -> int:
    """Return the multiplications in one product of all rows with the parameters."""
    return len(rows) * (rows.shape[1] + 1) * len(loss.priors())


def _record(strength: float, solution: Solution, scores: Tensor, losses: Tensor) -> pd.DataFrame:
    """Return one row per problem."""
    columns = {"objective": solution.objective, "gap": solution.gap, "score": scores, "log_loss": losses}
    values = {name: column.cpu().numpy() for name, column in columns.items()}
    return pd.DataFrame({"strength": strength, "class": np.arange(len(scores)), **values, "products": solution.products})
