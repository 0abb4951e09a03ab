"""Trying everything, where that is possible: pairs, subsets of a size; and what chance would have chosen.

They show what greedy search is worth: how near it comes to the best, and how far it is above the ordinary.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ensembles._ensemble import TIE, GrowingEnsemble
from ensembles._library import Name
from ensembles._path import categories
from ensembles._scores import curve
from ensembles._setup import Setup, at_least_one
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# Subsets tried at most: about a minute for 5,000 examples of 1,000 classes.
MOST_SUBSETS = 20_000


@dataclass(frozen=True)
class Choice:
    """One ensemble among many that were tried: a set of models with equal shares, and what it scores and costs.

    `score` is on the selection split, which the choice has fitted; `test_score` on the other, None without one.
    """

    members: tuple[Name, ...]
    score: float
    test_score: float | None
    method: str  # how it was found, in words
    tried: int  # ensembles whose score was known in the end
    cost: float | None = None

    @classmethod
    def of(
        cls, setup: Setup, members: Sequence[int], score: float, method: str, tried: int, cost: float | None = None
    ) -> "Choice":
        """A choice by name; `score` counts more as better, as searches do."""
        names = tuple(setup.library.names[model] for model in members)
        return cls(names, setup.objective.sign * score, setup.test_score(members), method, tried, cost)


def partners(setup: Setup, bases: Sequence[Name] | None, resamples: int) -> "pd.DataFrame":
    """One row per base: the partner that scores best with it."""
    import pandas as pd

    names, sign, ensemble = setup.library.names, setup.objective.sign, setup.ensemble()
    starts = range(len(names)) if bases is None else [setup.library.position(name, "base") for name in bases]
    rows = []
    for base in starts:
        others = [model for model in setup.candidates if model != base]
        if not others:
            raise InputError(f"candidates: none is left beside the base {names[base]!r}")
        alone = ensemble.score_of([base])
        ensemble.add(base)
        partner, pair = ensemble.best(others)
        row: dict[str, Any] = {
            "base": names[base],
            "partner": names[partner],
            "category": categories([names[base], names[partner]], setup.library.runs)[1],
            "alone": sign * alone,
            "pair": sign * pair,
        }
        if setup.test is not None:
            seen = curve(setup.test, [base, partner], setup.objective, keep={0, 1})
            interval = seen.gain_intervals(0, resamples, setup.seed)[1]
            row |= {"test_alone": seen.score[0], "test_pair": seen.score[1], "gain": seen.gains(0)[1], "interval": interval}
        rows.append(row)
    return pd.DataFrame(rows)


def pairs(setup: Setup) -> "pd.DataFrame":
    """[M, M] scores of every two models together, and of each alone."""
    import pandas as pd

    names, ensemble = setup.library.names, setup.ensemble()
    scores = np.zeros((len(names), len(names)))
    for first, second in itertools.combinations_with_replacement(range(len(names)), 2):
        pair = setup.by_name({first, second})
        scores[first, second] = scores[second, first] = setup.objective.sign * ensemble.score_of(pair)
    return pd.DataFrame(scores, index=list(names), columns=list(names))


def best_of_size(setup: Setup, size: int) -> Choice:
    """The best of all subsets of `size`, joined to the base."""
    pool = _pool(setup, size)
    count = math.comb(len(pool), size)
    if count > MOST_SUBSETS:
        raise InputError(
            f"size: {count} subsets of {size} among {len(pool)} are too many (limit {MOST_SUBSETS}); use greedy"
        )
    chosen: tuple[int, ...] = ()
    ensemble, best, least_loss, tried = setup.ensemble(), -math.inf, math.inf, 0
    for start, later in _all_but_one(setup, ensemble, size):
        scores = ensemble.scores(later, at_least=best)
        tried += len(later)
        if not scores:
            continue
        model = ensemble.first(scores)
        loss = ensemble.log_loss_with(model)
        if scores[model] > best + TIE or (scores[model] > best - TIE and loss < least_loss - TIE):
            best, least_loss, chosen = scores[model], loss, (*start, model)
    return Choice.of(setup, chosen, best, f"all {count} subsets of {size}", tried)


def up_to_size(setup: Setup, largest: int) -> dict[tuple[int, ...], float]:
    """The scores of every set of up to `largest` candidates, each joined to the base, and of the base alone."""
    ensemble = setup.ensemble()
    scores = {tuple(setup.base): ensemble.score_of(setup.base)} if setup.base else {}
    for size in range(1, largest + 1):
        for start, later in _all_but_one(setup, ensemble, size):
            scores |= {(*start, model): score for model, score in ensemble.scores(later, every=True).items()}
    return scores


def _all_but_one(setup: Setup, ensemble: GrowingEnsemble, size: int) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """All subsets of `size`, as those that have all but their last model in common: the ensemble then holds these."""
    pool = setup.pool
    for start in itertools.combinations(pool, size - 1):
        later = pool[pool.index(start[-1]) + 1 :] if start else pool
        if later:
            ensemble.reset([*setup.base, *start])
            yield (*setup.base, *start), later


def draws_of_size(setup: Setup, size: int, draws: int) -> "pd.DataFrame":
    """One row per random subset of `size`, joined to the base."""
    import pandas as pd

    pool = _pool(setup, size)
    at_least_one(draws=draws)
    rng, ensemble, rows = np.random.default_rng(setup.seed), setup.ensemble(), []
    for _ in range(draws):
        drawn = [*setup.base, *setup.by_name(pool[i] for i in rng.choice(len(pool), size, replace=False))]
        one = Choice.of(setup, drawn, ensemble.score_of(drawn), "random", 1)
        rows.append({"members": one.members, "selection": one.score, "test": one.test_score})
    return pd.DataFrame(rows)


def _pool(setup: Setup, size: int) -> list[int]:
    if not 1 <= size <= len(setup.pool):
        raise InputError(f"size: expected 1 to {len(setup.pool)}, the number of candidates, found {size}")
    return setup.pool
