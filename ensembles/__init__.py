"""Which models to put together, and what it really gains: combining, greedy search, budgets, an ensemble as a model."""

from typing import TYPE_CHECKING, Any

from ensembles._cascade import Cascade as Cascade
from ensembles._choices import Choice as Choice
from ensembles._combine import Improvement as Improvement
from ensembles._combine import average as average
from ensembles._combine import conversion_rate as conversion_rate
from ensembles._combine import ensemble_agreement as ensemble_agreement
from ensembles._combine import half_and_half as half_and_half
from ensembles._combine import improvement as improvement
from ensembles._combine import mean_logits as mean_logits
from ensembles._combine import vote as vote
from ensembles._path import Path as Path
from ensembles._recommendation import Recommendation as Recommendation
from ensembles._recommendation import recommend as recommend
from ensembles._scores import score as score
from ensembles._setup import stratified_split as stratified_split
from ensembles.search import Search as Search
from ensembles.search import best_partners as best_partners
from ensembles.search import best_subset as best_subset
from ensembles.search import best_within as best_within
from ensembles.search import cascade as cascade
from ensembles.search import greedy as greedy
from ensembles.search import pair_scores as pair_scores
from ensembles.search import pareto as pareto
from ensembles.search import random_subsets as random_subsets

if TYPE_CHECKING:
    from ensembles.estimator import GreedyEnsembleClassifier as GreedyEnsembleClassifier

__all__ = [
    "Cascade",
    "Choice",
    "GreedyEnsembleClassifier",
    "Improvement",
    "Path",
    "Recommendation",
    "Search",
    "average",
    "best_partners",
    "best_subset",
    "best_within",
    "cascade",
    "conversion_rate",
    "ensemble_agreement",
    "greedy",
    "half_and_half",
    "improvement",
    "mean_logits",
    "pair_scores",
    "pareto",
    "random_subsets",
    "recommend",
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
