"""Predictions, confidences and angles of two models and their ensemble on each example."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diversity.chance_adjusted import misses
from diversity.pair_ensembles import ensemble, split_cells
from diversity.specialization import angle
from zoo.core import arrays
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs

CHUNK = 2048


@dataclass(frozen=True)
class PairRows:
    """The part of a comparison that has one entry per example; the fields from `ensemble` on need probabilities."""

    ids: np.ndarray
    labels: np.ndarray
    first: np.ndarray  # predicted classes
    second: np.ndarray
    ensemble: np.ndarray | None = None
    confidences: np.ndarray | None = None  # [2, N] probability of each model's top-1 class
    theta: np.ndarray | None = None
    misses: np.ndarray | None = None  # [N, 3] terms of CAPA: shared, and those of each model


def probabilities(outputs: Outputs, rows: slice) -> Tensor:
    """Return a model's probabilities of some rows, or raise an error for an example whose probabilities are not finite."""
    p = arrays.tensor(outputs.probabilities_at(rows), outputs.name)
    finite = p.amax(1).isfinite()
    if not bool(finite.all()):
        row = rows.start + int((~finite).nonzero()[0, 0])
        where = f"{outputs.name}: example {str(outputs.ids[row])!r}"
        raise InputError("has logits or probabilities that are not finite", where=where)
    return p


def of_predictions(a: Outputs, b: Outputs) -> tuple[np.ndarray, PairRows]:
    """Return the ten counts of `split_cells`, with the first model in place of the ensemble, and the rows."""
    rows = PairRows(a.ids, a.require_labels(), a.predictions, b.predictions)
    first, second, y = (torch.from_numpy(x) for x in (rows.first, rows.second, rows.labels))
    return arrays.to_numpy(split_cells(first, second, first, y)), rows


def with_probabilities(a: Outputs, b: Outputs) -> tuple[np.ndarray, PairRows]:
    """Return the ten counts of `split_cells`, and the rows. Probabilities are read in chunks and not stored."""
    labels = a.require_labels()
    parts: list[tuple[Tensor, ...]] = []
    for start in range(0, len(a), CHUNK):
        rows = slice(start, min(start + CHUNK, len(a)))
        p, q = probabilities(a, rows), probabilities(b, rows)
        dtype = torch.promote_types(p.dtype, q.dtype)  # the same whichever model comes first
        p, q = p.to(dtype), q.to(p.device, dtype)
        y = torch.from_numpy(labels[rows]).to(p.device)
        (one, missed_one), (two, missed_two) = misses(p, y), misses(q, y)
        shared = torch.linalg.vecdot(one, two)
        parts.append((ensemble(p, q), p.amax(1), q.amax(1), torch.stack([shared, missed_one, missed_two], 1)))
    joint, c1, c2, missed = (torch.cat(column) for column in zip(*parts, strict=True))
    first, second = a.predictions, b.predictions
    truth, one, two = (torch.from_numpy(x) for x in (labels, first, second))
    joint = torch.from_numpy(arrays.to_numpy(joint))
    return arrays.to_numpy(split_cells(one, two, joint, truth)), PairRows(
        ids=a.ids,
        labels=labels,
        first=first,
        second=second,
        ensemble=joint.numpy(),
        confidences=arrays.to_numpy(torch.stack([c1, c2])),
        theta=arrays.to_numpy(angle(c1, c2)),
        misses=arrays.to_numpy(missed),
    )
