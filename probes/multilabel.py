"""The multi-label probe: one-vs-rest logistic regressions, all solved together, each with its own strength."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probes._examples import Examples
from probes._inputs import handed_back, linear_logits
from probes._losses import Sigmoids
from probes._regularised import RegularisedProbe, Sample
from probes._rows import Rows
from probes.ranking import auc, average_precision, mean_auc, targets, voc_map
from zoo.errors import InputError

METRICS: dict[str, tuple[Callable[..., Any], Callable[..., float]]] = {
    "map": (average_precision, voc_map),
    "auc": (auc, mean_auc),
}


class MultilabelProbe(RegularisedProbe):
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
    metric: "map", the 11-point average precision of VOC 2007, or "auc". tolerance, seed, memory,
    progress: as in `LinearProbe`.

    Attributes
    ----------
    coef_ [K, D], intercept_ [K], strengths_ [K].
    path_: a frame, one row per strength and class: objective, gap, validation score and loss.

    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 3)
    >>> probe = MultilabelProbe().fit(x, x.astype(int))
    >>> probe.predict(x[:4]).tolist(), probe.score(x, x.astype(int))
    ([[0, 0], [0, 1], [1, 0], [1, 1]], 1.0)
    """

    COLUMNS = ("strength", "class", "objective", "gap", "score", "log_loss")

    def __init__(
        self,
        strengths: Sequence[float] | None = None,
        validation: Any = 0.2,
        metric: str = "map",
        tolerance: float = 1e-5,
        seed: int = 0,
        memory: float = 2.0,
        progress: bool = True,
    ) -> None:
        super().__init__(strengths, validation, metric, tolerance, seed, memory, progress)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.two_d_labels = tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def fit(self, x: Any, y: Any, sample_weight: Any = None) -> "MultilabelProbe":
        """Fit on features x [N, D] and labels y [N, K] of 0 and 1, or -1 for what is ignored.

        A row's losses are multiplied by its weight [N]; in the ranking of held-out rows, all that have one count alike.
        """
        self._metric()
        self.strengths_ = self._fit(x, y, sample_weight)
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

    def _learn(self, y: Any, rows: Rows) -> Tensor:
        if y is None:
            raise InputError("MultilabelProbe requires y to be passed, but the target y is None")
        if len(rows) == 1:
            raise InputError("x: n_samples = 1, expected rows with and rows without each class")
        labels = self._targets(y, rows, "y", None)
        self._classes = labels.shape[1]
        positive, known = (labels == 1).sum(0), (labels >= 0).sum(0)
        one_sided = (positive == 0) | (positive == known)
        if one_sided.any():
            which = int(one_sided.nonzero()[0])
            where = "absent from" if positive[which] == 0 else "in"
            raise InputError(f"y: class {which} is {where} every row; leave it out")
        return labels

    def _known(self, y: Any, rows: Rows) -> Tensor:
        return self._targets(y, rows, "validation labels", self._classes)

    def _targets(self, y: Any, rows: Rows, name: str, classes: int | None) -> Tensor:
        labels = targets(y, name).to(rows.device)
        if len(labels) != len(rows) or (classes is not None and labels.shape[1] != classes):
            width = labels.shape[1] if classes is None else classes
            raise InputError(f"{name}: expected shape [{len(rows)}, {width}], found {list(labels.shape)}")
        return labels

    def _strata(self, labels: Tensor) -> np.ndarray:
        return strata(labels)

    def _loss(self, labels: Tensor, weights: Tensor | None = None) -> Sigmoids:
        return Sigmoids(labels, weights)

    def _judge(self, parameters: Tensor, examples: Examples, held: Sample) -> tuple[Tensor, Tensor]:
        logits = torch.cat([values @ parameters.T for _, values, _ in examples.pieces()])
        counts = self._loss(held.labels, held.weights).weights.sum(0)
        losses = examples.loss.at(logits).value / torch.where(counts > 0, counts, 1)
        return self._metric()[0](logits, held.labels), losses


def strata(labels: Tensor) -> np.ndarray:
    """[N] each row's rarest class, or K where it has none: holding out by it keeps rare classes on both sides."""
    present = labels == 1
    rarity = torch.where(present, present.sum(0), len(labels) + 1)
    return torch.where(present.any(1), rarity.argmin(1), labels.shape[1]).cpu().numpy()
