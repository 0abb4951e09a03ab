"""`Path`: the result of a greedy search."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from diversity.bootstrap import check_level
from diversity.categories import category, category_title
from diversity.tables import mcnemar
from ensembles.ensemble_cards import write_card
from ensembles.ensemble_sets import EnsembleSets, fit_sets
from ensembles.ensemble_temperature import EnsembleTemperature, WeightedEnsemble, apply_temperature
from ensembles.inputs import Name
from ensembles.model_library import ModelLibrary
from ensembles.text_table import ends_text, gain_text, score_text, text_table, wrapped
from zoo.cards.card import Card
from zoo.core.prediction_sets import Conditioning, Method
from zoo.core.units import MISSING, count, percent, short_number
from zoo.errors import InputError
from zoo.outputs.outputs import Runs

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

# Why a path ends where it starts, by what ended the search.
_NOTHING_ADDED = {
    "candidates": "nothing was added: no candidate is left besides the start",
    "budget": "nothing was added: no candidate fits the budget",
    "gain": "nothing was added: no candidate improves on the start",
    "bags": "every bag chose the same single model",
}


def categories(members: Sequence[Name], runs: Runs | None) -> list[str | None]:
    """Return the training category of each member relative to the first; None for the first and without cards."""
    cards = [None if runs is None else runs[str(name)].card for name in members]
    return [None if card is None or cards[0] is None or i == 0 else category(cards[0], card) for i, card in enumerate(cards)]


@dataclass(frozen=True, eq=False)
class Path:
    """Ensembles of growing size: the first i + 1 members, for each i.

    Each list has one entry per step. The best ensemble is the first `best` members, the shortest with the best selection
    score. Everything from the test split is None without one. Gains are relative to the start, and positive gains are
    better, for losses too. After a search with bags, `members` are ordered by weight and all of them are in the ensemble.
    """

    members: list[Name]
    score: list[float]  # on the selection split
    weights: dict[str, float] | np.ndarray  # of the best ensemble: by name for Runs, [M] for arrays, as `average` takes them
    best: int
    start: int  # members at the start: the base, or the best single model
    objective: str
    test_score: list[float] | None = None
    test_gains: list[float] | None = None
    intervals: list[tuple[float, float] | None] | None = None  # 95%; a custom objective has only that of the best ensemble
    test_correct: np.ndarray | None = field(default=None, repr=False)  # [steps, N] bool
    ece: list[float] | None = None  # expected calibration error on the test split; None for votes
    best_ensemble: WeightedEnsemble | None = field(default=None, repr=False)  # from which `calibration` is computed
    costs: list[float] | None = None  # of the ensembles, if the search had a budget
    settings: dict[str, Any] = field(default_factory=dict)
    bags: tuple["Path", ...] = ()  # the search of each bag
    runs: Runs | None = field(default=None, repr=False)

    @property
    def best_score(self) -> float:
        """The best ensemble's score on the selection split, which chose it."""
        return self.score[self.best - 1]

    @property
    def best_test_score(self) -> float | None:
        """The best ensemble's score on the test split."""
        return None if self.test_score is None else self.test_score[self.best - 1]

    @property
    def gain(self) -> float | None:
        """The gain of the best ensemble over the start, on the test split."""
        return None if self.test_gains is None else self.test_gains[self.best - 1]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% confidence interval of the gain (paired bootstrap over the test examples)."""
        return None if self.intervals is None else self.intervals[self.best - 1]

    @cached_property
    def calibration(self) -> EnsembleTemperature | None:
        """The best ensemble's temperature and calibration errors, computed on first use.

        None for votes and for fewer than 50 selection examples.
        """
        return None if self.best_ensemble is None else self.best_ensemble.calibrate()

    @property
    def temperature(self) -> float | None:
        """The best ensemble's own temperature T, fitted on the selection split: p becomes p^(1/T), normalised."""
        return None if self.calibration is None else self.calibration.temperature

    @property
    def within_noise(self) -> bool:
        """Whether models were added, but the confidence interval of their gain is not above 0."""
        return self.interval is not None and self.best > self.start and self.interval[0] <= 0

    def noise(self) -> str:
        """Return a clause that says that the gain is within noise, or a loss."""
        assert self.interval is not None
        verdict = "is within noise" if self.interval[1] >= 0 else "is a loss"
        return f"the gain in {self.objective} on the test split, {self._gain_text()}, {verdict}"

    def smallest_sufficient(self, level: float = 0.05) -> int | None:
        """Return the size of the smallest ensemble on the path that is not significantly worse than the best one.

        An ensemble is significantly worse if it is less accurate on the test split, and McNemar's test gives a p-value
        below `level`. Accuracy is compared whatever the objective. None without a test split.
        """
        check_level(level)
        if self.test_correct is None:
            return None
        best = self.test_correct[self.best - 1]
        for size in range(self.start, self.best):
            correct = self.test_correct[size - 1]
            if correct.sum() >= best.sum() or self._p_value(size) >= level:
                return size
        return self.best

    def _p_value(self, size: int) -> float:
        """Return the p-value of McNemar's test that the first `size` members are as accurate as the best ensemble."""
        assert self.test_correct is not None
        first, best = self.test_correct[[size - 1, self.best - 1]].astype(np.int64)
        return mcnemar(first, best, np.ones_like(first))

    @property
    def categories(self) -> list[str | None]:
        """The training category of each member relative to the first; None without a card."""
        return categories(self.members, self.runs)

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per step.

        `ece` is the calibration error of the members' mean on the test split. `ece_calibrated` is the error at the
        ensemble's own temperature, which is fitted for the best ensemble only.
        """
        import pandas as pd

        missing = [np.nan] * len(self.members)
        calibrated = list(missing)
        if self.calibration is not None and self.calibration.ece_after is not None:
            calibrated[self.best - 1] = self.calibration.ece_after
        columns = {
            "step": range(1, len(self.members) + 1),
            "model": self.members,
            "category": self.categories,
            "selection": self.score,
            "test": self.test_score or missing,
            "gain": self.test_gains or missing,
            "low": [np.nan if interval is None else interval[0] for interval in self._intervals()],
            "high": [np.nan if interval is None else interval[1] for interval in self._intervals()],
            "ece": self.ece or missing,
            "ece_calibrated": calibrated,
            "in_best": [step < self.best for step in range(len(self.members))],
        }
        return pd.DataFrame(columns if self.costs is None else columns | {"cost": self.costs})

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the outputs, in plain types."""
        names = (
            "members", "categories", "score", "test_score", "test_gains", "intervals", "best", "start", "objective", "gain",
            "interval", "ece", "temperature", "costs", "settings",
        )  # fmt: skip
        weights = self.weights
        return {name: getattr(self, name) for name in names} | {
            "weights": weights
            if isinstance(weights, dict)
            else {str(model): float(weights[model]) for model in np.flatnonzero(weights)},
            "calibration": None if self.calibration is None else vars(self.calibration),
            "smallest_sufficient": self.smallest_sufficient(),
        }

    def __str__(self) -> str:
        lines = [line for text in self.summary() for line in wrapped(text[2:], text[:2])]
        return "\n".join([*text_table(self._text_columns()), *lines])

    def _text_columns(self) -> dict[str, list[str]]:
        score, gain = score_text(self.objective), gain_text(self.objective)
        columns = {
            "#": [f"{step}{'*' * (step == self.best)}" for step in range(1, len(self.members) + 1)],
            "model": [str(name) for name in self.members],
            "differs in": [category_title(category) or MISSING for category in self.categories],
            "select": list(map(score, self.score)),
        }
        if self.bags:
            weights = self.weights
            columns["weight"] = [f"{weights[name]:.3f}" for name in self.members]  # type: ignore[index]
        if self.test_score is not None and self.test_gains is not None:
            start = [MISSING] * self.start  # gains are relative to the start
            columns["test"] = list(map(score, self.test_score))
            columns["gain"] = start + list(map(gain, self.test_gains[self.start :]))
            columns["95% CI"] = start + [ends_text(ends, self.objective) for ends in self._intervals()[self.start :]]
        if self.costs is not None:
            columns["cost"] = [short_number(cost) for cost in self.costs]
        return columns

    def _intervals(self) -> list[tuple[float, float] | None]:
        return self.intervals or [None] * len(self.members)

    def summary(self) -> list[str]:
        """Return the lines below the table: the best ensemble, its gain and its calibration."""
        models, picks = len(set(self.members[: self.best])), self.best
        size = count(models, "model") + (f" in {picks} picks" if picks != models else "")
        lines = [f"* best {self.objective} on the {self.settings.get('selection_examples', 0):,} selection examples: {size}"]
        if self.best == self.start:
            ended = _NOTHING_ADDED.get(self.settings.get("ended", "")) if len(self.members) == self.start else None
            lines.append(f"  {ended or 'no model that was added improves on the start'}")
        elif self.gain is not None and self.interval is not None:
            noise = ", within noise" if self.within_noise else ""
            lines.append(f"  on the {self.settings.get('test_examples', 0):,} test examples: {self._gain_text()}{noise}")
        sufficient = self.smallest_sufficient()
        if sufficient is not None and sufficient < self.best:
            p = self._p_value(sufficient)
            are = "model is" if sufficient == 1 else f"{sufficient} are"
            lines.append(f"  the first {are} not significantly worse (McNemar p = {p:.2g})")
        if self.calibration is not None and self.calibration.ece_before is not None:
            before, after = percent(self.calibration.ece_before), percent(self.calibration.ece_after)
            lines.append(f"  calibration error {before}; {after} at the ensemble's own temperature {self.temperature:.2f}")
        if uncalibrated := self.settings.get("uncalibrated"):
            lines.append(f"  {count(uncalibrated, 'model')} not calibrated; zoo.calibrate(runs) fits temperatures")
        if missing := self.settings.get("without_prediction"):
            number = count(sum(missing.values()), "missing prediction")
            lines.append(f"  {number} of {count(len(missing), 'model')} counted as wrong")
        return lines

    def _gain_text(self) -> str:
        """Return the gain of the best ensemble over the start, with its confidence interval."""
        gain, unit = gain_text(self.objective)(cast(float, self.gain)), " points" * self.objective.endswith("accuracy")
        return f"{gain}{unit} over the start (95% CI {ends_text(self.interval, self.objective)})"

    def _repr_html_(self) -> str:
        from zoo.core import notebook

        columns = {name: [text.strip() for text in texts] for name, texts in self._text_columns().items()}
        table = notebook.table(list(columns), zip(*columns.values(), strict=True))
        scores = {} if self.test_score is None else {"test": self.test_score}
        chart = notebook.lines(scores | {"selection": self.score}) if self.objective == "accuracy" else ""
        return f"{chart}{table}<p>{'<br>'.join(notebook.escaped(line.strip()) for line in self.summary())}</p>"

    def chart(self) -> "alt.Chart":
        """Return a chart of the score against the number of members, on both splits."""
        from ensembles.charts import path_chart

        return path_chart(self)

    def prediction_sets(
        self,
        alpha: float = 0.1,
        method: Method = "lac",
        conditioning: Conditioning = "marginal",
        calibration: float | Sequence[str] = 0.5,
    ) -> EnsembleSets:
        """Return prediction sets of the best ensemble, at its own temperature.

        Thresholds are fitted on a part of the test split and evaluated on the rest. Examples used to choose the
        ensemble fit no threshold.

        Args:
            alpha: accepted probability that a set misses the true class.
            method: `lac`, `aps` or `raps`, as in `zoo.calibration.conformal.fit_conformal`.
            conditioning: one threshold (`marginal`), or one per `class` or per `cluster` of classes.
            calibration: fraction of the test split that fits the thresholds, or the ids of the examples that do.
        """
        ensemble = self.best_ensemble
        if ensemble is None:
            raise InputError("is the path of a single bag", where="path", hint="Use the path of the whole search")

        def probabilities(library: ModelLibrary) -> tuple[torch.Tensor, torch.Tensor]:
            mean, labels = ensemble.probabilities(library)
            return torch.as_tensor(apply_temperature(mean, self.temperature or 1.0)), labels

        return fit_sets(
            probabilities, ensemble.selection, ensemble.test, alpha, method, conditioning, calibration, ensemble.seed
        )

    def to_model(self, name: str, title: str = "", overwrite: bool = False, sets: EnsembleSets | None = None) -> Card:
        """Save the best ensemble as a model that `zoo.load(name)` loads, calibrated by its own temperature.

        Args:
            name: the model's name.
            title: the card's title.
            overwrite: whether to replace an ensemble of that name.
            sets: the result of `prediction_sets`, for `model.predict_sets(images)`.
        """
        if self.settings.get("kind") == "predictions":
            raise InputError(
                "these members were chosen by their votes, but a saved ensemble averages probabilities", where=name
            )
        weights = self.weights if isinstance(self.weights, dict) else {}
        details = {
            "found_on": self.runs[next(iter(weights))].dataset or "unnamed" if self.runs is not None else "arrays",
            "objective": self.objective,
            "selection_score": self.best_score,
            "test_score": self.best_test_score,
            "test_gain": self.gain,
            "test_gain_interval": None if self.interval is None else list(self.interval),
            "picks": list(self.members[: self.best]),
            "search": {key: value for key, value in self.settings.items() if value is not None},
        }
        if self.calibration is not None:
            details["temperature"] = self.calibration.temperature
            if self.calibration.ece_before is not None:
                details["calibration_error"] = {"before": self.calibration.ece_before, "after": self.calibration.ece_after}
        details |= {} if sets is None else sets.details()
        return write_card(name, self.runs, weights, details, title or f"Ensemble of {len(weights)} models", overwrite)
