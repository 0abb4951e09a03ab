"""Class overlap: how well a classifier's own classes separate the classes of another dataset (Kornblith et al. 2021, F).

Each class that the model predicts (a source class) is assigned to one class of the dataset (a target class). The assignment
with the most correct predictions follows from the matching matrix M [S, T]: M[s, t] is the number of examples of target t
that are predicted as s. The paper makes k copies of every target, so that several sources may share one, solves an
assignment problem, and increases k until one more copy gains nothing.

That limit needs no assignment problem. Let f(k) be the number of correct predictions of the best assignment with at most k
sources per target. It is the value of a linear programme (the transport polytope has integer vertices) in which k appears on
the right-hand side only, so f is concave: once f(k + 1) = f(k), it never grows again, and f(k) = f(S). With k = S the limit
does not bind, and every source takes its most frequent target: f(S) = sum over s of max over t of M[s, t].
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probes._rows import Values
from zoo.core import arrays
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs


@dataclass(frozen=True)
class Assignment:
    """The target class of each source class, and the resulting accuracy on the examples used to find it."""

    sources: np.ndarray  # the source classes that were predicted, ascending
    targets: np.ndarray  # the target of each; -1 if none was left
    accuracy: float

    def score(self, predictions: Values, labels: Values) -> float:
        """Return the accuracy of this assignment on other examples; an unknown source class counts as wrong.

        >>> assign_classes([3, 3, 8, 8], [0, 0, 1, 1]).score([3, 8, 5], [0, 1, 1])
        0.6666666666666666
        """
        predicted, y = _check_pair(predictions, labels)
        mapping = dict(zip(self.sources.tolist(), self.targets.tolist(), strict=True))
        return float(np.mean([mapping.get(s) == t for s, t in zip(predicted.tolist(), y.tolist(), strict=True)]))


def assign_classes(predictions: Values, labels: Values, limit: int | None = None) -> Assignment:
    """Return the assignment of source classes to target classes with the best accuracy.

    Among equally good targets a source takes the first.

    Args:
        predictions: [N] predicted source classes.
        labels: [N] target classes.
        limit: the largest number of sources per target; default: any number. 1 is the one-to-one matching by which
            clusterings are scored.

    >>> assignment = assign_classes([7, 7, 4, 4, 9], [0, 0, 1, 1, 1])
    >>> dict(zip(assignment.sources.tolist(), assignment.targets.tolist())), assignment.accuracy
    ({4: 1, 7: 0, 9: 1}, 1.0)
    >>> assign_classes([7, 7, 4, 4, 9], [0, 0, 1, 1, 1], limit=1).accuracy
    0.8
    """
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise InputError(argument="limit", expected="a whole number of at least 1", found=limit)
    predicted, y = _check_pair(predictions, labels)
    sources, s = predicted.unique(return_inverse=True)
    targets, t = y.unique(return_inverse=True)
    matching = torch.bincount(s * len(targets) + t, minlength=len(sources) * len(targets)).view(len(sources), -1)
    if limit is None or limit >= len(sources):
        correct, chosen = int(matching.amax(1).sum()), targets[matching.argmax(1)]
    else:
        correct, chosen = _assign_limited(matching, targets, limit)
    return Assignment(arrays.to_numpy(sources), arrays.to_numpy(chosen), correct / len(y))


def class_overlap(outputs: Outputs, limit: int | None = None) -> pd.DataFrame:
    """Return how well a model's own classes separate the classes of a dataset, one row per class of the dataset.

    Args:
        outputs: predictions of a model, with labels of a dataset that may have other classes.
        limit: the largest number of the model's classes per class of the dataset; default: any number.

    Returns:
        A frame with columns `class`; `examples`; `accuracy`, the fraction of these examples that are predicted as one of the
        class's sources; and `sources`, the model's classes assigned to the class. The mean of the accuracies, weighted by
        examples, is the assignment accuracy.

    >>> outputs = Outputs.from_arrays("m", predictions=[0, 1, 2, 2], labels=[0, 0, 1, 1], classes=["tabby", "lynx", "pug"])
    >>> class_overlap(outputs)
       class  examples  accuracy        sources
    0  tabby         2       1.0  [tabby, lynx]
    1   lynx         2       1.0          [pug]
    """
    if outputs.labels is None:
        raise InputError("no labels are stored; class overlap needs one class per example", where=outputs.name)
    predicted, y = outputs.predictions, outputs.labels
    assignment = assign_classes(predicted, y, limit)
    names = outputs.label_classes or outputs.classes
    rows = []
    for target in np.unique(y):
        sources = assignment.sources[assignment.targets == target]
        hits = np.isin(predicted[y == target], sources)
        rows.append((names[target], len(hits), float(hits.mean()), [outputs.classes[source] for source in sources]))
    return pd.DataFrame(rows, columns=["class", "examples", "accuracy", "sources"])


def _assign_limited(matching: Tensor, targets: Tensor, limit: int) -> tuple[int, Tensor]:
    """Return (correct predictions, target of each source) with `limit` copies of each target."""
    from scipy.optimize import linear_sum_assignment

    counts = arrays.to_numpy(matching)
    rows, columns = linear_sum_assignment(np.tile(counts, limit), maximize=True)
    columns = columns % counts.shape[1]
    chosen = torch.full((len(counts),), -1, device=targets.device)
    chosen[torch.from_numpy(rows)] = targets[torch.from_numpy(columns)]
    return int(counts[rows, columns].sum()), chosen


def _check_pair(predictions: Values, labels: Values) -> tuple[Tensor, Tensor]:
    y = arrays.labels(labels)
    if not len(y):
        raise InputError(argument="labels", expected="at least one label", found=0)
    return arrays.labels(predictions, rows=len(y), name="predictions"), y
