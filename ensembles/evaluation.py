"""How an ensemble scores as its members are added, on examples no search has looked at."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ensembles.intervals import bootstrap_function, bootstrap_mean
from ensembles.library import Library
from ensembles.running import own_score
from ensembles.scores import Objective, sum_dtype
from zoo import arrays


@dataclass(frozen=True, eq=False)
class Curve:
    """`score[i]` is the ensemble's of members 0..i. `parts[i]`, for the i asked for, is what the interval is made of:

    each example's part of the score [N], or for a user's own function the ensemble's probabilities [N, K].
    """

    score: list[float]
    parts: dict[int, torch.Tensor]


def curve(
    library: Library,
    members: Sequence[int],
    objective: Objective,
    weights: Sequence[float] | None = None,
    keep: Collection[int] = (),
) -> Curve:
    """The scores of a growing ensemble, streamed: one stretch of examples at a time, through all members."""
    weights = [1.0] * len(members) if weights is None else list(weights)
    if objective.per_example is None:
        return _own_curve(library, members, objective, weights, keep)
    dtype = sum_dtype(library.device)
    of_example = objective.weights(library.labels)
    sums = [0.0] * len(members)
    kept = {step: torch.empty(len(library.labels), dtype=dtype, device=library.device) for step in keep}
    for span in library.spans():
        labels = library.labels[span]
        total = torch.zeros((len(labels), library.num_classes), dtype=dtype, device=library.device)
        passed, weight = set(), 0.0
        for step, model in enumerate(members):
            p = library.read(model, span)
            if model not in passed:
                library.check(model, p.sum(1), float(p.amin()), span.start)
                passed.add(model)
            total += p if weights[step] == 1 else p * weights[step]
            weight += weights[step]
            parts = objective.per_example(total, weight, labels)
            sums[step] += float((parts * of_example[span]).sum())
            if step in kept:
                kept[step][span] = parts
    whole = float(of_example.sum())
    return Curve([one / whole for one in sums], kept)


def _own_curve(
    library: Library, members: Sequence[int], objective: Objective, weights: Sequence[float], keep: Collection[int]
) -> Curve:
    everything = slice(0, len(library.labels))
    shape = (len(library.labels), library.num_classes)
    total = torch.zeros(shape, dtype=sum_dtype(library.device), device=library.device)
    scores, kept, weight = [], {}, 0.0
    for step, model in enumerate(members):
        p = library.read(model, everything)
        library.check(model, p.sum(1), float(p.amin()))
        total += p * weights[step]
        weight += weights[step]
        scores.append(own_score(objective, library, total, weight))
        if step in keep:
            kept[step] = total / weight
    return Curve(scores, kept)


def gain_interval(
    library: Library, objective: Objective, before: torch.Tensor, after: torch.Tensor, resamples: int, seed: int
) -> tuple[float, float]:
    """95% paired bootstrap interval of how much better `after` is than `before`, both `parts` of one curve."""
    if objective.per_example is not None:
        difference = arrays.host((after - before) * objective.sign)
        return bootstrap_mean(difference, arrays.host(objective.weights(library.labels)), resamples, seed=seed)

    def gain(rows: np.ndarray) -> float:
        at = torch.from_numpy(rows).to(library.device)
        part = library.take(at)
        return own_score(objective, part, after[at], 1.0) - own_score(objective, part, before[at], 1.0)

    return bootstrap_function(gain, len(library.labels), resamples, seed=seed)
