"""The computations that several sections of a report share.

What describes every model is computed on all examples. Whatever is singled out (the best model, a pair, an ensemble) is
chosen on one half of them, the selection split, and reported on the other half, the test split.
"""

import contextlib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

import diversity
import ensembles
import zoo
from diversity.categories import category
from diversity.clustering import Dendrogram
from ensembles.costs import count_flops, count_parameters
from zoo import calibration
from zoo.app.report.inputs import ReportInputs
from zoo.calibration import policy
from zoo.calibration.calibrated_runs import refit_for_selection
from zoo.cards.names import shared_ending
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

MAX_ALL_PAIRS = 32  # models; of more, only pairs with the best model are compared, as in the paper
ACCURACY_BAND = 4.0  # percentage points between two models of comparable accuracy
MAX_GROUPS = 10  # entries of a legend


def limited(groups: Sequence[str]) -> list[str]:
    """Return groups with all but the most frequent ones replaced by "other", so that a legend stays short.

    >>> limited([*"abcdefghij", "b"])[:3], limited([*"abcdefghijk", "k"])[-3:]
    (['a', 'b', 'c'], ['other', 'k', 'k'])
    """
    counts = Counter(groups)
    frequent = {group for group, _ in counts.most_common(MAX_GROUPS - (len(counts) > MAX_GROUPS))}
    return [group if group in frequent else "other" for group in groups]


@dataclass(frozen=True, eq=False)
class Analysis:
    """Calibrated outputs of several models on the same examples, and everything that is derived from them.

    Args:
        runs: the outputs. No label of the test split affects their temperatures.
        population: which examples they are about, as a phrase.
        inputs: what the report was called with.
        base: the model that the ensemble search starts from; default: the best one.
        steps: models that the search adds at most.
        seed: of the splits and of every bootstrap.
    """

    runs: Runs
    population: str
    inputs: ReportInputs
    base: str | None = None
    steps: int = 10
    seed: int = 0

    @property
    def has_probabilities(self) -> bool:
        """Whether all models have probabilities, which are averaged; otherwise predicted classes vote."""
        return _have_probabilities(self.runs)

    @cached_property
    def splits(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the selection split and of the test split, stratified by class."""
        return ensembles.stratified_split(self.runs.labels, seed=self.seed)

    @cached_property
    def recipes(self) -> dict[str, str]:
        """The first model with the same recipe, for each model. The seeds of a recipe are drawn together in a bootstrap."""
        first: dict[str, str] = {}
        for name, outputs in self.runs.items():
            known = [other for other in dict.fromkeys(first.values()) if _same_recipe(outputs, self.runs[other])]
            first[name] = known[0] if known else name
        return first

    @cached_property
    def searchable(self) -> Runs:
        """The same probabilities for searches, which would otherwise fit the temperatures to the selection split again."""
        return Runs(replace(outputs, row_scale=None) for outputs in self.runs.values())

    @cached_property
    def selection(self) -> Runs:
        return self.runs.select(self.splits[0])

    @cached_property
    def test(self) -> Runs:
        return self.runs.select(self.splits[1])

    @property
    def tested(self) -> str:
        """The test split, as sentences call it."""
        return f"the {len(self.splits[1]):,} test examples"

    def chosen(self, what: str) -> str:
        """Return the population of something that was chosen on the selection split."""
        return f"{self.tested}; {what} chosen on {len(self.splits[0]):,} other examples"

    @cached_property
    def shared_ending(self) -> str:
        """The `.dataset` that all names end in, which sentences and charts leave out."""
        return shared_ending(self.runs.names)

    def short(self, name: str) -> str:
        """Return a model's name without the ending that all names share."""
        return name.removesuffix(self.shared_ending) if self.shared_ending else name

    @property
    def families(self) -> list[str]:
        """The family of each model, for colours; rare ones are "other"."""
        return limited([outputs.card.family if outputs.card else "unknown" for outputs in self.runs.values()])

    @cached_property
    def costs(self) -> dict[str, tuple[float | None, float | None]]:
        """Parameters and FLOPs of every model; None if unknown."""
        return {outputs.name: _costs(outputs) for outputs in self.runs.values()}

    @cached_property
    def priced(self) -> tuple[str, dict[str, float]] | None:
        """What models cost, and the cost of each: in FLOPs, or in parameters if not all FLOPs are known; else None."""
        for unit, place in (("FLOPs", 1), ("parameters", 0)):
            known = {name: cost for name, costs in self.costs.items() if (cost := costs[place]) is not None}
            if len(known) == len(self.costs):
                return unit, known
        return None

    @cached_property
    def best(self) -> str:
        """The most accurate model on the selection split; of equally accurate ones the one with the lowest NLL."""

        def rank(outputs: Outputs) -> tuple[float, float, str]:
            nll = 0.0
            if self.has_probabilities:
                nll = calibration.negative_log_likelihood(outputs.probabilities, self.selection.labels)
            return -outputs.accuracy, nll, outputs.name

        return min(self.selection.values(), key=rank).name

    @cached_property
    def pair(self) -> tuple[str, str]:
        """The pair with the most accurate ensemble on the selection split; of predictions, the pair that differs most."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZooWarning)  # `all_pairs` says which pairs are left out
            frame = self.pairs(self.selection)
        key = "ensemble_accuracy" if "ensemble_accuracy" in frame else "inconsistency"
        first = frame.sort_values([key, "inconsistency"], ascending=False, kind="stable").iloc[0]
        return str(first["first"]), str(first["second"])

    @cached_property
    def path(self) -> ensembles.Path:
        """The result of a greedy search on the selection split."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZooWarning)  # the page says if a gain is within noise
            return ensembles.greedy(
                self.searchable, base=self.base, steps=self.steps, seed=self.seed, split=self.splits,
                kind="probabilities" if self.has_probabilities else "predictions",
            )  # fmt: skip

    @cached_property
    def members(self) -> list[str]:
        """The members of the best ensemble on the path, each once."""
        return list(dict.fromkeys(str(name) for name in self.path.members[: self.path.best]))

    @cached_property
    def all_pairs(self) -> pd.DataFrame:
        """One row per pair, on all examples."""
        return self.pairs(self.runs)

    @cached_property
    def pairwise(self) -> diversity.Pairwise:
        """The errors of every pair, on all examples."""
        return diversity.pairwise(self.runs)

    @cached_property
    def tree(self) -> Dendrogram:
        """The models clustered by error inconsistency."""
        return diversity.cluster(1 - np.asarray(self.pairwise.inconsistency), self.pairwise.names)

    def pairs(self, runs: Runs) -> pd.DataFrame:
        """Return one row per pair: all pairs, or of many models the pairs with the best one.

        The column `comparable` marks pairs whose accuracies differ by at most `ACCURACY_BAND` percentage points.
        """
        if len(runs) <= MAX_ALL_PAIRS:
            return diversity.pair_frame(runs, accuracy_band=ACCURACY_BAND)
        return diversity.pair_frame(runs, self.best, accuracy_band=2 * ACCURACY_BAND)  # half of it to each side of the base


def analyse(inputs: ReportInputs, base: str | None = None, steps: int = 10, seed: int = 0) -> Analysis:
    """Align the outputs of at least two models, and calibrate them if all have probabilities and some no temperature."""
    runs = inputs.runs.aligned()
    if len(runs) < 2:
        raise InputError(argument="runs", expected="outputs of at least two models", found=len(runs))
    population = f"all {len(runs.labels):,} examples"
    if _have_probabilities(runs):
        if any(outputs.temperature is None for outputs in runs.values()):
            runs, population = _calibrated(inputs, runs, seed)
        else:
            population += f"; temperatures fitted on {next(iter(runs.values())).calibration}"
    if len(runs.labels) < 2:
        raise InputError(
            argument="runs", expected="at least two examples, one to choose on and one to report on", found=len(runs.labels)
        )
    return Analysis(runs, population, inputs, base, steps, seed)


def _calibrated(inputs: ReportInputs, runs: Runs, seed: int) -> tuple[Runs, str]:
    """Return the runs with temperatures, and which examples they are about.

    As in every search of `ensembles`, no label of the test split affects a temperature. So cross-fitting begins with the
    selection split, instead of fitting to all examples first.
    """
    source, reason = policy.default_source(runs) if inputs.calibration is None else (inputs.calibration, "")
    if isinstance(source, str) and source == policy.CROSS_FIT and len(runs.labels) > 1:
        calibrated = Runs(replace(one, row_scale=np.ones(len(one))) for one in runs.values())
        folds = f"temperatures cross-fitted in {min(policy.FOLDS, len(runs.labels))} folds"
        population = f"all {len(runs.labels):,} examples; {folds}" + (f", because {reason}" if reason else "")
    else:
        with_temperatures = calibration.calibrate(runs, source if isinstance(source, Runs) else inputs.calibration, seed)
        calibrated, population = with_temperatures, with_temperatures.population
    selection = np.zeros(len(calibrated.labels), bool)
    selection[ensembles.stratified_split(calibrated.labels, seed=seed)[0]] = True
    return refit_for_selection(calibrated, selection), population


def _same_recipe(a: Outputs, b: Outputs) -> bool:
    return a.card is not None and b.card is not None and category(a.card, b.card) == "reinit"


def _have_probabilities(runs: Runs) -> bool:
    return all(outputs.kind in ("logits", "probabilities") for outputs in runs.values())


def _costs(outputs: Outputs) -> tuple[float | None, float | None]:
    """Return parameters and FLOPs as the outputs or the card state them, else as counted in the model without weights."""
    stated = (dict(outputs.card.details) if outputs.card else {}) | dict(outputs.details)
    parameters, flops = (
        float(stated[key]) if isinstance(stated.get(key), (int, float)) else None for key in ("params", "flops")
    )
    if outputs.card is not None and (parameters is None or flops is None):
        with contextlib.suppress(ZooError, ImportError):  # an ensemble, an unavailable model, a missing library
            model = zoo.load(outputs.name, pretrained=False)
            parameters = count_parameters(model) if parameters is None else parameters
            flops = count_flops(model) if flops is None else flops
    return parameters, flops or None  # no FLOPs are counted in a graph that is not a torch module
