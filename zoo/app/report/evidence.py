"""Which examples a report speaks of: all of them for what describes every model, two halves for what it features.

Whatever is singled out (the best model, a pair, an ensemble) is chosen on one half and reported on the other.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

import diversity
import ensembles
from zoo import calibration
from zoo.app.report.material import Material
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

ALL_PAIRS = 32  # models; with more, pairs are those with the best model, as in the paper, or the page would drown in dots


@dataclass(frozen=True, eq=False)
class Evidence:
    """Calibrated outputs on the same examples, a sentence on which these are, and the settings of the report."""

    runs: Runs
    population: str
    material: Material
    base: str | None = None
    steps: int = 10
    seed: int = 0

    @property
    def has_probabilities(self) -> bool:
        """Whether all models can be averaged; else their predicted classes vote."""
        return _have_probabilities(self.runs)

    @cached_property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows to choose on and rows to report on, stratified by class."""
        return ensembles.stratified_split(self.runs.labels, seed=self.seed)

    @cached_property
    def selection(self) -> Runs:
        return self.runs.select(self.halves[0])

    @cached_property
    def test(self) -> Runs:
        return self.runs.select(self.halves[1])

    @property
    def tested(self) -> str:
        """What sentences call the examples that chosen models are reported on."""
        return f"the {len(self.halves[1]):,} test examples"

    @property
    def others(self) -> str:
        """What sentences call the examples that chose them."""
        return f"{len(self.halves[0]):,} others"

    def chosen(self, what: str) -> str:
        """The population of something that was chosen."""
        return f"{self.tested}; {self.others} chose {what}"

    @cached_property
    def best(self) -> str:
        """The model that is right most often on the selection half; of equal ones that which a search would start from."""

        def rank(outputs: Outputs) -> tuple[float, float, str]:
            scored = self.has_probabilities
            nll = calibration.negative_log_likelihood(outputs.probabilities, self.selection.labels) if scored else 0.0
            return -outputs.accuracy, nll, outputs.name

        return min(self.selection.values(), key=rank).name

    @cached_property
    def pair(self) -> tuple[str, str]:
        """The two models to look at, by the selection half: the best together; the most different of predictions alone."""
        frame = self.pairs(self.selection)
        key = "ensemble_accuracy" if "ensemble_accuracy" in frame else "inconsistency"
        first = frame.sort_values([key, "inconsistency"], ascending=False, kind="stable").iloc[0]
        return str(first["first"]), str(first["second"])

    @cached_property
    def path(self) -> ensembles.Path:
        """What greedy search finds on the selection half: of means of probabilities, or of votes where some have none."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZooWarning)  # a gain within noise is said on the page
            return ensembles.greedy(
                self.runs, base=self.base, steps=self.steps, seed=self.seed, split=self.halves,
                kind="probabilities" if self.has_probabilities else "predictions",
            )  # fmt: skip

    @cached_property
    def all_pairs(self) -> pd.DataFrame:
        """One row per pair, on all examples reported."""
        return self.pairs(self.runs)

    @cached_property
    def pairwise(self) -> diversity.Pairwise:
        """The errors of every pair, on all examples reported."""
        return diversity.pairwise(self.runs)

    @cached_property
    def tree(self) -> diversity.Dendrogram:
        """The models by how alike they err."""
        return diversity.cluster(1 - np.asarray(self.pairwise.inconsistency), self.pairwise.names)

    def pairs(self, runs: Runs) -> pd.DataFrame:
        """One row per pair, with the ensemble's gains where there are probabilities to average."""
        return diversity.pair_frame(runs, None if len(runs) <= ALL_PAIRS else self.best)


def evidence(material: Material, base: str | None = None, steps: int = 10, seed: int = 0) -> Evidence:
    """The material of at least two models, aligned, and calibrated where all have probabilities and some no temperature."""
    runs = material.runs.aligned()
    if len(runs) < 2:
        raise InputError(f"a report compares models: expected at least two, found {len(runs)}")
    examples = len(next(iter(runs.values())))
    population = f"all {examples:,} examples"
    if _have_probabilities(runs):
        if any(outputs.temperature is None for outputs in runs.values()):
            calibrated = calibration.calibrate(runs, material.calibration, seed)
            runs, population = calibrated, calibrated.population
        else:
            population += f"; temperatures fitted on {next(iter(runs.values())).calibration}"
    if len(next(iter(runs.values()))) < 2:
        raise InputError("a report chooses on some examples and reports on others: expected at least two, found one")
    return Evidence(runs, population, material, base, steps, seed)


def _have_probabilities(runs: Runs) -> bool:
    return all(outputs.kind in ("logits", "probabilities") for outputs in runs.values())
