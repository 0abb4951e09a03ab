"""The multi-label probe: one-vs-rest logistic regressions, solved together, each with its own strength."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probes._examples import Examples
from probes._inputs import like_input, linear_logits
from probes._losses import Sigmoids
from probes._regularised import RegularisedProbe, Sample, Validation
from probes._rows import Features, Rows, Values
from probes.metrics import auc, average_precision, mean_auc, targets, voc_map
from zoo.core.arrays import Array
from zoo.errors import InputError

METRICS: dict[str, tuple[Callable[..., Any], Callable[..., float]]] = {  # scores by class, and their mean
    "map": (average_precision, voc_map),
    "auc": (auc, mean_auc),
}


class MultilabelProbe(RegularisedProbe):
    """Linear classifiers, one per class, that each minimise `sum of log losses + strength * ||w||^2` with a free intercept.

    This is the multi-label probe of Gontijo-Lopes et al. (2022), 4.7, and Kornblith et al. (2021), D.3. The classes share
    only the features. Their problems are solved together, and each class takes the strength with its own best validation
    score. Ties go to the lower validation loss, then to the stronger penalty. A target of -1 (an object marked
    difficult in VOC) is ignored: that example has no part in the loss, the choice of strength or the score of that class.

    The probe can be cloned, tuned and placed in pipelines like any scikit-learn estimator. It is not a scikit-learn
    classifier: `y` is [N, K] of 0, 1 and -1, so `check_estimator` needs targets of that form.

    Args:
        strengths: as in `LinearProbe`.
        validation: the fraction of rows held out, or a pair (X, y), or 0 with a single strength.
        metric: "map", the 11-point average precision of VOC 2007, or "auc". Strengths are chosen by this
            metric, and `score` returns its mean over classes.
        tolerance, seed, memory, progress: as in `LinearProbe`.

    Attributes:
        coef_: [K, D] weights.
        intercept_: [K].
        strengths_: [K], the chosen strength of each class.
        path_: frame with one row per strength and class: objective, gap, validation score and loss.

    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 3)
    >>> probe = MultilabelProbe().fit(X, X.astype(int))
    >>> probe.predict(X[:4]).tolist(), probe.score(X, X.astype(int))
    ([[0, 0], [0, 1], [1, 0], [1, 1]], 1.0)
    """

    PATH_COLUMNS = ("strength", "class", "objective", "gap", "score", "log_loss")

    def __init__(
        self,
        strengths: Sequence[float] | None = None,
        validation: Validation = 0.2,
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

    def fit(self, X: Features, y: Values, sample_weight: Values | None = None) -> "MultilabelProbe":
        """Fit the probe.

        Args:
            X: [N, D] features.
            y: [N, K] of 1 (present), 0 (absent) and -1 (ignored).
            sample_weight: [N] factors of the rows' losses. In the validation score, all rows of positive weight count alike.
        """
        self._metric()
        self.strengths_ = self._fit(X, y, sample_weight)
        return self

    def decision_function(self, X: Features) -> Array:
        """Return the logits [N, K]."""
        return like_input(linear_logits(self, X), X)

    def predict_proba(self, X: Features) -> Array:
        """Return the probability that each class is present, [N, K]."""
        return like_input(torch.sigmoid(linear_logits(self, X)), X)

    def predict(self, X: Features) -> Array:
        """Return whether each class is present, [N, K] of 0 and 1."""
        return like_input((linear_logits(self, X) > 0).long(), X)

    def score(self, X: Features, y: Values) -> float:
        """Return the mean average precision or the mean AUC (`metric`) against y [N, K] of 0, 1 and -1 (ignored)."""
        return self._metric()[1](linear_logits(self, X), targets(y, "y"))

    def _metric(self) -> tuple[Callable[..., Any], Callable[..., float]]:
        if self.metric not in METRICS:
            raise InputError(argument="metric", expected=f"one of {', '.join(METRICS)}", found=self.metric)
        return METRICS[self.metric]

    def _learn_classes(self, y: Values, rows: Rows) -> Tensor:
        if y is None:
            raise InputError("MultilabelProbe requires y to be passed, but the target y is None", argument="y")
        if len(rows) == 1:
            raise InputError("has one sample, and the probe needs rows with and rows without each class", argument="X")
        labels = self._targets(y, rows, "y", None)
        self._num_classes = labels.shape[1]
        positive, known = (labels == 1).sum(0), (labels >= 0).sum(0)
        one_sided = (positive == 0) | (positive == known)
        if one_sided.any():
            which = int(one_sided.nonzero()[0])
            rows_with = "no row" if positive[which] == 0 else "every row"
            raise InputError(f"class {which} is present in {rows_with}", argument="y", hint="Leave the class out")
        return labels

    def _encode_validation(self, y: Values, rows: Rows) -> Tensor:
        return self._targets(y, rows, "validation", self._num_classes)

    def _targets(self, y: Values, rows: Rows, argument: str, num_classes: int | None) -> Tensor:
        labels = targets(y, argument).to(rows.device)
        width = labels.shape[1] if num_classes is None else num_classes
        if tuple(labels.shape) != (len(rows), width):
            raise InputError(argument=argument, expected=f"of shape [{len(rows)}, {width}]", found=list(labels.shape))
        return labels

    def _strata(self, labels: Tensor) -> np.ndarray:
        return strata(labels)

    def _loss(self, labels: Tensor, weights: Tensor | None = None) -> Sigmoids:
        return Sigmoids(labels, weights)

    def _evaluate(self, parameters: Tensor, examples: Examples, held_out: Sample) -> tuple[Tensor, Tensor]:
        logits = torch.cat([values @ parameters.T for _, values, _ in examples.blocks()])
        counts = self._loss(held_out.labels, held_out.weights).weights.sum(0)
        losses = examples.loss.expand(logits).value / torch.where(counts > 0, counts, 1)
        return self._metric()[0](logits, held_out.labels), losses


def strata(labels: Tensor) -> np.ndarray:
    """Return each row's rarest class [N], or K if it has none, for targets [N, K].

    Holding out a fraction of every stratum keeps rare classes on both sides.
    """
    present = labels == 1
    rarity = torch.where(present, present.sum(0), len(labels) + 1)
    return torch.where(present.any(1), rarity.argmin(1), labels.shape[1]).cpu().numpy()
