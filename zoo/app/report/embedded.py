"""What the explorer computes from: every model's answers on every example, in as many bytes as a page may have.

The classes predicted and their confidences are always there. For ensembles, all classes' probabilities where these fit;
else each model's top classes and the true one, and the page says of each ensemble how many examples that leaves open.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from diversity.ensembled import ensemble, split_cells
from zoo.app.report.packing import packed, planes_for, roots
from zoo.core import arrays
from zoo.outputs.outputs import Outputs, Runs

BUDGET = 6_600_000  # characters for confidences and probabilities, of the eight million a page may have
SAMPLE = 3  # models whose packed size tells that of all
SHRINKS = 4  # no array here is packed into less than a quarter
CHUNK = 4096  # rows of probabilities in memory at a time
MOST_TOP, LEAST_TOP = 6, 2
LABEL_STEP = 0.07  # of the logarithm of the true class's probability, where it is none of the top ones

# From a model's outputs, whole numbers by name and how many bytes each takes.
Way = Callable[[Outputs], dict[str, tuple[np.ndarray, int]]]


def answers(runs: Runs, has_probabilities: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """How the answers are kept (`kind`, `planes`, `top`), and the packed arrays by name."""
    outputs = list(runs.values())
    classes = len(outputs[0].classes)
    said = np.stack([one.predictions for one in outputs])
    blocks = {"predicted": packed(np.where(said == arrays.NO_PREDICTION, classes, said), planes_for(classes))}
    if not has_probabilities:
        return {"kind": "votes", "planes": 0, "top": 0}, blocks
    kept, way = next((kept, way) for kept, way in _ways(classes) if kept["top"] == LEAST_TOP or _fits(way, outputs, classes))
    parts = [way(one) for one in outputs]
    for name, (_, planes) in parts[0].items():
        blocks[name] = packed(np.stack([part[name][0] for part in parts]), planes)
    return kept, blocks


def exact_pairs(runs: Runs) -> str:
    """Packed [pairs, 5]: how many examples of each cell of `diversity.CELLS` the ensemble of two models gets right.

    Two models' numbers are then those of `diversity.compare`, also where only some classes' probabilities are kept.
    """
    outputs = list(runs.values())
    pairs = list(itertools.combinations(range(len(outputs)), 2))
    counts = np.zeros((len(pairs), 5), np.int64)
    for start in range(0, len(outputs[0]), CHUNK):
        rows = slice(start, min(start + CHUNK, len(outputs[0])))
        p = [arrays.tensor(one.probabilities_at(rows), one.name) for one in outputs]
        top = [torch.from_numpy(one.predictions[rows]) for one in outputs]
        y = torch.from_numpy(runs.labels[rows])
        for place, (i, j) in enumerate(pairs):
            counts[place] += arrays.to_numpy(split_cells(top[i], top[j], ensemble(p[i], p[j]).cpu(), y))[:5]
    return packed(counts, 3)


def _ways(classes: int) -> Iterator[tuple[dict[str, Any], Way]]:
    """From the most exact to the shortest."""
    for planes in (3, 2):
        yield {"kind": "all", "planes": planes, "top": classes}, partial(_all_classes, planes=planes)
    for top in range(min(MOST_TOP, classes), LEAST_TOP - 1, -1):
        yield {"kind": "top", "planes": 2, "top": top}, partial(_top_classes, top=top)


def _fits(way: Way, outputs: list[Outputs], classes: int) -> bool:
    if way.func is _all_classes and len(outputs) * len(outputs[0]) * classes > SHRINKS * BUDGET:  # type: ignore[attr-defined]
        return False
    sample = outputs[:: -(-len(outputs) // SAMPLE)]
    size = sum(len(packed(values, planes)) for one in sample for values, planes in way(one).values())
    return size / len(sample) * len(outputs) <= BUDGET


def _all_classes(outputs: Outputs, planes: int) -> dict[str, tuple[np.ndarray, int]]:
    """The confidence, and all probabilities but that of the class predicted, whose place is 0."""
    confidence, others = [], []
    for rows, p in _probabilities(outputs):
        top = outputs.predictions[rows][:, None]
        confidence.append(roots(1 - np.take_along_axis(p, top, 1)[:, 0], planes))
        np.put_along_axis(p, top, 0, 1)
        others.append(roots(p, planes))
    return {"confidence": (np.concatenate(confidence), planes), "others": (np.concatenate(others), planes)}


def _top_classes(outputs: Outputs, top: int) -> dict[str, tuple[np.ndarray, int]]:
    """The confidence; the next classes, each by its probability over that before it; the true class's where it is none."""
    labels, classes = outputs.require_labels(), len(outputs.classes)
    parts = []
    for rows, p in _probabilities(outputs):
        said = outputs.predictions[rows][:, None]
        first = np.take_along_axis(p, said, 1)
        truth = np.take_along_axis(p, labels[rows][:, None], 1)[:, 0]
        np.put_along_axis(p, said, -1, 1)
        found = np.argpartition(-p, top - 2, 1)[:, : top - 1] if top > 1 else said[:, :0]
        chances = np.take_along_axis(p, found, 1)
        order = np.argsort(-chances, 1, kind="stable")
        found, chances = np.take_along_axis(found, order, 1), np.take_along_axis(chances, order, 1)
        before = np.concatenate([first, chances[:, :-1]], 1)
        ratio = np.rint(255 * np.clip(chances / np.maximum(before, 1e-30), 0, 1))
        listed = (np.concatenate([said, found], 1) == labels[rows][:, None]).any(1)
        code = np.clip(np.rint(-np.log(np.maximum(truth, 1e-30)) / LABEL_STEP) + 1, 1, 255)
        parts.append((roots(1 - first[:, 0], 2), found, ratio.astype(np.uint8), np.where(listed, 0, code).astype(np.uint8)))
    confidence, found, ratio, code = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {
        "confidence": (confidence, 2),
        "classes": (found, planes_for(classes - 1)),
        "ratios": (ratio, 1),
        "truth": (code, 1),
    }


def _probabilities(outputs: Outputs) -> Iterator[tuple[slice, np.ndarray]]:
    """Rows and their probabilities as float64 arrays that may be changed."""
    for start in range(0, len(outputs), CHUNK):
        rows = slice(start, min(start + CHUNK, len(outputs)))
        yield rows, arrays.to_numpy(arrays.tensor(outputs.probabilities_at(rows), outputs.name).double()).copy()
