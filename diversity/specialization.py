"""Who is sure of what: the specialization angle of two models, by outcome, by class, and at its extremes.

The angle of an example is theta = atan2(c1, c2) - pi/4, with c1 and c2 the two calibrated top-1 confidences: 0 where both
are as sure, towards pi/4 where only the first is, towards -pi/4 where only the second is ("angle distance in the
confidence-confidence plot", Gontijo-Lopes et al. 2021, 4.3; the sign and origin are our reading of it).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from diversity.intervals import wilson
from diversity.tables import ErrorTable
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas

OUTCOMES = ("both right", "only first right", "only second right", "both wrong")
LIMIT = math.pi / 4
OWNED_BELOW = 0.05  # Holm-adjusted p-value of equal accuracies


def specialization_angle(probs_a: Array, probs_b: Array) -> Array:
    """theta [N] of two models' calibrated probabilities [N, K]; positive where the first is the more confident.

    >>> specialization_angle(torch.tensor([[0.5, 0.5], [0.9, 0.1]]), torch.tensor([[0.5, 0.5], [0.5, 0.5]]))
    tensor([0.0000, 0.2783])
    """
    a, b = arrays.probabilities(probs_a, "first probabilities"), arrays.probabilities(probs_b, "second probabilities")
    if len(a) != len(b):
        raise InputError(f"second probabilities: expected {len(a)} rows, found {len(b)}")
    return arrays.like_input(angle(a.amax(1), b.amax(1).to(a.device)), probs_a)


def angle(first: Tensor, second: Tensor) -> Tensor:
    """theta of two confidences."""
    narrow = first.dtype not in (torch.float32, torch.float64)
    return torch.atan2(first.float() if narrow else first, second.float() if narrow else second) - LIMIT


def outcome_of(correct_a: Array, correct_b: Array) -> Tensor:
    """[N] the number of each example's outcome in `OUTCOMES`."""
    a, b = arrays.tensor(correct_a, "correct_a"), arrays.tensor(correct_b, "correct_b")
    for name, values in (("correct_a", a), ("correct_b", b)):
        if values.ndim != 1 or values.dtype != torch.bool or len(values) != len(a):
            raise InputError(f"{name}: expected {len(a)} booleans, found {values.dtype} of shape {list(values.shape)}")
    b = b.to(a.device)
    return torch.where(a, torch.where(b, 0, 1), torch.where(b, 2, 3))


def theta_histogram(theta: Array, correct_a: Array, correct_b: Array, bins: int = 40) -> "pandas.DataFrame":
    """Counts of examples by outcome and theta, in `bins` equal widths of [-pi/4, pi/4]; `share` is of all examples.

    >>> frame = theta_histogram(np.array([-0.7, 0.7, 0.75]), np.array([True] * 3), np.array([False] * 3), bins=2)
    >>> frame[frame["outcome"] == "only first right"]["count"].tolist()
    [1, 2]
    """
    import pandas

    if bins < 1:
        raise InputError(f"bins: expected at least 1, found {bins}")
    outcome = outcome_of(correct_a, correct_b)
    t = _angles(theta, outcome)
    index = ((t + LIMIT) / (2 * LIMIT) * bins).long().clamp(0, bins - 1)
    counts = arrays.to_numpy(torch.bincount(outcome * bins + index, minlength=4 * bins))
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
    """Below `lower` the second model's prediction prevails in the ensemble, above `upper` the first's.

    None where there is no such angle.
    """

    lower: float | None
    upper: float | None
    level: float


def prevalence_band(theta: Array, pred_a: Array, pred_b: Array, pred_ensemble: Array, level: float = 0.9) -> PrevalenceBand:
    """The angles beyond which one model's top-1 class is the ensemble's in at least `level` of cases.

    Only examples on which the two disagree say anything. The upper edge is the angle t that makes the sum of
    (1 if the first model's class won, else 0) - level over all theta > t greatest: there the chance of winning, which grows
    with theta, crosses `level`. The lower edge mirrors it. (Our reading of the dotted lines
    in Fig. 3 of Gontijo-Lopes et al. 2021, beyond which a prediction is likely to win.)

    >>> theta = np.array([-0.6, -0.4, -0.1, 0.1, 0.4, 0.6])
    >>> prevalence_band(theta, np.zeros(6, int), np.ones(6, int), np.array([1, 1, 0, 1, 0, 0]), level=0.8)
    PrevalenceBand(lower=-0.25, upper=0.25, level=0.8)
    """
    if not 0 < level < 1:
        raise InputError(f"level: expected a share between 0 and 1, found {level}")
    a = arrays.predictions(pred_a, name="first predictions")
    b = arrays.predictions(pred_b, len(a), "second predictions").to(a.device)
    e = arrays.predictions(pred_ensemble, len(a), "ensemble's predictions").to(a.device)
    t = _angles(theta, a)
    apart = a != b
    t, order = t[apart].sort(descending=True)
    first, second = (e == a)[apart][order], (e == b)[apart][order]
    upper = _edge(t, first, level)
    lower = _edge(-t.flip(0), second.flip(0), level)
    return PrevalenceBand(None if lower is None else -lower, upper, level)


def _edge(descending: Tensor, won: Tensor, level: float) -> float | None:
    if not len(descending):
        return None
    gains = (won.to(torch.float32) - level).cumsum(0)
    best = int(gains.argmax())
    if not float(gains[best]) > 0:
        return None
    following = descending[best + 1] if best + 1 < len(descending) else descending.new_tensor(-LIMIT)
    return round(float(descending[best] + following) / 2, 6)


def specialization_by_class(
    theta: Array | None,
    correct_a: Array,
    correct_b: Array,
    labels: Array,
    classes: Sequence[str] | None = None,
    groups: Mapping[str, str] | None = None,
) -> "pandas.DataFrame":
    """Classes (or the `groups` their names map to) ranked by which model owns them: the first's own first.

    `advantage` is the first's accuracy less the second's, `mcnemar` the p-value of there being none, and `p_holm` that
    p-value adjusted by Holm's method for there being several classes. A model owns a class in which it is right more often
    with `p_holm` below 0.05; the owner of others is "either". The accuracies have Wilson's 95% intervals (`_low`, `_high`);
    `theta` is the mean angle, left out where it is None. Classes without examples are left out.

    >>> right, wrong = np.ones(11, bool), np.array([True, True, True] + [False] * 8)
    >>> frame = specialization_by_class(np.linspace(0, 0.5, 11), right, wrong, [0] * 4 + [1] * 7, ["cat", "dog"])
    >>> frame[["class", "count", "theta", "advantage", "p_holm", "owner"]].round(4)
      class  count  theta  advantage  p_holm   owner
    0   dog      7  0.350       1.00  0.0312   first
    1   cat      4  0.075       0.25  1.0000  either
    """
    import pandas

    outcome = outcome_of(correct_a, correct_b)
    y = arrays.labels(labels, None if classes is None else len(classes), len(outcome)).to(outcome.device)
    names = [str(k) for k in range(int(y.max()) + 1)] if classes is None else [str(name) for name in classes]
    what = "class"
    if groups is not None:
        what, (names, y) = "group", _grouped(names, groups, y)
    count = len(names)
    by_outcome = arrays.to_numpy(torch.bincount(y * 4 + outcome, minlength=4 * count)).reshape(count, 4).astype(np.float64)
    present = by_outcome.sum(1) > 0
    table = ErrorTable(np.insert(by_outcome[present], 3, 0, 1))
    advantage = table.accuracy_first - table.accuracy_second
    columns: dict[str, Any] = {what: np.array(names, object)[present], "count": table.examples.astype(int)}
    if theta is not None:
        t = _angles(theta, outcome)
        wide = t.to(arrays.accumulation_dtype(t.device))
        columns["theta"] = arrays.to_numpy(wide.new_zeros(count).index_add_(0, y, wide))[present] / table.examples
    for side in ("accuracy_first", "accuracy_second"):
        columns[side] = getattr(table, side)
        columns[f"{side}_low"], columns[f"{side}_high"] = wilson(columns[side], table.examples)
    p = holm(table.mcnemar)
    owned = p < OWNED_BELOW
    columns |= {"advantage": advantage, "mcnemar": table.mcnemar, "p_holm": p}
    columns["owner"] = np.select([owned & (advantage > 0), owned & (advantage < 0)], ["first", "second"], "either")
    order = ["advantage"] if theta is None else ["advantage", "theta"]
    return pandas.DataFrame(columns).sort_values(order, ascending=False, kind="stable").reset_index(drop=True)


def holm(p: np.ndarray) -> np.ndarray:
    """p-values [m] adjusted for m tests (Holm 1979), which SciPy lacks: the k-th smallest times m - k + 1, never falling.

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return adjusted


def extremes(theta: Array, count: int = 10, mask: Array | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the examples where the first and where the second model is surest compared with the other.

    `mask` [N] of booleans keeps some rows only, for instance those that exactly one model gets right.

    >>> first, second = extremes(np.array([0.1, -0.7, 0.6, 0.0]), count=2)
    >>> first.tolist(), second.tolist()
    ([2, 0], [1, 3])
    """
    t = _angles(theta, None)
    rows = torch.arange(len(t), device=t.device)
    if mask is not None:
        keep = arrays.tensor(mask, "mask").to(t.device)
        t, rows = t[keep], rows[keep]
    order = t.argsort(stable=True)
    low, high = rows[order[:count]], rows[order.flip(0)[:count]]
    return arrays.to_numpy(high), arrays.to_numpy(low)


def _angles(theta: Any, like: Tensor | None) -> Tensor:
    t = arrays.tensor(theta, "theta")
    if t.ndim != 1 or not t.is_floating_point() or (like is not None and len(t) != len(like)):
        wanted = "angles [N]" if like is None else f"{len(like)} angles"
        raise InputError(f"theta: expected {wanted}, found {t.dtype} of shape {list(t.shape)}")
    return t if like is None else t.to(like.device)


def _grouped(names: Sequence[str], groups: Mapping[str, str], y: Tensor) -> tuple[list[str], Tensor]:
    missing = [name for name in names if name not in groups]
    if missing:
        raise InputError(f"groups: no group for class {missing[0]!r} ({len(missing)} such classes)")
    kinds = list(dict.fromkeys(groups[name] for name in names))
    group_of = torch.tensor([kinds.index(groups[name]) for name in names]).to(y.device)
    return kinds, group_of[y]
