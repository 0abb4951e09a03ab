"""Neural collapse: how close class means and classifier weights are to a simplex (Kornblith et al. 2021, Table E.2)."""

import math
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike

from diversity._activations import CHUNK, chunks, matrix, minus
from diversity.class_sums import ClassSums
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError


@dataclass(frozen=True)
class NeuralCollapse:
    """The quantities of Table E.2, in its order. All are 0 at complete collapse.

    m_c is the mean embedding of class c minus the mean of all C class means; w_c are the classifier's weights of class c.
    """

    mean_norm_variation: float  # Std(||m_c||) / Avg(||m_c||)
    weight_norm_variation: float  # Std(||w_c||) / Avg(||w_c||)
    mean_angle_std: float  # Std of sim(m_c, m_c') over pairs of classes
    weight_angle_std: float  # Std of sim(w_c, w_c')
    mean_angle_gap: float  # Avg |sim(m_c, m_c') + 1 / (C - 1)|, the distance from the widest possible angles
    weight_angle_gap: float  # Avg |sim(w_c, w_c') + 1 / (C - 1)|
    duality_gap: float  # || W / ||W||_F - M / ||M||_F ||_F^2
    variability: float  # Tr(Sigma_W Sigma_B^+) / C
    nearest_mean_disagreement: float  # fraction of examples whose nearest class mean is not the predicted class


def neural_collapse(
    x: ArrayLike | Array,
    labels: ArrayLike | Array,
    weight: ArrayLike | Array,
    bias: ArrayLike | Array | None = None,
) -> NeuralCollapse:
    """Return the neural collapse of embeddings under a linear classifier x W' + b.

    Sigma_B is the covariance of the class means, Sigma_W the covariance within classes; every class has equal weight. If
    Sigma_B = b I (which needs C > D), then Tr(Sigma_W Sigma_B^+) = Tr(Sigma_W) / b and Tr(Sigma_B) = D b. Hence
    `variability` is D / C (1 / R^2 - 1) with the Euclidean class separation R^2.

    Args:
        x: embeddings [N, D].
        labels: [N] class indices; every class needs an example.
        weight: [C, D] weights of the final layer. For a head that normalises its weights (cosine softmax), pass unit rows.
        bias: [C]; default: zeros.

    >>> import numpy as np
    >>> simplex = np.eye(4) - 1 / 4
    >>> labels = np.repeat(np.arange(4), 5)
    >>> round(neural_collapse(simplex[labels], labels, 3 * simplex).variability, 6)
    0.0
    """
    rows = matrix(x)
    w = matrix(weight, "weight").to(rows.device, arrays.accumulation_dtype(rows.device))
    classes = len(w)
    if w.shape[1] != rows.shape[1]:
        raise InputError(argument="weight", expected=f"of shape [C, {rows.shape[1]}], to fit x", found=list(w.shape))
    if classes < 2:
        raise InputError(argument="weight", expected="of at least two classes", found=classes)
    y = arrays.labels(labels, classes, len(rows)).to(rows.device)
    b = torch.zeros(classes) if bias is None else arrays.tensor(bias, "bias")
    if b.shape != (classes,):
        raise InputError(argument="bias", expected=f"of shape [{classes}]", found=list(b.shape))
    b = b.to(rows.device, w.dtype)
    if not (w.isfinite().all() and b.isfinite().all()):
        raise InputError("hold NaN or an infinity", where="weight and bias")

    sums = ClassSums()
    sums.update(rows, y)
    if len(sums.present) < classes:
        absent = (y.bincount(minlength=classes) == 0).nonzero()
        raise InputError(
            f"{len(absent)} of {classes} classes have no examples, the first is class {int(absent[0])}",
            argument="labels",
            hint="Every class of the classifier needs an example",
        )
    means = sums.means()
    centred = means - means.mean(0)
    mean_norms, weight_norms = _norms(centred, "mean", math.sqrt(sums.rounding)), _norms(w, "weight", 0.0)
    mean_angles, weight_angles = _off_diagonal_cosines(centred), _off_diagonal_cosines(w)
    widest = -1 / (classes - 1)
    return NeuralCollapse(
        mean_norm_variation=float(mean_norms.std(correction=0) / mean_norms.mean()),
        weight_norm_variation=float(weight_norms.std(correction=0) / weight_norms.mean()),
        mean_angle_std=float(mean_angles.std(correction=0)),
        weight_angle_std=float(weight_angles.std(correction=0)),
        mean_angle_gap=float((mean_angles - widest).abs().mean()),
        weight_angle_gap=float((weight_angles - widest).abs().mean()),
        duality_gap=float((w / w.norm() - centred / centred.norm()).square().sum()),
        variability=_variability(rows, y, sums.counts, means),
        nearest_mean_disagreement=_disagreement(rows, means, w, b),
    )


def _variability(x: torch.Tensor, y: torch.Tensor, counts: torch.Tensor, means: torch.Tensor) -> float:
    """Return Tr(Sigma_W Sigma_B^+) / C without building a D x D matrix.

    With the centred means M = U S V', Sigma_B = M'M / C and Sigma_B^+ = C V S^-2 V'. The trace over C is then the mean of
    ||S^-1 V' (x - m_y)||^2, first within classes, then over classes. Singular values below the input's precision are zero.
    """
    centred = means - means.mean(0)
    _, size, directions = torch.linalg.svd(centred, full_matrices=False)
    kept = size > size[0] * max(centred.shape) * torch.finfo(x.dtype).eps
    kept[len(means) - 1 :] = False  # C centred means span at most C - 1 dimensions
    whiten = (directions[kept] / size[kept, None]).T.to(x.dtype)
    class_means = means.to(x.dtype)
    trace = torch.zeros((), dtype=counts.dtype, device=x.device)
    for start, part in chunks(x):
        labels = y[start : start + len(part)]
        spread = ((part - class_means[labels]) @ whiten).square().sum(1)
        trace += (spread.to(counts.dtype) / counts[labels]).sum()
    return float(trace / len(means))


def _disagreement(x: torch.Tensor, means: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> float:
    """Return the fraction of examples whose nearest class mean is not the class of the largest logit.

    ||x - m||^2 = ||x||^2 - 2 (x m - ||m||^2 / 2), so the nearest mean has the largest linear score x m - ||m||^2 / 2. The
    overall mean is subtracted first, which changes no distance and keeps the digits of float32.
    """
    overall = means.mean(0)
    centred = (means - overall).to(x.dtype)
    offset = centred.square().sum(1) / 2
    different = 0
    for _, part in chunks(x, max(1, min(CHUNK, 2**24 // len(means)))):
        nearest = (minus(part, overall) @ centred.T - offset).argmax(1)
        predicted = (part @ weight.T.to(x.dtype) + bias.to(x.dtype)).argmax(1)
        different += int((nearest != predicted).sum())
    return different / len(x)


def _norms(rows: torch.Tensor, what: str, rounding: float) -> torch.Tensor:
    norms = rows.norm(dim=1)
    zero = norms <= rounding
    if zero.any():
        raise InputError("is zero up to rounding and has no direction", where=f"{what} of class {int(zero.nonzero()[0])}")
    return norms


def _off_diagonal_cosines(rows: torch.Tensor) -> torch.Tensor:
    unit = rows / rows.norm(dim=1, keepdim=True)
    cosines = unit @ unit.T
    return cosines[~torch.eye(len(rows), dtype=torch.bool, device=rows.device)]
