"""Class overlap: how far a classifier's own classes already tell a dataset's classes apart (Kornblith et al. 2021, F).

Each class the model predicts (a source class) stands for one class of the dataset (a target class). The mapping that makes
most predictions right is found from the matching matrix M [S, T], M[s, t] = the number of examples of target t that are
predicted as s. The paper copies every target k times, so that several sources may share one, solves an assignment problem,
and raises k until one copy more gains nothing.

That limit needs no assignment problem. The value f(k) of the best mapping with at most k sources a target is the value of
a linear programme (the transport polytope has whole-number corners) in which k stands on the right-hand side only, so f is
concave: once f(k + 1) = f(k), it never grows again, and f(k) = f(S). There the bound on a target binds nobody, and every
source takes the target it meets most often: f(S) = sum over s of max over t of M[s, t].
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from zoo.core import arrays
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs


@dataclass(frozen=True)
class Assignment:
    """Which target class each source class stands for, and how accurate that makes the predictions it was found on."""

    sources: np.ndarray  # the source classes that were predicted, ascending
    targets: np.ndarray  # the target of each; -1: none was left for it
    accuracy: float

    def score(self, preds: Any, labels: Any) -> float:
        """The accuracy of the same mapping on other examples; a source class that was never seen is wrong.

        >>> assign_classes([3, 3, 8, 8], [0, 0, 1, 1]).score([3, 8, 5], [0, 1, 1])
        0.6666666666666666
        """
        predicted, y = _checked(preds, labels)
        mapping = dict(zip(self.sources.tolist(), self.targets.tolist(), strict=True))
        return float(np.mean([mapping.get(s) == t for s, t in zip(predicted.tolist(), y.tolist(), strict=True)]))


def assignment_accuracy(preds: Any, labels: Any, limit: int | None = None) -> float:
    """The best accuracy over all mappings of source classes to target classes.

    `preds` [N] are predicted source classes, `labels` [N] target classes. Any number of sources may go to one target, or
    at most `limit` of them; 1 is the one-to-one matching by which clusterings are scored.

    >>> assignment_accuracy([7, 7, 4, 4, 9], [0, 0, 1, 1, 1])
    1.0
    >>> assignment_accuracy([7, 7, 4, 4, 9], [0, 0, 1, 1, 1], limit=1)
    0.8
    """
    return assign_classes(preds, labels, limit).accuracy


def assign_classes(preds: Any, labels: Any, limit: int | None = None) -> Assignment:
    """The mapping behind `assignment_accuracy`; of equally good targets a source takes the first.

    >>> found = assign_classes([7, 7, 4, 4, 9], [0, 0, 1, 1, 1])
    >>> dict(zip(found.sources.tolist(), found.targets.tolist()))
    {4: 1, 7: 0, 9: 1}
    """
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise InputError(f"limit: expected the most source classes that may share a target, at least 1, found {limit!r}")
    predicted, y = _checked(preds, labels)
    sources, s = predicted.unique(return_inverse=True)
    targets, t = y.unique(return_inverse=True)
    matching = torch.bincount(s * len(targets) + t, minlength=len(sources) * len(targets)).view(len(sources), -1)
    if limit is None or limit >= len(sources):
        right, chosen = int(matching.amax(1).sum()), targets[matching.argmax(1)]
    else:
        right, chosen = _limited(matching, targets, limit)
    return Assignment(arrays.to_numpy(sources), arrays.to_numpy(chosen), right / len(y))


def class_overlap(outputs: Outputs, limit: int | None = None) -> pd.DataFrame:
    """What a model's own classes say about a dataset of other classes: a row for each class of the dataset.

    Columns: class; examples; accuracy, the share of them that are predicted as one of its source classes; sources, the
    model's classes that were assigned to it. The assignment accuracy is the mean of the accuracies weighted by examples.

    >>> outputs = Outputs.from_arrays("m", predictions=[0, 1, 2, 2], labels=[0, 0, 1, 1], classes=["tabby", "lynx", "pug"])
    >>> class_overlap(outputs)
       class  examples  accuracy        sources
    0  tabby         2       1.0  [tabby, lynx]
    1   lynx         2       1.0          [pug]
    """
    if outputs.labels is None:
        raise InputError(f"{outputs.name}: no labels are stored; class overlap needs one class per example")
    predicted, y = outputs.predictions, outputs.labels
    found = assign_classes(predicted, y, limit)
    names = outputs.label_classes or outputs.classes
    rows = []
    for target in np.unique(y):
        sources = found.sources[found.targets == target]
        hits = np.isin(predicted[y == target], sources)
        rows.append((names[target], len(hits), float(hits.mean()), [outputs.classes[source] for source in sources]))
    return pd.DataFrame(rows, columns=["class", "examples", "accuracy", "sources"])


def _limited(matching: Tensor, targets: Tensor, limit: int) -> tuple[int, Tensor]:
    """The number right and the target of each source when at most `limit` sources share a target, each copied so often."""
    from scipy.optimize import linear_sum_assignment

    counts = arrays.to_numpy(matching)
    rows, columns = linear_sum_assignment(np.tile(counts, limit), maximize=True)
    columns = columns % counts.shape[1]
    chosen = torch.full((len(counts),), -1, device=targets.device)
    chosen[torch.from_numpy(rows)] = targets[torch.from_numpy(columns)]
    return int(counts[rows, columns].sum()), chosen


def _checked(preds: Any, labels: Any) -> tuple[Tensor, Tensor]:
    y = arrays.labels(labels)
    if not len(y):
        raise InputError("labels: expected at least one, found none")
    return arrays.predictions(preds, len(y), "preds"), y
