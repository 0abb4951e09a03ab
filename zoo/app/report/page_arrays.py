"""The models' predictions inside the explorer page, in as few bytes as a page may have.

Predicted classes and their confidences are always included. Ensembles also need probabilities: of all classes if they fit
into the page, else of each model's top classes and the true one. In the second case the page says for each ensemble how many
predictions could be different.

Arrays are planes of bytes, compressed, in base64. The script `data.js` reads them.
"""

import base64
import itertools
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from diversity.pair_ensembles import ensemble, split_cells
from zoo.core import arrays
from zoo.outputs.outputs import Outputs, Runs

MAX_CHARACTERS = 6_600_000  # for confidences and probabilities, of about eight million of the page
SAMPLED_MODELS = 3  # whose packed size estimates that of all
MAX_COMPRESSION = 4  # no array here is compressed by more than this factor
CHUNK = 4096  # rows of probabilities in memory at a time
MAX_TOP, MIN_TOP = 6, 2  # classes stored of each prediction
LABEL_STEP = 0.07  # of the log probability of a true class that is not among the top ones

# From a model's outputs to named arrays of whole numbers, each with the number of bytes per value.
Encoder = Callable[[Outputs], dict[str, tuple[np.ndarray, int]]]


def prediction_arrays(runs: Runs, has_probabilities: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Return how predictions are stored (`kind`, `planes`, `top`), and the packed arrays by name."""
    outputs = list(runs.values())
    classes = len(outputs[0].classes)
    predictions = np.stack([one.predictions for one in outputs])
    packed = {
        "predicted": pack(np.where(predictions == arrays.NO_PREDICTION, classes, predictions), bytes_for(classes)),
    }
    if not has_probabilities:
        return {"kind": "votes", "planes": 0, "top": 0}, packed
    layout, encoder = next(
        (layout, encoder) for layout, encoder in _encoders(classes) if layout["top"] == MIN_TOP or _fits(encoder, outputs)
    )
    parts = [encoder(one) for one in outputs]
    for name, (_, planes) in parts[0].items():
        packed[name] = pack(np.stack([part[name][0] for part in parts]), planes)
    return layout, packed


def exact_pair_counts(runs: Runs) -> str:
    """Return packed [pairs, 5]: how many examples of each cell of the error table the ensemble of two models gets right.

    With these counts the page's numbers for two models equal those of `diversity.compare`, even if the page stores the
    probabilities of some classes only.
    """
    outputs = list(runs.values())
    pairs = list(itertools.combinations(range(len(outputs)), 2))
    counts = np.zeros((len(pairs), 5), np.int64)
    for start in range(0, len(outputs[0]), CHUNK):
        rows = slice(start, min(start + CHUNK, len(outputs[0])))
        p = [arrays.tensor(one.probabilities_at(rows), one.name) for one in outputs]
        top = [torch.from_numpy(one.predictions[rows]) for one in outputs]
        y = torch.from_numpy(runs.labels[rows])
        for number, (i, j) in enumerate(pairs):
            counts[number] += arrays.to_numpy(split_cells(top[i], top[j], ensemble(p[i], p[j]).cpu(), y))[:5]
    return pack(counts, 3)


def pack(values: np.ndarray, planes: int) -> str:
    """Return whole numbers of `planes` bytes each as text: first the least significant bytes of all numbers.

    >>> list(zlib.decompress(base64.b64decode(pack(np.array([1, 258]), 2))))
    [1, 2, 0, 1]
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    return pack_bytes(b"".join((flat >> (8 * plane) & 255).astype(np.uint8).tobytes() for plane in range(planes)))


def pack_bytes(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def bytes_for(largest: int) -> int:
    """Return the number of bytes that numbers up to `largest` need.

    >>> bytes_for(255), bytes_for(256)
    (1, 2)
    """
    return max(1, -(-largest.bit_length() // 8))


def _square_roots(p: np.ndarray, planes: int) -> np.ndarray:
    """Return probabilities as whole numbers that are proportional to square roots, which are precise for small ones."""
    return np.rint(np.sqrt(np.clip(p, 0, 1)) * (256**planes - 1)).astype(np.uint32)


def _encoders(classes: int) -> Iterator[tuple[dict[str, Any], Encoder]]:
    """Yield the ways to store predictions, from the most precise to the smallest."""
    for planes in (3, 2):
        yield {"kind": "all", "planes": planes, "top": classes}, partial(_all_classes, planes=planes)
    for top in range(min(MAX_TOP, classes), MIN_TOP - 1, -1):
        yield {"kind": "top", "planes": 2, "top": top}, partial(_top_classes, top=top)


def _fits(encoder: Encoder, outputs: list[Outputs]) -> bool:
    elements = len(outputs) * len(outputs[0]) * len(outputs[0].classes)
    if encoder.func is _all_classes and elements > MAX_COMPRESSION * MAX_CHARACTERS:  # type: ignore[attr-defined]
        return False
    sample = outputs[:: -(-len(outputs) // SAMPLED_MODELS)]
    size = sum(len(pack(values, planes)) for one in sample for values, planes in encoder(one).values())
    return size / len(sample) * len(outputs) <= MAX_CHARACTERS


def _all_classes(outputs: Outputs, planes: int) -> dict[str, tuple[np.ndarray, int]]:
    """Return the confidence, and the probabilities of all classes with 0 in place of the predicted one."""
    confidence, others = [], []
    for rows, p in _probabilities(outputs):
        top = outputs.predictions[rows][:, None]
        confidence.append(_square_roots(1 - np.take_along_axis(p, top, 1)[:, 0], planes))
        np.put_along_axis(p, top, 0, 1)
        others.append(_square_roots(p, planes))
    return {"confidence": (np.concatenate(confidence), planes), "others": (np.concatenate(others), planes)}


def _top_classes(outputs: Outputs, top: int) -> dict[str, tuple[np.ndarray, int]]:
    """Return the confidence, the next classes with their probabilities, and the probability of the true class.

    Each probability is stored relative to the one before. The true class is stored only if it is not among the top ones.
    """
    labels, classes = outputs.require_labels(), len(outputs.classes)
    parts = []
    for rows, p in _probabilities(outputs):
        predicted = outputs.predictions[rows][:, None]
        first = np.take_along_axis(p, predicted, 1)
        truth = np.take_along_axis(p, labels[rows][:, None], 1)[:, 0]
        np.put_along_axis(p, predicted, -1, 1)
        following = np.argpartition(-p, top - 2, 1)[:, : top - 1] if top > 1 else predicted[:, :0]
        values = np.take_along_axis(p, following, 1)
        order = np.argsort(-values, 1, kind="stable")
        following, values = np.take_along_axis(following, order, 1), np.take_along_axis(values, order, 1)
        before = np.concatenate([first, values[:, :-1]], 1)
        ratio = np.rint(255 * np.clip(values / np.maximum(before, 1e-30), 0, 1)).astype(np.uint8)
        listed = (np.concatenate([predicted, following], 1) == labels[rows][:, None]).any(1)
        code = np.clip(np.rint(-np.log(np.maximum(truth, 1e-30)) / LABEL_STEP) + 1, 1, 255)
        parts.append((_square_roots(1 - first[:, 0], 2), following, ratio, np.where(listed, 0, code).astype(np.uint8)))
    confidence, following, ratio, code = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {
        "confidence": (confidence, 2),
        "classes": (following, bytes_for(classes - 1)),
        "ratios": (ratio, 1),
        "truth": (code, 1),
    }


def _probabilities(outputs: Outputs) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield rows and their probabilities, as float64 arrays that may be changed."""
    for start in range(0, len(outputs), CHUNK):
        rows = slice(start, min(start + CHUNK, len(outputs)))
        yield rows, arrays.to_numpy(arrays.tensor(outputs.probabilities_at(rows), outputs.name).double()).copy()
