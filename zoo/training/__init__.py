"""Training: from a recipe's name to a model with weights; and the loop itself for any network.

Reading this package's recipes does not load torch; training does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.training.entry import train as train
    from zoo.training.fitting import Fit as Fit
    from zoo.training.fitting import fit as fit
    from zoo.training.making import Trained as Trained
    from zoo.training.making import build as build
    from zoo.training.planning import Plan as Plan
    from zoo.training.planning import expand as expand
    from zoo.training.planning import plan as plan
    from zoo.training.recipes import Recipe as Recipe
    from zoo.training.side_by_side import default_jobs as default_jobs
    from zoo.training.side_by_side import train_each as train_each

__all__ = ["Fit", "Plan", "Recipe", "Trained", "build", "default_jobs", "expand", "fit", "plan", "train", "train_each"]

_HOME = {
    "Fit": "fitting", "fit": "fitting", "Trained": "making", "build": "making", "train": "entry", "Plan": "planning",
    "expand": "planning", "plan": "planning", "Recipe": "recipes", "default_jobs": "side_by_side",
    "train_each": "side_by_side",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
