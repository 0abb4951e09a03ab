"""Out-of-distribution detection from stored outputs: scores of single examples, and how well they separate two datasets.

Every score is larger for examples that look like the data the model knows. Detection is evaluated with in-distribution
examples as the class to be kept: AUROC, AUPR with the out-of-distribution examples as positives, and FPR@95, the fraction of
out-of-distribution examples accepted by the threshold that accepts 95% of the in-distribution ones.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

_CHUNK = 2**24  # distances computed at a time


def energy_score(logits: Array, temperature: float = 1.0) -> np.ndarray:
    """Return T log sum_k exp(z_k / T) of logits [N, K], the negative energy (Liu et al. 2020)."""
    z = arrays.logits(logits)
    z = z if z.dtype == torch.float64 else z.float()
    return arrays.to_numpy(temperature * torch.logsumexp(z / temperature, 1))


def knn_score(embeddings: Array, known: Array, k: int = 50) -> np.ndarray:
    """Return minus the distance to the k-th nearest known example, after normalisation to unit length (Sun et al. 2022).

    Args:
        embeddings: [N, D] of the examples to be scored.
        known: [M, D] of in-distribution examples, usually training images; none of them is among the scored ones.
        k: number of the neighbour, from 1.
    """
    x, reference = _unit(embeddings, "embeddings"), _unit(known, "known")
    if x.shape[1] != reference.shape[1]:
        raise InputError(argument="embeddings", expected=f"{reference.shape[1]} dimensions as known has", found=x.shape[1])
    if not 1 <= k <= len(reference):
        raise InputError(argument="k", expected=f"from 1 to the {len(reference)} known examples", found=k)
    reference = reference.to(x)
    parts = []
    for rows in x.split(max(1, _CHUNK // len(reference))):
        similarity = (rows @ reference.T).kthvalue(len(reference) - k + 1, dim=1).values
        parts.append(-(2 - 2 * similarity).clamp(min=0).sqrt())
    return arrays.to_numpy(torch.cat(parts))


@dataclass(frozen=True)
class ClassGaussians:
    """One Gaussian per class with a shared covariance, fitted to in-distribution embeddings (Lee et al. 2018)."""

    means: np.ndarray  # [K, D]
    whitening: np.ndarray  # [D, D]; squared length after it is the Mahalanobis distance

    @classmethod
    def fit(cls, embeddings: Array, labels: Array) -> "ClassGaussians":
        """Fit class means and the shared covariance of embeddings [N, D] with labels [N].

        Directions with hardly any variance are left out (relative eigenvalue below 1e-10).
        """
        x = arrays.to_numpy(arrays.matrix(embeddings, "embeddings")).astype(np.float64)
        y = arrays.to_numpy(arrays.labels(labels, rows=len(x)))
        classes = np.unique(y)
        means = np.stack([x[y == k].mean(0) for k in classes])
        centred = x - means[np.searchsorted(classes, y)]
        values, vectors = np.linalg.eigh(centred.T @ centred / len(x))
        kept = values > 1e-10 * max(values.max(), np.finfo(float).tiny)
        return cls(means, vectors[:, kept] / np.sqrt(values[kept]))

    def score(self, embeddings: Array) -> np.ndarray:
        """Return minus the squared Mahalanobis distance to the nearest class mean, for each row."""
        x = arrays.to_numpy(arrays.matrix(embeddings, "embeddings")).astype(np.float64)
        if x.shape[1] != self.means.shape[1]:
            raise InputError(argument="embeddings", expected=f"{self.means.shape[1]} dimensions", found=x.shape[1])
        z, centres = x @ self.whitening, self.means @ self.whitening
        squared = (z**2).sum(1)[:, None] - 2 * z @ centres.T + (centres**2).sum(1)
        return -np.maximum(squared, 0).min(1)


@dataclass(frozen=True)
class Detection:
    """How well a score separates in-distribution from out-of-distribution examples, each with a 95% interval."""

    auroc: float
    aupr: float
    fpr95: float
    intervals: dict[str, tuple[float, float]]  # of the three, by name; bootstrap over examples of both sets


def detection(inside: Array, outside: Array, resamples: int = 200, seed: int = 0) -> Detection:
    """Return AUROC, AUPR and FPR@95 of scores.

    Args:
        inside: [N] scores of in-distribution examples; larger means more familiar.
        outside: [M] scores of out-of-distribution examples.
        resamples: bootstrap resamples; 0 for no intervals.
        seed: random seed of the bootstrap.

    >>> found = detection(np.array([3.0, 4.0, 5.0]), np.array([1.0, 2.0, 3.5]), resamples=0)
    >>> round(found.auroc, 4), round(found.fpr95, 4)
    (0.8889, 0.3333)
    """
    a, b = (np.sort(_scores(values, name)) for values, name in ((inside, "inside"), (outside, "outside")))
    values = _measures(a, b)
    if not resamples:
        return Detection(*values, {})
    rng = np.random.default_rng(arrays.seed(seed))
    draws = [
        _measures(np.sort(a[rng.integers(0, len(a), len(a))]), np.sort(b[rng.integers(0, len(b), len(b))]))
        for _ in range(resamples)
    ]
    low, high = np.percentile(np.array(draws), [2.5, 97.5], axis=0)
    return Detection(*values, {name: (low[i], high[i]) for i, name in enumerate(("auroc", "aupr", "fpr95"))})


def _measures(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Return AUROC, AUPR and FPR@95 of sorted scores."""
    below, level = np.searchsorted(b, a, "left"), np.searchsorted(b, a, "right")
    auroc = float((below + level).sum() / (2 * len(a) * len(b)))
    # Precision and recall of "outside" as the threshold rises over its distinct scores.
    thresholds, counts = np.unique(b, return_counts=True)
    found = np.cumsum(counts)
    flagged = found + np.searchsorted(a, thresholds, "right")
    aupr = float((counts / len(b) * found / flagged).sum())
    threshold = a[int(np.floor(0.05 * len(a)))]
    fpr = float((len(b) - np.searchsorted(b, threshold, "left")) / len(b))
    return auroc, aupr, fpr


def _unit(values: Array, name: str) -> Tensor:
    x = arrays.matrix(values, name)
    x = x if x.dtype == torch.float64 else x.float()
    norms = x.norm(dim=1, keepdim=True)
    if not torch.isfinite(norms).all():
        raise InputError(f"row {int((~torch.isfinite(norms[:, 0])).nonzero()[0])} is not finite", argument=name)
    return x / norms.clamp(min=torch.finfo(x.dtype).tiny)


def _scores(values: Array, name: str) -> np.ndarray:
    found = arrays.to_numpy(arrays.tensor(values, name)).astype(np.float64)
    if found.ndim != 1 or not len(found):
        raise InputError(argument=name, expected="of shape [N] with at least one score", found=list(found.shape))
    if not np.isfinite(found).all():
        raise InputError(f"row {int(np.flatnonzero(~np.isfinite(found))[0])} is not finite", argument=name)
    return found
