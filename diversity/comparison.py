"""Two models compared: one object with every measure, its interval, tables of the specialization, and views of it all."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from diversity import bootstrap, specialization
from diversity.categories import category
from diversity.chance_adjusted import adjusted
from diversity.ensembled import ENSEMBLE_MEASURES, EnsembleTable, from_split_cells
from diversity.pair_rows import PairRows, of_predictions, with_probabilities
from diversity.similarity import linear_cka
from diversity.specialization import PrevalenceBand
from diversity.tables import CELLS, MEASURES
from zoo import arrays
from zoo.cards import Category
from zoo.errors import InputError
from zoo.outputs import Outputs, align

if TYPE_CHECKING:
    import altair
    import pandas

CKA_ROWS = 10_000
COMPARISON_MEASURES = ("accuracy_first", "accuracy_second", *MEASURES, "capa", "cka", *ENSEMBLE_MEASURES, "mean_theta")
_WITHOUT_INTERVAL = ("mcnemar", "cka")


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(EnsembleTable):
    """Two models on the same examples: every measure of their error table and of their ensemble is an attribute.

    What needs probabilities is None where only predictions were given. `interval(name)` gives the bootstrap interval of a
    measure. Prints as text in a terminal and as HTML in a notebook.
    """

    names: tuple[str, str]
    rows: PairRows
    classes: tuple[str, ...]
    dataset: str | None = None
    category: Category | None = None
    temperatures: tuple[float | None, float | None] = (None, None)
    embeddings: tuple[Any, Any] | None = None
    resamples: int = bootstrap.RESAMPLES
    level: float = bootstrap.LEVEL
    seed: int = 0

    @property
    def theta(self) -> np.ndarray | None:
        """[N] specialization angle, positive where the first model is the more confident."""
        return self.rows.theta

    @property
    def mean_theta(self) -> float | None:
        return None if self.theta is None else float(self.theta.mean(dtype=np.float64))

    @property
    def capa(self) -> float | None:
        """Chance-adjusted probabilistic agreement; of the predicted classes where there are no probabilities."""
        if len(self.classes) < 2:
            return None
        if self.rows.overlap is None:
            agreed = self.agreement, self.accuracy_first, self.accuracy_second
        else:
            agreed = tuple(self.rows.overlap.mean(0, dtype=np.float64))
        return float(adjusted(*agreed, len(self.classes)))

    @functools.cached_property
    def cka(self) -> float | None:
        """Linear CKA of the embeddings, on at most 10,000 evenly spaced examples; NaN where one side is constant."""
        if self.embeddings is None or len(self.rows.ids) < 2:
            return None
        step = slice(None, None, -(-len(self.rows.ids) // CKA_ROWS))
        try:
            return linear_cka(*(features[step] for features in self.embeddings))
        except InputError:  # constant embeddings have no variance to align
            return float("nan")

    @functools.cached_property
    def band(self) -> PrevalenceBand | None:
        """The angles beyond which one model's prediction prevails in the ensemble."""
        if self.rows.theta is None or self.rows.ensemble is None:
            return None
        return specialization.prevalence_band(self.rows.theta, self.rows.first, self.rows.second, self.rows.ensemble)

    def interval(self, measure: str) -> tuple[float, float]:
        """Lower and upper end of a measure's paired-bootstrap interval at `level`."""
        if measure not in COMPARISON_MEASURES or measure in _WITHOUT_INTERVAL:
            known = [name for name in COMPARISON_MEASURES if name not in _WITHOUT_INTERVAL]
            raise InputError(f"no interval for {measure!r}; there is one for {', '.join(known)}")
        if getattr(self, measure) is None:
            raise InputError(f"{measure} needs probabilities, and only predictions were compared")
        low, high = bootstrap.percentile_interval(self._draws(measure), self.level)
        return float(low), float(high)

    def _draws(self, measure: str) -> np.ndarray:
        if measure == "mean_theta":
            return self._mean_draws[:, 3]
        if measure == "capa":
            table = self._table_draws
            of_table = table.agreement, table.accuracy_first, table.accuracy_second
            observed, first, second = of_table if self.rows.overlap is None else self._mean_draws[:, :3].T
            return np.asarray(adjusted(observed, first, second, len(self.classes)))
        return np.asarray(getattr(self._table_draws, measure))

    @functools.cached_property
    def _table_draws(self) -> EnsembleTable:
        return bootstrap.resampled(self, self.resamples, self.seed)

    @functools.cached_property
    def _mean_draws(self) -> np.ndarray:
        """[resamples, 4] of the overlap's three columns and theta, which are no counts."""
        assert self.rows.overlap is not None  # asked for only where there are probabilities
        assert self.rows.theta is not None
        columns = torch.from_numpy(np.column_stack([self.rows.overlap, self.rows.theta]))
        return arrays.host(bootstrap.resampled_means(columns, self.resamples, self.seed))

    def histogram(self, bins: int = 40) -> "pandas.DataFrame":
        """Counts of examples by outcome and theta."""
        return specialization.theta_histogram(self._angles(), *self._correct(), bins)

    def by_class(self, groups: Mapping[str, str] | None = None) -> "pandas.DataFrame":
        """Classes, or groups of them, ranked by which model owns them: the first's own first."""
        return specialization.specialization_by_class(
            self._angles(), *self._correct(), self.rows.labels, self.classes, groups
        )

    def extremes(self, count: int = 10, inconsistent: bool = True) -> "pandas.DataFrame":
        """The examples where one model is surest compared with the other: the first's, then the second's.

        By default among those that exactly one of them gets right.
        """
        import pandas

        theta, correct = self._angles(), self._correct()
        mask = correct[0] != correct[1] if inconsistent else None
        found = specialization.extremes(theta, count, mask)
        index = np.concatenate(found)
        name = np.array(self.classes, object)
        outcome = arrays.host(specialization.outcome_of(*correct))[index]
        assert self.rows.confidences is not None  # there are angles
        return pandas.DataFrame(
            {
                "surer": np.repeat(["first", "second"], [len(side) for side in found]),
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
        """By name, every measure there is a value for, with the ends of its interval or NaN where it has none."""
        found = {}
        for name in COMPARISON_MEASURES:
            value = getattr(self, name)
            if value is not None:
                low, high = (np.nan, np.nan) if name in _WITHOUT_INTERVAL else self.interval(name)
                found[name] = (float(value), low, high)
        return found

    def to_frame(self) -> "pandas.DataFrame":
        """A row a measure: its value and the ends of its interval."""
        import pandas

        rows = [(name, *numbers) for name, numbers in self.measured().items()]
        return pandas.DataFrame(rows, columns=["measure", "value", "low", "high"])

    def to_dict(self) -> dict[str, Any]:
        """Everything but the examples, in plain types; what there is no value for is None."""
        measured = self.measured()
        values = dict.fromkeys(COMPARISON_MEASURES) | {name: value for name, (value, _, _) in measured.items()}
        ends = {name: [low, high] for name, (_, low, high) in measured.items() if name not in _WITHOUT_INTERVAL}
        band = None if self.band is None else [self.band.lower, self.band.upper]
        return {
            "first": self.names[0],
            "second": self.names[1],
            "dataset": self.dataset,
            "examples": int(self.examples),
            "category": self.category,
            "temperatures": list(self.temperatures),
            "table": {cell: int(count) for cell, count in zip(CELLS, self.cells, strict=True)},
            **values,
            "prevalence_band": band,
            "level": self.level,
            "intervals": ends,
        }

    def chart(self) -> "altair.TopLevelMixin":
        """The histograms of theta by outcome."""
        from diversity import charts

        return charts.theta_chart(self)

    def __str__(self) -> str:
        from diversity.comparison_views import as_text

        return as_text(self)

    def __repr__(self) -> str:
        return f"<Comparison of {self.names[0]} and {self.names[1]}: inconsistency {self.inconsistency:.4f}>"

    def _repr_html_(self) -> str:
        from diversity.comparison_views import as_html

        return as_html(self)

    def _correct(self) -> tuple[np.ndarray, np.ndarray]:
        return self.rows.first == self.rows.labels, self.rows.second == self.rows.labels

    def _angles(self) -> np.ndarray:
        if self.rows.theta is None:
            raise InputError("the specialization angle needs probabilities, and only predictions were compared")
        return self.rows.theta


def compare(
    a: Outputs, b: Outputs, resamples: int = bootstrap.RESAMPLES, level: float = bootstrap.LEVEL, seed: int = 0
) -> Comparison:
    """Compare two models' outputs on the same examples, matched by id and class name.

    Probabilities are those of `.probabilities()`: calibrate first, or angles and ensemble follow the more boastful model.
    Of outputs that hold predictions only, what needs probabilities is None.

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
        embeddings=None if a.features is None or b.features is None else (a.features, b.features),
        resamples=resamples,
        level=level,
        seed=seed,
    )
