"""Where the likelihood is least: safeguarded Newton steps in s = log(1/T), first on a sample, then on everything."""

import math

from zoo.calibration.likelihood import Likelihood, Point

# The search stays between these.
MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-4, 1e4
LOW, HIGH = -math.log(MAX_TEMPERATURE), -math.log(MIN_TEMPERATURE)
# A point is accepted when the next step in log T is below this: the likelihood is then within its square of the least.
TOLERANCE = 1e-5
# ... or when the step could not lower the likelihood by as much as this, as where every probability has saturated.
NEGLIGIBLE = 1e-18
# A sample is off by a percent or so anyway; data small enough to be their own sample are solved to rounding.
SAMPLE_TOLERANCE, SMALL_TOLERANCE = 1e-2, 1e-9
VOUCHED_TOLERANCE = 1e-6
MAX_STEP = math.log(8)
MAX_STEPS = 60
SAMPLE_ELEMENTS, GRID_ELEMENTS, GRID_ROWS, GRID_POINTS = 2**21, 2**16, 2**10, 17


class Bracket:
    """The interval known to hold a minimum, narrowed by the sign of each slope seen."""

    def __init__(self) -> None:
        self.low, self.high = LOW, HIGH

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
            return HIGH if self.high == HIGH else (s + self.high) / 2
        if target <= self.low:
            return LOW if self.low == LOW else (s + self.low) / 2
        return target


def descend(likelihood: Likelihood, start: float, tolerance: float) -> float:
    """The minimum near `start`, with the last step, which is below the tolerance, taken unseen."""
    bracket = Bracket()
    s = start
    for _ in range(MAX_STEPS):
        (point,) = likelihood.at(s)
        s = bracket.next(point)
        if abs(s - point.log_inverse) <= tolerance:
            break
    return s


def minimum(likelihood: Likelihood) -> tuple[Point, Point, int]:
    """The likelihood at T = 1 and at its minimum, and the number of passes over all the data that took.

    A grid over a handful of rows finds the basin (the sigmoid link can have several), Newton on a sample of about two
    million numbers comes within a percent or so, and a full pass then corrects the *sample's* slope by the observed
    difference instead of following a straight tangent: the error left is the small difference of two nearly equal curves.
    """
    few = likelihood.sample(min(GRID_ELEMENTS, GRID_ROWS * likelihood.logits.shape[1]))
    grid = few.at(*(LOW + (HIGH - LOW) * i / (GRID_POINTS - 1) for i in range(GRID_POINTS)))
    start = descend(few, min(grid, key=lambda point: point.nll).log_inverse, SAMPLE_TOLERANCE)
    sample = likelihood.sample(SAMPLE_ELEMENTS)
    small = sample is likelihood
    start = descend(sample, start, SMALL_TOLERANCE if small else SAMPLE_TOLERANCE)
    before, point = likelihood.beside_one(start)
    bracket = Bracket()
    passes = 1
    while abs((target := bracket.next(point)) - point.log_inverse) > TOLERANCE and passes < MAX_STEPS:
        (point,) = likelihood.at(target if small else _corrected(point, sample, target, bracket))
        passes += 1
    return before, point, passes


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


def vouched_for(likelihood: Likelihood, before: Point, end: Point) -> Point:
    """Where to stop on data that are right without exception, whose likelihood only improves down to the `end`, T -> 0.

    N examples without an error make the chance of one on the next 1/(N + 2), by the rule of succession. The temperature is
    lowered until the loss is that of so sure a model, log((N + 2)/(N + 1)), and no further: colder would claim to know
    what the data cannot tell. A loss that is smaller to begin with leaves T at 1.
    """
    least = math.log1p(1 / (len(likelihood) + 1))
    if before.nll <= least:
        return before
    if end.nll >= least:
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
