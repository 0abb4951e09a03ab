"""The minimum of the likelihood over temperatures: a grid, then Newton's method on a sample, then on all data.

With the softmax link the NLL is convex in 1/T and has one basin. With the sigmoid link it can have several basins, and a
plateau towards T = 0, where every sigmoid is 0 or 1: then there is no minimum, only a limit.

All functions are generators that `zoo.calibration.likelihood.solve` drives.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zoo.calibration.likelihood import (
    CACHE_ELEMENTS,
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    Evaluation,
    Likelihood,
    Point,
)

LOW, HIGH = -math.log(MAX_TEMPERATURE), -math.log(MIN_TEMPERATURE)
# A point is accepted if the next step in log T is smaller than this: the NLL is then within its square of the minimum.
TOLERANCE = 1e-5
# A point is also accepted if the step could not lower the NLL by this much, as where every probability has saturated.
NEGLIGIBLE = 1e-18
# A step of this length ends within a quarter of a percent, and a sample's minimum is off by about a percent anyway. Data
# small enough to need no sample are solved to rounding error.
SAMPLE_TOLERANCE, SMALL_TOLERANCE = 5e-2, 1e-9
LIMIT_TOLERANCE = 1e-6
# NLLs closer than this are equal: a plateau begins where the NLL comes this close to its limit.
EQUAL_NLL = 1e-10
MAX_STEP = math.log(8)
MAX_STEPS = 60
GRID_ELEMENTS, GRID_ROWS = 2**16, 2**10
# The sample is every n-th row: about this many rows, with n between these bounds.
SAMPLE_ROWS, MIN_STRIDE, MAX_STRIDE = 2048, 4, 24
# A row's NLL bends over lengths of about 1 in log T, so basins are wider than a sixteenth of that.
SOFTMAX_POINTS, SIGMOID_POINTS, MIN_POINTS = 9, 289, 49
MAX_BASINS = 8
ZOOM_POINTS = 65


@dataclass(frozen=True)
class Minimum:
    """The likelihood at T = 1 and at its minimum."""

    before: Point
    after: Point
    passes: int  # over all the data
    constant: bool = False  # any temperature gives the same NLL
    saturated: bool = False  # the minimum is no lower than the limit at T -> 0


class Bracket:
    """The interval that contains a minimum, narrowed by the sign of every slope evaluated."""

    def __init__(self, low: float = LOW, high: float = HIGH) -> None:
        self.low, self.high = self.first, self.last = low, high

    def next(self, point: Point) -> float:
        """Return the next s to evaluate: Newton's step, or a large step downhill if the curvature is not positive.

        The slope is zero where f'(b) is, and df'/ds = b f''(b), so the step is -slope/curvature. A step past an end that
        was evaluated goes half way to that end instead.
        """
        s = point.log_inverse
        if point.slope < 0:
            self.low = max(self.low, s)
        elif point.slope > 0:
            self.high = min(self.high, s)
        else:
            return s
        step = -point.slope / point.curvature if point.curvature > 0 else math.copysign(MAX_STEP, -point.slope)
        if abs(step * point.slope) < NEGLIGIBLE:
            return s
        target = s + max(-MAX_STEP, min(MAX_STEP, step))
        if target >= self.high:
            return self.last if self.high == self.last else (s + self.high) / 2
        if target <= self.low:
            return self.first if self.low == self.first else (s + self.low) / 2
        return target


def descend(likelihood: Likelihood, start: float, tolerance: float, bracket: Bracket | None = None) -> Evaluation[float]:
    """Return the minimum near `start`. The last step, which is within the tolerance, is not evaluated."""
    bracket = bracket or Bracket()
    s = start
    for _ in range(MAX_STEPS):
        (point,) = yield from likelihood.at(s)
        s = bracket.next(point)
        if abs(s - point.log_inverse) <= tolerance:
            break
    return s


def minimum(likelihood: Likelihood) -> Evaluation[Minimum]:
    """Return the minimum of the NLL.

    A grid over a few rows finds the basins. Newton's method on a sample comes within about a percent. A pass over all data
    then corrects the slope of the *sample* by the observed difference instead of following a straight tangent, so that the
    remaining error is the small difference of two nearly equal curves.
    """
    rows, classes = likelihood.logits.shape
    few = likelihood.sample(max(-(-rows // GRID_ROWS), -(-rows * classes // GRID_ELEMENTS)))
    points = SOFTMAX_POINTS
    if likelihood.link == "sigmoid":
        points = max(MIN_POINTS, min(SIGMOID_POINTS, 16 * CACHE_ELEMENTS // (len(few) * few.logits.shape[1])))
    grid = spread(LOW, HIGH, points)
    curve = yield from few.curve(grid)
    small = likelihood.small
    sample = likelihood if small else likelihood.sample(min(max(rows // SAMPLE_ROWS, MIN_STRIDE), MAX_STRIDE))
    if max(curve) - min(curve) <= EQUAL_NLL / 100:
        ends = curve if small else (yield from likelihood.curve([LOW, 0.0, HIGH]))
        if max(ends) - min(ends) <= EQUAL_NLL / 100:
            before, after = yield from likelihood.with_baseline(0.0)
            return Minimum(before, after, 1, constant=True)
    start = yield from _best_basin(few, sample, grid, curve)
    start = yield from descend(sample, start, SMALL_TOLERANCE if small else SAMPLE_TOLERANCE)
    before, point = yield from likelihood.with_baseline(start)
    bracket = Bracket()
    passes = 1
    while abs((target := bracket.next(point)) - point.log_inverse) > TOLERANCE and passes < MAX_STEPS:
        if not small:
            target = yield from _corrected(point, sample, target, bracket)
        (point,) = yield from likelihood.at(target)
        passes += 1
    saturated = False
    if curve[-1] <= min(curve) + (EQUAL_NLL if small else 1e-3):  # for a sample this is only a first indication
        here, end = yield from likelihood.curve([point.log_inverse, HIGH])
        saturated = end <= here + EQUAL_NLL
    return Minimum(before, point, passes, saturated=saturated)


def spread(low: float, high: float, points: int) -> list[float]:
    """Return evenly spaced numbers from `low` to `high`, both exactly, so that rounding cannot pass a bound."""
    return [low, *(low + (high - low) * i / (points - 1) for i in range(1, points - 1)), high]


def _best_basin(few: Likelihood, sample: Likelihood, grid: Sequence[float], curve: Sequence[float]) -> Evaluation[float]:
    """Return the minimum of the lowest basin on `few` rows; if there are several, the `sample` decides."""
    padded = [math.inf, *curve, math.inf]
    lows = [i for i, value in enumerate(curve) if value < padded[i] and value <= padded[i + 2]]
    minima = []
    for i in sorted(lows, key=curve.__getitem__)[:MAX_BASINS]:
        bracket = Bracket(grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)])
        minima.append((yield from descend(few, grid[i], SAMPLE_TOLERANCE, bracket)))
    if len(minima) == 1:
        return minima[0]
    losses = yield from sample.curve(minima)
    return minima[losses.index(min(losses))]


def plateau(likelihood: Likelihood) -> Evaluation[float]:
    """Return the s where the plateau towards T = 0 begins: the highest temperature whose NLL equals the limit."""
    low, high = LOW, HIGH
    for points in (4 * ZOOM_POINTS, ZOOM_POINTS, ZOOM_POINTS):
        grid = spread(low, high, points)
        *curve, end = yield from likelihood.curve([*grid, HIGH])
        above = [i for i, value in enumerate(curve) if value > end + EQUAL_NLL]
        if not above or above[-1] + 1 == points:
            return low if not above else high
        low, high = grid[above[-1]], grid[above[-1] + 1]
    return high


def _corrected(point: Point, sample: Likelihood, target: float, bracket: Bracket) -> Evaluation[float]:
    """Return a better place than Newton's `target`, by the shape of the sample's slope between `point` and the target.

    With F = f'(b) on all data and H on the sample, F(b0) + c (H(b) - H(b0)) with c = F'(b0)/H'(b0) has the value and the
    slope of F at b0, and nearly its curvature. One Newton step on it from the target is enough: the target is close.
    """
    base, there = yield from sample.at(point.log_inverse, target)
    if min(base.curvature, there.curvature, point.curvature) <= 0:
        return target
    scale = point.curvature / base.curvature
    offset = (point.slope - scale * base.slope) * math.exp(target - point.log_inverse)
    better = target - (offset + scale * there.slope) / (scale * there.curvature)
    return better if bracket.low < better < bracket.high else target


def rule_of_succession(likelihood: Likelihood, before: Point) -> Evaluation[Point]:
    """Return where to stop on data without an error, whose NLL improves all the way to T = 0.

    By the rule of succession, N examples without an error give the next one a probability 1/(N + 2) of being an error. The
    temperature is lowered until the NLL is log((N + 2)/(N + 1)): a lower temperature would claim more than the data show. If
    the NLL is lower at T = 1 already, T stays 1. If it never gets as low, as can happen with the sigmoid link, T is where
    the plateau begins.
    """
    limit = math.log1p(1 / (likelihood.examples + 1))
    if before.nll <= limit:
        return before
    (end,) = yield from likelihood.at(HIGH)
    if end.nll >= limit:
        start = yield from plateau(likelihood)
        (end,) = yield from likelihood.at(start)
        return end
    low, high = 0.0, HIGH
    s = low
    for _ in range(MAX_STEPS):
        (point,) = yield from likelihood.at(s)
        gap = math.log(point.nll / limit) if point.nll > 0 else -math.inf
        if abs(gap) <= LIMIT_TOLERANCE:
            break
        low, high = (s, high) if gap > 0 else (low, s)
        # Newton's step for the logarithm of the NLL, which eventually falls about as fast as 1/T grows.
        target = s - gap * point.nll / point.slope if point.slope < 0 and point.nll > 0 else high
        s = target if low < target < high else (low + high) / 2
    return point
