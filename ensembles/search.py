"""Greedy search for an ensemble: add the model that helps most, again and again.

The path is the one a brute-force search would take: at each step every candidate's exact score, the best taken, equal
scores decided by the lower NLL and then by name. It is judged on a test split that the search never sees.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ensembles.costs import Cost, member_costs
from ensembles.evaluation import curve
from ensembles.ground import Ground, survey
from ensembles.growing import Found, Rules, grow, grow_bags
from ensembles.library import Library, Name
from ensembles.path import Path
from ensembles.progress import progress_bar
from ensembles.scores import ObjectiveName, ScoreFunction
from zoo.errors import InputError, ZooWarning


def greedy(
    probs: Any,
    labels: Any = None,
    *,
    base: Name | Sequence[Name] | None = None,
    steps: int = 10,
    replace: bool = False,
    candidates: Any = None,
    objective: ObjectiveName | ScoreFunction = "accuracy",
    init: int = 1,
    stop_early: bool = False,
    bags: int = 0,
    bag_fraction: float = 0.5,
    budget: float | None = None,
    cost: Cost = "params",
    test_fraction: float = 0.5,
    split: Any = None,
    seed: int = 0,
    resamples: int = 1000,
    device: Any = None,
    progress: bool = False,
) -> Path:
    """The path of ensembles found by adding, `steps` times, the candidate that scores best together with what is there.

    probs: probabilities [M, N, K] (NumPy or torch, float16 to float64; a list or mapping of [N, K] works too), or Runs,
        whose calibrated probabilities are streamed from disk. labels: [N]; Runs bring their own.
    base: the model (or models) to start from, before the first step; without it the best single model is the first pick.
    replace: whether a model may be picked again, which gives weights (Caruana et al. 2004); without, each at most once.
    candidates: who may be picked: names, a pattern, card fields, `{"accuracy": (None, 0.78)}`; see `choosing.choose`.
    objective: accuracy, balanced-accuracy, nll, brier, or a function (probabilities [N, K], labels [N]) -> number, more
        is better. The first four are incremental; a function sees every candidate's whole ensemble at every step.
    init: a sorted start: the first `init` picks are the best single models, in order, whatever they do together.
    stop_early: stop where no candidate improves the score, rather than after `steps`. Without replacement the path ends
        when the candidates do.
    bags: repeat the search on so many random samples of `bag_fraction` of the candidates and average the weights.
    budget: what the members may cost together, base included, as `cost` counts: params, flops, latency, or one's own.
    test_fraction: share of the examples, stratified and seeded, kept from the search for the report; 0 searches on all.
        split: rows (search, test) of one's own instead.
    resamples: bootstrap resamples for the interval of the test gain.

    >>> votes = np.eye(3)[[[0, 1, 2, 0], [0, 1, 0, 2], [1, 0, 2, 2]]]
    >>> path = greedy(votes, [0, 1, 2, 2], steps=3, test_fraction=0)
    >>> path.members, path.score
    ([0, 1, 2], [0.75, 0.5, 1.0])
    """
    rules = Rules(steps, replace, init, stop_early)
    if resamples < 1:
        raise InputError(f"resamples: expected at least 1, found {resamples}")
    ground = survey(
        probs, labels, objective=objective, base=base, candidates=candidates, test_fraction=test_fraction, split=split,
        seed=seed, device=device, progress=progress,
    )  # fmt: skip
    if budget is not None:
        if bags:
            raise InputError("bags: the average of several searches does not keep to a budget; leave one of them out")
        rules = Rules(steps, replace, init, stop_early, member_costs(ground.library, cost), budget)
    with progress_bar("searching", max(1, bags) * steps, progress) as advance:
        found = grow_bags(ground, rules, bags, bag_fraction, seed, advance) if bags else grow(ground, rules, advance=advance)
    names = ground.library.names
    settings = {
        "objective": ground.objective.name, "base": [names[m] for m in ground.base], "candidates": len(ground.candidates),
        "steps": steps, "replace": replace, "init": init, "stop_early": stop_early, "bags": bags,
        "bag_fraction": bag_fraction if bags else None, "budget": budget,
        "selection_examples": len(ground.library.labels),
        "test_examples": 0 if ground.test is None else len(ground.test.labels),
        "test_fraction": test_fraction if split is None else None, "seed": seed, "uncalibrated": _uncalibrated(ground),
    }  # fmt: skip
    path = _report(found, ground, ground.test, rules, settings, resamples)
    _warn_if_noise(path)
    return path


def _report(
    found: Found, ground: Ground, test: Library | None, rules: Rules, settings: dict[str, Any], resamples: int
) -> Path:
    """What was found, by name, with the test curve and the interval of the gain."""
    names, sign = ground.library.names, ground.objective.sign
    test_score = gains = intervals = None
    if test is not None:
        first, last = found.start - 1, found.best - 1
        seen = curve(test, found.members, ground.objective, found.weights, {first, last})
        test_score, gains = seen.score, seen.gains(first)
        intervals = seen.gain_intervals(first, resamples, settings["seed"])
    shares = np.zeros(len(names))
    np.add.at(shares, found.members[: found.best], found.weights or 1.0)
    shares /= shares.sum()
    return Path(
        members=[names[model] for model in found.members],
        score=[sign * score for score in found.scores],
        test_score=test_score,
        weights={str(names[m]): float(shares[m]) for m in np.flatnonzero(shares)} if isinstance(names[0], str) else shares,
        best=found.best,
        start=found.start,
        objective=ground.objective.name,
        test_gains=gains,
        intervals=intervals,
        costs=None if rules.costs is None else [rules.spent(found.members[: i + 1]) for i in range(len(found.members))],
        settings=settings,
        bags=tuple(_report(bag, ground, None, rules, settings, resamples) for bag in found.bags),
        runs=ground.library.runs,
    )


def _uncalibrated(ground: Ground) -> int:
    """How many of the models are taken at temperature 1 because nobody has calibrated them."""
    runs = ground.library.runs
    return 0 if runs is None else sum(one.kind == "logits" and one.temperature is None for one in runs.values())


def _warn_if_noise(path: Path) -> None:
    if path.interval is None or path.gain is None or path.best == path.start or path.interval[0] > 0:
        return
    low, high = path.interval
    digits = max(2, 1 - math.floor(math.log10(max(abs(low), abs(high), 1e-4))))
    warnings.warn(
        f"the gain in {path.objective} on the test split, {path.gain:+.{digits}f} over the start, is within noise (95% "
        f"interval {low:+.{digits}f} to {high:+.{digits}f}); the picks may only fit the selection split",
        ZooWarning,
        stacklevel=3,
    )
