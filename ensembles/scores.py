"""Objectives of a search, and the scores of an ensemble as members are added one by one.

A score is a weighted mean of one number per example. The number follows from the *sum* S of the members' probabilities and
their total weight w; the ensemble is S / w. Sums are kept in float64, so that adding a model twice changes no prediction.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from diversity.bootstrap import percentile_interval, resampled_means
from ensembles.inputs import Labels
from ensembles.model_library import ModelLibrary, fast_view
from zoo.calibration.metrics import bin_counts, binned_error, nll
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

ObjectiveName: TypeAlias = Literal["accuracy", "balanced-accuracy", "nll", "brier"]
ScoreFunction: TypeAlias = Callable[[Any, Any], float]


@dataclass(frozen=True)
class Objective:
    """A score of an ensemble: how it is computed, and whether higher is better."""

    name: str
    sign: int  # +1: higher is better; -1: lower is better
    per_example: Callable[[torch.Tensor, float, torch.Tensor], torch.Tensor] | None  # (S, w, labels) -> [N]
    balanced: bool = False  # whether every class has the same total weight
    function: ScoreFunction | None = None  # of a custom objective

    def weights(self, labels: torch.Tensor) -> torch.Tensor:
        """Return the weights of the examples [N]: 1, or 1 / size of the class."""
        one = torch.ones(len(labels), dtype=arrays.accumulation_dtype(labels.device), device=labels.device)
        return one / torch.bincount(labels)[labels] if self.balanced else one


def find_objective(objective: ObjectiveName | str | ScoreFunction) -> Objective:
    """Return the objective of a name, or of a function (probabilities [N, K], labels [N]) -> number, higher is better."""
    if callable(objective):
        return Objective(getattr(objective, "__name__", "score"), 1, None, function=objective)
    known = OBJECTIVES.get(str(objective).replace("_", "-"))
    if known is None:
        raise InputError(argument="objective", expected=f"{', '.join(OBJECTIVES)} or a function", found=objective)
    return known


def score(probabilities: Array, labels: Labels, objective: ObjectiveName | str | ScoreFunction = "accuracy") -> float:
    """Return one score of probabilities [N, K] against labels [N].

    >>> score(np.array([[0.7, 0.3], [0.6, 0.4]]), np.array([0, 1]))
    0.5
    """
    p = arrays.probabilities(probabilities)
    y = arrays.labels(labels, p.shape[1], len(p)).to(p.device)
    chosen = find_objective(objective)
    if chosen.function is not None:
        return float(chosen.function(probabilities, labels))
    assert chosen.per_example is not None  # every built-in objective has it
    weights = chosen.weights(y)
    return float((chosen.per_example(p.to(weights.dtype), 1.0, y) * weights).sum() / weights.sum())


def custom_score(objective: Objective, library: ModelLibrary, total: torch.Tensor, weight: float) -> float:
    """Return a custom objective's score of the ensemble S / w. The function gets arrays of the library's input type."""
    assert objective.function is not None
    like = library.array_like
    return float(objective.function(arrays.like_input(total / weight, like), arrays.like_input(library.labels, like)))


def top_class(values: torch.Tensor) -> torch.Tensor:
    """Return the class of the maximum of each row of [N, K]; ties go to the first class."""
    return torch.as_tensor(fast_view(values).argmax(1))


def mean_nll(label_sums: torch.Tensor, weight: float) -> float:
    """Return the mean NLL of S / w from the label's entries of S [N]."""
    return float(nll(label_sums / weight).mean())


def chance_score(objective: Objective, num_classes: int) -> float:
    """Return the score of equal probabilities for all classes, higher is better; 0 for a custom objective."""
    losses = {"nll": -math.log(num_classes), "brier": 1 / num_classes - 1}
    return 0.0 if objective.function else losses.get(objective.name, 1 / num_classes)


def _correct(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    return (top_class(total) == labels).to(total.dtype)


def _nll(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    return nll(total.gather(1, labels[:, None])[:, 0] / weight)


def _brier(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    # sum_k (p_k - [k = y])^2 = sum_k p_k^2 - 2 p_y + 1
    return total.square().sum(1) / weight**2 - 2 * total.gather(1, labels[:, None])[:, 0] / weight + 1


OBJECTIVES = {
    "accuracy": Objective("accuracy", 1, _correct),
    "balanced-accuracy": Objective("balanced-accuracy", 1, _correct, balanced=True),
    "nll": Objective("nll", -1, _nll),
    "brier": Objective("brier", -1, _brier),
}


@dataclass(frozen=True, eq=False)
class PrefixScores:
    """Scores of the ensembles of members 0..i of a list of S members, on one library.

    The confidence interval of score i is computed from `parts[i]`: each example's part of the score [N]. For a custom
    objective, `parts[i]` holds the ensemble's probabilities [N, K], for the requested prefixes only.
    """

    library: ModelLibrary
    objective: Objective
    score: list[float]
    parts: dict[int, torch.Tensor]
    correct: torch.Tensor  # [S, N] whether each ensemble's prediction is the label
    ece: list[float] | None  # expected calibration errors; None for votes

    def gains(self, start: int) -> list[float]:
        """Return the gain of each ensemble over the ensemble of members 0..start. Positive is better, for losses too."""
        return [self.objective.sign * (score - self.score[start]) + 0.0 for score in self.score]  # + 0.0: no minus zero

    def gain_intervals(self, start: int, resamples: int, seed: int) -> list[tuple[float, float] | None]:
        """Return 95% confidence intervals of the gains (paired bootstrap); None for prefixes without parts."""
        steps = [step for step in sorted(self.parts) if step != start]
        intervals: list[tuple[float, float] | None] = [None] * len(self.score)
        intervals[start] = (0.0, 0.0)
        if not steps:
            return intervals
        if self.objective.per_example is None:
            gains = np.array([self._custom_gains(start, steps, rows) for rows in self._draws(resamples, seed)])
        else:
            # A weighted mean is the ratio of two means over the same draws.
            weights = self.objective.weights(self.library.labels)
            differences = torch.stack([self.parts[step] - self.parts[start] for step in steps], 1) * self.objective.sign
            columns = torch.cat([differences * weights[:, None], weights[:, None]], 1)
            means = arrays.to_numpy(resampled_means(columns, resamples, seed))
            gains = means[:, :-1] / means[:, -1:]
        for step, low, high in zip(steps, *percentile_interval(gains), strict=True):
            intervals[step] = (float(low), float(high))
        return intervals

    def _draws(self, resamples: int, seed: int) -> list[np.ndarray]:
        rng, examples = np.random.default_rng(seed), len(self.library.labels)
        return [rng.integers(0, examples, examples) for _ in range(resamples)]

    def _custom_gains(self, start: int, steps: Sequence[int], rows: np.ndarray) -> list[float]:
        at = torch.from_numpy(rows).to(self.library.device)
        drawn = self.library.select(at)
        before = custom_score(self.objective, drawn, self.parts[start][at], 1.0)
        return [custom_score(self.objective, drawn, self.parts[step][at], 1.0) - before for step in steps]


def score_prefixes(
    library: ModelLibrary,
    members: Sequence[int],
    objective: Objective,
    weights: Sequence[float] | None = None,
    custom_parts: Collection[int] = (),
) -> PrefixScores:
    """Return the scores of a growing ensemble, in one pass over its members' rows.

    Args:
        library: the models on the examples to score.
        members: [S] models in the order in which they are added.
        objective: what is scored.
        weights: [S] of the members; default: 1 each.
        custom_parts: prefixes for which a custom objective keeps `parts`.
    """
    weights = [1.0] * len(members) if weights is None else list(weights)
    custom = objective.per_example is None
    has_confidence = library.kind == "probabilities"
    # Votes of unequal weight: sums that differ only by the order of addition are a tie, as in `vote`.
    uneven_votes = not has_confidence and len(set(weights)) > 1
    example_weights = objective.weights(library.labels)
    shape = (len(members), len(library.labels))
    correct = torch.empty(shape, dtype=torch.bool, device=library.device)
    confidence = torch.empty(shape, dtype=example_weights.dtype, device=library.device)
    parts = torch.empty((0 if custom else shape[0], shape[1]), dtype=torch.float32, device=library.device)
    sums, custom_means = [0.0] * len(members), dict[int, torch.Tensor]()
    # A custom objective needs all rows at once.
    for span in [slice(0, len(library.labels))] if custom else library.chunks():
        labels = library.labels[span]
        total = torch.zeros((len(labels), library.num_classes), dtype=example_weights.dtype, device=library.device)
        checked, weight = set[int](), 0.0
        for step, model in enumerate(members):
            p = library.rows(model, span)
            if model not in checked:
                library.check(model, p.sum(1), float(p.amin()), span.start)
                checked.add(model)
            total += p if weights[step] == 1 else p * weights[step]
            weight += weights[step]
            comparable = total.float() if uneven_votes else total
            top = top_class(comparable)
            correct[step, span] = top == labels
            if has_confidence:
                confidence[step, span] = total.gather(1, top[:, None])[:, 0] / weight
            if objective.per_example is None:
                sums[step] = custom_score(objective, library, total, weight)
                if step in custom_parts:
                    custom_means[step] = total / weight
                continue
            is_accuracy = objective.per_example is _correct
            part = correct[step, span] if is_accuracy else objective.per_example(comparable, weight, labels)
            sums[step] += float((part * example_weights[span]).sum())
            parts[step, span] = part.float()
    whole = 1.0 if custom else float(example_weights.sum())
    return PrefixScores(
        library=library,
        objective=objective,
        score=[one / whole for one in sums],
        parts=custom_means if custom else dict(enumerate(parts)),
        correct=correct,
        ece=[binned_error(bin_counts(*each)) for each in zip(confidence, correct, strict=True)] if has_confidence else None,
    )
