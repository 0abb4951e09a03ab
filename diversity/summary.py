"""Pairs of models by training category: errors, gains and conversion (Gontijo-Lopes et al. 2021, Figs 1 and 2).

M models make M (M - 1) / 2 pairs, which are not independent. Standard errors of means over pairs are therefore
delete-one-model jackknifes, and confidence intervals of correlations over pairs come from a bootstrap over models. If
several models are seeds of one recipe, pass `groups`: then whole groups are deleted or resampled instead of models.

A gap in accuracy alone makes errors differ: error inconsistency is at least the gap, and the gain over the mean member
contains half of it. `pair_frame` marks the pairs of comparable accuracy, and by default `regression` uses only these pairs.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from diversity import measures
from diversity._checks import whole_number
from diversity._pair_rows import finite_probabilities
from diversity.bootstrap import LEVEL, RESAMPLES, check_level, percentile_interval
from diversity.categories import CATEGORIES, category, share_initialisation
from diversity.intervals import interval
from diversity.pair_ensembles import ensemble, from_split_cells, split_cells
from diversity.tables import ErrorTable, cell_of, error_tables
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import backend
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

CHUNK = 512
ACCURACY_BAND = 4.0  # percentage points, as in the paper's Table 1: models of 74% to 78%
# Attributes of EnsembleTable: gain_over_mean = gain_from_conversion - loss_both_right + gain_both_wrong.
GAIN_PARTS = ("gain_from_conversion", "loss_both_right", "gain_both_wrong")
_MIN_UNITS = 4  # models or groups below which a correlation gets no bootstrap interval
_BLOCK = 2**22  # resamples times pairs held at a time
_EQUAL = 1e-12  # relative difference of values that are equal up to rounding


@dataclass(frozen=True)
class Line:
    """A least-squares line with Pearson's correlation, which is NaN if all y are equal."""

    slope: float
    intercept: float
    correlation: float
    points: int
    interval: tuple[float, float] = (np.nan, np.nan)  # confidence interval of the correlation

    def __str__(self) -> str:
        if np.isnan(self.correlation):
            return "r is undefined: all values of y are equal"
        return f"r = {self.correlation:.{2 if abs(self.correlation) < 0.995 else 3}f}"  # 1.00 only if it is 1


def fit_line(x: ArrayLike, y: ArrayLike) -> Line:
    """Return the least-squares line through N independent points. For points that are pairs of models, use `regression`.

    The confidence interval (95%) is Fisher's.

    Args:
        x: [N]; points with a missing value are ignored.
        y: [N].

    >>> fit_line([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0])
    Line(slope=2.0, intercept=1.0, correlation=1.0, points=4, interval=(1.0, 1.0))
    """
    from scipy.stats import linregress

    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(
            f"x has shape {list(a.shape)} and y {list(b.shape)}", argument="y", expected="two lists of the same length"
        )
    complete = np.isfinite(a) & np.isfinite(b)
    a, b = a[complete], b[complete]
    if _all_equal(a):
        raise InputError(argument="x", expected="at least two different values", found=f"{len(a)} equal ones")
    if _all_equal(b):
        return Line(0.0, float(b.mean()), np.nan, len(a))
    found = linregress(a, b)
    ends = np.nan, np.nan
    if len(a) > 3:
        with np.errstate(divide="ignore"):  # z is infinite for points on a line
            z, half = np.arctanh(found.rvalue), 1.959964 / np.sqrt(len(a) - 3)
        ends = float(np.tanh(z - half)), float(np.tanh(z + half))
    return Line(float(found.slope), float(found.intercept), float(found.rvalue), len(a), ends)


def regression(
    frame: "pandas.DataFrame",
    x: str = "inconsistency",
    y: str = "gain_over_mean",
    groups: Mapping[str, str] | None = None,
    comparable_only: bool = True,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Line:
    """Return the least-squares line over pairs of models, with a bootstrap interval of the correlation.

    A resample draws models (or groups of models) with replacement. The weight of a pair is how often its first model was
    drawn times how often its second was. A model that is part of every pair, such as a base, is kept in every resample. The
    interval is NaN for fewer than four models.

    Args:
        frame: the pairs, from `pair_frame`.
        x: column with the independent variable.
        y: column with the dependent variable.
        groups: a group for each model name, such as its recipe without the seed. Groups are drawn instead of models; the
            weight of a pair within a group is how often the group was drawn.
        comparable_only: use only pairs of comparable accuracy, if the frame marks them.
        resamples: number of resamples.
        level: confidence level.
        seed: random seed of the resamples.

    >>> import pandas
    >>> pairs = [("a", "b", 0.1, 0.01), ("a", "c", 0.2, 0.02), ("b", "c", 0.3, 0.03), ("a", "d", 0.4, 0.04)]
    >>> line = regression(pandas.DataFrame(pairs, columns=["first", "second", "inconsistency", "gain_over_mean"]))
    >>> round(line.slope, 6), str(line), line.points
    (0.1, 'r = 1.000', 4)
    """
    check_level(level)
    whole_number(resamples, "resamples")
    _require(frame, ["first", "second", x, y])
    if comparable_only and "comparable" in frame:
        frame = frame[frame["comparable"].to_numpy(bool)]
    points = frame[[x, y]].to_numpy(np.float64)
    complete = np.isfinite(points).all(1)
    if _all_equal(points[complete, 0]):
        raise InputError(
            argument="frame",
            expected=f"pairs with at least two different values of {x}",
            found=f"{int(complete.sum())} pairs",
            hint="{comparable_only=False} also uses pairs of different accuracy",
        )
    line = fit_line(*points[complete].T)
    draws = _resampled_correlations(points[complete], _units(frame[complete], groups), resamples, seed)
    low, high = (np.nan, np.nan) if draws is None else percentile_interval(draws, level)
    return Line(line.slope, line.intercept, line.correlation, line.points, (float(low), float(high)))


def pair_frame(
    runs: Runs | Mapping[str, Outputs], base: str | None = None, accuracy_band: float | None = ACCURACY_BAND
) -> "pandas.DataFrame":
    """Return one row per pair of models.

    Columns: `first`, `second`, `category`, `comparable`, every measure of errors and ensembles, and the parts of the gain as
    fractions of all examples: gain_over_mean = gain_from_conversion - loss_both_right + gain_both_wrong. The first part is
    inconsistency x (conversion_rate - 1/2). If a model has predictions only, the columns of ensembles are left out.

    Pairs that were trained from the same initial weights (`share_initialisation`) are left out with a warning.

    Args:
        runs: outputs of the models on the same examples. Calibrate them first.
        base: compare this model with every other one, as the paper does; default: all pairs.
        accuracy_band: a pair is `comparable` if its accuracies differ by at most this many percentage points; with a base,
            by at most half of them, so that all models lie in a band of this width around the base. None: every pair is
            comparable.

    >>> z = np.random.default_rng(0).normal(size=(3, 50, 4))
    >>> runs = Runs(Outputs.from_arrays(n, logits=x, labels=np.arange(50) % 4) for n, x in zip("abc", z, strict=True))
    >>> pair_frame(runs, base="a")[["first", "second"]].values.tolist()
    [['a', 'b'], ['a', 'c']]
    """
    import pandas

    if accuracy_band is not None and not accuracy_band > 0:
        raise InputError(argument="accuracy_band", expected="a positive number of percentage points", found=accuracy_band)
    runs = Runs(runs).aligned()
    names = runs.names
    labels = runs.labels
    if len(names) < 2:
        raise InputError(argument="runs", expected="outputs of at least two models", found=len(names))
    if base is None:
        pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    else:
        first = names.index(runs[base].name)
        pairs = [(first, j) for j in range(len(names)) if j != first]
    has_probabilities = all(outputs.kind in ("logits", "probabilities") for outputs in runs.values())
    table = (_ensemble_tables if has_probabilities else _error_tables)(list(runs.values()), pairs, labels)
    gap = 100 * np.abs(table.accuracy_first - table.accuracy_second)
    widest = np.inf if accuracy_band is None else accuracy_band if base is None else accuracy_band / 2
    columns: dict[str, Any] = {
        "first": [names[i] for i, _ in pairs],
        "second": [names[j] for _, j in pairs],
        "category": [_category(runs[names[i]], runs[names[j]]) for i, j in pairs],
        "comparable": gap <= widest + 1e-9,
    }
    shown = [*measures.names("errors", "ensemble"), *GAIN_PARTS] if has_probabilities else measures.names("errors")
    frame = pandas.DataFrame(columns | {name: getattr(table, name) for name in shown})
    shared = np.array([_share_initialisation(runs[names[i]], runs[names[j]]) for i, j in pairs])
    if shared.any():
        one = frame[shared].iloc[0]
        warnings.warn(
            f"left out {int(shared.sum())} of {len(pairs)} pairs that were trained from the same initial weights, such as "
            f"{one['first']} and {one['second']}",
            ZooWarning,
            stacklevel=2,
        )
    return frame[~shared].reset_index(drop=True)


def by_category(frame: "pandas.DataFrame", groups: Mapping[str, str] | None = None) -> "pandas.DataFrame":
    """Return means over the pairs of each training category, from the smallest difference in training to the largest.

    Columns: category, `pairs`, `models` (their number), `two_models` (whether the category rests on two models only),
    `shared_model` (a model that is part of every pair, if there is one), and for each measure of Figs 1 and 2 the mean and
    its standard error (`_se`). Pairs without a category are ignored, and so are measures that `frame` lacks.

    The standard error is a delete-one-model jackknife, since pairs with a model in common are not independent; on average it
    is not too small (Efron & Stein 1981). It does not include the variation of a shared model, and is NaN for two models.

    Args:
        frame: the pairs, from `pair_frame`.
        groups: a group for each model name. Whole groups are deleted instead of models.

    >>> import pandas
    >>> pairs = [("a", "b", "reinit", 0.08), ("a", "c", "reinit", 0.10), ("b", "c", "reinit", 0.12)]
    >>> pairs += [("a", "d", "dataset", 0.2)]
    >>> frame = pandas.DataFrame(pairs, columns=["first", "second", "category", "inconsistency"])
    >>> by_category(frame).drop(columns="shared_model").round(3)
      category  pairs  models  two_models  inconsistency  inconsistency_se
    0   reinit      3       3       False            0.1             0.023
    1  dataset      1       2        True            0.2               NaN
    """
    import pandas

    _require(frame, ["first", "second", "category"])
    averaged = [name for name, measure in measures.MEASURES.items() if measure.by_category and name in frame]
    rows = []
    for kind in CATEGORIES:
        pairs = frame[(frame["category"] == kind).to_numpy()]
        if not len(pairs):
            continue
        models = set(pairs["first"]) | set(pairs["second"])
        shared = [name for name in models if ((pairs["first"] == name) | (pairs["second"] == name)).all()]
        row: dict[str, Any] = {"category": kind, "pairs": len(pairs), "models": len(models), "two_models": len(models) == 2}
        row["shared_model"] = shared[0] if len(shared) == 1 else None
        errors = jackknife_error(pairs[averaged].to_numpy(np.float64), _units(pairs, groups))
        for name, error in zip(averaged, errors, strict=True):
            row |= {name: pairs[name].mean(), f"{name}_se": error}
        rows.append(row)
    columns = ["category", "pairs", "models", "two_models", "shared_model"]
    return pandas.DataFrame(rows, columns=[*columns, *(f"{n}{end}" for n in averaged for end in ("", "_se"))])


def jackknife_error(values: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the standard error [K] of means over pairs, by deleting one unit (a model or a group of models) at a time.

    Args:
        values: [P, K] measures of the pairs; NaN is ignored.
        units: [P, 2] numbers of the two units of each pair.

    >>> jackknife_error(np.array([[1.0], [2.0], [3.0]]), np.array([[0, 1], [0, 2], [1, 2]])).round(4)
    array([1.1547])
    """
    known = np.isfinite(values)
    values = np.where(known, values, 0.0)
    sums, counts = (np.zeros((units.max(initial=-1) + 1, values.shape[1])) for _ in range(2))
    distinct = units[:, 0] != units[:, 1]  # a pair within one unit is deleted once
    for rows, side in ((slice(None), units[:, 0]), (distinct, units[distinct, 1])):
        np.add.at(sums, side, values[rows])
        np.add.at(counts, side, known[rows])
    remaining = known.sum(0) - counts
    # A unit that is part of every pair is not deleted, because no pair would remain.
    used = remaining > 0
    means = np.where(used, (values.sum(0) - sums) / np.maximum(remaining, 1), 0.0)
    number = used.sum(0)
    centre = means.sum(0) / np.maximum(number, 1)
    squares = np.where(used, (means - centre) ** 2, 0.0).sum(0)
    return np.where(number > 1, np.sqrt((number - 1) / np.maximum(number, 1) * squares), np.nan)


def by_condition(
    pred_a: ArrayLike | Array, pred_b: ArrayLike | Array, labels: ArrayLike | Array, conditions: Sequence[Any]
) -> "pandas.DataFrame":
    """Return the errors of two models within each condition (Geirhos et al. 2020), in order of first occurrence.

    Columns: condition, examples, accuracy_first, accuracy_second, inconsistency, kappa, and the ends of its 95% confidence
    interval. Kappa over all conditions would be higher, because errors coincide on conditions that are hard for both models.

    Args:
        pred_a: [N] predicted classes of the first model; -1 for an example without a prediction.
        pred_b: [N] predicted classes of the second model.
        labels: [N] true classes.
        conditions: [N] the condition of each example, such as its corruption.

    >>> frame = by_condition([0, 1, 1, -1], [0, 1, 0, 0], [0, 1, 1, 0], ["clean", "clean", "noisy", "noisy"])
    >>> frame[["condition", "accuracy_first", "accuracy_second", "kappa"]].values.tolist()
    [['clean', 1.0, 1.0, 1.0], ['noisy', 0.5, 0.5, -1.0]]
    """
    import pandas

    group, names = pandas.factorize(pandas.Series(list(conditions)))
    examples = len(checks.array(labels, "labels"))
    if len(group) != examples or (group < 0).any():
        expected = f"{examples} conditions, one per example and none missing"
        raise InputError(argument="conditions", expected=expected, found=len(group))
    table = error_tables(pred_a, pred_b, labels, group, len(names))
    low, high = interval(table, "kappa")
    shown = {name: getattr(table, name) for name in ("accuracy_first", "accuracy_second", "inconsistency", "kappa")}
    counted = {"condition": list(names), "examples": table.examples.astype(int)}
    return pandas.DataFrame(counted | shown | {"kappa_low": low, "kappa_high": high})


def _error_tables(runs: list[Outputs], pairs: list[tuple[int, int]], labels: np.ndarray) -> ErrorTable:
    """Return the tables [pairs, 5] from predictions."""
    predictions = [outputs.predictions for outputs in runs]
    counts = np.stack([np.bincount(cell_of(predictions[i], predictions[j], labels), minlength=5) for i, j in pairs])
    return ErrorTable(counts.astype(np.float64))


def _ensemble_tables(runs: list[Outputs], pairs: list[tuple[int, int]], labels: np.ndarray) -> ErrorTable:
    """Return the tables [pairs, 5] with the ensembles' outcomes. Each model's probabilities are computed once, in chunks."""
    counts: Any = None
    used = sorted({i for pair in pairs for i in pair})
    # Predictions come from the stored values: sigmoids at a low temperature round to 1 for several classes at once.
    predictions = {i: runs[i].predictions for i in used}
    for start in range(0, len(labels), CHUNK):
        rows = slice(start, min(start + CHUNK, len(labels)))
        probs = {i: finite_probabilities(runs[i], rows) for i in used}
        first = next(iter(probs.values()))
        y = arrays.like(labels[rows], first)
        top = {i: arrays.like(predictions[i][rows], first) for i in used}
        found = backend(first).stack([split_cells(top[i], top[j], ensemble(probs[i], probs[j]), y) for i, j in pairs])
        counts = found if counts is None else counts + found
    if counts is None:
        raise InputError(argument="runs", expected="at least one example", found=0)
    return from_split_cells(arrays.to_numpy(counts))


def _units(frame: "pandas.DataFrame", groups: Mapping[str, str] | None) -> np.ndarray:
    """Return the numbers [P, 2] of the two units of each pair: models, or groups of models."""
    names = frame[["first", "second"]].to_numpy(object)
    if groups is not None:
        missing = sorted({str(name) for name in names.flat if name not in groups})
        if missing:
            raise InputError(f"{missing[0]} has no group ({len(missing)} such models)", argument="groups")
        names = np.array([[groups[name] for name in pair] for pair in names], object).reshape(-1, 2)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names.flat))}
    return np.array([[numbers[name] for name in pair] for pair in names], int).reshape(-1, 2)


def _resampled_correlations(points: np.ndarray, units: np.ndarray, resamples: int, seed: int) -> np.ndarray | None:
    """Return the correlations [resamples] of points [P, 2] over resampled units; None for too few units."""
    number = units.max() + 1
    drawn = np.array([not (units == unit).any(1).all() for unit in range(number)])  # others are part of every pair
    if drawn.sum() < _MIN_UNITS:
        return None
    rng = np.random.default_rng(seed)
    counts = np.ones((resamples, number))
    counts[:, drawn] = rng.multinomial(drawn.sum(), np.full(drawn.sum(), 1 / drawn.sum()), resamples)
    x, y = (points - points.mean(0)).T
    terms = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], 1)
    first, second = units.T
    sums = []
    for start in range(0, resamples, max(1, _BLOCK // len(points))):
        block = counts[start : start + max(1, _BLOCK // len(points))]
        weights = block[:, first] * np.where(first == second, 1.0, block[:, second])
        sums.append(weights @ terms)
    with np.errstate(divide="ignore", invalid="ignore"):
        total, *moments = np.concatenate(sums).T
        mx, my, xx, yy, xy = (moment / total for moment in moments)
        vx, vy = xx - mx * mx, yy - my * my
        r = (xy - mx * my) / np.sqrt(vx * vy)
        # A resample of equal points has no correlation; rounding must not give it one.
        return np.where((vx > _EQUAL * xx) & (vy > _EQUAL * yy), np.clip(r, -1, 1), np.nan)


def _require(frame: "pandas.DataFrame", columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in frame]
    if missing:
        raise InputError(
            argument="frame", expected=f"a table with the column {missing[0]!r}", found=", ".join(frame.columns)
        )


def _all_equal(values: np.ndarray) -> bool:
    return not len(values) or bool(np.ptp(values) <= _EQUAL * max(1.0, np.abs(values).max()))


def _category(a: Outputs, b: Outputs) -> str | None:
    return None if a.card is None or b.card is None else category(a.card, b.card)


def _share_initialisation(a: Outputs, b: Outputs) -> bool:
    return a.card is not None and b.card is not None and share_initialisation(a.card, b.card)
