"""The linear probe: L2-regularised multinomial logistic regression with its strength chosen on a validation split."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from torch import Tensor

from probes._examples import Examples
from probes._inputs import among, classes, handed_back, linear_logits, logit_blocks, named, paired, weights
from probes._losses import Loss, Sigmoids, Softmax
from probes._regularised import STRENGTHS as STRENGTHS
from probes._regularised import RegularisedProbe, Sample
from probes._rows import Rows
from probes.metrics import metric, tallied, tally


class LinearProbe(ClassifierMixin, RegularisedProbe):  # type: ignore[misc]
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
    memory: gigabytes that a fit may hold. Features that do not fit, with their logits, are read anew in blocks at every
        pass, in half as much time again, with the same result: a memory map, or a column of stored outputs, is never copied.
    progress: whether to show a bar on a terminal once a fit has taken a few seconds.

    Attributes
    ----------
    coef_ [K, D], intercept_ [K], classes_ [K]: as in scikit-learn; two classes have one row, and the loss is log(1 + e^-m).
    strength_: the strength chosen. objective_, gap_: at the refit, and the bound on its distance from the optimum.
    path_: a frame, one row per strength: objective and gap on the training part, validation score and log loss, and the
        number of passes over the features.

    NumPy arrays give NumPy arrays back, tensors tensors; everything runs where x is, in float32 products with float64 sums,
    small problems in float64.

    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["low", "low", "high", "high"]
    >>> probe = LinearProbe(strengths=[0.01], validation=0).fit(x, y)
    >>> probe.predict([[0.5], [2.5]]).tolist()
    ['low', 'high']
    """

    COLUMNS = ("strength", "objective", "gap", "score", "log_loss", "products")

    def __init__(
        self,
        strengths: Sequence[float] | None = None,
        validation: Any = 0.2,
        metric: str = "accuracy",
        tolerance: float = 1e-5,
        seed: int = 0,
        memory: float = 2.0,
        progress: bool = True,
    ) -> None:
        super().__init__(strengths, validation, metric, tolerance, seed, memory, progress)

    def fit(self, x: Any, y: Any, sample_weight: Any = None) -> "LinearProbe":
        """Fit on features x [N, D] and labels y [N] of any type.

        A row's loss is multiplied by its weight [N], and so is its share of the validation score; validation rows given as
        a pair count once. The split is of rows: one that counts twice is never on both sides, as its copies may be.
        """
        metric(self.metric)
        self.strength_ = float(self._fit(x, y, sample_weight)[0])
        self.objective_, self.gap_ = (float(part[0]) for part in self._solution)
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
        return named(torch.cat([_top(logits) for logits in logit_blocks(self, x)]), self.classes_, x)

    def score(self, x: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy or mean per-class accuracy, as `metric` says; a label that training never saw counts as wrong."""
        predicted, labels = paired(self.predict(x), y)
        return metric(self.metric)(predicted, labels, weights(sample_weight, len(labels)))

    def _learn(self, y: Any, rows: Rows) -> Tensor:
        self.classes_, labels = classes(self, y, rows)
        return labels

    def _known(self, y: Any, rows: Rows) -> Tensor:
        return among(self.classes_, y, rows)

    def _strata(self, labels: Tensor) -> np.ndarray:
        return labels.cpu().numpy()

    def _loss(self, labels: Tensor, weights: Tensor | None = None) -> Loss:
        several = len(self.classes_) > 2
        return Softmax(labels, len(self.classes_), weights) if several else Sigmoids(labels[:, None], weights)

    def _judge(self, parameters: Tensor, examples: Examples, held: Sample) -> tuple[Tensor, Tensor]:
        right = count = value = torch.zeros((), dtype=torch.float64)
        for span, values, loss in examples.pieces():
            logits = values @ parameters.T
            each = None if held.weights is None else held.weights[span]
            found = tally(_top(logits), held.labels[span], each, len(self.classes_))
            right, count = right.to(found[0]) + found[0], count.to(found[1]) + found[1]
            value = value.to(right) + loss.at(logits).value
        return torch.tensor([tallied(self.metric)(right, count)]), value / count.sum()


def _top(logits: Tensor) -> Tensor:
    """The class [N] each row of logits [N, K] is for; a single column is the logit of class 1 against class 0."""
    return logits.argmax(1) if logits.shape[1] > 1 else (logits[:, 0] > 0).long()
