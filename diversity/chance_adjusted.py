"""CAPA: agreement of two models beyond what their accuracies alone make likely (Goel et al. 2025).

observed = mean_n sum_k p_a(k|n) p_b(k|n), the probability that draws from the two models' outputs agree;
expected = q_a q_b + (1 - q_a)(1 - q_b)/(K - 1), where q is a model's mean probability of the label, and whatever is left
falls evenly on the other K - 1 classes; CAPA = (observed - expected)/(1 - expected).
Of hard predictions the probabilities are one-hot: observed is agreement, and q accuracy.

Models that are nearly always right and sure have both agreements within rounding of 1, so CAPA is taken from what they miss.
With d = 1 - q, and c a model's probabilities where the label's p is replaced by 1 - p, `shared` = mean_n sum_k c_a c_b:
1 - observed = d_a + d_b - shared and 1 - expected = d_a + d_b - d_a d_b K/(K - 1), so that
CAPA = (shared - d_a d_b K/(K - 1)) / (1 - expected), in which nothing is near 1 unless errors are.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from diversity.tables import ErrorTable, error_table, ratio
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

CHUNK_ELEMENTS = 2**23


def capa(probs_a: Array, probs_b: Array, labels: Array) -> float:
    """Chance-adjusted probabilistic agreement of probabilities [N, K] with labels [N].

    1 where both are sure of the same classes, 0 where they agree as models of their accuracy do by chance, negative below.

    >>> p, q = torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([[0.9, 0.1], [0.6, 0.4]])
    >>> round(capa(p, q, [0, 1]), 4)
    0.0633
    """
    matrix = capa_matrix([probs_a, probs_b], labels)
    return float(matrix[0, 1])


def capa_of_predictions(pred_a: Array, pred_b: Array, labels: Array, num_classes: int) -> float:
    """The same of predicted classes [N].

    >>> round(capa_of_predictions([0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1], 3), 4)
    0.2727
    """
    return float(adjusted(*misses_of(error_table(pred_a, pred_b, labels)), num_classes))


def capa_matrix(probs: Sequence[Array] | Array, labels: Array) -> Array:
    """[M, M] CAPA of every pair of M models' probabilities [M, N, K]; the diagonal is a model with a second draw of itself.

    >>> capa_matrix([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.6, 0.4]]], [0, 1]).round(4)
    array([[0.0196, 0.0633],
           [0.0633, 0.2747]])
    """
    models = [arrays.probabilities(p, f"probabilities of model {i}") for i, p in enumerate(probs)]
    if not models:
        raise InputError("probabilities: expected at least one model, found none")
    first = models[0]
    for i, p in enumerate(models):
        if p.shape != first.shape:
            raise InputError(f"probabilities of model {i}: expected shape {list(first.shape)}, found {list(p.shape)}")
    y = arrays.labels(labels, first.shape[1], len(first)).to(first.device)
    shared = y.new_zeros(len(models), len(models), dtype=arrays.accumulation_dtype(y.device))
    missed = y.new_zeros(len(models), dtype=shared.dtype)
    step = max(1, CHUNK_ELEMENTS // (first.shape[1] * len(models)))
    for start in range(0, len(y), step):
        rows = slice(start, start + step)
        parts = [misses(p[rows].to(first.device), y[rows]) for p in models]
        flat = torch.stack([c.flatten() for c, _ in parts])
        shared += flat @ flat.T
        missed += torch.stack([miss.sum() for _, miss in parts])
    shared, missed = shared / len(y), missed / len(y)
    return arrays.like_input(adjusted(shared, missed[:, None], missed[None, :], first.shape[1]), probs[0])


def misses(probs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """c [N, K] and 1 - p of the label [N], in the widest type."""
    p = probs.to(arrays.accumulation_dtype(probs.device))
    missed = 1 - p.gather(1, y[:, None])
    return p.scatter(1, y[:, None], missed), missed[:, 0]


def misses_of(table: ErrorTable) -> tuple[Any, Any, Any]:
    """`shared`, d_a and d_b of hard predictions: two wrong answers share the label's entry, the same ones their own too."""
    shared = (table.both_wrong + table.same_wrong) / table.examples
    return shared, table.first_wrong / table.examples, table.second_wrong / table.examples


def adjusted(shared: Any, missed_a: Any, missed_b: Any, num_classes: int) -> Any:
    """CAPA from `shared` and the two models' misses.

    Two models that are always right cannot but agree; theirs is 1, as the kappa of models without errors is.
    """
    if num_classes < 2:
        raise InputError(f"CAPA needs at least two classes, found {num_classes}")
    both = missed_a * missed_b
    # 1 - expected as a sum of terms none of which is negative
    room = missed_a * (1 - missed_b) + missed_b * (1 - missed_a) + both * ((num_classes - 2) / (num_classes - 1))
    return ratio(shared - both * (num_classes / (num_classes - 1)), room, empty=1.0)
