"""Ensembles: which models to combine, and what the combination gains.

Which models should I combine?
    greedy, best_partners, best_subset   one question in one call
    Search                               many questions about models that are read once
    Path                                 the result of a greedy search; saves the ensemble as a model
What may it cost?
    best_within, pareto                  the best ensemble within a budget, the Pareto front of cost and score
    cascade, Cascade                     an ensemble that stops early, at a fraction of the cost
Which model should I add next?
    recommend                            predicted gains of models that have not been run yet
How do I combine predictions, and is the ensemble better than my best model?
    average, vote                        means of probabilities, majority votes
    improvement                          the gain over the members, with a test against the best one
How do I keep a test split?
    stratified_split                     the division that every search uses
How do I use it with scikit-learn?
    GreedyEnsembleClassifier             greedy selection among fitted classifiers

Everything else is in the modules, for example `ensembles.combination.mean_logits`, `ensembles.gains.conversion_rate` and
`ensembles.objective_groups.mixed_ensembles`.
"""

from typing import TYPE_CHECKING

from ensembles.cascades import Cascade as Cascade
from ensembles.combination import average as average
from ensembles.combination import vote as vote
from ensembles.gains import improvement as improvement
from ensembles.path import Path as Path
from ensembles.recommendation import recommend as recommend
from ensembles.search import Search as Search
from ensembles.search import best_partners as best_partners
from ensembles.search import best_subset as best_subset
from ensembles.search import best_within as best_within
from ensembles.search import cascade as cascade
from ensembles.search import greedy as greedy
from ensembles.search import pareto as pareto
from ensembles.selection_split import stratified_split as stratified_split
from zoo.core.lazy import lazy_exports

if TYPE_CHECKING:
    from ensembles.estimator import GreedyEnsembleClassifier as GreedyEnsembleClassifier

__all__ = [
    "Cascade",
    "GreedyEnsembleClassifier",
    "Path",
    "Search",
    "average",
    "best_partners",
    "best_subset",
    "best_within",
    "cascade",
    "greedy",
    "improvement",
    "pareto",
    "recommend",
    "stratified_split",
    "vote",
]

# Loaded on first use, so that a search does not wait for scikit-learn.
__getattr__, __dir__ = lazy_exports(__name__, {"GreedyEnsembleClassifier": "ensembles.estimator"})
