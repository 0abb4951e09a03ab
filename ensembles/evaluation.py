"""How an ensemble scores as its members are added, on examples no search has looked at."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ensembles.intervals import bootstrap_function, bootstrap_means
from ensembles.library import Library
from ensembles.running import own_score
from ensembles.scores import Objective, sum_dtype
from zoo import arrays


@dataclass(frozen=True, eq=False)
class Curve:
    """`score[i]` is the ensemble's of members 0..i, on `library`; `parts` is what intervals are made of.

    `parts[i]` is each example's part of that score [N], or for a user's own function, and only where asked for, the
    ensemble's probabilities [N, K].
    """

    library: Library
    objective: Objective
    score: list[float]
    parts: dict[int, torch.Tensor]

    def gains(self, start: int) -> list[float]:
        """How much better each ensemble is than the one of members 0..start: positive is better, for losses too."""
        return [self.objective.sign * (score - self.score[start]) + 0.0 for score in self.score]  # + 0.0: no minus zero

    def gain_intervals(self, start: int, resamples: int, seed: int) -> list[tuple[float, float] | None]:
        """95% paired bootstrap intervals of the gains; None where the parts were not kept."""
        steps = [step for step in sorted(self.parts) if step != start]
        found: list[tuple[float, float] | None] = [None] * len(self.score)
        found[start] = (0.0, 0.0)
        if self.objective.per_example is None:
            for step in steps:
                found[step] = self._own_interval(start, step, resamples, seed)
        elif steps:
            before = arrays.host(self.parts[start])
            differences = np.stack([self.objective.sign * (arrays.host(self.parts[step]) - before) for step in steps])
            weights = arrays.host(self.objective.weights(self.library.labels))
            intervals = bootstrap_means(differences, weights, resamples, seed=seed).tolist()
            for step, (low, high) in zip(steps, intervals, strict=True):
                found[step] = (low, high)
        return found

    def _own_interval(self, start: int, step: int, resamples: int, seed: int) -> tuple[float, float]:
        def gain(rows: np.ndarray) -> float:
            at = torch.from_numpy(rows).to(self.library.device)
            part, before, after = self.library.take(at), self.parts[start][at], self.parts[step][at]
            return own_score(self.objective, part, after, 1.0) - own_score(self.objective, part, before, 1.0)

        return bootstrap_function(gain, len(self.library.labels), resamples, seed=seed)


def curve(
    library: Library,
    members: Sequence[int],
    objective: Objective,
    weights: Sequence[float] | None = None,
    keep: Collection[int] = (),
) -> Curve:
    """The scores of a growing ensemble, streamed: one stretch of examples at a time, through all members.

    `keep` says for which steps a user's own function will be asked for intervals; the others keep their parts always.
    """
    weights = [1.0] * len(members) if weights is None else list(weights)
    if objective.per_example is None:
        return _own_curve(library, members, objective, weights, keep)
    of_example = objective.weights(library.labels)
    sums = [0.0] * len(members)
    kept = torch.empty((len(members), len(library.labels)), dtype=torch.float32, device=library.device)
    for span in library.spans():
        labels = library.labels[span]
        total = torch.zeros((len(labels), library.num_classes), dtype=of_example.dtype, device=library.device)
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
            kept[step, span] = parts.float()
    whole = float(of_example.sum())
    return Curve(library, objective, [one / whole for one in sums], dict(enumerate(kept)))


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
    return Curve(library, objective, scores, kept)
