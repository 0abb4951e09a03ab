"""Training: `train` trains a recipe by name, `fit` trains any network, `search` tunes hyper-parameters.

Plans and recipes do not load torch; training does.
"""

from typing import TYPE_CHECKING

from zoo.core.lazy import lazy_exports

if TYPE_CHECKING:
    from zoo.cards.recipes import Recipe as Recipe
    from zoo.training.loop import Fit as Fit
    from zoo.training.loop import fit as fit
    from zoo.training.parallel import default_jobs as default_jobs
    from zoo.training.parallel import train_each as train_each
    from zoo.training.plans import Plan as Plan
    from zoo.training.plans import expand as expand
    from zoo.training.plans import plan as plan
    from zoo.training.trainer import Trained as Trained
    from zoo.training.trainer import build as build
    from zoo.training.trainer import train as train
    from zoo.training.tuning import SearchResult as SearchResult
    from zoo.training.tuning import search as search

__all__ = [
    "Fit",
    "Plan",
    "Recipe",
    "SearchResult",
    "Trained",
    "build",
    "default_jobs",
    "expand",
    "fit",
    "plan",
    "search",
    "train",
    "train_each",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Fit": "zoo.training.loop",
        "Plan": "zoo.training.plans",
        "Recipe": "zoo.cards.recipes",
        "SearchResult": "zoo.training.tuning",
        "Trained": "zoo.training.trainer",
        "build": "zoo.training.trainer",
        "default_jobs": "zoo.training.parallel",
        "expand": "zoo.training.plans",
        "fit": "zoo.training.loop",
        "plan": "zoo.training.plans",
        "search": "zoo.training.tuning",
        "train": "zoo.training.trainer",
        "train_each": "zoo.training.parallel",
    },
)
