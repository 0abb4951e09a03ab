"""What two models and their ensemble say of each example, from their outputs."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diversity.chance_adjusted import misses
from diversity.ensembled import ensemble, split_cells
from diversity.specialization import angle
from zoo.core import arrays
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs

CHUNK = 2048


@dataclass(frozen=True)
class PairRows:
    """What a comparison keeps of each example [N]; all but the answers only where there are probabilities."""

    ids: np.ndarray
    labels: np.ndarray
    first: np.ndarray  # predicted classes
    second: np.ndarray
    ensemble: np.ndarray | None = None
    confidences: np.ndarray | None = None  # [2, N] probability of each model's top-1 class
    theta: np.ndarray | None = None
    misses: np.ndarray | None = None  # [N, 3]: what CAPA is made of, shared and each model's own


def probabilities(outputs: Outputs, rows: slice) -> Tensor:
    """The model's probabilities of some rows, or an error that names the example where they are not finite."""
    p = arrays.tensor(outputs.probabilities_at(rows), outputs.name)
    finite = p.amax(1).isfinite()
    if not bool(finite.all()):
        row = rows.start + int((~finite).nonzero()[0, 0])
        raise InputError(
            f"{outputs.name}: example {str(outputs.ids[row])!r} has logits or probabilities that are not finite"
        )
    return p


def of_predictions(a: Outputs, b: Outputs) -> tuple[np.ndarray, PairRows]:
    """The ten counts of `split_cells`, with the first model standing in for the ensemble, and the rows."""
    rows = PairRows(a.ids, a.require_labels(), a.predictions, b.predictions)
    first, second, y = (torch.from_numpy(x) for x in (rows.first, rows.second, rows.labels))
    return arrays.to_numpy(split_cells(first, second, first, y)), rows


def with_probabilities(a: Outputs, b: Outputs) -> tuple[np.ndarray, PairRows]:
    """The ten counts of `split_cells`, and the rows; probabilities are read in chunks and none of them kept."""
    labels = a.require_labels()
    parts: list[tuple[Tensor, ...]] = []
    for start in range(0, len(a), CHUNK):
        rows = slice(start, min(start + CHUNK, len(a)))
        p = probabilities(a, rows)
        q = probabilities(b, rows).to(p)
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
