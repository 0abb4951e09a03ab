"""Training: from a recipe's name to a model with weights and a card; and the loop itself for any network."""

from zoo.training.fitting import Fit as Fit
from zoo.training.fitting import fit as fit
from zoo.training.making import Trained as Trained
from zoo.training.making import build as build
from zoo.training.making import train as train
from zoo.training.planning import Plan as Plan
from zoo.training.planning import expand as expand
from zoo.training.planning import plan as plan
from zoo.training.recipes import Recipe as Recipe
from zoo.training.side_by_side import default_jobs as default_jobs
from zoo.training.side_by_side import train_each as train_each

__all__ = ["Fit", "Plan", "Recipe", "Trained", "build", "default_jobs", "expand", "fit", "plan", "train", "train_each"]
