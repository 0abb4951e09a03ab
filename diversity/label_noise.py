"""How likely is a label wrong? Groups of models held against the labels that people gave.

Two things are unknown: how far to believe the models, and which labels people confuse. Both are fitted to the given labels
y_i. With log p_g(k | x), G groups of models make

    p(k | x) = softmax_k( sum_g w_g log p_g(k | x) ),        w_g >= 0,                                            (pool)

in which the weights are at once the groups' merits and a temperature: two groups that say the same share one weight. With
T_kj, the chance that an example of class k is labelled j, the labels' likelihood is sum_i log sum_k p(k | x_i) T_k,y_i.

- w maximises it for an even T, so that wrong labels do not soften the pool as they soften a temperature fitted without any.
- T then maximises it for that w, by expectation maximisation on the typical half of each class, where a label that the
  models contradict is hardly their mistake. The off-diagonal rows of T have a symmetric Dirichlet prior of the strength
  that makes the counts likeliest: labels that are wrong at random get an even T, labels confused in a system that system.

Then Bayes gives

    P(label wrong | x, y) = 1 - p(y | x) T_yy / sum_k p(k | x) T_ky.                                              (wrong)

Confident learning (Northcutt et al. 2021) counts T with per-class thresholds, but ranks by p(y | x) or by a margin, the same
for every confusion.
"""

from dataclasses import dataclass

import numpy as np

from zoo.core.arrays import Array

ROUNDS = 2
STEPS = 15  # of expectation maximisation
# Before any label is seen, as if of so many examples this share were labelled wrong; and of each class as many examples at
# the share that all classes have.
FEW_WRONG = 0.05
PRIOR_EXAMPLES = 100.0
CLASS_EXAMPLES = 30.0
STRENGTHS = np.geomspace(0.3, 1000, 25)  # of the prior on which class is confused with which
EQUAL_WEIGHTS = 5.0  # how strongly groups are drawn to one weight: the data outweigh it after some tens of examples
FLOOR = 1e-6  # nobody is believed to be surer than that
MOST_WRONG = 0.5  # of the labels, beyond which it is the models that do not know the classes


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """Groups' weights [G] and T [K, K]: the chance that an example of the class of the row gets the label of the column."""

    weights: np.ndarray
    confusion: np.ndarray

    def odds(self, log_probs: Array, labels: Array) -> tuple[np.ndarray, np.ndarray]:
        """[N] the logarithm of the odds that each label is wrong, and the likeliest class beside the label.

        From logarithms of the groups' probabilities [G, N, K] and labels [N].
        """
        from scipy.special import logsumexp

        z = np.tensordot(self.weights, np.asarray(log_probs, np.float64), 1)
        y = np.asarray(labels)
        rows = np.arange(len(y))
        with np.errstate(divide="ignore"):
            joint = z + np.log(self.confusion.T[y])
        given = joint[rows, y].copy()
        joint[rows, y] = -np.inf
        return logsumexp(joint, axis=1) - given, joint.argmax(1)


def fit_label_noise(log_probs: Array, labels: Array) -> LabelNoise:
    """The weights of G groups and the confusion of labels, from log-probabilities [G, N, K] and the given labels [N].

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
    weights, share = np.full(groups, 1 / groups), FEW_WRONG

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative log-likelihood and its gradient: d/dz is p - q, with q the posterior of the true class."""
        p = softmax(np.tensordot(w, x, 1), axis=1)
        q = p * even.T[y]
        total = q.sum(1, keepdims=True)
        apart = w - w.mean()
        value = -np.log(total).sum() + EQUAL_WEIGHTS / 2 * apart @ apart
        return float(value), np.tensordot(x, p - q / total, ([1, 2], [0, 1])) + EQUAL_WEIGHTS * apart

    for _ in range(ROUNDS):
        even = _even(classes, share)
        weights = minimize(loss, weights, jac=True, method="L-BFGS-B", bounds=[(0, None)] * groups).x
        confusion = _confusion(softmax(np.tensordot(weights, x, 1), axis=1), y)
        # At least a few, or where the models are nearly perfect a handful of wrong labels would soften the pool.
        share = float(np.clip(1 - np.diag(confusion)[y].mean(), FEW_WRONG, MOST_WRONG))
    return LabelNoise(weights, confusion)


def believable_power(probs: np.ndarray, y: np.ndarray) -> float:
    """The power b, one over a temperature, that makes p^b [N, K], renormalised, likeliest, with a share of labels random."""
    from scipy.optimize import minimize
    from scipy.special import expit, softmax

    z = np.log(np.maximum(probs, FLOOR))
    rows = np.arange(len(y))

    def loss(at: np.ndarray) -> float:
        random = 0.5 * expit(at[1])
        given = softmax(np.exp(at[0]) * z, axis=1)[rows, y]
        # A log-normal prior of some examples' weight: models that are never wrong would have no finite power.
        return float(-np.log((1 - random) * given + random / z.shape[1]).sum() + at[0] ** 2)

    found = minimize(loss, [0.0, -2.0], method="Nelder-Mead", options={"xatol": 0.01, "fatol": 0.01})
    return float(np.exp(np.clip(found.x[0], -3, 3)))


def _confusion(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """T [K, K] from the pool's probabilities [N, K] and the labels, by the typical half of the examples of each class."""
    classes = p.shape[1]
    top, confidence = p.argmax(1), p.max(1)
    median = np.array([np.median(confidence[top == k]) if (top == k).any() else 1.0 for k in range(classes)])
    typical = confidence >= median[top]
    p, y = p[typical], y[typical]
    diagonal = np.eye(classes, dtype=bool)
    confusion = _even(classes, FEW_WRONG)
    for _ in range(STEPS):
        q = p * confusion.T[y]
        q /= q.sum(1, keepdims=True)
        counts = np.zeros((classes, classes))
        np.add.at(counts.T, y, q)
        wrong = np.where(diagonal, 0, counts)
        each = wrong.sum(1)
        share = (wrong.sum() + PRIOR_EXAMPLES * FEW_WRONG) / (len(y) + PRIOR_EXAMPLES)
        prior = _strength(counts[~diagonal].reshape(classes, classes - 1)) / (classes - 1)
        rate = (each + CLASS_EXAMPLES * share) / (counts.sum(1) + CLASS_EXAMPLES)
        where = (wrong + prior * ~diagonal) / (each + prior * (classes - 1))[:, None]
        confusion = np.where(diagonal, 1 - rate[:, None], rate[:, None] * where)
    return confusion


def _strength(counts: np.ndarray) -> float:
    """The symmetric Dirichlet prior, by its sum, under which rows of counts [K, K - 1] are likeliest."""
    from scipy.special import gammaln

    total, cells = counts.sum(1), counts.shape[1]
    evidence = [
        (gammaln(s) - gammaln(s + total) + (gammaln(counts + s / cells) - gammaln(s / cells)).sum(1)).sum()
        for s in STRENGTHS
    ]
    return float(STRENGTHS[int(np.argmax(evidence))])


def _even(classes: int, share: float) -> np.ndarray:
    """T of labels of which a share is wrong, any other class as likely as the next."""
    return np.where(np.eye(classes, dtype=bool), 1 - share, share / (classes - 1))
