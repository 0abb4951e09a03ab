"""Measures of M models by group of examples: accuracy, calibration, error inconsistency and the gain of the ensemble.

A group is any property of an example: its class, the condition under which it was recorded, how difficult people find it.
Each confidence interval is for one group: among many groups, some true values lie outside by chance, and the worst group is
partly the unluckiest. Accuracies of one model or ensemble have Wilson intervals. All other measures are resampled within the
group, with all models' outputs of an example together; groups of fewer than 10 examples have no resampled intervals.

The expected calibration error cannot be negative, so sampling noise increases it: it is too high for small groups, and a
resample exceeds the estimate by about as much as the estimate exceeds the true value. Its interval is therefore the basic
bootstrap interval, which reflects the resamples about the estimate. Compare groups of different size by `overconfidence`,
which has no such bias.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from diversity._checks import whole_number
from diversity._pair_rows import finite_probabilities
from diversity.bootstrap import LEVEL, RESAMPLES, WEIGHT_BLOCK, check_level, percentile_interval
from diversity.intervals import wilson
from zoo.calibration.metrics import BINS
from zoo.core import arrays, checks
from zoo.core.backend import backend, is_tensor, single_or_double, to_accumulation_dtype
from zoo.core.text import as_text
from zoo.core.units import MISSING, compared, estimate, interval, percent, points
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

CHUNK = 2048
MIN_EXAMPLES = 10  # below this, a group has no bootstrap intervals
# Measures that are means over examples, in the order of `_example_columns`.
MEANS = ("accuracy", "inconsistency", "overconfidence", "ensemble_accuracy", "gain_over_mean", "gain_over_best")
MEASURES = ("accuracy", "gap", "inconsistency", "calibration_error", *MEANS[2:])
DIFFERENCES = ("gap", "overconfidence", "gain_over_mean", "gain_over_best")
COLUMNS = ["group", "examples", *(name + end for name in MEASURES for end in ("", "_low", "_high"))]


@dataclass(frozen=True, eq=False)
class Groups:
    """Measures of each group of examples, and of each model in each group.

    Columns of `frame`, one row per group: `group`, `examples`, `accuracy` (mean over the models), `gap` (`accuracy` minus
    the accuracy on all other examples), `inconsistency` (error inconsistency, mean over the pairs of models),
    `calibration_error` (expected calibration error, mean over the models), `overconfidence` (mean confidence minus
    accuracy), `ensemble_accuracy` (of the mean of all models' probabilities), `gain_over_mean` (`ensemble_accuracy` minus
    `accuracy`) and `gain_over_best` (`ensemble_accuracy` minus the accuracy of `best_model`). Measures that need
    probabilities are missing unless every model has them.

    Columns of `models`, one row per group and model: `group`, `model`, `examples`, `accuracy`, `calibration_error`,
    `overconfidence`.

    The ends of each measure's confidence interval are in the columns with `_low` and `_high` after its name.
    """

    frame: "pandas.DataFrame"
    models: "pandas.DataFrame"
    best_model: str  # most accurate model on all examples
    level: float

    @property
    def worst(self) -> str:
        """The group with the lowest accuracy, mean over the models; the first of several."""
        return str(self.frame["group"][int(self.frame["accuracy"].argmin())])

    def to_frame(self) -> "pandas.DataFrame":
        """Return one row per group."""
        return self.frame.copy()

    @property
    def finding(self) -> str:
        """A sentence that names the group with the lowest accuracy."""
        worst = self.frame.iloc[int(self.frame["accuracy"].argmin())]
        return (
            f"The worst of {len(self.frame)} groups is {as_text(self.worst)}: {percent(worst['accuracy'])} accuracy, "
            f"{compared(worst['gap'])} the other examples ({interval((worst['gap_low'], worst['gap_high']), self.level)})."
        )

    def __str__(self) -> str:
        measures = {"accuracy": "accuracy", "inconsistency": "inconsistency", "calibration_error": "calibration error"}
        if self.frame["gain_over_mean"].notna().any():
            measures["gain_over_mean"] = "ensemble gain"
        shown = self.frame[["group", "examples"]].assign(group=[as_text(group) for group in self.frame["group"]])
        for name, title in measures.items():
            if self.frame[name].notna().any():
                shown[title] = [measure_text(row, name) for row in self.frame.to_dict("records")]
        return f"{shown.to_string(index=False)}\n{self.finding}"


def measure_text(row: Mapping[Any, Any], name: str) -> str:
    """Return a measure with its confidence interval: fractions in percent, differences in points with their sign.

    >>> row = {"gain_over_mean": 0.031, "gain_over_mean_low": 0.01, "gain_over_mean_high": 0.05}
    >>> measure_text(row, "gain_over_mean")
    '+3.1 (1.0 to 5.0)'
    """
    ends = row[f"{name}_low"], row[f"{name}_high"]
    if name not in DIFFERENCES:
        return estimate(row[name], ends)
    limits = interval(ends, None)
    return points(row[name]) if limits == MISSING else f"{points(row[name])} ({limits})"


def groups(
    runs: Runs | Mapping[str, Outputs],
    groups: ArrayLike | Sequence[object] | Mapping[Any, object],
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Groups:
    """Measure models separately on each group of examples.

    Args:
        runs: outputs of M models on the same labelled examples.
        groups: the group of each example: [N] in the order of the first model's examples, or a mapping from example ids,
            which may contain other ids too. At least two groups.
        resamples: number of bootstrap resamples.
        level: confidence level.
        seed: random seed of the resamples.

    >>> y = np.repeat([0, 1], 50)
    >>> right, wrong = np.eye(2)[y], np.eye(2)[1 - y]
    >>> a, b = (np.where((np.arange(100) % 5 == k)[:, None], wrong, right) for k in (0, 1))
    >>> b[50:] = wrong[50:]
    >>> runs = Runs(Outputs.from_arrays(name, probabilities=p, labels=y) for name, p in (("a", a), ("b", b)))
    >>> result = groups(runs, np.where(y == 0, "day", "night"))
    >>> result.worst, result.frame[["accuracy", "gap", "inconsistency"]].round(2).to_numpy().tolist()
    ('night', [[0.8, 0.4, 0.4], [0.4, -0.4, 0.8]])
    """
    import pandas

    check_level(level)
    whole_number(resamples, "resamples")
    arrays.seed(seed)
    runs = Runs(runs).aligned()
    y = runs.labels
    members = list(runs.values())
    names, group_of = _group_numbers(groups, members[0].ids)
    predicted, confidence, bins, ensemble = _read(members)
    right = predicted == y
    best = int(right.mean(1).argmax())
    columns = _example_columns(right, confidence, best, None if ensemble is None else ensemble == y)
    residuals = confidence - right
    frame, models, accuracies = [], [], []
    for number, name in enumerate(names):
        rows = np.flatnonzero(group_of == number)
        draws = _resample(columns[rows], residuals[:, rows], bins[:, rows], resamples, (seed, number))
        error = _calibration_errors(residuals[:, rows], bins[:, rows])
        accuracies.append((len(rows), columns[rows, 0].mean(), draws.means[:, 0]))
        frame.append({"group": name, "examples": len(rows)} | _group_row(columns[rows], error, draws, level))
        models += [
            {"group": name, "model": outputs.name, "examples": len(rows)}
            | _model_row(right[m, rows], residuals[m, rows], error[m], draws.overconfidence[:, m], draws.errors[:, m], level)
            for m, outputs in enumerate(members)
        ]
    for row, gap in zip(frame, _gaps(accuracies, level), strict=True):
        row |= gap
    return Groups(pandas.DataFrame(frame)[COLUMNS], pandas.DataFrame(models), members[best].name, level)


def _group_numbers(groups: Any, ids: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the names of the groups, sorted, and the number [N] of each example's group."""
    if isinstance(groups, Mapping):
        by_id = {str(key): value for key, value in groups.items()}
        values = [by_id.get(row_id) for row_id in ids.tolist()]
    else:
        values = arrays.to_numpy(groups).tolist() if is_tensor(groups) else list(np.asarray(groups, object))
        if len(values) != len(ids) or any(isinstance(value, (list, np.ndarray)) for value in values):
            raise InputError(argument="groups", expected=f"{len(ids)} groups, one per example", found=np.shape(groups))
    missing = [row for row, value in enumerate(values) if value is None or value != value or value == ""]
    if missing:
        raise InputError(
            f"{len(missing)} examples have no group, first {str(ids[missing[0]])!r}",
            argument="groups",
            hint="Give every example a group, or select the rows of the runs that have one",
        )
    distinct: list[Any] = list(set(values))
    try:
        order = sorted(distinct)
    except TypeError:  # numbers and strings
        order = sorted(distinct, key=str)
    names = list(dict.fromkeys(map(str, order)))
    if len(names) < 2:
        raise InputError(argument="groups", expected="at least two different groups", found=len(names))
    numbers = {name: number for number, name in enumerate(names)}
    return names, np.array([numbers[str(value)] for value in values])


def _read(members: list[Outputs]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return predictions [M, N], confidences [M, N], the calibration bin of each [M, N], and the ensemble's predictions [N].

    Outputs are read once, in chunks, and not stored. The confidence of a model with predictions only is NaN, and the
    ensemble is then None.
    """
    examples = len(members[0])
    predicted = np.empty((len(members), examples), np.int64)
    confidence = np.full((len(members), examples), np.nan)
    bins = np.zeros((len(members), examples), np.int64)
    complete = all(outputs.kind in ("logits", "probabilities") for outputs in members)
    ensemble = np.empty(examples, np.int64)
    for start in range(0, examples, CHUNK):
        rows = slice(start, min(start + CHUNK, examples))
        total: Any = 0
        for m, outputs in enumerate(members):
            if outputs.kind not in ("logits", "probabilities"):
                predicted[m, rows] = arrays.to_numpy(checks.array(outputs.values[rows], outputs.name))
                continue
            p = single_or_double(finite_probabilities(outputs, rows))
            scores = p
            if outputs.kind == "logits" or outputs.temperature is not None:  # rounded probabilities may be equal
                scores = single_or_double(checks.array(outputs.values[rows], outputs.name))
            predicted[m, rows] = arrays.to_numpy(scores).argmax(1)
            top = arrays.to_numpy(backend(p).amax(p, 1))
            confidence[m, rows] = top
            bins[m, rows] = np.clip(np.ceil(top * BINS).astype(np.int64), 1, BINS) - 1
            total = total + arrays.to_numpy(to_accumulation_dtype(p))
        if complete:
            ensemble[rows] = total.argmax(1)
    return predicted, confidence, bins, ensemble if complete else None


def _example_columns(right: np.ndarray, confidence: np.ndarray, best: int, ensemble: np.ndarray | None) -> np.ndarray:
    """Return the values [N, 6] whose means are the measures `MEANS`."""
    models, examples = right.shape
    mean = right.mean(0)
    hits = right.sum(0)
    # Of the M (M - 1) / 2 pairs, hits (M - hits) have exactly one correct model.
    inconsistent = 2 * hits * (models - hits) / (models * (models - 1)) if models > 1 else np.full(examples, np.nan)
    joint = np.full(examples, np.nan) if ensemble is None else ensemble.astype(np.float64)
    overconfidence = (confidence - right).mean(0)
    return np.column_stack([mean, inconsistent, overconfidence, joint, joint - mean, joint - right[best]])


@dataclass(frozen=True, eq=False)
class _Draws:
    means: np.ndarray  # [R, 6] of the columns
    overconfidence: np.ndarray  # [R, M]
    errors: np.ndarray  # [R, M] expected calibration errors


def _resample(columns: np.ndarray, residuals: np.ndarray, bins: np.ndarray, resamples: int, seed: tuple[int, int]) -> _Draws:
    """Return the means of columns [n, 6] and the models' calibration over resamples; NaN for fewer than `MIN_EXAMPLES`.

    A resample is a row of weights: how often each example was drawn. With weights w, the sums of w (confidence - correct)
    over the examples of each bin are one sparse product for all models. Their sum over the bins gives the overconfidence,
    the sum of their absolute values the calibration error.
    """
    from scipy.sparse import csr_array

    models, examples = residuals.shape
    if examples < MIN_EXAMPLES:
        missing = np.full((resamples, models), np.nan)
        return _Draws(np.full((resamples, columns.shape[1]), np.nan), missing, missing)
    cells = (bins + BINS * np.arange(models)[:, None]).ravel()
    rows = np.tile(np.arange(examples), models)
    by_bin = csr_array((residuals.ravel(), (cells, rows)), shape=(BINS * models, examples))
    rng = np.random.default_rng(seed)
    means, overconfidence, errors = [], [], []
    for start in range(0, resamples, WEIGHT_BLOCK):
        block = min(WEIGHT_BLOCK, resamples - start)
        drawn = rng.integers(0, examples, (block, examples)) + examples * np.arange(block)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=block * examples).reshape(block, examples).astype(np.float64)
        means.append(weights @ columns / examples)
        sums = (by_bin @ weights.T).reshape(models, BINS, block)
        overconfidence.append(sums.sum(1).T / examples)
        errors.append(np.abs(sums).sum(1).T / examples)
    return _Draws(np.concatenate(means), np.concatenate(overconfidence), np.concatenate(errors))


def _calibration_errors(residuals: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Return the expected calibration error [M] of residuals (confidence - correct) [M, n]."""
    sums = [np.bincount(index, values, BINS) for values, index in zip(residuals, bins, strict=True)]
    return np.abs(sums).sum(1) / residuals.shape[1]


def _group_row(columns: np.ndarray, errors: np.ndarray, draws: _Draws, level: float) -> dict[str, float]:
    row: dict[str, float] = {}
    for number, name in enumerate(MEANS):
        values = columns[:, number]
        is_fraction = name in ("accuracy", "inconsistency", "ensemble_accuracy")
        if name == "ensemble_accuracy" or (is_fraction and np.ptp(values) == 0):
            # If all values are equal, the bootstrap interval has no width.
            ends = wilson(values.mean(), len(values), level)
        else:
            ends = percentile_interval(draws.means[:, number], level)
        row |= _with_ends(name, values.mean(), *ends)
    return row | _error_with_ends(errors.mean(), draws.errors.mean(1), level)


def _model_row(
    right: np.ndarray, residuals: np.ndarray, error: float, over: np.ndarray, errors: np.ndarray, level: float
) -> dict[str, float]:
    row = _with_ends("accuracy", right.mean(), *wilson(right.mean(), len(right), level))
    row |= _error_with_ends(error, errors, level)
    return row | _with_ends("overconfidence", residuals.mean(), *percentile_interval(over, level))


def _gaps(accuracies: list[tuple[int, float, np.ndarray]], level: float) -> list[dict[str, float]]:
    """Return how far each group's accuracy is above the accuracy on all other examples.

    Args:
        accuracies: number of examples, accuracy and resampled accuracies [R] of each group. In the resamples of the other
            groups, a group that is too small for resampling keeps its accuracy.
        level: confidence level.
    """
    counts = np.array([count for count, _, _ in accuracies])
    values = np.array([value for _, value, _ in accuracies])
    draws = np.stack([draw for _, _, draw in accuracies])
    filled = np.where(np.isnan(draws), values[:, None], draws)
    total, draw_total = counts @ values, counts @ filled
    gaps = []
    for g, count in enumerate(counts):
        rest = counts.sum() - count
        gap = values[g] - (total - count * values[g]) / rest
        draw = draws[g] - (draw_total - count * filled[g]) / rest
        gaps.append(_with_ends("gap", gap, *percentile_interval(draw, level)))
    return gaps


def _error_with_ends(error: float, draws: np.ndarray, level: float) -> dict[str, float]:
    """Return a calibration error with the basic bootstrap interval, extended to the estimate if it is outside."""
    low, high = percentile_interval(draws, level)
    low, high = np.minimum(np.maximum(2 * error - high, 0), error), np.maximum(2 * error - low, error)
    return _with_ends("calibration_error", error, low, np.minimum(high, 1))


def _with_ends(name: str, value: Any, low: Any, high: Any) -> dict[str, float]:
    return {name: float(value), f"{name}_low": float(low), f"{name}_high": float(high)}
