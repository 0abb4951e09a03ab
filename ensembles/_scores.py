"""What a search improves, and how an ensemble scores as its members are added, on examples no search has looked at.

A score is a weighted mean of one number per example, computed from the *sum* S of the members' probabilities and their
total weight w (the ensemble is S / w). Sums are kept in float64: members in float32 or float16 add up without rounding
that could matter, so that a model added twice leaves every prediction as it was.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from diversity.bootstrap import percentile_interval, resampled_means
from ensembles._library import Library
from zoo.calibration.metrics import surprise
from zoo.core import arrays
from zoo.errors import InputError

ObjectiveName: TypeAlias = Literal["accuracy", "balanced-accuracy", "nll", "brier"]
ScoreFunction: TypeAlias = Callable[[Any, Any], float]

# A label's probability below this counts as this, so that one underflown entry leaves a finite loss (of 87.3).


@dataclass(frozen=True)
class Objective:
    """A score of an ensemble: how it is computed and which way is better."""

    name: str
    sign: int  # +1: more is better; -1: less is better
    per_example: Callable[[torch.Tensor, float, torch.Tensor], torch.Tensor] | None  # (S, w, labels) -> [N]
    balanced: bool = False  # examples weigh by class, each class the same
    function: ScoreFunction | None = None

    def weights(self, labels: torch.Tensor) -> torch.Tensor:
        """[N] weights of the examples in the mean: one each, or one over the size of its class."""
        one = torch.ones(len(labels), dtype=arrays.accumulation_dtype(labels.device), device=labels.device)
        return one / torch.bincount(labels)[labels] if self.balanced else one


def objective(given: ObjectiveName | str | ScoreFunction) -> Objective:
    """The objective of a name, or of a function (probabilities [N, K], labels [N]) -> a number, more is better."""
    if callable(given):
        return Objective(getattr(given, "__name__", "score"), 1, None, function=given)
    known = OBJECTIVES.get(str(given).replace("_", "-"))
    if known is None:
        raise InputError(f"objective: expected one of {', '.join(OBJECTIVES)} or a function, found {given!r}")
    return known


def score(probabilities: Any, labels: Any, objective_name: ObjectiveName | str | ScoreFunction = "accuracy") -> float:
    """One score of probabilities [N, K]: accuracy, balanced-accuracy, nll or brier, or a function's.

    >>> score(np.array([[0.7, 0.3], [0.6, 0.4]]), np.array([0, 1]))
    0.5
    """
    p = arrays.probabilities(probabilities)
    y = arrays.labels(labels, p.shape[1], len(p)).to(p.device)
    chosen = objective(objective_name)
    if chosen.per_example is None:
        return own_value(chosen, probabilities, labels)
    weights = chosen.weights(y)
    return float((chosen.per_example(p.to(weights.dtype), 1.0, y) * weights).sum() / weights.sum())


def own_score(objective: Objective, library: Library, total: torch.Tensor, weight: float) -> float:
    """A user's function of the ensemble S / w, called with the kind of array the library was made of."""
    given = library.array_like
    return own_value(objective, arrays.like_input(total / weight, given), arrays.like_input(library.labels, given))


def own_value(objective: Objective, probabilities: Any, labels: Any) -> float:
    """What a user's function says."""
    if objective.function is None:
        raise TypeError(f"{objective.name} is not a user's function")
    return float(objective.function(probabilities, labels))


def top_class(values: torch.Tensor) -> torch.Tensor:
    """[N] the class of the greatest value in each row [N, K]; of equal ones the first."""
    if values.device.type == "cpu" and type(values) is torch.Tensor:
        # NumPy's argmax is vectorised and five times as fast as torch's; both take the first of equal maxima.
        return torch.from_numpy(values.numpy().argmax(1))
    return values.argmax(1)


def mean_log_loss(label_sums: torch.Tensor, weight: float) -> float:
    """Mean NLL from the label's entries of S alone."""
    return float(surprise(label_sums / weight).mean())


def chance_score(objective: Objective, num_classes: int) -> float:
    """What knowing nothing scores, more is better: every class equally probable; 0 for a user's own function."""
    losses = {"nll": -math.log(num_classes), "brier": 1 / num_classes - 1}
    return 0.0 if objective.function else losses.get(objective.name, 1 / num_classes)


def _right(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    return (top_class(total) == labels).to(total.dtype)


def _log_loss(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    return surprise(total.gather(1, labels[:, None])[:, 0] / weight)


def _squared_distance(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    # sum_k (p_k - [k = y])^2 = sum_k p_k^2 - 2 p_y + 1
    return total.square().sum(1) / weight**2 - 2 * total.gather(1, labels[:, None])[:, 0] / weight + 1


OBJECTIVES = {
    "accuracy": Objective("accuracy", 1, _right),
    "balanced-accuracy": Objective("balanced-accuracy", 1, _right, balanced=True),
    "nll": Objective("nll", -1, _log_loss),
    "brier": Objective("brier", -1, _squared_distance),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """`score[i]` is that of the ensemble of members 0..i on `library`; `parts` is what intervals are made of.

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
        if steps and self.objective.per_example is None:
            values = np.array([self._own_gains(start, steps, rows) for rows in self._draws(resamples, seed)])
        elif steps:
            # A weighted mean is the ratio of two means, over the same draws.
            weights = self.objective.weights(self.library.labels)
            differences = torch.stack([self.parts[step] - self.parts[start] for step in steps], 1) * self.objective.sign
            columns = torch.cat([differences * weights[:, None], weights[:, None]], 1)
            means = arrays.to_numpy(resampled_means(columns, resamples, seed))
            values = means[:, :-1] / means[:, -1:]
        else:
            return found
        for step, low, high in zip(steps, *percentile_interval(values), strict=True):
            found[step] = (float(low), float(high))
        return found

    def _draws(self, resamples: int, seed: int) -> list[np.ndarray]:
        rng, examples = np.random.default_rng(seed), len(self.library.labels)
        return [rng.integers(0, examples, examples) for _ in range(resamples)]

    def _own_gains(self, start: int, steps: Sequence[int], rows: np.ndarray) -> list[float]:
        at = torch.from_numpy(rows).to(self.library.device)
        part = self.library.take(at)
        before = own_score(self.objective, part, self.parts[start][at], 1.0)
        return [own_score(self.objective, part, self.parts[step][at], 1.0) - before for step in steps]


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
    uneven = library.kind == "predictions" and len(set(weights)) > 1
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
            # Votes of unequal weight: what only the order of adding tells apart is a tie, as in `vote`.
            parts = objective.per_example(total.float() if uneven else total, weight, labels)
            sums[step] += float((parts * of_example[span]).sum())
            kept[step, span] = parts.float()
    whole = float(of_example.sum())
    return Curve(library, objective, [one / whole for one in sums], dict(enumerate(kept)))


def _own_curve(
    library: Library, members: Sequence[int], objective: Objective, weights: Sequence[float], keep: Collection[int]
) -> Curve:
    everything = slice(0, len(library.labels))
    shape = (len(library.labels), library.num_classes)
    total = torch.zeros(shape, dtype=arrays.accumulation_dtype(library.device), device=library.device)
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
