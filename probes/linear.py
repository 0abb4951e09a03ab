"""The linear probe: L2-regularised multinomial logistic regression with its strength chosen on a validation split."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor

from zoo.errors import InputError, ZooWarning

from ._design import Design
from ._inputs import among, classes, features, handed_back, linear_logits, named, paired
from ._logistic import Solution, path, solve
from ._losses import Loss, Sigmoids, Softmax
from ._splits import hold_out
from .metrics import metric

STRENGTHS = tuple(np.logspace(-6, 5, 45).tolist())  # [KA] A.2


class LinearProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Minimises `sum of log losses + strength * ||W||^2` with a free intercept, to its optimum ([K] 3.1, [KA] A.2).

    Every strength is solved on the training part, from strong to weak; the one with the best validation score is refitted
    on all rows. Of equal scores the one with the lower validation log loss wins, then the stronger.

    Parameters
    ----------
    strengths: the regularisation strengths, on the *sum* of the losses; default: 45 from 1e-6 to 1e5. In scikit-learn's
        terms, C = 1 / (2 strength).
    validation: the share of each class held out; or a pair (x, y) to validate on; or 0, with a single strength.
    metric: "accuracy" or "mean-per-class"; decides the choice, and what `score` returns.
    tolerance: bound on (objective - optimum) / objective, by duality gap.
    seed: of the split.

    Attributes
    ----------
    coef_ [K, D], intercept_ [K], classes_ [K]: as in scikit-learn; two classes have one row, and the loss is log(1 + e^-m).
    strength_: the strength chosen. objective_, gap_: at the refit, and the bound on its distance from the optimum.
    path_: a frame, one row per strength: objective and gap on the training part, validation score and log loss, and the
        number of passes over the features.

    NumPy arrays give NumPy arrays back, tensors tensors; everything runs where x is, in float32 products with float64 sums.

    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["low", "low", "high", "high"]
    >>> probe = LinearProbe(strengths=[0.01], validation=0).fit(x, y)
    >>> probe.predict([[0.5], [2.5]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        strengths: Sequence[float] | None = None,
        validation: Any = 0.2,
        metric: str = "accuracy",
        tolerance: float = 1e-5,
        seed: int = 0,
    ) -> None:
        self.strengths = strengths
        self.validation = validation
        self.metric = metric
        self.tolerance = tolerance
        self.seed = seed

    def fit(self, x: Any, y: Any) -> "LinearProbe":
        """Fit on features x [N, D] and labels y [N] of any type."""
        strengths = check_strengths(self.strengths)
        metric(self.metric)
        rows = features(self, x, fitting=True)
        self.classes_, labels = classes(self, y, rows)
        if isinstance(self.validation, tuple | list):
            held = features(self, self.validation[0]).to(rows)
            held_labels = among(self.classes_, self.validation[1], held)
            start = self._choose(rows, labels, held, held_labels, strengths)
            rows, labels = torch.cat([rows, held]), torch.cat([labels, held_labels])
        elif self.validation:
            parts = hold_out(labels.cpu().numpy(), self.validation, self.seed)
            kept, out = (torch.from_numpy(part).to(rows.device) for part in parts)
            start = self._choose(rows[kept], labels[kept], rows[out], labels[out], strengths)
        elif len(strengths) == 1:
            self.strength_, start = strengths[0], None
        else:
            raise InputError(f"validation=0 leaves nothing to choose among {len(strengths)} strengths by; give one strength")
        fitted = self._refit(rows, labels, start)
        self.coef_, self.intercept_ = (handed_back(part.to(rows.dtype), x) for part in fitted)
        return self

    def decision_function(self, x: Any) -> Any:
        """Logits [N, K]; for two classes the logit of the second, [N]."""
        logits = linear_logits(self, x)
        return handed_back(logits[:, 0] if len(self.classes_) == 2 else logits, x)

    def predict_proba(self, x: Any) -> Any:
        """[N, K], columns in the order of `classes_`."""
        logits = linear_logits(self, x)
        both = len(self.classes_) == 2
        return handed_back(torch.sigmoid(torch.cat([-logits, logits], 1)) if both else logits.softmax(1), x)

    def predict(self, x: Any) -> Any:
        """The labels [N] with the highest logit."""
        return named(_top(linear_logits(self, x)), self.classes_, x)

    def score(self, x: Any, y: Any) -> float:
        """Accuracy or mean per-class accuracy, as `metric` says; a label that training never saw counts as wrong."""
        return metric(self.metric)(*paired(self.predict(x), y))

    def _loss(self, labels: Tensor) -> Loss:
        return Softmax(labels, len(self.classes_)) if len(self.classes_) > 2 else Sigmoids(labels[:, None])

    def _choose(
        self, x: Tensor, y: Tensor, held: Tensor, held_labels: Tensor, strengths: Sequence[float]
    ) -> tuple[Tensor, Tensor]:
        """Solve the path on (x, y), set `strength_` and `path_` by the held-out rows; the chosen (coef, intercept)."""
        design = Design.of(x)
        ahead, held_loss = design.rows(held), self._loss(held_labels)
        score, table = metric(self.metric), []
        best, chosen = (-math.inf, -math.inf), torch.empty(0)
        ridges = design.ridge(strengths)[:, None]
        for strength, found in zip(strengths, path(design.values, self._loss(y), ridges, self.tolerance), strict=True):
            logits = ahead @ found.parameters.T
            value = score(_top(logits), held_labels)
            log_loss = float(held_loss.at(logits).value) / len(held)
            table.append(_record(strength, found, value, log_loss))
            if (value, -log_loss) > best:
                best, chosen, self.strength_ = (value, -log_loss), found.parameters, strength
        self.path_ = pd.DataFrame(table)
        return design.leave(chosen)

    def _refit(self, x: Tensor, y: Tensor, start: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Solve at `strength_` on all rows, from `start` where the path has been there; (coef, intercept)."""
        design = Design.of(x)
        near = None if start is None else design.enter(*start)
        found = solve(design.values, self._loss(y), design.ridge([self.strength_]), self.tolerance, near)
        if start is None:
            self.path_ = pd.DataFrame([_record(self.strength_, found, math.nan, math.nan)])
        self.objective_, self.gap_ = float(found.objective), float(found.gap)
        if self.gap_ > 10 * self.tolerance * self.objective_:
            warnings.warn(
                f"LinearProbe: at strength {self.strength_:.3g} the objective is within {self.gap_:.2g} of the optimum, not "
                f"within {self.tolerance:.0e} of itself ({self.objective_:.6g}); are the features of very different scales?",
                ZooWarning,
                stacklevel=3,
            )
        return design.leave(found.parameters)


def check_strengths(strengths: Sequence[float] | None) -> list[float]:
    """The strengths from strong to weak, each once."""
    values = np.unique(np.asarray(STRENGTHS if strengths is None else strengths, dtype=np.float64))[::-1].tolist()
    if not values or not (np.isfinite(values).all() and values[-1] > 0):
        raise InputError(f"strengths: expected positive numbers, found {strengths!r}")
    return values


def _record(strength: float, found: Solution, score: float, log_loss: float) -> dict[str, float]:
    return {
        "strength": strength,
        "objective": float(found.objective),
        "gap": float(found.gap),
        "score": score,
        "log_loss": log_loss,
        "products": found.products,
    }


def _top(logits: Tensor) -> Tensor:
    """The class [N] each row of logits [N, K] is for; a single column is the logit of class 1 against class 0."""
    return logits.argmax(1) if logits.shape[1] > 1 else (logits[:, 0] > 0).long()
