"""Predictions, confidences and angles of two models and their ensemble on each example."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diversity.chance_adjusted import misses
from diversity.pair_ensembles import ensemble, split_cells
from diversity.specialization import angle
from zoo.core import arrays, checks
from zoo.core.backend import backend, cast
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 2048


@dataclass(frozen=True)
class PairRows:
    """The per-example part of a comparison; `ensemble` and the fields after it are None without probabilities."""

    ids: np.ndarray
    labels: np.ndarray
    first: np.ndarray  # predicted classes
    second: np.ndarray
    ensemble: np.ndarray | None = None
    confidences: np.ndarray | None = None  # [2, N] probability of each model's top-1 class
    theta: np.ndarray | None = None
    misses: np.ndarray | None = None  # [N, 3] terms of CAPA: shared, missed by the first, missed by the second


def probabilities(outputs: Outputs, rows: slice) -> "Tensor":
    """Return `finite_probabilities` as a tensor."""
    return arrays.tensor(finite_probabilities(outputs, rows), outputs.name)


def finite_probabilities(outputs: Outputs, rows: slice) -> Any:
    """Return a model's probabilities of some rows, or raise an error for an example whose probabilities are not finite.

    The number of all rows decides between array and tensor (`arrays.by_size`).
    """
    p = arrays.by_size(checks.array(outputs.probabilities_at(rows), outputs.name), math.prod(outputs.values.shape))
    xp = backend(p)
    finite = xp.isfinite(xp.amax(p, 1))
    if not bool(finite.all()):
        row = rows.start + int(xp.where(~finite)[0][0])
        where = f"{outputs.name}: example {str(outputs.ids[row])!r}"
        raise InputError("has logits or probabilities that are not finite", where=where)
    return p


def of_predictions(a: Outputs, b: Outputs) -> tuple[np.ndarray, PairRows]:
    """Return the ten counts of `split_cells`, with the first model in place of the ensemble, and the rows."""
    rows = PairRows(a.ids, a.require_labels(), a.predictions, b.predictions)
    return split_cells(rows.first, rows.second, rows.first, rows.labels), rows


def with_probabilities(a: Outputs, b: Outputs) -> tuple[np.ndarray, PairRows]:
    """Return the ten counts of `split_cells`, and the rows. Probabilities are read in chunks and not stored."""
    labels = a.require_labels()
    parts: list[tuple[Any, ...]] = []
    for start in range(0, len(a), CHUNK):
        rows = slice(start, min(start + CHUNK, len(a)))
        p, q = finite_probabilities(a, rows), finite_probabilities(b, rows)
        q = arrays.like(q, p)
        dtype = str(backend(p).promote_types(p.dtype, q.dtype)).removeprefix("torch.")  # the same for (a, b) and (b, a)
        p, q = cast(p, dtype), cast(q, dtype)
        y = arrays.like(labels[rows], p)
        (one, missed_one), (two, missed_two) = misses(p, y), misses(q, y)
        shared, xp = (one * two).sum(1), backend(p)
        parts.append((ensemble(p, q), xp.amax(p, 1), xp.amax(q, 1), xp.stack([shared, missed_one, missed_two], 1)))
    joint, c1, c2, missed = (arrays.to_numpy(xp.concatenate(column)) for column in zip(*parts, strict=True))
    first, second = a.predictions, b.predictions
    return split_cells(first, second, joint, labels), PairRows(
        ids=a.ids,
        labels=labels,
        first=first,
        second=second,
        ensemble=joint,
        confidences=np.stack([c1, c2]),
        theta=angle(c1, c2),
        misses=missed,
    )
