"""Hyper-parameter search on a holdout of the training set: a coarse grid, then a finer one around its best point.

This is the protocol of Kornblith et al. (2021), Appendix A.1 (the CIFAR networks of its first version): train every point
of a grid, extend the grid while its best point lies on an edge, then train the points half a step away from the best one.
Several grids are searched in order, each with the best settings of the earlier ones. No test image is read.
"""

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from zoo import datasets
from zoo.cards.names import parse_recipe
from zoo.cards.recipes import Recipe
from zoo.core import files
from zoo.core import home as home_layout
from zoo.errors import CorruptFile, InputError, UnknownName, ZooError, ZooWarning
from zoo.training.loop import Diverged, fit
from zoo.training.parallel import call_each
from zoo.training.plans import NOT_SETTINGS, Plan, plan
from zoo.training.trainer import initial_network, probabilities

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
MAX_EXTENSIONS = 4  # rounds of extension, each by one step, per axis of a grid
HOLDOUT_FRACTION = 0.1  # of the training images, if the recipe has no holdout
DECAY_PRODUCT = "decay_product"  # weight decay times learning rate, the axis of the paper's grids
_WHOLE_NUMBERS = {key for key, kind in get_type_hints(Recipe).items() if kind is int}  # settings such as `batch_size`

Stage = Literal["coarse", "extended", "fine"]


@dataclass(frozen=True)
class Trial:
    """One grid point: its settings and its scores on the holdout, averaged over seeds."""

    grid: int  # number of the grid, from 1
    stage: Stage
    settings: dict[str, float]  # of this grid, and the best settings of earlier grids
    accuracy: float  # at the best epoch; NaN if training diverged for any seed
    nll: float  # at that epoch
    accuracies: list[float]  # by seed


@dataclass(frozen=True)
class SearchResult:
    """All trials of a search, in order."""

    name: str  # of the recipe
    trials: list[Trial]
    holdout: int  # number of held-out training images
    epochs: int  # of each trial

    @property
    def best(self) -> Trial:
        """The trial with the highest holdout accuracy; of equally accurate trials, the one with the lowest NLL."""
        return max(self.trials, key=_merit)

    @property
    def settings(self) -> dict[str, float]:
        """The best trial's settings as arguments of `zoo.train`."""
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
        name: a recipe without a seed, such as `resnet7-cosine.cifar10`.
        grids: the grids to search in order. Each maps a setting of the recipe or hyper-parameter of the objective to the
            values to try. `decay_product` stands for weight decay times learning rate. All grids are checked before the
            first trial.
        data: spec of the training images; default: the training split of the name's dataset.
        epochs: length of each trial; default: the recipe's. The warm-up is shortened in proportion.
        seeds: initialisations to average over for each grid point.
        fine: whether to train the points half a step around the best point of each grid.
        jobs: trials to run at once.
        home: where the scores of finished trials are stored, so that an interrupted search resumes; default `ZOO_HOME`.
        progress: called with one line of text after each trial.
        settings: fixed settings of all trials, for example `holdout=5000`.

    >>> grids = [{"learning_rate": [0.05, 0.1], "decay_product": [1e-4, 1e-3]}, {"tau": [0.05, 0.1, 0.2]}]
    >>> result = search("resnet8-cosine", grids, seeds=3)  # doctest: +SKIP
    >>> zoo.train("resnet8-cosine", save_as="tuned", **result.settings)  # doctest: +SKIP
    """
    for argument, count in {"seeds": seeds, "jobs": jobs, "grids": len(grids)}.items():
        if not isinstance(count, int) or count < 1:
            raise InputError(argument=argument, expected="a whole number of at least 1", found=count)
    parts = parse_recipe(name)
    if parts is not None and parts.seed:
        hint = "{seeds=N} averages each grid point over seeds 0 to N - 1"
        raise InputError(argument="name", expected="a recipe without a seed", found=name, hint=hint)
    for key in settings.keys() & NOT_SETTINGS:
        raise UnknownName(kind="setting", name=key)
    axes_of_grids = [_axes(grid, number) for number, grid in enumerate(grids, 1)]
    shared = _shared_settings(name, data, epochs, settings)

    def evaluation(number: int, earlier: dict[str, float]) -> _Evaluation:
        return _Evaluation(name, data, shared, earlier, number, seeds, jobs, home, progress)

    earlier: dict[str, float] = {}
    for number, axes in enumerate(axes_of_grids, 1):
        earlier |= evaluation(number, earlier).check(axes)
    trials: list[Trial] = []
    best: dict[str, float] = {}
    for number, axes in enumerate(axes_of_grids, 1):
        evaluate = evaluation(number, best)
        _search_grid(axes, evaluate, fine)
        trials += evaluate.trials.values()
        best_trial = max(evaluate.trials.values(), key=_merit)
        if math.isnan(best_trial.accuracy):
            hint = "Try lower learning rates"
            raise ZooError(f"training diverged at every point of grid {number}", where=name, hint=hint)
        best = best_trial.settings
    return SearchResult(name, trials, shared["holdout"], shared["epochs"])


def _axes(grid: Mapping[str, Sequence[float]], number: int) -> dict[str, list[float]]:
    """Return the values of each axis of a grid, sorted, each once."""
    try:
        axes = {key: sorted({float(value) for value in values}) for key, values in grid.items()}
    except (TypeError, ValueError):
        axes = {}
    for key in axes.keys() & NOT_SETTINGS:
        raise UnknownName(kind="setting", name=key, where=f"grid {number}")
    if not axes or not all(axes.values()):
        raise InputError(where=f"grid {number}", argument="grids", expected="one or more numbers per setting", found=grid)
    return axes


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
            evaluate(filter(evaluate.is_valid, _product({key: [value], **near})), "extended")
    if fine:
        best = evaluate.best
        halves = {key: [best[key]] for key in axes}
        for key, values in axes.items():
            if len(values) > 1:
                halves[key] = [steps[key].beyond(best[key], -0.5), best[key], steps[key].beyond(best[key], 0.5)]
        evaluate(filter(evaluate.is_valid, _product(halves)), "fine")


@dataclass
class _Evaluation:
    """Trains grid points and remembers their scores."""

    name: str
    data: str | None
    shared: dict[str, Any]
    earlier: dict[str, float]  # the best settings of earlier grids
    number: int  # of the grid
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

    def check(self, axes: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """Raise an error if a recipe cannot have the settings of a point of this grid; return the last point."""
        point: dict[str, float] = {}
        for point in _product(axes):
            try:
                self._plan(point, 0)
            except InputError as error:
                raise error.inside(f"grid {self.number}")  # noqa: B904  # the same error
        return point

    def is_valid(self, point: Mapping[str, float]) -> bool:
        """Return whether a recipe can have these settings. A keep probability above 1, for example, is not valid."""
        try:
            self._plan(point, 0)
        except InputError:
            return False
        return True

    def __call__(self, points: Iterable[dict[str, float]], stage: Stage) -> None:
        """Train the points that have no score yet, `jobs` at a time."""
        new = [point for point in points if tuple(point.values()) not in self.trials]
        calls = [{"planned": self._plan(point, seed), "home": self.home} for point in new for seed in range(self.seeds)]
        scores: dict[str, dict[str, float]] = {}
        for call, score in call_each(_train_trial, calls, self.jobs):
            planned = call["planned"]
            scores[planned.name] = score
            if self.progress is not None:
                keys = _recipe_settings({**self.earlier, **new[0]})
                settings = ", ".join(f"{key} {value:g}" for key, value in planned.changed.items() if key in keys)
                self.progress(f"{self.name}: {settings}: holdout accuracy {score['accuracy']:.4f}")
        for point in new:
            by_seed = [scores[self._plan(point, seed).name] for seed in range(self.seeds)]
            key = tuple(point.values())
            self.points[key] = point
            self.trials[key] = Trial(
                grid=self.number,
                stage=stage,
                settings={**self.earlier, **point},
                accuracy=fmean(score["accuracy"] for score in by_seed),
                nll=fmean(score["nll"] for score in by_seed),
                accuracies=[score["accuracy"] for score in by_seed],
            )

    def _plan(self, point: Mapping[str, float], seed: int) -> Plan:
        """Plan one trial. Its name derives from its settings, so each trial has its own initial weights and batch order."""
        changes = {**self.shared, **_recipe_settings({**self.earlier, **point})}
        planned = plan(self.name, self.data, seed, save_as="trial", **changes)
        settings = sorted({**planned.recipe.settings, **planned.hyperparameters}.items())
        text = repr((planned.architecture, planned.objective, planned.data, settings, seed))
        name = f"trial-{files.digest([text])[:16]}"
        return dataclasses.replace(planned, name=name, recipe=planned.recipe.change(name=name))


def _train_trial(planned: Plan, home: Path | str | None = None) -> dict[str, float]:
    """Return accuracy and NLL on the holdout at the best epoch; NaN if training diverged.

    The scores are stored. A trial that finished before is not trained again.
    """
    train_set, recipe = datasets.load(planned.data), planned.recipe
    run = {
        "architecture": planned.architecture,
        "objective": planned.objective,
        "settings": {**recipe.settings, **planned.hyperparameters, "seed": recipe.seed, "name": recipe.name},
        "data": train_set.fingerprint,
    }
    path = home_layout.folder("search", home) / f"{planned.name}.json"
    if (stored := _stored_trial(path)) is not None and stored["run"] == run:
        return {"accuracy": float(stored["accuracy"]), "nll": float(stored["nll"])}
    teacher = recipe.teacher
    soft_targets = probabilities(teacher, train_set, home_layout.root(home), progress=False) if teacher else None
    try:
        done = fit(initial_network(planned, train_set), train_set, recipe, soft_targets=soft_targets, progress=False)
        best = done.log[done.epoch - 1]
        score = {"accuracy": best["holdout_accuracy"], "nll": best["holdout_nll"]}
    except Diverged:
        score = {"accuracy": math.nan, "nll": math.nan}
    files.make_folder(path.parent)
    # As text, because NaN is not valid JSON.
    files.write_json(path, {"schema": SCHEMA, "run": run, **{key: str(value) for key, value in score.items()}})
    return score


def _stored_trial(path: Path) -> dict[str, Any] | None:
    """Return the stored result of a trial; None if there is none. A damaged file is renamed, with a warning."""
    try:
        return files.read_json(path, SCHEMA) if path.exists() else None
    except CorruptFile as error:
        renamed = files.set_aside(path)
        warnings.warn(f"{error}; renamed to {renamed.name}, the trial is trained again", ZooWarning, stacklevel=2)
        return None


def _shared_settings(name: str, data: str | None, epochs: int | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fixed settings of all trials, with a holdout, and with a warm-up in proportion to their epochs."""
    default = plan(name, data, save_as="trial")
    plan(name, data, epochs=epochs, save_as="trial")  # raises an error if `epochs` is invalid
    recipe, shared = default.recipe, dict(settings)
    shared["epochs"] = recipe.epochs if epochs is None else epochs
    images = len(datasets.load(default.data))
    shared.setdefault("holdout", recipe.holdout or math.ceil(HOLDOUT_FRACTION * images))
    if shared["holdout"] == 0:
        raise InputError(argument="holdout", expected="at least 1, because trials are compared on held-out images", found=0)
    if shared["epochs"] != recipe.epochs and recipe.warmup_epochs:
        shared.setdefault("warmup_epochs", recipe.warmup_epochs * shared["epochs"] / recipe.epochs)
    return shared


def _recipe_settings(point: Mapping[str, float]) -> dict[str, float]:
    """Return a grid point as settings of a recipe: `decay_product` becomes a weight decay, whole numbers become int."""
    settings = {
        key: int(value) if key in _WHOLE_NUMBERS and value.is_integer() else value
        for key, value in point.items()
        if key != DECAY_PRODUCT
    }
    if DECAY_PRODUCT in point:
        if "learning_rate" not in point:
            problem = f"{DECAY_PRODUCT} needs learning_rate on the same grid or an earlier one"
            raise InputError(problem, argument="grids")
        settings["weight_decay"] = _rounded(point[DECAY_PRODUCT] / point["learning_rate"])
    return settings


@dataclass(frozen=True)
class _Step:
    """The distance between neighbouring values of an axis: a factor, or a difference if the values are evenly spaced."""

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
            unevenness = max(differences) / min(differences), max(ratios) / min(ratios)
            geometric = unevenness[1] < unevenness[0] if len(values) > 2 else values[-1] / values[0] >= 2
            if geometric:
                return cls(_rounded(math.exp(fmean(ratios))), geometric=True)
        return cls(_rounded(fmean(differences)), geometric=False)

    def beyond(self, value: float, steps: float) -> float:
        """Return the value `steps` steps above `value`; below it if `steps` is negative."""
        return _rounded(value * self.size**steps if self.geometric else value + steps * self.size)


def _product(axes: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Return all points of a grid, with sorted keys."""
    keys = sorted(axes)
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*(axes[key] for key in keys))]


def _neighbours(values: Sequence[float], value: float) -> list[float]:
    place = list(values).index(value)
    return list(values[max(0, place - 1) : place + 2])


def _merit(trial: Trial) -> tuple[float, float]:
    return (-math.inf, -math.inf) if math.isnan(trial.accuracy) else (trial.accuracy, -trial.nll)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
