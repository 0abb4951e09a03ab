"""The specialization angle of two models: which model is more confident, by outcome, by class and at the extremes.

The angle of an example is theta = atan2(c1, c2) - pi/4, where c1 and c2 are the two calibrated top-1 confidences. It is 0
for equal confidences, close to pi/4 if only the first model is confident, and close to -pi/4 if only the second is ("angle
distance in the confidence-confidence plot", Gontijo-Lopes et al. 2021, 4.3; sign and origin are our reading of it).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from diversity._checks import class_indices, whole_number
from diversity.bootstrap import check_level
from diversity.intervals import wilson
from diversity.tables import ErrorTable
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import backend, cast, dtype_name, is_floating, single_or_double, sums_by, to_accumulation_dtype
from zoo.core.statistics import holm
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas

OUTCOMES = ("both right", "only first right", "only second right", "both wrong")
LIMIT = math.pi / 4
SIGNIFICANCE = 0.05  # a model owns a class if the Holm-adjusted p-value of equal accuracies is below this


def specialization_angle(probs_a: ArrayLike | Array, probs_b: ArrayLike | Array) -> Array:
    """Return the angle theta [N]; positive where the first model is more confident.

    Args:
        probs_a: [N, K] calibrated probabilities of the first model.
        probs_b: [N, K] calibrated probabilities of the second model.

    >>> specialization_angle([[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.5, 0.5]]).round(4)
    array([0.    , 0.2783])
    """
    a, b = checks.probabilities(probs_a, "probs_a"), checks.probabilities(probs_b, "probs_b")
    if len(a) != len(b):
        raise InputError(argument="probs_b", expected=f"of {len(a)} rows, as probs_a", found=len(b))
    return angle(backend(a).amax(a, 1), arrays.like(backend(b).amax(b, 1), a))


def angle(first: Any, second: Any) -> Any:
    """Return theta [N] from two confidences [N]. The arctangent is rounded from float64, so that it is exactly pi/4 at 1."""
    dtype = dtype_name(single_or_double(first))
    return cast(backend(first).arctan2(to_accumulation_dtype(first), to_accumulation_dtype(second)), dtype) - LIMIT


def outcome_of(correct_a: ArrayLike | Array, correct_b: ArrayLike | Array) -> Any:
    """Return each example's outcome [N], as an index into `OUTCOMES`, from whether each model is correct [N]."""
    a, b = checks.array(correct_a, "correct_a"), checks.array(correct_b, "correct_b")
    for name, values in (("correct_a", a), ("correct_b", b)):
        if values.ndim != 1 or dtype_name(values) != "bool" or len(values) != len(a):
            found = f"{values.dtype} of shape {list(values.shape)}"
            raise InputError(argument=name, expected=f"{len(a)} booleans", found=found)
    b, where = arrays.like(b, a), backend(a).where
    return where(a, where(b, 0, 1), where(b, 2, 3))


def theta_histogram(
    theta: ArrayLike | Array, correct_a: ArrayLike | Array, correct_b: ArrayLike | Array, bins: int = 40
) -> "pandas.DataFrame":
    """Return the number of examples by outcome and angle.

    Columns: outcome, `low` and `high` (edges of a bin), count, and `share` (count as a fraction of all examples).

    Args:
        theta: [N] angles.
        correct_a: [N] whether the first model is correct.
        correct_b: [N] whether the second model is correct.
        bins: number of equal bins over [-pi/4, pi/4].

    >>> frame = theta_histogram(np.array([-0.7, 0.7, 0.75]), np.array([True] * 3), np.array([False] * 3), bins=2)
    >>> frame[frame["outcome"] == "only first right"]["count"].tolist()
    [1, 2]
    """
    import pandas

    whole_number(bins, "bins")
    outcome = outcome_of(correct_a, correct_b)
    t = _angles(theta, outcome)
    index = backend(t).clip(cast((t + LIMIT) / (2 * LIMIT) * bins, "int64"), 0, bins - 1)
    counts = arrays.to_numpy(backend(t).bincount(outcome * bins + index, minlength=4 * bins))
    edges = np.linspace(-LIMIT, LIMIT, bins + 1)
    return pandas.DataFrame(
        {
            "outcome": np.repeat(OUTCOMES, bins),
            "low": np.tile(edges[:-1], 4),
            "high": np.tile(edges[1:], 4),
            "count": counts,
            "share": counts / len(t),
        }
    )


@dataclass(frozen=True)
class PrevalenceBand:
    """Angles beyond which the ensemble predicts one model's class: above `upper` the first's, below `lower` the second's.

    An edge is None if there is no such angle.
    """

    lower: float | None
    upper: float | None
    level: float


def prevalence_band(
    theta: ArrayLike | Array,
    pred_a: ArrayLike | Array,
    pred_b: ArrayLike | Array,
    pred_ensemble: ArrayLike | Array,
    level: float = 0.9,
) -> PrevalenceBand:
    """Return the angles beyond which the ensemble predicts one model's class in at least `level` of the cases.

    Only examples on which the two models disagree count. The upper edge is the angle t that maximises the sum of
    (1 if the ensemble predicts the first model's class, else 0) - level over all theta > t. There the probability that the
    first model prevails, which increases with theta, crosses `level`. The lower edge is found the same way for the second
    model. (Our reading of the dotted lines in Fig. 3 of Gontijo-Lopes et al. 2021.)

    Args:
        theta: [N] angles.
        pred_a: [N] predictions of the first model.
        pred_b: [N] predictions of the second model.
        pred_ensemble: [N] predictions of the ensemble.
        level: fraction of cases in which a prediction prevails.

    >>> theta = np.array([-0.6, -0.4, -0.1, 0.1, 0.4, 0.6])
    >>> prevalence_band(theta, np.zeros(6, int), np.ones(6, int), np.array([1, 1, 0, 1, 0, 0]), level=0.8)
    PrevalenceBand(lower=-0.25, upper=0.25, level=0.8)
    """
    check_level(level)
    a = checks.labels(pred_a, name="pred_a")
    b = arrays.like(checks.labels(pred_b, rows=len(a), name="pred_b"), a)
    e = arrays.like(checks.labels(pred_ensemble, rows=len(a), name="pred_ensemble"), a)
    disagree = a != b
    t, flip = _angles(theta, a)[disagree], backend(a).flip
    order = backend(a).argsort(-t)
    t, first, second = t[order], (e == a)[disagree][order], (e == b)[disagree][order]
    upper = _edge(t, first, level)
    lower = _edge(-flip(t, (0,)), flip(second, (0,)), level)
    return PrevalenceBand(None if lower is None else -lower, upper, level)


def _edge(descending: Any, won: Any, level: float) -> float | None:
    if not len(descending):
        return None
    gains = cast(to_accumulation_dtype(cast(won, "float32") - level).cumsum(0), "float32")  # rounded, so that ties are equal
    gains[:-1][descending[:-1] == descending[1:]] = -math.inf  # equal angles are on the same side of the edge
    best = int(gains.argmax())
    if not float(gains[best]) > 0:
        return None
    following = descending[best + 1] if best + 1 < len(descending) else -LIMIT
    return round(float(descending[best] + following) / 2, 6)


def specialization_by_class(
    theta: ArrayLike | Array | None,
    correct_a: ArrayLike | Array,
    correct_b: ArrayLike | Array,
    labels: ArrayLike | Array,
    classes: Sequence[str] | None = None,
    groups: Mapping[str, str] | None = None,
) -> "pandas.DataFrame":
    """Return the classes with examples, sorted by the first model's advantage in accuracy.

    Columns: class (or group), count, `theta` (mean angle), `accuracy_first` and `accuracy_second` with the ends of their
    95% Wilson intervals (`_low`, `_high`), `advantage` (accuracy of the first minus the second), `mcnemar` (p-value of equal
    accuracies), `p_holm` (that p-value, adjusted by Holm's method for the number of classes) and `owner`. A model owns a
    class on which it is more accurate with `p_holm` below 0.05; otherwise the owner is "either".

    Args:
        theta: [N] angles; None leaves out their column.
        correct_a: [N] whether the first model is correct.
        correct_b: [N] whether the second model is correct.
        labels: [N] true classes.
        classes: [K] class names; default: class numbers.
        groups: a group for each class name, to be reported instead of classes.

    >>> right, wrong = np.ones(11, bool), np.array([True, True, True] + [False] * 8)
    >>> frame = specialization_by_class(np.linspace(0, 0.5, 11), right, wrong, [0] * 4 + [1] * 7, ["cat", "dog"])
    >>> frame[["class", "count", "theta", "advantage", "p_holm", "owner"]].round(4)
      class  count  theta  advantage  p_holm   owner
    0   dog      7  0.350       1.00  0.0312   first
    1   cat      4  0.075       0.25  1.0000  either
    """
    import pandas

    outcome = outcome_of(correct_a, correct_b)
    if classes is None:
        y = arrays.like(class_indices(labels, len(outcome)), outcome)
        names = [str(k) for k in range(int(y.max()) + 1)]
    else:
        y = arrays.like(checks.labels(labels, len(classes), len(outcome)), outcome)
        names = [str(name) for name in classes]
    unit = "class"
    if groups is not None:
        unit, (names, y) = "group", _grouped(names, groups, y)
    count = len(names)
    counts = arrays.to_numpy(backend(y).bincount(y * 4 + outcome, minlength=4 * count))
    by_outcome = counts.reshape(count, 4).astype(np.float64)
    present = by_outcome.sum(1) > 0
    table = ErrorTable(np.insert(by_outcome[present], 3, 0, 1))
    advantage = table.accuracy_first - table.accuracy_second
    columns: dict[str, Any] = {unit: np.array(names, object)[present], "count": table.examples.astype(int)}
    if theta is not None:
        columns["theta"] = (
            arrays.to_numpy(sums_by(to_accumulation_dtype(_angles(theta, outcome)), y, count))[present] / table.examples
        )
    for side in ("accuracy_first", "accuracy_second"):
        columns[side] = getattr(table, side)
        columns[f"{side}_low"], columns[f"{side}_high"] = wilson(columns[side], table.examples)
    p = holm(table.mcnemar)
    owned = p < SIGNIFICANCE
    columns |= {"advantage": advantage, "mcnemar": table.mcnemar, "p_holm": p}
    columns["owner"] = np.select([owned & (advantage > 0), owned & (advantage < 0)], ["first", "second"], "either")
    order = ["advantage"] if theta is None else ["advantage", "theta"]
    return pandas.DataFrame(columns).sort_values(order, ascending=False, kind="stable").reset_index(drop=True)


def extremes(
    theta: ArrayLike | Array, count: int = 10, mask: ArrayLike | Array | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with the largest angles and the rows with the smallest, most extreme first.

    In the first array the first model is far more confident than the second model; in the second array it is the reverse.

    Args:
        theta: [N] angles.
        count: number of rows of each kind.
        mask: [N] booleans, rows to choose from, such as the examples that exactly one model classifies correctly.

    >>> first, second = extremes(np.array([0.1, -0.7, 0.6, 0.0]), count=2)
    >>> first.tolist(), second.tolist()
    ([2, 0], [1, 3])
    """
    whole_number(count, "count", minimum=0)
    t = arrays.to_numpy(_angles(theta, None))
    rows = np.arange(len(t))
    if mask is not None:
        keep = arrays.to_numpy(checks.array(mask, "mask"))
        t, rows = t[keep], rows[keep]
    order = np.argsort(t, kind="stable")
    return rows[order[::-1][:count]], rows[order[:count]]


def _angles(theta: Any, like: Any) -> Any:
    t = checks.array(theta, "theta")
    if t.ndim != 1 or not is_floating(t) or (like is not None and len(t) != len(like)):
        expected = "angles of shape [N]" if like is None else f"{len(like)} angles"
        raise InputError(argument="theta", expected=expected, found=f"{t.dtype} of shape {list(t.shape)}")
    return t if like is None else arrays.like(t, like)


def _grouped(names: Sequence[str], groups: Mapping[str, str], y: Any) -> tuple[list[str], Any]:
    missing = [name for name in names if name not in groups]
    if missing:
        raise InputError(f"class {missing[0]!r} has no group ({len(missing)} such classes)", argument="groups")
    group_names = list(dict.fromkeys(groups[name] for name in names))
    group_of = arrays.like(np.array([group_names.index(groups[name]) for name in names]), y)
    return group_names, group_of[y]
