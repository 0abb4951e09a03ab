"""The multi-label probe: one-vs-rest logistic regressions, all solved together, each with its own strength."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from zoo.errors import InputError

from ._design import Design
from ._inputs import features, handed_back, linear_logits
from ._logistic import path, solve
from ._losses import Sigmoids
from ._splits import hold_out
from .linear import check_strengths
from .ranking import auc, average_precision, mean_auc, targets, voc_map

METRICS: dict[str, tuple[Callable[..., Any], Callable[..., float]]] = {
    "map": (average_precision, voc_map),
    "auc": (auc, mean_auc),
}


class MultilabelProbe(BaseEstimator):  # type: ignore[misc]
    """For each class, minimises `sum of log losses + strength * ||w||^2` with a free intercept ([G] 4.7, [KA] D.3).

    The classes share the features and nothing else: their problems are solved side by side, in products as wide as there
    are classes, and each class takes the strength with its own best validation score (of equal scores, the one with the
    lower validation loss, then the stronger). A target of -1 (VOC's difficult objects) is ignored: that example has no part
    in that class's loss, its choice of strength, or its score.

    In scikit-learn it clones, searches and stands in pipelines like any estimator. It is not one of its classifiers: `y` is
    [N, K] of 0, 1 and -1, which no other target can stand for, so `check_estimator` needs targets of that kind.

    Parameters
    ----------
    strengths: as in `LinearProbe`. validation: the share of rows held out, or a pair (x, y).
    metric: "map", the 11-point average precision of VOC 2007, or "auc". tolerance, seed: as in `LinearProbe`.

    Attributes
    ----------
    coef_ [K, D], intercept_ [K], strengths_ [K].
    path_: a frame, one row per strength and class: objective, gap, validation score and loss.

    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 3)
    >>> probe = MultilabelProbe().fit(x, x.astype(int))
    >>> probe.predict(x[:4]).tolist(), probe.score(x, x.astype(int))
    ([[0, 0], [0, 1], [1, 0], [1, 1]], 1.0)
    """

    def __init__(
        self,
        strengths: Sequence[float] | None = None,
        validation: Any = 0.2,
        metric: str = "map",
        tolerance: float = 1e-5,
        seed: int = 0,
    ) -> None:
        self.strengths = strengths
        self.validation = validation
        self.metric = metric
        self.tolerance = tolerance
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.two_d_labels = tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def fit(self, x: Any, y: Any) -> "MultilabelProbe":
        """Fit on features x [N, D] and labels y [N, K] of 0 and 1, or -1 for what is ignored."""
        if y is None:
            raise InputError("MultilabelProbe requires y to be passed, but the target y is None")
        strengths = check_strengths(self.strengths)
        self._metric()
        rows = features(self, x, fitting=True)
        if len(rows) == 1:
            raise InputError("x: n_samples = 1, expected rows with and rows without each class")
        labels = self._targets(y, rows, "y")
        if isinstance(self.validation, tuple | list):
            held = features(self, self.validation[0]).to(rows)
            held_labels = self._targets(self.validation[1], held, "validation labels", labels.shape[1])
            start = self._choose(rows, labels, held, held_labels, strengths)
            rows, labels = torch.cat([rows, held]), torch.cat([labels, held_labels])
        elif self.validation:
            parts = hold_out(strata(labels), self.validation, self.seed)
            kept, out = (torch.from_numpy(part).to(rows.device) for part in parts)
            start = self._choose(rows[kept], labels[kept], rows[out], labels[out], strengths)
        elif len(strengths) == 1:
            self.strengths_, start, self.path_ = np.full(labels.shape[1], strengths[0]), None, pd.DataFrame()
        else:
            raise InputError(f"validation=0 leaves nothing to choose among {len(strengths)} strengths by; give one strength")
        design = Design.of(rows)
        near = None if start is None else design.enter(*start)
        found = solve(design.values, Sigmoids(labels), design.ridge(self.strengths_.tolist()), self.tolerance, near)
        self.coef_, self.intercept_ = (handed_back(part.to(rows.dtype), x) for part in design.leave(found.parameters))
        return self

    def decision_function(self, x: Any) -> Any:
        """Logits [N, K]."""
        return handed_back(linear_logits(self, x), x)

    def predict_proba(self, x: Any) -> Any:
        """[N, K] the probability that each class is present."""
        return handed_back(torch.sigmoid(linear_logits(self, x)), x)

    def predict(self, x: Any) -> Any:
        """[N, K] of 0 and 1."""
        return handed_back((linear_logits(self, x) > 0).long(), x)

    def score(self, x: Any, y: Any) -> float:
        """Mean average precision or mean AUC, as `metric` says; a label of -1 is ignored."""
        return self._metric()[1](linear_logits(self, x), targets(y, "y"))

    def _metric(self) -> tuple[Callable[..., Any], Callable[..., float]]:
        if self.metric not in METRICS:
            raise InputError(f"metric: expected one of {', '.join(METRICS)}, found {self.metric!r}")
        return METRICS[self.metric]

    def _targets(self, y: Any, x: Tensor, name: str, classes: int | None = None) -> Tensor:
        labels = targets(y, name).to(x.device)
        if len(labels) != len(x) or (classes is not None and labels.shape[1] != classes):
            width = labels.shape[1] if classes is None else classes
            raise InputError(f"{name}: expected shape [{len(x)}, {width}], found {list(labels.shape)}")
        positive, known = (labels == 1).sum(0), (labels >= 0).sum(0)
        one_sided = (positive == 0) | (positive == known)
        if classes is None and one_sided.any():
            which = int(one_sided.nonzero()[0])
            raise InputError(
                f"{name}: class {which} is {'absent from' if positive[which] == 0 else 'in'} every row; leave it out"
            )
        return labels

    def _choose(
        self, x: Tensor, y: Tensor, held: Tensor, held_labels: Tensor, strengths: Sequence[float]
    ) -> tuple[Tensor, Tensor]:
        """Solve the path on (x, y), set `strengths_` and `path_` by the held-out rows; the chosen (coef, intercept)."""
        design = Design.of(x)
        ahead, held_loss = design.rows(held), Sigmoids(held_labels)
        ridges = design.ridge(strengths)[:, None].expand(-1, y.shape[1])
        best: list[tuple[float, float]] = [(-math.inf, -math.inf)] * y.shape[1]
        chosen = torch.zeros(y.shape[1], design.values.shape[1], device=x.device)
        self.strengths_ = np.full(y.shape[1], strengths[0])
        tables = []
        for strength, found in zip(strengths, path(design.values, Sigmoids(y), ridges, self.tolerance), strict=True):
            logits = ahead @ found.parameters.T
            scores = self._metric()[0](logits, held_labels)
            losses = held_loss.at(logits).value / (held_labels >= 0).sum(0).clamp(min=1)
            tables.append(_records(strength, found.objective, found.gap, scores, losses))
            for k, key in enumerate(zip(scores.nan_to_num(nan=-1.0).tolist(), (-losses).tolist(), strict=True)):
                if key > best[k]:
                    best[k], chosen[k], self.strengths_[k] = key, found.parameters[k], strength
        self.path_ = pd.concat(tables, ignore_index=True)
        return design.leave(chosen)


def strata(labels: Tensor) -> np.ndarray:
    """[N] each row's rarest class, or K where it has none: holding out by it keeps rare classes on both sides."""
    present = labels == 1
    rarity = torch.where(present, present.sum(0), len(labels) + 1)
    return torch.where(present.any(1), rarity.argmin(1), labels.shape[1]).cpu().numpy()


def _records(strength: float, *columns: Tensor) -> pd.DataFrame:
    names = ("objective", "gap", "score", "log_loss")
    values = {name: column.cpu().numpy() for name, column in zip(names, columns, strict=True)}
    return pd.DataFrame({"strength": strength, "class": np.arange(len(columns[0])), **values})
