"""The probability that a label is wrong, from the probabilities of groups of models.

Two things are unknown and are fitted to the given labels y_i: how far to trust each group of models, and which classes the
annotators confuse. G groups of models with probabilities p_g(k | x) are pooled to

    p(k | x) = softmax_k( sum_g w_g log p_g(k | x) ),        w_g >= 0.                                            (pool)

The weights rate the groups and act as a temperature; two groups with the same probabilities share one weight. T_kj is the
probability that an example of class k is labelled j. The log-likelihood of the labels is sum_i log sum_k p(k | x_i) T_k,y_i.

- w maximises it for a uniform T (all confusions equally likely). Wrong labels then do not flatten the pool, as they would
  flatten a temperature that is fitted without T.
- T then maximises it for that w, by expectation maximisation on the more confident half of each class. There, a label that
  the models contradict is more likely a wrong label than a mistake of the models. The off-diagonal part of each row of T has
  a symmetric Dirichlet prior, whose strength maximises the likelihood of the counts: random label errors lead to a uniform
  T, systematic ones to the classes that are confused.

Bayes' rule gives

    P(label wrong | x, y) = 1 - p(y | x) T_yy / sum_k p(k | x) T_ky.                                              (wrong)

The equations take a confident mistake for a wrong label, and a wrong label of a hard example for a mistake. So the
probabilities are calibrated for labels that are wrong at random, and too low where people err because the example is hard.
They rank examples; their sum does not count the wrong labels (`diversity.label_checks` does).

Confident learning (Northcutt et al. 2021) estimates T with per-class thresholds, but ranks by p(y | x) or by a margin, which
ignores T.
"""

from dataclasses import dataclass

import numpy as np

from zoo.core.arrays import Array

ROUNDS = 2
STEPS = 15  # of expectation maximisation
# Prior of the error rate: PRIOR_EXAMPLES pseudo-examples, a fraction PRIOR_ERROR_RATE of which has wrong labels. Each
# class's rate is shrunk towards the overall rate by CLASS_EXAMPLES pseudo-examples.
PRIOR_ERROR_RATE = 0.05
PRIOR_EXAMPLES = 100.0
CLASS_EXAMPLES = 30.0
STRENGTHS = np.geomspace(0.3, 1000, 25)  # of the Dirichlet prior on which classes are confused
EQUAL_WEIGHTS = 5.0  # penalty on unequal weights of groups; some tens of examples outweigh it
MIN_PROBABILITY = 1e-6
MAX_ERROR_RATE = 0.5  # above this, the models do not know the classes


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """Fitted weights of the groups and confusion of the labels."""

    weights: np.ndarray  # [G]
    confusion: np.ndarray  # [K, K], T: probability that an example of the row's class has the column's label

    def odds(self, log_probs: Array, labels: Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds [N] that each label is wrong, and the most likely other class [N].

        Args:
            log_probs: [G, N, K] log-probabilities of the groups.
            labels: [N] given labels.
        """
        from scipy.special import logsumexp

        z = np.tensordot(self.weights, np.asarray(log_probs, np.float64), 1)
        y = np.asarray(labels)
        rows = np.arange(len(y))
        with np.errstate(divide="ignore"):
            joint = z + np.log(self.confusion.T[y])
        of_label = joint[rows, y].copy()
        joint[rows, y] = -np.inf
        return logsumexp(joint, axis=1) - of_label, joint.argmax(1)


def fit_label_noise(log_probs: Array, labels: Array) -> LabelNoise:
    """Fit the weights of G groups and the confusion of labels.

    Args:
        log_probs: [G, N, K] log-probabilities of the groups.
        labels: [N] given labels.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 3000)
    >>> z = np.log(np.full((1, 3000, 3), 0.01) + 0.97 * np.eye(3)[y])
    >>> given = np.where((y == 0) & (rng.random(3000) < 0.2), 1, y)
    >>> fit_label_noise(z, given).confusion.round(1).tolist()
    [[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    from scipy.optimize import minimize
    from scipy.special import softmax

    x, y = np.asarray(log_probs, np.float64), np.asarray(labels)
    groups, _, classes = x.shape
    weights, rate = np.full(groups, 1 / groups), PRIOR_ERROR_RATE

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the negative log-likelihood and its gradient. With the posterior q, the derivative in z is p - q."""
        p = softmax(np.tensordot(w, x, 1), axis=1)
        q = p * uniform.T[y]
        total = q.sum(1, keepdims=True)
        deviation = w - w.mean()
        value = -np.log(total).sum() + EQUAL_WEIGHTS / 2 * deviation @ deviation
        return float(value), np.tensordot(x, p - q / total, ([1, 2], [0, 1])) + EQUAL_WEIGHTS * deviation

    for _ in range(ROUNDS):
        uniform = _uniform_confusion(classes, rate)
        weights = minimize(loss, weights, jac=True, method="L-BFGS-B", bounds=[(0, None)] * groups).x
        confusion = _fit_confusion(softmax(np.tensordot(weights, x, 1), axis=1), y)
        # Not below the prior rate: with nearly perfect models, a handful of wrong labels would flatten the pool.
        rate = float(np.clip(1 - np.diag(confusion)[y].mean(), PRIOR_ERROR_RATE, MAX_ERROR_RATE))
    return LabelNoise(weights, confusion)


def fit_inverse_temperature(probs: np.ndarray, y: np.ndarray) -> float:
    """Return the inverse temperature b that maximises the likelihood of labels, some of which are random.

    Args:
        probs: [N, K] probabilities; p^b is renormalised.
        y: [N] given labels. A fitted fraction of them is uniformly random.
    """
    from scipy.optimize import minimize
    from scipy.special import expit, softmax

    z = np.log(np.maximum(probs, MIN_PROBABILITY))
    rows = np.arange(len(y))

    def loss(parameters: np.ndarray) -> float:
        log_b, log_odds = parameters
        random = 0.5 * expit(log_odds)
        of_label = softmax(np.exp(log_b) * z, axis=1)[rows, y]
        # A log-normal prior with the weight of a few examples keeps b finite for models without errors.
        return float(-np.log((1 - random) * of_label + random / z.shape[1]).sum() + log_b**2)

    found = minimize(loss, [0.0, -2.0], method="Nelder-Mead", options={"xatol": 0.01, "fatol": 0.01})
    return float(np.exp(np.clip(found.x[0], -3, 3)))


def _fit_confusion(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit T [K, K] to the pool's probabilities [N, K] and the labels [N], on the more confident half of each class."""
    classes = p.shape[1]
    top, confidence = p.argmax(1), p.max(1)
    median = np.array([np.median(confidence[top == k]) if (top == k).any() else 1.0 for k in range(classes)])
    confident = confidence >= median[top]
    p, y = p[confident], y[confident]
    diagonal = np.eye(classes, dtype=bool)
    confusion = _uniform_confusion(classes, PRIOR_ERROR_RATE)
    for _ in range(STEPS):
        q = p * confusion.T[y]
        q /= q.sum(1, keepdims=True)
        counts = np.zeros((classes, classes))
        np.add.at(counts.T, y, q)
        wrong = np.where(diagonal, 0, counts)
        wrong_by_class = wrong.sum(1)
        overall_rate = (wrong.sum() + PRIOR_EXAMPLES * PRIOR_ERROR_RATE) / (len(y) + PRIOR_EXAMPLES)
        prior = _prior_strength(counts[~diagonal].reshape(classes, classes - 1)) / (classes - 1)
        rate = (wrong_by_class + CLASS_EXAMPLES * overall_rate) / (counts.sum(1) + CLASS_EXAMPLES)
        confused_with = (wrong + prior * ~diagonal) / (wrong_by_class + prior * (classes - 1))[:, None]
        confusion = np.where(diagonal, 1 - rate[:, None], rate[:, None] * confused_with)
    return confusion


def _prior_strength(counts: np.ndarray) -> float:
    """Return the sum of the symmetric Dirichlet prior that maximises the likelihood of rows of counts [K, K - 1]."""
    from scipy.special import gammaln

    total, cells = counts.sum(1), counts.shape[1]
    evidence = [
        (gammaln(s) - gammaln(s + total) + (gammaln(counts + s / cells) - gammaln(s / cells)).sum(1)).sum()
        for s in STRENGTHS
    ]
    return float(STRENGTHS[int(np.argmax(evidence))])


def _uniform_confusion(classes: int, rate: float) -> np.ndarray:
    """Return T for a fraction `rate` of wrong labels, with all other classes equally likely."""
    return np.where(np.eye(classes, dtype=bool), 1 - rate, rate / (classes - 1))
