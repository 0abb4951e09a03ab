"""Which models to put together, and what it really gains: combining, greedy search, budgets, an ensemble as a model."""

from typing import TYPE_CHECKING, Any

from ensembles.budget import best_within as best_within
from ensembles.budget import pareto as pareto
from ensembles.choice import Choice as Choice
from ensembles.combine import average as average
from ensembles.combine import mean_logits as mean_logits
from ensembles.combine import vote as vote
from ensembles.exhaustive import best_partners as best_partners
from ensembles.exhaustive import best_subset as best_subset
from ensembles.exhaustive import pair_scores as pair_scores
from ensembles.exhaustive import random_subsets as random_subsets
from ensembles.gains import Improvement as Improvement
from ensembles.gains import conversion_rate as conversion_rate
from ensembles.gains import improvement as improvement
from ensembles.mixing import ensemble_agreement as ensemble_agreement
from ensembles.mixing import half_and_half as half_and_half
from ensembles.path import Path as Path
from ensembles.scores import score as score
from ensembles.search import greedy as greedy
from ensembles.splits import stratified_split as stratified_split

if TYPE_CHECKING:
    from ensembles.estimator import GreedyEnsembleClassifier as GreedyEnsembleClassifier

__all__ = [
    "Choice",
    "GreedyEnsembleClassifier",
    "Improvement",
    "Path",
    "average",
    "best_partners",
    "best_subset",
    "best_within",
    "conversion_rate",
    "ensemble_agreement",
    "greedy",
    "half_and_half",
    "improvement",
    "mean_logits",
    "pair_scores",
    "pareto",
    "random_subsets",
    "score",
    "stratified_split",
    "vote",
]


def __getattr__(name: str) -> Any:
    """The estimator on first use, so that a search does not wait for scikit-learn."""
    if name == "GreedyEnsembleClassifier":
        from ensembles.estimator import GreedyEnsembleClassifier

        return GreedyEnsembleClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
