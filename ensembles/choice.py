"""One ensemble among many that were tried: a set of models with equal shares, and what it scores and costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ensembles.ground import Ground
from ensembles.library import Name


@dataclass(frozen=True)
class Choice:
    """`score` is on the selection split, which the choice has fitted; `test_score` on the other, None without one."""

    members: tuple[Name, ...]
    score: float
    test_score: float | None
    method: str  # how it was found, in words
    tried: int  # ensembles whose score was known in the end
    cost: float | None = None


def choice(
    ground: Ground, members: Sequence[int], score: float, method: str, tried: int, cost: float | None = None
) -> Choice:
    """A choice by name; `score` counts more as better, as searches do."""
    return Choice(
        members=tuple(ground.library.names[model] for model in members),
        score=ground.objective.sign * score,
        test_score=ground.test_score(members),
        method=method,
        tried=tried,
        cost=cost,
    )
