"""Trying everything, where that is possible: pairs, subsets of a size; and what chance would have chosen.

They show what greedy search is worth: how near it comes to the best, and how far it is above the ordinary.
"""

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ensembles.cards import categories
from ensembles.choice import Choice, choice
from ensembles.evaluation import curve
from ensembles.ground import Ground, survey
from ensembles.library import Name
from ensembles.running import TIE, RunningEnsemble
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# Subsets tried at most: about a minute for 5,000 examples of 1,000 classes.
MOST_SUBSETS = 20_000


def best_partners(
    probs: Any, labels: Any = None, bases: Sequence[Name] | None = None, resamples: int = 1000, **options: Any
) -> "pd.DataFrame":
    """The best first model to add to each base (Gontijo-Lopes et al. 2021, Fig. 5 right), every pair tried.

    `bases` default to all models. One row a base: its partner and the partner's category against it, the score of the base
    alone and of the pair on the selection split and on the test split, and the test gain with its 95% interval. `probs`
    [M, N, K] or Runs, `labels` [N] and `options` are those of `greedy`: candidates, objective, test_fraction, split, seed,
    device, progress.

    >>> right = np.array([[0.9, 0.8, 0.4, 0.4], [0.8, 0.9, 0.4, 0.4], [0.3, 0.4, 0.9, 0.7]])  # [M, N], for class 0
    >>> probs = np.stack([right, 1 - right], 2)
    >>> best_partners(probs, [0] * 4, test_fraction=0)[["base", "partner", "alone", "pair"]]
       base  partner  alone  pair
    0     0        2    0.5   1.0
    1     1        2    0.5   1.0
    2     2        0    0.5   1.0
    """
    import pandas as pd

    ground = survey(probs, labels, **options)
    names, sign, ensemble = ground.library.names, ground.objective.sign, ground.ensemble()
    starts = range(len(names)) if bases is None else [ground.library.position(name, "base") for name in bases]
    rows = []
    for base in starts:
        others = [model for model in ground.candidates if model != base]
        if not others:
            raise InputError(f"candidates: none is left beside the base {names[base]!r}")
        ensemble.reset()
        alone = ensemble.score_with(base)
        ensemble.add(base)
        partner, pair = ensemble.best(others)
        row: dict[str, Any] = {
            "base": names[base],
            "partner": names[partner],
            "category": categories([names[base], names[partner]], ground.library.runs)[1],
            "alone": sign * alone,
            "pair": sign * pair,
        }
        if ground.test is not None:
            seen = curve(ground.test, [base, partner], ground.objective, keep={0, 1})
            interval = seen.gain_intervals(0, resamples, options.get("seed", 0))[1]
            row |= {"test_alone": seen.score[0], "test_pair": seen.score[1], "gain": seen.gains(0)[1], "interval": interval}
        rows.append(row)
    return pd.DataFrame(rows)


def pair_scores(probs: Any, labels: Any = None, **options: Any) -> "pd.DataFrame":
    """[M, M] score of the mean of every two models on the selection split; of one alone on the diagonal.

    >>> pair_scores(np.eye(2)[[[0, 1], [0, 0]]], [0, 1], test_fraction=0).loc[0, 1]
    np.float64(0.5)
    """
    import pandas as pd

    ground = survey(probs, labels, **options)
    names, ensemble = ground.library.names, ground.ensemble()
    scores = np.zeros((len(names), len(names)))
    for first, second in itertools.combinations_with_replacement(range(len(names)), 2):
        pair = ground.by_name({first, second})
        scores[first, second] = scores[second, first] = ground.objective.sign * subset_score(ensemble, pair)
    return pd.DataFrame(scores, index=list(names), columns=list(names))


def best_subset(probs: Any, labels: Any = None, size: int = 3, **options: Any) -> Choice:
    """The best of all subsets of `size` candidates (joined to the base, where one is given), or an error if too many.

    Equal scores are decided as in the search: the lower NLL, then the first by name. `probs` [M, N, K] or Runs, `labels` [N]
    and `options` are those of `greedy`.

    >>> right = np.array([[0.9, 0.8, 0.4, 0.4], [0.8, 0.9, 0.4, 0.4], [0.3, 0.4, 0.9, 0.7]])  # [M, N], for class 0
    >>> probs = np.stack([right, 1 - right], 2)
    >>> best = best_subset(probs, [0] * 4, size=2, test_fraction=0)
    >>> best.members, best.score, best.method
    ((0, 2), 1.0, 'all 3 subsets of 2')
    """
    ground = survey(probs, labels, **options)
    pool = ground.by_name(set(ground.candidates) - set(ground.base))
    count = math.comb(len(pool), size)
    if not 1 <= size <= len(pool):
        raise InputError(f"size: expected 1 to {len(pool)}, the number of candidates, found {size}")
    if count > MOST_SUBSETS:
        raise InputError(
            f"size: {count} subsets of {size} among {len(pool)} are too many (limit {MOST_SUBSETS}); use greedy"
        )
    ensemble, best, least_loss, chosen, tried = ground.ensemble(), -math.inf, math.inf, [], 0
    for start in itertools.combinations(pool, size - 1):
        later = pool[pool.index(start[-1]) + 1 :] if start else pool
        if not later:
            continue
        _fill(ensemble, [*ground.base, *start])
        scores = ensemble.scores(later, at_least=best)
        tried += len(later)
        if not scores:
            continue
        model = ensemble.first(scores)
        loss = ensemble.log_loss_with(model)
        if scores[model] > best + TIE or (scores[model] > best - TIE and loss < least_loss - TIE):
            best, least_loss, chosen = scores[model], loss, [*ground.base, *start, model]
    return choice(ground, chosen, best, f"all {count} subsets of {size}", tried)


def random_subsets(
    probs: Any, labels: Any = None, size: int = 3, draws: int = 100, seed: int = 0, **options: Any
) -> "pd.DataFrame":
    """Scores of `draws` random subsets of `size` candidates (joined to the base, where one is given): what chance finds.

    One row a draw: members, selection and test score. `probs` [M, N, K] or Runs, `labels` [N] and `options` are those of
    `greedy`.

    >>> right = np.array([[0.9, 0.8, 0.4, 0.4], [0.8, 0.9, 0.4, 0.4], [0.3, 0.4, 0.9, 0.7]])  # [M, N], for class 0
    >>> probs = np.stack([right, 1 - right], 2)
    >>> frame = random_subsets(probs, [0] * 4, size=2, draws=30, test_fraction=0)
    >>> frame.groupby("members").selection.mean().to_dict()
    {(0, 1): 0.5, (0, 2): 1.0, (1, 2): 1.0}
    """
    import pandas as pd

    ground = survey(probs, labels, seed=seed, **options)
    pool = ground.by_name(set(ground.candidates) - set(ground.base))
    if not 1 <= size <= len(pool):
        raise InputError(f"size: expected 1 to {len(pool)}, the number of candidates, found {size}")
    if draws < 1:
        raise InputError(f"draws: expected at least 1, found {draws}")
    rng, ensemble, rows = np.random.default_rng(seed), ground.ensemble(), []
    for _ in range(draws):
        drawn = [*ground.base, *ground.by_name([pool[i] for i in rng.choice(len(pool), size, replace=False)])]
        one = choice(ground, drawn, subset_score(ensemble, drawn), "random", 1)
        rows.append({"members": one.members, "selection": one.score, "test": one.test_score})
    return pd.DataFrame(rows)


def subset_score(ensemble: RunningEnsemble, members: Sequence[int]) -> float:
    """The exact score of a set of members, more is better."""
    _fill(ensemble, members[:-1])
    return ensemble.score_with(members[-1])


def all_subsets(ground: Ground, ensemble: RunningEnsemble, largest: int) -> dict[tuple[int, ...], float]:
    """The scores of every set of up to `largest` candidates, each joined to the base."""
    pool = ground.by_name(set(ground.candidates) - set(ground.base))
    scores: dict[tuple[int, ...], float] = {}
    for size in range(largest):
        for start in itertools.combinations(pool, size):
            _fill(ensemble, [*ground.base, *start])
            later = pool[pool.index(start[-1]) + 1 :] if start else pool
            if later:
                found = ensemble.scores(later, every=True)
                scores |= {(*ground.base, *start, model): score for model, score in found.items()}
    return scores


def _fill(ensemble: RunningEnsemble, members: Sequence[int]) -> None:
    ensemble.reset()
    for model in members:
        ensemble.add(model)
