"""Hyper-parameter search on a holdout of the training set: a coarse grid, then a finer one around its best point.

This is the protocol of Kornblith et al. (2021), Appendix A.1 (the CIFAR networks of its first version): train every point
of a grid, extend the grid where its best point lies on an edge, then train the points half a step away from the best one.
Several grids are searched one after another, each from the best point of the one before. No test image is read.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import torch

from zoo import datasets, networks
from zoo.core import files
from zoo.core.home import folder
from zoo.errors import InputError, ZooError
from zoo.training.loop import fit
from zoo.training.parallel import call_each
from zoo.training.plans import Plan, plan
from zoo.training.randomness import For, seed_of

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
MAX_EXTENSIONS = 4  # of one axis, each by one step
HOLDOUT_FRACTION = 0.1  # of the training images, where the recipe has no holdout of its own
DECAY_PRODUCT = "decay_product"  # weight decay times learning rate, the axis of the paper's grids

Stage = Literal["coarse", "extended", "fine"]


@dataclass(frozen=True)
class Trial:
    """One grid point: its settings and its scores on the holdout, averaged over seeds."""

    grid: int  # number of the grid, from 1
    stage: Stage
    settings: dict[str, float]  # of this grid and those before it
    accuracy: float  # at the best epoch; NaN if training diverged for any seed
    nll: float  # at that epoch
    accuracies: list[float]  # by seed


@dataclass(frozen=True)
class SearchResult:
    """All trials of a search in the order they were made."""

    name: str  # of the recipe
    trials: list[Trial]
    holdout: int  # number of held-out training images
    epochs: int  # of each trial

    @property
    def best(self) -> Trial:
        """The trial with the highest holdout accuracy; of equally accurate ones, that with the lowest NLL."""
        return max(self.trials, key=_merit)

    @property
    def settings(self) -> dict[str, float]:
        """The best trial's settings in the recipe's own terms, as `zoo.train` takes them."""
        return _recipe_settings(self.best.settings)

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per trial: grid, stage, settings, accuracy, NLL."""
        import pandas as pd

        rows = [
            {"grid": t.grid, "stage": t.stage, **t.settings, "holdout_accuracy": t.accuracy, "holdout_nll": t.nll}
            for t in self.trials
        ]
        return pd.DataFrame(rows)


def search(
    name: str,
    grids: Sequence[Mapping[str, Sequence[float]]],
    data: str | None = None,
    epochs: int | None = None,
    seeds: int = 1,
    fine: bool = True,
    jobs: int = 1,
    home: Path | str | None = None,
    progress: Callable[[str], None] | None = None,
    **settings: Any,
) -> SearchResult:
    """Tune settings of a recipe on a holdout of its training set.

    Args:
        name: a recipe, such as `resnet7-cosine.cifar10`.
        grids: the grids to search, one after another; each maps a setting of the recipe or hyper-parameter of the
            objective to the values to try. `decay_product` stands for weight decay times learning rate.
        data: training images, if the name does not say.
        epochs: length of each trial, whose warm-up is shortened in proportion; default: the recipe's.
        seeds: initialisations to average over for each grid point.
        fine: whether to search half a step around the best point of each grid.
        jobs: trials to run at once.
        home: where finished trials are kept, so that an interrupted search resumes; default `ZOO_HOME`.
        progress: called with one line of text after each trial.
        settings: fixed settings of all trials, for example `holdout=5000`.
    """
    if seeds < 1 or not grids:
        raise InputError(f"search: expected at least one grid and one seed, found {len(grids)} and {seeds}")
    shared = _shared_settings(name, data, epochs, settings)
    trials: list[Trial] = []
    chosen: dict[str, float] = {}
    for number, grid in enumerate(grids, 1):
        axes = {key: sorted({float(value) for value in values}) for key, values in grid.items()}
        if not axes or not all(axes.values()):
            raise InputError(f"search: grid {number} has an axis without values; write NAME=VALUE,VALUE,...")
        evaluate = _Evaluation(name, data, shared, chosen, number, seeds, jobs, home, progress)
        _search_grid(axes, evaluate, fine)
        trials += evaluate.trials.values()
        chosen = max(evaluate.trials.values(), key=_merit).settings
        if math.isnan(max(trials, key=_merit).accuracy):
            raise ZooError(f"{name}: training diverged at every point of grid {number}; try lower learning rates")
    return SearchResult(name, trials, shared["holdout"], shared["epochs"])


def _search_grid(axes: dict[str, list[float]], evaluate: "_Evaluation", fine: bool) -> None:
    """Evaluate the product of the axes, extend an axis while the best point lies on its edge, then refine."""
    evaluate(_product(axes), "coarse")
    steps = {key: _Step.of(values) for key, values in axes.items()}
    for _ in range(MAX_EXTENSIONS * len(axes)):
        best = evaluate.best
        edges = {
            key: steps[key].beyond(best[key], -1 if best[key] == values[0] else 1)
            for key, values in axes.items()
            if len(values) > 1 and best[key] in (values[0], values[-1])
        }
        new = {key: value for key, value in edges.items() if evaluate.is_valid({**best, key: value})}
        if not new:
            break
        for key, value in new.items():
            axes[key] = sorted([*axes[key], value])
            near = {other: _neighbours(values, best[other]) for other, values in axes.items() if other != key}
            evaluate(_product({key: [value], **near}), "extended")
    if fine:
        best = evaluate.best
        halves = {
            key: [best[key]] if len(values) == 1 else [steps[key].beyond(best[key], side) for side in (-0.5, 0, 0.5)]
            for key, values in axes.items()
        }
        evaluate([point for point in _product(halves) if evaluate.is_valid(point)], "fine")


@dataclass
class _Evaluation:
    """Trains grid points and remembers their scores."""

    name: str
    data: str | None
    shared: dict[str, Any]
    chosen: dict[str, float]  # settings found on earlier grids
    number: int
    seeds: int
    jobs: int
    home: Path | str | None
    progress: Callable[[str], None] | None
    trials: dict[tuple[float, ...], Trial] = dataclasses.field(default_factory=dict)
    points: dict[tuple[float, ...], dict[str, float]] = dataclasses.field(default_factory=dict)

    @property
    def best(self) -> dict[str, float]:
        """The values of this grid's axes at its best point so far."""
        return self.points[max(self.trials, key=lambda key: _merit(self.trials[key]))]

    def is_valid(self, point: Mapping[str, float]) -> bool:
        """Return whether a recipe can have these settings: a keep probability above 1, for example, is not valid."""
        try:
            self._plan(point, 0)
        except InputError:
            return False
        return True

    def __call__(self, points: Iterable[dict[str, float]], stage: Stage) -> None:
        """Train the points that are not known yet, `jobs` at a time."""
        new = [point for point in points if tuple(point.values()) not in self.trials]
        calls = [{"made": self._plan(point, seed), "home": self.home} for point in new for seed in range(self.seeds)]
        scores: dict[str, dict[str, float]] = {}
        for call, score in call_each(_train_trial, calls, self.jobs):
            scores[call["made"].name] = score
            if self.progress is not None:
                said = ", ".join(f"{key} {value:g}" for key, value in call["made"].changed.items() if key in self._keys(new))
                self.progress(f"{self.name}: {said}: holdout accuracy {score['accuracy']:.4f}")
        for point in new:
            found = [scores[self._plan(point, seed).name] for seed in range(self.seeds)]
            key = tuple(point.values())
            self.points[key] = point
            self.trials[key] = Trial(
                grid=self.number,
                stage=stage,
                settings={**self.chosen, **point},
                accuracy=fmean(score["accuracy"] for score in found),
                nll=fmean(score["nll"] for score in found),
                accuracies=[score["accuracy"] for score in found],
            )

    def _keys(self, points: Sequence[Mapping[str, float]]) -> set[str]:
        return {*_recipe_settings({**self.chosen, **points[0]})} if points else set()

    def _plan(self, point: Mapping[str, float], seed: int) -> Plan:
        """Plan one trial. Its name depends on its settings, so that each has initial weights and batch order of its own."""
        changes = {**self.shared, **_recipe_settings({**self.chosen, **point})}
        made = plan(self.name, self.data, seed, save_as="trial", **changes)
        settings = sorted({**made.recipe.settings, **made.hyperparameters}.items())
        text = repr((made.architecture, made.objective, made.data, settings, seed))
        name = f"trial-{files.digest([text])[:16]}"
        return dataclasses.replace(made, name=name, recipe=made.recipe.change(name=name))


def _train_trial(made: Plan, home: Path | str | None = None) -> dict[str, float]:
    """Return accuracy and NLL on the holdout at the best epoch; NaN if training diverged. A finished trial is read back."""
    train_set = datasets.load(made.data)
    run = {
        "architecture": made.architecture,
        "objective": made.objective,
        "settings": {**made.recipe.settings, **made.hyperparameters, "seed": made.recipe.seed, "name": made.recipe.name},
        "data": train_set.fingerprint,
    }
    path = folder("search", home) / f"{made.name}.json"
    if path.exists():
        stored = files.read_json(path, SCHEMA)
        if stored["run"] == run:
            return {"accuracy": float(stored["accuracy"]), "nll": float(stored["nll"])}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(made.recipe.entropy, For.START))
        size, classes = made.recipe.transform.size, len(train_set.classes)
        network = networks.build(made.architecture, classes, made.objective, made.hyperparameters, size)
    try:
        done = fit(network, train_set, made.recipe, progress=False)
        best = done.log[done.epoch - 1]
        score = {"accuracy": best["holdout_accuracy"], "nll": best["holdout_nll"]}
    except ZooError as error:
        if isinstance(error, InputError):
            raise
        score = {"accuracy": math.nan, "nll": math.nan}
    files.make_folder(path.parent)
    # As text, because NaN is not JSON.
    files.write_json(path, {"schema": SCHEMA, "run": run, **{key: str(value) for key, value in score.items()}})
    return score


def _shared_settings(name: str, data: str | None, epochs: int | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fixed settings of all trials: a holdout, and where trials are shorter than the recipe, a warm-up to match."""
    own = plan(name, data)
    shared = dict(settings)
    shared["epochs"] = shared.get("epochs", epochs) or own.recipe.epochs
    images = len(datasets.load(own.data))
    shared["holdout"] = shared.get("holdout") or own.recipe.holdout or math.ceil(HOLDOUT_FRACTION * images)
    if shared["epochs"] != own.recipe.epochs and own.recipe.warmup_epochs:
        shared.setdefault("warmup_epochs", own.recipe.warmup_epochs * shared["epochs"] / own.recipe.epochs)
    return shared


def _recipe_settings(point: Mapping[str, float]) -> dict[str, float]:
    """A grid point as settings of a recipe: `decay_product` becomes a weight decay."""
    settings = {key: value for key, value in point.items() if key != DECAY_PRODUCT}
    if DECAY_PRODUCT in point:
        if "learning_rate" not in point:
            raise InputError(f"search: {DECAY_PRODUCT} needs learning_rate on the same grid or an earlier one")
        settings["weight_decay"] = _rounded(point[DECAY_PRODUCT] / point["learning_rate"])
    return settings


@dataclass(frozen=True)
class _Step:
    """The distance between neighbouring values of an axis: a factor, or a difference where values are evenly spaced."""

    size: float
    geometric: bool

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Step":
        """Return the mean step of sorted values.

        >>> _Step.of([0.1, 0.2, 0.4]), _Step.of([0.5, 0.6, 0.7]).geometric
        (_Step(size=2.0, geometric=True), False)
        """
        if len(values) == 1:
            return cls(1.0, geometric=False)
        differences = [b - a for a, b in itertools.pairwise(values)]
        if values[0] > 0:
            ratios = [math.log(b / a) for a, b in itertools.pairwise(values)]
            even = max(differences) / min(differences), max(ratios) / min(ratios)
            geometric = even[1] < even[0] if len(values) > 2 else values[-1] / values[0] >= 2
            if geometric:
                return cls(_rounded(math.exp(fmean(ratios))), geometric=True)
        return cls(_rounded(fmean(differences)), geometric=False)

    def beyond(self, value: float, steps: float) -> float:
        """Return the value so many steps above (or below) `value`."""
        return _rounded(value * self.size**steps if self.geometric else value + steps * self.size)


def _product(axes: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """All points of a grid, keys in one order."""
    keys = sorted(axes)
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*(axes[key] for key in keys))]


def _neighbours(values: Sequence[float], value: float) -> list[float]:
    place = list(values).index(value)
    return list(values[max(0, place - 1) : place + 2])


def _merit(trial: Trial) -> tuple[float, float]:
    return (-math.inf, -math.inf) if math.isnan(trial.accuracy) else (trial.accuracy, -trial.nll)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
