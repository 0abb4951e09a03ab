"""The linear probe: L2-regularised multinomial logistic regression with its strength chosen on held-out rows."""

import numpy as np
import torch
from torch import Tensor

from probes._examples import Examples
from probes._inputs import ProbeClassifier, decode, encode, encode_known, like_input, linear_logits, logit_blocks
from probes._losses import Loss, Sigmoids, Softmax
from probes._regularised import STRENGTHS as STRENGTHS
from probes._regularised import RegularisedProbe, Sample
from probes._rows import Features, Rows, Values
from probes.metrics import metric, tallied, tally
from zoo.core.arrays import Array


class LinearProbe(ProbeClassifier, RegularisedProbe):
    """Linear classifier that minimises `sum of log losses + strength * ||W||^2` to its optimum; the intercept is free.

    This is the linear probe of Kornblith et al. (2021), 3.1 and A.2. Every strength is solved on the training rows, from
    strong to weak. The strength with the best score on the validation rows is refitted on all rows. Ties go to the
    lower validation log loss, then to the stronger penalty.

    Results are NumPy arrays for NumPy arrays and tensors for tensors. All work is done on the device of X, with float32
    products and float64 sums; small problems are solved in float64.

    Args:
        strengths: the regularisation strengths, on the *sum* of the losses; default: 45 from 1e-6 to 1e5. In scikit-learn's
            terms, C = 1 / (2 strength).
        validation: the fraction of each class held out to choose the strength; or a pair (X, y) to choose it on; or 0, with
            a single strength.
        metric: "accuracy" or "mean-per-class". The strength is chosen by this metric, and `score` returns it.
        tolerance: bound on (objective - optimum) / objective, guaranteed by the duality gap.
        seed: the seed of the split into training and validation rows.
        memory: gigabytes that a fit may use. Features that do not fit, together with their logits, are read again in blocks
            in every pass. That takes 1.5 times as long and gives the same result. Memory maps and columns of stored outputs
            are never copied.
        progress: whether to show a progress bar on a terminal after a few seconds.

    Attributes:
        coef_: [K, D] weights, as in scikit-learn: one row for two classes, with the loss log(1 + e^-m).
        intercept_: [K].
        classes_: [K] labels, sorted.
        strength_: the chosen strength.
        objective_: the value reached on all rows.
        gap_: upper bound on `objective_` minus the optimum.
        path_: frame with one row per strength: objective and gap on the training rows, score and log loss on the validation
            rows, and the passes over the features.

    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["low", "low", "high", "high"]
    >>> probe = LinearProbe(strengths=[0.01], validation=0).fit(X, y)
    >>> probe.predict([[0.5], [2.5]]).tolist()
    ['low', 'high']
    """

    PATH_COLUMNS = ("strength", "objective", "gap", "score", "log_loss", "products")

    def fit(self, X: Features, y: Values, sample_weight: Values | None = None) -> "LinearProbe":
        """Fit the probe.

        Args:
            X: [N, D] features.
            y: [N] labels of any type.
            sample_weight: [N] factors of the rows' losses and of their part in the validation score. Rows of a `validation`
                pair have weight 1. Rows are split, not copies: a row of weight 2 is never both in training and validation.
        """
        metric(self.metric)
        self.strength_ = float(self._fit(X, y, sample_weight)[0])
        self.objective_, self.gap_ = float(self._objectives[0]), float(self._gaps[0])
        return self

    def decision_function(self, X: Features) -> Array:
        """Return the logits [N, K]; for two classes the logit of the second, [N]."""
        logits = linear_logits(self, X)
        return like_input(logits[:, 0] if len(self.classes_) == 2 else logits, X)

    def predict_proba(self, X: Features) -> Array:
        """Return the probabilities [N, K], columns in the order of `classes_`."""
        logits = linear_logits(self, X)
        binary = len(self.classes_) == 2
        return like_input(torch.sigmoid(torch.cat([-logits, logits], 1)) if binary else logits.softmax(1), X)

    def predict(self, X: Features) -> Array:
        """Return the labels [N] with the highest logit."""
        return decode(torch.cat([_top_class(logits) for logits in logit_blocks(self, X)]), self.classes_, X)

    def _learn_classes(self, y: Values, rows: Rows) -> Tensor:
        self.classes_, labels = encode(self, y, rows)
        return labels

    def _encode_validation(self, y: Values, rows: Rows) -> Tensor:
        return encode_known(self.classes_, y, rows)

    def _strata(self, labels: Tensor) -> np.ndarray:
        return labels.cpu().numpy()

    def _loss(self, labels: Tensor, weights: Tensor | None = None) -> Loss:
        multinomial = len(self.classes_) > 2
        return Softmax(labels, len(self.classes_), weights) if multinomial else Sigmoids(labels[:, None], weights)

    def _evaluate(self, parameters: Tensor, examples: Examples, held_out: Sample) -> tuple[Tensor, Tensor]:
        correct = count = value = torch.zeros((), dtype=torch.float64)
        for span, values, loss in examples.blocks():
            logits = values @ parameters.T
            weights = None if held_out.weights is None else held_out.weights[span]
            block = tally(_top_class(logits), held_out.labels[span], weights, len(self.classes_))
            correct, count = correct.to(block[0]) + block[0], count.to(block[1]) + block[1]
            value = value.to(correct) + loss.expand(logits).value
        return torch.tensor([tallied(self.metric)(correct, count)]), value / count.sum()


def _top_class(logits: Tensor) -> Tensor:
    """Return the predicted class [N] for logits [N, K]; a single column is the logit of class 1 against class 0."""
    return logits.argmax(1) if logits.shape[1] > 1 else (logits[:, 0] > 0).long()
