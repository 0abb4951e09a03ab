"""Comparison of two models: every measure with its confidence interval, tables by class and angle, text and HTML views."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diversity import bootstrap, intervals, measures, specialization, summary
from diversity._pair_rows import PairRows, of_predictions, with_probabilities
from diversity.categories import category
from diversity.chance_adjusted import adjusted, misses_of
from diversity.measures import MEASURES
from diversity.pair_ensembles import EnsembleTable, from_split_cells
from diversity.specialization import PrevalenceBand
from diversity.tables import CELLS
from zoo.cards.card import Category
from zoo.core import arrays
from zoo.core.columns import Column
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, align

if TYPE_CHECKING:
    import altair
    import pandas

CKA_ROWS = 10_000  # maximum number of examples for the CKA of embeddings


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(EnsembleTable):
    """Two models on the same examples, with every measure of `diversity.MEASURES` as an attribute.

    Measures that need probabilities are None if only predictions were compared. `interval(name)` returns the confidence
    interval of a measure. A comparison prints as text in a terminal and as HTML in a notebook.
    """

    names: tuple[str, str]
    rows: PairRows
    classes: tuple[str, ...]
    dataset: str | None = None
    category: Category | None = None
    temperatures: tuple[float | None, float | None] = (None, None)
    embeddings: tuple[Column, Column] | None = None
    resamples: int = bootstrap.RESAMPLES
    level: float = bootstrap.LEVEL
    seed: int = 0

    @property
    def unanswered(self) -> tuple[int, int]:
        """Number of examples for which each model has no prediction; they count as wrong."""
        first, second = (int((column == arrays.NO_PREDICTION).sum()) for column in (self.rows.first, self.rows.second))
        return first, second

    @property
    def theta(self) -> np.ndarray | None:
        """[N] specialization angles, positive where the first model is more confident."""
        return self.rows.theta

    @property
    def mean_theta(self) -> float | None:
        return None if self.theta is None else float(self.theta.mean(dtype=np.float64))

    @property
    def capa(self) -> float | None:
        """Chance-adjusted probabilistic agreement; of predicted classes if there are no probabilities."""
        if len(self.classes) < 2:
            return None
        missed = misses_of(self) if self.rows.misses is None else self.rows.misses.mean(0)
        return float(adjusted(missed[0], missed[1], missed[2], len(self.classes)))

    @functools.cached_property
    def cka(self) -> float | None:
        """Linear CKA of the embeddings, on the examples of `cka_rows`; NaN if either model's embeddings are constant."""
        if self.embeddings is None or len(self.rows.ids) < 2:
            return None
        from diversity.similarity import linear_cka

        rows, (first, second) = cka_rows(self.rows.ids), self.embeddings
        try:
            return linear_cka(first[rows], second[rows])
        except InputError:  # CKA of constant embeddings is undefined
            return float("nan")

    @functools.cached_property
    def band(self) -> PrevalenceBand | None:
        """The angles beyond which the ensemble predicts one model's class in 90% of disagreements."""
        if self.rows.theta is None or self.rows.ensemble is None:
            return None
        return specialization.prevalence_band(self.rows.theta, self.rows.first, self.rows.second, self.rows.ensemble)

    def interval(self, measure: str) -> tuple[float, float]:
        """Return the ends of a measure's confidence interval at `level`."""
        record = measures.find(measure)
        if not record.has_interval:
            known = ", ".join(name for name, other in MEASURES.items() if other.has_interval)
            raise InputError(argument="measure", expected=f"a measure with a confidence interval: {known}", found=measure)
        value = getattr(self, measure)
        if value is None:
            raise InputError(f"{measure} needs {record.needs}, which were not compared", argument="measure", found=measure)
        if record.of is not None:
            low, high = intervals.wilson(value, getattr(self, record.of), self.level)
        else:
            low, high = bootstrap.percentile_interval(self._draws(measure), self.level)
        return float(low), float(high)

    def _draws(self, measure: str) -> np.ndarray:
        if measure == "mean_theta":
            return self._mean_draws[:, 3]
        if measure == "capa":
            missed = misses_of(self._table_draws) if self.rows.misses is None else self._mean_draws[:, :3].T
            return np.asarray(adjusted(missed[0], missed[1], missed[2], len(self.classes)))
        return np.asarray(getattr(self._table_draws, measure))

    @functools.cached_property
    def _table_draws(self) -> EnsembleTable:
        return intervals.resampled(self, self.resamples, self.seed)

    @functools.cached_property
    def _mean_draws(self) -> np.ndarray:
        """[resamples, 4] resampled means of the three columns of `misses` and of theta."""
        assert self.rows.misses is not None  # used only if there are probabilities
        assert self.rows.theta is not None
        columns = arrays.by_size(np.column_stack([self.rows.misses, self.rows.theta]), 4 * len(self.rows.ids))
        return arrays.to_numpy(bootstrap.resampled_means(columns, self.resamples, self.seed))

    def histogram(self, bins: int = 40) -> "pandas.DataFrame":
        """Return the number of examples by outcome and angle, as `theta_histogram` does."""
        return specialization.theta_histogram(self._angles(), *self._correct(), bins)

    def by_class(self, groups: Mapping[str, str] | None = None) -> "pandas.DataFrame":
        """Return accuracies and angles by class, or by group of classes, as `specialization_by_class` does."""
        return specialization.specialization_by_class(
            self.rows.theta, *self._correct(), self.rows.labels, self.classes, groups
        )

    def by_condition(self, conditions: Sequence[Any]) -> "pandas.DataFrame":
        """Return accuracies, error inconsistency and kappa within each condition, as `summary.by_condition` does.

        Args:
            conditions: [N] the condition of each example, such as its corruption, in the order of `rows.ids`.
        """
        return summary.by_condition(self.rows.first, self.rows.second, self.rows.labels, conditions)

    def extremes(self, count: int = 10, inconsistent: bool = True) -> "pandas.DataFrame":
        """Return the examples with the largest difference in confidence: the first model's, then the second's.

        The column `more_confident` is "first" or "second".

        Args:
            count: number of examples for each model.
            inconsistent: only examples that exactly one model classifies correctly.
        """
        import pandas

        theta, correct = self._angles(), self._correct()
        mask = correct[0] != correct[1] if inconsistent else None
        found = specialization.extremes(theta, count, mask)
        index = np.concatenate(found)
        name = np.array(self.classes, object)
        outcome = arrays.to_numpy(specialization.outcome_of(*correct))[index]
        assert self.rows.confidences is not None  # given along with the angles
        return pandas.DataFrame(
            {
                "more_confident": np.repeat(["first", "second"], [len(side) for side in found]),
                "id": self.rows.ids[index],
                "theta": theta[index],
                "label": name[self.rows.labels[index]],
                "first": name[self.rows.first[index]],
                "second": name[self.rows.second[index]],
                "confidence_first": self.rows.confidences[0, index],
                "confidence_second": self.rows.confidences[1, index],
                "outcome": np.array(specialization.OUTCOMES, object)[outcome],
            }
        )

    def measured(self) -> dict[str, tuple[float, float, float]]:
        """Return (value, low, high) of every available measure by name; low and high are NaN without an interval."""
        found = {}
        for name, record in MEASURES.items():
            value = getattr(self, name)
            if value is not None:
                low, high = self.interval(name) if record.has_interval else (np.nan, np.nan)
                found[name] = (float(value), low, high)
        return found

    def to_frame(self) -> "pandas.DataFrame":
        """Return one row per measure: its value and the ends of its confidence interval."""
        import pandas

        rows = [(name, *numbers) for name, numbers in self.measured().items()]
        return pandas.DataFrame(rows, columns=["measure", "value", "low", "high"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the examples in plain types; measures that are not available are None."""
        measured = self.measured()
        values = dict.fromkeys(MEASURES) | {name: value for name, (value, _, _) in measured.items()}
        ends = {name: [low, high] for name, (_, low, high) in measured.items() if MEASURES[name].has_interval}
        band = None if self.band is None else [self.band.lower, self.band.upper]
        return {
            "first": self.names[0],
            "second": self.names[1],
            "dataset": self.dataset,
            "examples": int(self.examples),
            "category": self.category,
            "temperatures": list(self.temperatures),
            "unanswered": list(self.unanswered),
            "table": {cell: int(count) for cell, count in zip(CELLS, self.cells, strict=True)},
            **values,
            "prevalence_band": band,
            "level": self.level,
            "intervals": ends,
        }

    def chart(self) -> "altair.TopLevelMixin":
        """Return the histograms of theta by outcome."""
        from diversity import charts

        return charts.theta_chart(self)

    def __str__(self) -> str:
        from diversity._views import as_text

        return as_text(self)

    def __repr__(self) -> str:
        return f"<Comparison of {self.names[0]} and {self.names[1]}: error inconsistency {self.inconsistency:.1%}>"

    def _repr_html_(self) -> str:
        from diversity._views import as_html

        return as_html(self)

    def _correct(self) -> tuple[np.ndarray, np.ndarray]:
        return self.rows.first == self.rows.labels, self.rows.second == self.rows.labels

    def _angles(self) -> np.ndarray:
        if self.rows.theta is None:
            raise InputError("specialization angles need probabilities, and only predictions were compared")
        return self.rows.theta


def compare(
    a: Outputs, b: Outputs, resamples: int = bootstrap.RESAMPLES, level: float = bootstrap.LEVEL, seed: int = 0
) -> Comparison:
    """Compare two models on the same examples, matched by id and class name.

    Exchanging the models exchanges `first` and `second` in every result and changes no symmetric measure. The order of rows
    and classes does not matter.

    Args:
        a: outputs of the first model. Calibrate both first: otherwise the more overconfident model dominates the ensemble
            and the angles.
        b: outputs of the second model. If either model has predictions only, measures that need probabilities are None.
        resamples: number of bootstrap resamples for confidence intervals.
        level: confidence level.
        seed: random seed of the resamples.

    >>> a = Outputs.from_arrays("a", logits=[[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]], labels=[0, 1, 1])
    >>> b = Outputs.from_arrays("b", logits=[[1.0, 0.0], [0.0, 4.0], [0.0, 1.0]], labels=[0, 1, 1])
    >>> r = compare(a, b)
    >>> round(r.inconsistency, 4), r.conversion_rate, r.ensemble_accuracy
    (np.float64(0.3333), np.float64(1.0), np.float64(1.0))
    """
    a, b = align([a, b])
    for outputs in (a, b):
        outputs.require_labels()
    probabilities = all(o.kind in ("logits", "probabilities") for o in (a, b))
    counts, rows = with_probabilities(a, b) if probabilities else of_predictions(a, b)
    table = from_split_cells(counts)
    return Comparison(
        cells=table.cells,
        right=table.right if probabilities else None,
        names=(a.name, b.name),
        rows=rows,
        classes=a.classes,
        dataset=a.dataset,
        category=None if a.card is None or b.card is None else category(a.card, b.card),
        temperatures=(a.temperature, b.temperature),
        embeddings=None if a.embeddings is None or b.embeddings is None else (a.embeddings, b.embeddings),
        resamples=resamples,
        level=level,
        seed=seed,
    )


def cka_rows(ids: np.ndarray) -> slice | np.ndarray:
    """Return the rows on which `Comparison.cka` is computed: at most 10,000, evenly spaced in the order of the ids.

    >>> len(cka_rows(np.array([str(i) for i in range(25_000)])))
    8334
    """
    if len(ids) <= CKA_ROWS:
        return slice(None)
    return np.sort(np.argsort(ids, kind="stable")[:: -(-len(ids) // CKA_ROWS)])


def joint_histogram(comparisons: Sequence[Comparison], bins: int = 40) -> "pandas.DataFrame":
    """Return the number of examples by outcome and angle for several pairs (Gontijo-Lopes et al. 2021, Fig. 3).

    Every pair's histogram counts the same examples: those on which at least one of the pairs is inconsistent. Columns: pair
    ("a, b"), and the columns of `theta_histogram`.

    Args:
        comparisons: comparisons on the same examples.
        bins: number of equal bins over [-pi/4, pi/4].

    >>> y = [0, 0, 0, 0]
    >>> a, b, c = (Outputs.from_arrays(n, probabilities=[[p, 1 - p] for p in row], labels=y)
    ...            for n, row in (("a", [0.9, 0.9, 0.9, 0.9]), ("b", [0.8, 0.2, 0.7, 0.9]), ("c", [0.1, 0.9, 0.6, 0.6])))
    >>> joint_histogram([compare(a, b), compare(a, c)], bins=1).groupby("pair")["count"].sum().to_dict()
    {'a, b': 2, 'a, c': 2}
    """
    import pandas

    if not comparisons:
        raise InputError(argument="comparisons", expected="at least one comparison", found=0)
    ids = comparisons[0].rows.ids
    inconsistent = np.zeros(len(ids), bool)
    orders = []
    for pair in comparisons:
        rows = pandas.Index(pair.rows.ids).get_indexer(ids)
        if len(pair.rows.ids) != len(ids) or (rows < 0).any():
            raise InputError(
                f"{pair!r} and {comparisons[0]!r} are on different examples",
                argument="comparisons",
                hint="Compare all models on the same dataset",
            )
        first, second = pair._correct()
        inconsistent |= (first != second)[rows]
        orders.append(rows)
    frames = []
    for pair, rows in zip(comparisons, orders, strict=True):
        population = rows[inconsistent]
        first, second = pair._correct()
        frame = specialization.theta_histogram(pair._angles()[population], first[population], second[population], bins)
        frames.append(frame.assign(pair=", ".join(pair.names)))
    return pandas.concat(frames, ignore_index=True)
