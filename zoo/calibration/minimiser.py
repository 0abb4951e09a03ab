"""The minimum of the likelihood over temperatures: a grid, then Newton's method on a sample, then on everything.

By the softmax link the likelihood is convex in 1/T and has one basin. By the sigmoid link it can have several, and it can
run out into a plateau towards T = 0, where every sigmoid is 0 or 1: then there is no minimum, only a least upper end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zoo.calibration.likelihood import CACHE_ELEMENTS, MAX_TEMPERATURE, MIN_TEMPERATURE, SMALL_ELEMENTS, Likelihood, Point

LOW, HIGH = -math.log(MAX_TEMPERATURE), -math.log(MIN_TEMPERATURE)
# A point is accepted when the next step in log T is below this: the likelihood is then within its square of the least.
TOLERANCE = 1e-5
# ... or when the step could not lower the likelihood by as much as this, as where every probability has saturated.
NEGLIGIBLE = 1e-18
# A sample is off by a percent or so anyway; data small enough to be their own sample are solved to rounding.
SAMPLE_TOLERANCE, SMALL_TOLERANCE = 1e-2, 1e-9
VOUCHED_TOLERANCE = 1e-6
# Likelihoods closer than this are the same: a plateau begins where it is that close to its end.
SAME = 1e-10
MAX_STEP = math.log(8)
MAX_STEPS = 60
GRID_ELEMENTS, GRID_ROWS = 2**16, 2**10
# A row's likelihood bends over lengths of about 1 in log T, so basins are wider than a sixteenth of it.
SOFTMAX_POINTS, SIGMOID_POINTS, LEAST_POINTS = 17, 289, 49
MAX_BASINS = 8
ZOOM_POINTS = 65


@dataclass(frozen=True)
class Search:
    """What was found: the likelihood at T = 1 and at its minimum, and what the way there told."""

    before: Point
    after: Point
    passes: int  # over all the data
    constant: bool = False  # any temperature gives the same likelihood
    saturated: bool = False  # the minimum is no lower than the end of the search at T -> 0


class Bracket:
    """The interval known to hold a minimum, narrowed by the sign of each slope seen."""

    def __init__(self, low: float = LOW, high: float = HIGH) -> None:
        self.low, self.high = self.first, self.last = low, high

    def next(self, point: Point) -> float:
        """Where to look after `point`: Newton's step, or a bold one downhill where the curvature is no help.

        The slope's zero is that of f'(b), and df'/ds = b f''(b), so in the units of a point the step is -slope/curvature.
        A step beyond a point already seen goes half way to it instead.
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


def descend(likelihood: Likelihood, start: float, tolerance: float, bracket: Bracket | None = None) -> float:
    """The minimum near `start`, with the last step, which is below the tolerance, taken unseen."""
    bracket = bracket or Bracket()
    s = start
    for _ in range(MAX_STEPS):
        (point,) = likelihood.at(s)
        s = bracket.next(point)
        if abs(s - point.log_inverse) <= tolerance:
            break
    return s


def minimum(likelihood: Likelihood) -> Search:
    """The least of the likelihood.

    A grid over a handful of rows finds the basins, Newton on a sample of about two million numbers comes within a percent
    or so, and a full pass then corrects the *sample's* slope by the observed difference instead of following a straight
    tangent: the error left is the small difference of two nearly equal curves.
    """
    few = likelihood.sample(min(GRID_ELEMENTS, GRID_ROWS * likelihood.logits.shape[1]))
    points = SOFTMAX_POINTS
    if likelihood.link == "sigmoid":
        points = max(LEAST_POINTS, min(SIGMOID_POINTS, 16 * CACHE_ELEMENTS // (len(few) * few.logits.shape[1])))
    grid = spread(LOW, HIGH, points)
    curve = few.curve(grid)
    level = max(curve) - min(curve) <= SAME / 100
    sample = likelihood.sample(SMALL_ELEMENTS)
    small = sample is likelihood
    if level and (small or max(ends := likelihood.curve([LOW, 0.0, HIGH])) - min(ends) <= SAME / 100):
        before, after = likelihood.beside_one(0.0)
        return Search(before, after, 1, constant=True)
    start = _best_basin(few, sample, grid, curve)
    start = descend(sample, start, SMALL_TOLERANCE if small else SAMPLE_TOLERANCE)
    before, point = likelihood.beside_one(start)
    bracket = Bracket()
    passes = 1
    while abs((target := bracket.next(point)) - point.log_inverse) > TOLERANCE and passes < MAX_STEPS:
        (point,) = likelihood.at(target if small else _corrected(point, sample, target, bracket))
        passes += 1
    saturated = False
    if curve[-1] <= min(curve) + (SAME if small else 1e-3):  # for a sample a mere suspicion
        here, end = likelihood.curve([point.log_inverse, HIGH])
        saturated = end <= here + SAME
    return Search(before, point, passes, saturated=saturated)


def spread(low: float, high: float, points: int) -> list[float]:
    """Evenly from `low` to `high`, both exactly: a last point beyond the bound by rounding would be no bound."""
    return [low, *(low + (high - low) * i / (points - 1) for i in range(1, points - 1)), high]


def _best_basin(few: Likelihood, sample: Likelihood, grid: Sequence[float], curve: Sequence[float]) -> float:
    """The minimum of the lowest basin, as seen by `few` rows, or by the `sample` where there are several."""
    around = [math.inf, *curve, math.inf]
    lows = [i for i, value in enumerate(curve) if value < around[i] and value <= around[i + 2]]
    found = [
        descend(few, grid[i], SAMPLE_TOLERANCE, Bracket(grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]))
        for i in sorted(lows, key=curve.__getitem__)[:MAX_BASINS]
    ]
    if len(found) == 1:
        return found[0]
    losses = sample.curve(found)
    return found[losses.index(min(losses))]


def plateau(likelihood: Likelihood) -> float:
    """Where the plateau at T -> 0 begins, in s: the warmest temperature from which on the likelihood is that of the end."""
    low, high = LOW, HIGH
    for points in (4 * ZOOM_POINTS, ZOOM_POINTS, ZOOM_POINTS):
        grid = spread(low, high, points)
        *curve, end = likelihood.curve([*grid, HIGH])
        beyond = [i for i, value in enumerate(curve) if value > end + SAME]
        if not beyond or beyond[-1] + 1 == points:
            return low if not beyond else high
        low, high = grid[beyond[-1]], grid[beyond[-1] + 1]
    return high


def _corrected(seen: Point, sample: Likelihood, target: float, bracket: Bracket) -> float:
    """A better place than Newton's `target`, by the shape of the sample's slope between the point `seen` and there.

    With F = f'(b) of all the data and H that of the sample, F(b0) + c (H(b) - H(b0)) with c = F'(b0)/H'(b0) has the value
    and slope of F at b0 and nearly its bend. One Newton step on it from the target is enough: the target is already close.
    """
    base, there = sample.at(seen.log_inverse, target)
    if min(base.curvature, there.curvature, seen.curvature) <= 0:
        return target
    scale = seen.curvature / base.curvature
    offset = (seen.slope - scale * base.slope) * math.exp(target - seen.log_inverse)
    better = target - (offset + scale * there.slope) / (scale * there.curvature)
    return better if bracket.low < better < bracket.high else target


def vouched_for(likelihood: Likelihood, before: Point) -> Point:
    """Where to stop on data that are right without exception, whose likelihood only improves down to T -> 0.

    N examples without an error make the chance of one on the next 1/(N + 2), by the rule of succession. The temperature is
    lowered until the loss is that of so sure a model, log((N + 2)/(N + 1)), and no further: colder would claim to know
    what the data cannot tell. A loss that is smaller to begin with leaves T at 1; one that stays larger, by the sigmoid
    link, ends where its plateau begins.
    """
    least = math.log1p(1 / (likelihood.examples + 1))
    if before.nll <= least:
        return before
    (end,) = likelihood.at(HIGH)
    if end.nll >= least:
        (end,) = likelihood.at(plateau(likelihood))
        return end
    low, high = 0.0, HIGH
    s = low
    for _ in range(MAX_STEPS):
        (point,) = likelihood.at(s)
        gap = math.log(point.nll / least) if point.nll > 0 else -math.inf
        if abs(gap) <= VOUCHED_TOLERANCE:
            break
        low, high = (s, high) if gap > 0 else (low, s)
        # Newton's step for the logarithm of the loss, which far out falls about as fast as 1/T grows.
        target = s - gap * point.nll / point.slope if point.slope < 0 and point.nll > 0 else high
        s = target if low < target < high else (low + high) / 2
    return point
