"""CAPA, chance-adjusted probabilistic agreement: agreement beyond what the accuracies alone imply (Goel et al. 2025).

observed = mean_n sum_k p_a(k|n) p_b(k|n), the probability that classes drawn from both models' outputs agree;
expected = q_a q_b + (1 - q_a)(1 - q_b)/(K - 1), where q is a model's mean probability of the label and the remaining
probability is spread evenly over the other K - 1 classes; CAPA = (observed - expected)/(1 - expected).
For hard predictions the probabilities are one-hot: observed is agreement, and q is accuracy.

For accurate and confident models both agreements round to 1, so CAPA is computed from their distances to 1.
Let d = 1 - q, let c be a model's probabilities with the label's p replaced by 1 - p, and `shared` = mean_n sum_k c_a c_b.
Then 1 - observed = d_a + d_b - shared and 1 - expected = d_a + d_b - d_a d_b K/(K - 1), so that
CAPA = (shared - d_a d_b K/(K - 1)) / (1 - expected), in which no term is near 1 unless an error rate is.
"""

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from diversity.tables import ErrorTable, ratio
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import backend, pick, replaced, to_accumulation_dtype
from zoo.errors import InputError

CHUNK_VALUES = 2**23


def capa(probs_a: ArrayLike | Array, probs_b: ArrayLike | Array, labels: ArrayLike | Array) -> float:
    """Return the chance-adjusted probabilistic agreement of two models.

    It is 1 if both put probability 1 on the same classes, 0 if they agree as often as independent models of their accuracy
    would, and negative if they agree less often.

    Args:
        probs_a: [N, K] probabilities of the first model.
        probs_b: [N, K] probabilities of the second model.
        labels: [N] true classes.

    >>> p, q = [[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.6, 0.4]]
    >>> round(capa(p, q, [0, 1]), 4)
    0.0633
    """
    return float(capa_matrix([probs_a, probs_b], labels)[0, 1])


def capa_matrix(probs: Sequence[ArrayLike | Array] | Array, labels: ArrayLike | Array) -> Array:
    """Return the CAPA [M, M] of every pair of M models.

    The diagonal compares a model with a second draw from its own probabilities.

    Args:
        probs: [M, N, K] probabilities, or a sequence of M arrays [N, K].
        labels: [N] true classes.

    >>> capa_matrix([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.6, 0.4]]], [0, 1]).round(4)
    array([[0.0196, 0.0633],
           [0.0633, 0.2747]])
    """
    models = [checks.probabilities(p, f"probs[{i}]") for i, p in enumerate(probs)]
    if not models:
        raise InputError(argument="probs", expected="probabilities of at least one model", found=0)
    first = models[0]
    for i, p in enumerate(models):
        if p.shape != first.shape:
            expected = f"of the shape of the first model's, {list(first.shape)}"
            raise InputError(argument=f"probs[{i}]", expected=expected, found=list(p.shape))
    models = [arrays.by_size(p, len(models) * math.prod(first.shape)) for p in models]
    y = arrays.like(checks.labels(labels, first.shape[1], len(first)), models[0])
    xp = backend(y)
    shared: Any = 0.0
    missed: Any = 0.0
    step = max(1, CHUNK_VALUES // (first.shape[1] * len(models)))
    for start in range(0, len(y), step):
        rows = slice(start, start + step)
        parts = [misses(arrays.like(p[rows], y), y[rows]) for p in models]
        flat = xp.stack([c.reshape(-1) for c, _ in parts])
        shared = shared + flat @ flat.T / len(y)
        missed = missed + xp.stack([miss.sum() for _, miss in parts]) / len(y)
    return arrays.like_input(adjusted(shared, missed[:, None], missed[None, :], first.shape[1]), probs[0])


def misses(probs: Any, y: Any) -> tuple[Any, Any]:
    """Return c [N, K] and 1 - p of the label [N], in float64."""
    p = to_accumulation_dtype(probs)
    missed = 1 - pick(p, y)
    return replaced(p, y, missed), missed


def misses_of(table: ErrorTable) -> tuple[Any, Any, Any]:
    """Return `shared`, d_a and d_b of hard predictions.

    Two wrong predictions share the label's entry of c; equal ones also share the entry of the predicted class.
    """
    shared = (table.both_wrong + table.same_wrong) / table.examples
    return shared, table.first_wrong / table.examples, table.second_wrong / table.examples


def adjusted(shared: Any, missed_a: Any, missed_b: Any, num_classes: int) -> Any:
    """Return CAPA from `shared`, d_a and d_b. For two models that are always correct it is 1, as kappa is."""
    if num_classes < 2:
        raise InputError(argument="num_classes", expected="at least 2 for CAPA", found=num_classes)
    both = missed_a * missed_b
    # 1 - expected, as a sum of terms of at least 0.
    beyond_chance = missed_a * (1 - missed_b) + missed_b * (1 - missed_a) + both * ((num_classes - 2) / (num_classes - 1))
    return ratio(shared - both * (num_classes / (num_classes - 1)), beyond_chance, empty=1.0)
