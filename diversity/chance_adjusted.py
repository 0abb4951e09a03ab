"""CAPA: agreement of two models beyond what their accuracies alone make likely (Goel et al. 2025).

observed = mean_n sum_k p_a(k|n) p_b(k|n), the probability that draws from the two models' outputs agree;
expected = q_a q_b + (1 - q_a)(1 - q_b)/(K - 1), where q is a model's mean probability of the label, and whatever is left
falls evenly on the other K - 1 classes; CAPA = (observed - expected)/(1 - expected).
Of hard predictions the probabilities are one-hot: observed is agreement, and q accuracy.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from diversity.tables import error_table, ratio
from zoo import arrays
from zoo.arrays import Array
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
    table = error_table(pred_a, pred_b, labels)
    return float(adjusted(table.agreement, table.accuracy_first, table.accuracy_second, num_classes))


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
    observed, label = agreement_sums([p.to(first.device) for p in models], y)
    observed, label = observed / len(y), label / len(y)
    return arrays.give_back(adjusted(observed, label[:, None], label[None, :], first.shape[1]), probs[0])


def agreement_sums(models: Sequence[Tensor], y: Tensor) -> tuple[Tensor, Tensor]:
    """Over examples, the sums [M, M] of sum_k p_i(k) p_j(k) and [M] of the label's probability."""
    rows, classes = models[0].shape
    wide = arrays.wide(y.device)
    observed = y.new_zeros(len(models), len(models), dtype=wide)
    label = y.new_zeros(len(models), dtype=wide)
    step = max(1, CHUNK_ELEMENTS // (classes * len(models)))
    for start in range(0, rows, step):
        block = torch.stack([p[start : start + step] for p in models])
        block = block if block.dtype == torch.float64 else block.float()
        flat = block.flatten(1)
        observed += flat @ flat.T
        truth = y[start : start + step].expand(len(models), -1)[..., None]
        label += arrays.total(block.gather(2, truth)[..., 0], 1)
    return observed, label


def adjusted(observed: Any, q_a: Any, q_b: Any, num_classes: int) -> Any:
    """CAPA from the observed agreement and the two models' accuracies (or probabilities of the label).

    Two models that are always right cannot but agree; theirs is 1, as the kappa of models without errors is.
    """
    if num_classes < 2:
        raise InputError(f"CAPA needs at least two classes, found {num_classes}")
    expected = q_a * q_b + (1 - q_a) * (1 - q_b) / (num_classes - 1)
    return 1 - ratio(1 - observed, 1 - expected, empty=0.0)
