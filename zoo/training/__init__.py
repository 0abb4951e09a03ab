"""Training: from a recipe's name to a model with weights; and the loop itself for any network.

Reading this package's recipes does not load torch; training does.
"""

from typing import TYPE_CHECKING, Any

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

__all__ = ["Fit", "Plan", "Recipe", "Trained", "build", "default_jobs", "expand", "fit", "plan", "train", "train_each"]

_MODULES = {
    "Fit": "training.loop", "Plan": "training.plans", "Recipe": "cards.recipes", "Trained": "training.trainer",
    "build": "training.trainer", "default_jobs": "training.parallel", "expand": "training.plans", "fit": "training.loop",
    "plan": "training.plans", "train": "training.trainer", "train_each": "training.parallel",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"zoo.{_MODULES[name]}"), name)
