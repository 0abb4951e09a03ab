"""The negative log-likelihood as a function of the temperature, with its slope and curvature, in one pass over the logits.

Everything is written in s = log(1/T), with b = 1/T. Let l be the log-probability up to a constant per row, p = softmax(l),
a = dl/ds and c = b^2 d2l/db^2. A row with label y has

    nll       = log sum_k exp(l_k) - l_y
    slope     = d nll / ds         = E_p[a] - a_y
    curvature = b^2 d2 nll / db^2  = E_p[a^2 + c] - E_p[a]^2 - c_y

Softmax: l = (z - max z)/T, so a = l and c = 0, and the curvature is Var_p[l].
Sigmoid, p_k = sigmoid(v_k) / sum_j sigmoid(v_j) with v = z/T: l = log sigmoid(v) minus its maximum in the row,
a = v sigmoid(-v), c = -v^2 sigmoid(v) sigmoid(-v), and the curvature can be negative: the NLL is not convex in b.

If the labels are a NumPy array, NumPy computes; if they are a tensor, torch computes on their device.

Evaluations are generators: they start work on the device, yield the array [n] of numbers they need on the host, and are
sent those numbers. `solve` drives any number of such generators in lockstep, so that an iteration of all of them waits for
the device once.
"""

import ctypes
import itertools
import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from zoo.core import arrays, checks
from zoo.core.backend import (
    backend,
    cast,
    dtype_name,
    is_tensor,
    log_sigmoid,
    pick,
    row_norms,
    sigmoid,
    to_accumulation_dtype,
    zeros,
)
from zoo.core.columns import Column
from zoo.core.types import Link
from zoo.errors import InputError

# The search for a temperature ends at these bounds.
MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-4, 1e4
# Elements of a chunk per core: the chunk and its exponentials stay in the second-level cache. Accelerators need long
# kernels.
CACHE_ELEMENTS = 2**18
ACCELERATOR_ELEMENTS = 2**24
# Up to this size everything is computed in float64, which then costs next to nothing.
SMALL_ELEMENTS = 2**21
# Replaces minus infinity, which would turn 0 * inf into NaN in the moments. Its exponential is 0 at any temperature.
MASK = -1e30
LOG_2 = math.log(2)

Result = TypeVar("Result")
# Yields numbers that are still on the device, is sent them as floats, and returns a result.
Evaluation: TypeAlias = Generator[Any, list[float], Result]


def solve(evaluations: Iterable[Evaluation[Result]]) -> list[Result]:
    """Return the results of generators that run in lockstep: each iteration copies the numbers of all of them at once."""
    running = list(evaluations)
    results: dict[int, Result] = {}
    answers: dict[int, list[float] | None] = dict.fromkeys(range(len(running)))
    while answers:
        requests: dict[int, Any] = {}
        for index, numbers in answers.items():
            try:
                requests[index] = next(running[index]) if numbers is None else running[index].send(numbers)
            except StopIteration as stop:
                results[index] = stop.value
        answers = {}
        for device in {_device(request) for request in requests.values()}:
            there = {index: request for index, request in requests.items() if _device(request) == device}
            parts = list(there.values())
            values = iter(arrays.to_numpy(backend(parts[0]).concatenate(parts)).tolist())
            answers |= {index: list(itertools.islice(values, len(request))) for index, request in there.items()}
    return [results[index] for index in range(len(running))]


def _device(x: Any) -> Any:
    return x.device if is_tensor(x) else None


@dataclass(frozen=True)
class Point:
    """The likelihood at one temperature: means over the examples, and the top-1 confidence of every row."""

    log_inverse: float
    nll: float
    slope: float
    curvature: float
    brier: float
    confidence: Any  # [N] probability of the top-1 class
    tied: Any  # [N] whether another class may be equally probable

    @property
    def temperature(self) -> float:
        return math.exp(-self.log_inverse)


class Likelihood:
    """Logits [N, K] in blocks of rows, with their labels.

    Args:
        logits: [N, K].
        labels: [N], an array or a tensor, which decides what computes and on which device.
        link: how logits become probabilities.
        name: the name of the logits in error messages.
        population: the likelihood that this one is a sample of.
        weights: [N] weight of each example; default 1.
    """

    def __init__(
        self,
        logits: Column,
        labels: Any,
        link: Link,
        name: str,
        population: "Likelihood | None" = None,
        weights: Any = None,
    ) -> None:
        self.logits, self.labels, self.link, self.name = logits, labels, link, name
        self.weights = weights
        self.examples = float(len(labels) if weights is None else weights.sum())  # sum of the weights
        self.population = population
        self.top: Any = np.empty(0)  # [N] highest logit of each row: filled by the first pass
        self.label: Any = np.empty(0)  # [N] logit of the label
        self.masked = False  # whether infinities were found, which are then replaced
        self.small = population is None and len(labels) * logits.shape[1] <= SMALL_ELEMENTS

    def __len__(self) -> int:
        return len(self.labels)

    def sample(self, step: int) -> "Likelihood":
        """Return every `step`-th row of every block, as views."""
        if step <= 1:
            return self
        starts = np.cumsum([0, *(len(block) for block in self.logits.blocks)])
        spans = [slice(start, end, step) for start, end in itertools.pairwise(starts)]
        logits = Column([block[::step] for block in self.logits.blocks])
        join = backend(self.labels).concatenate
        labels = join([self.labels[span] for span in spans])
        weights = None if self.weights is None else join([self.weights[span] for span in spans])
        sample = Likelihood(logits, labels, self.link, self.name, self, weights)
        sample.masked = self.masked
        return sample

    def at(self, *log_inverses: float) -> Evaluation[list[Point]]:
        """Return the likelihood at each of these values of s = log(1/T). The logits are read once."""
        return (yield from self._evaluate([(s, True) for s in log_inverses]))

    def with_baseline(self, log_inverse: float) -> Evaluation[tuple[Point, Point]]:
        """Return the likelihood at T = 1, without slope and curvature (NaN), and at s = `log_inverse`."""
        before, point = yield from self._evaluate([(0.0, False), (log_inverse, True)])
        return before, point

    def curve(self, log_inverses: Sequence[float]) -> Evaluation[list[float]]:
        """Return the mean NLL at each of these values of s, in float64: exact enough to compare differences of 1e-12."""
        if not len(self.top):
            yield from self.at(0.0)  # finds unusable rows and masked classes
        return (yield self._curve([math.exp(s) for s in log_inverses]) / self.examples)

    @np.errstate(all="ignore")
    def _curve(self, inverses: Sequence[float]) -> Any:
        """Return the sum of the NLL at each of these values of 1/T."""
        xp = backend(self.labels)
        sums: Any = 0.0
        for span, chunk in self._chunks():
            z = to_accumulation_dtype(chunk)
            z = z - xp.amax(z, 1)[:, None] if self.link == "softmax" else z
            z = xp.clip(z, MASK, None) if self.masked else z
            group = max(1, CACHE_ELEMENTS // (len(z) * z.shape[1]))
            parts = []
            for start in range(0, len(inverses), group):
                log_p = xp.stack([z * inverse for inverse in inverses[start : start + group]])
                if self.link == "sigmoid":
                    log_p = log_sigmoid(log_p)
                    log_p -= xp.amax(log_p, 2)[:, :, None]
                label = pick(log_p, self.labels[span])
                log_p *= 1 / LOG_2  # where the result underflows, torch's exp takes ten times as long as exp2
                losses = xp.log(xp.exp2(log_p, out=log_p).sum(2)) - label
                parts.append(self._weighted(losses, span).sum(1))
            sums = sums + xp.concatenate(parts)
        return sums

    def _weighted(self, rows: Any, span: slice) -> Any:
        """Return numbers [..., n] of the examples in a span, times the weights of these examples."""
        return rows if self.weights is None else rows * cast(self.weights[span], dtype_name(rows))

    def _evaluate(self, requests: list[tuple[float, bool]]) -> Evaluation[list[Point]]:
        """Return a point for each pair (s, whether slope and curvature are needed)."""
        moments = self._moments(requests)
        highest, *means = yield self._means(moments, requests)
        self._check_range(highest)
        if not self.masked and not all(map(math.isfinite, means)):
            self._check_rows()
            self.masked = True
            moments = self._moments(requests)
            _, *means = yield self._means(moments, requests)
        points = []
        for i, (s, derivatives) in enumerate(requests):
            nll, slope, curvature, brier = means[4 * i : 4 * i + 4]
            if not derivatives:
                slope = curvature = math.nan
            total, norm = moments[i, 0], moments[i, 1]
            # The largest exp(l) is 1, so its probability is 1 / total, and a second such class makes the squares sum to 2.
            points.append(Point(s, nll, slope, curvature, brier, 1 / total, norm**2 > 1.999))
        return points

    @np.errstate(all="ignore")
    def _means(self, moments: Any, requests: list[tuple[float, bool]]) -> Any:
        """Return the highest logit, then the mean NLL, slope, curvature and Brier score of each point: [1 + 4 points]."""
        xp = backend(moments)
        means = [to_accumulation_dtype(self.top.max().reshape(1))]
        for i, (s, _) in enumerate(requests):
            total, norm, first, second = moments[i]
            inverse = math.exp(s)
            if self.link == "softmax":
                log_y = a_y = (self.label - self.top) * _as_stored(inverse / LOG_2, self.top) * LOG_2
                c_y = xp.zeros_like(log_y)
            else:
                log_y = log_sigmoid(self.label * inverse) - log_sigmoid(self.top * inverse)
                a_y, c_y = _sigmoid_derivatives(self.label * inverse)
            mean = first / total
            rows = xp.stack(
                [
                    xp.log(total) - log_y,
                    mean - a_y,
                    second / total - mean**2 - c_y,
                    (norm / total) ** 2 - 2 * xp.exp(log_y) / total + 1,  # |p - onehot|^2 = |p|^2 - 2 p_y + 1
                ]
            )
            means.append(arrays.total(self._weighted(rows, slice(None)), 1) / self.examples)
        return xp.concatenate(means)

    def correct(self, point: Point) -> Any:
        """Return whether the label is the predicted class [N]; ties go to the first class. Only rows with ties are read."""
        correct: Any = self.label_is_highest
        ties = correct & point.tied
        for span, chunk in self.logits.chunks(self._chunk_rows()):
            rows = backend(ties).where(ties[span])[0]
            if len(rows):
                z = arrays.like(checks.array(chunk, self.name), self.labels)[rows]
                correct[span][rows] = z.argmax(1) == self.labels[span][rows]
        return correct

    @property
    def label_is_highest(self) -> Any:
        """[N] whether the label has the highest logit, alone or with others."""
        return self.top == self.label

    def _check_rows(self) -> None:
        """Raise an error for an unusable row; masked classes alone are no error."""
        if self.population is not None:
            solve([self.population.at(0.0)])  # an error there gives the number of the row among all rows
        xp = backend(self.top)
        for unusable, problem in (
            (~xp.isfinite(self.top), "has NaN, +inf or no finite value"),
            (self.label == -math.inf, "has a logit of -inf at its own label, which masks the true class"),
        ):
            rows = xp.where(unusable)[0]
            if len(rows):
                raise InputError(f"row {int(rows[0])} {problem} ({len(rows)} such rows)", argument=self.name)

    def _check_range(self, highest: float) -> None:
        """Raise an error for logits that overflow when divided by the lowest temperature."""
        limit = float(np.finfo("float64" if str(self.logits.dtype).endswith("float64") else "float32").max)
        if self.link == "sigmoid" and limit * MIN_TEMPERATURE < highest < math.inf:
            raise InputError(
                argument=self.name, expected=f"logits of at most {limit * MIN_TEMPERATURE:.3g}", found=f"{highest:.3g}"
            )

    def _chunk_rows(self) -> int:
        elements = CACHE_ELEMENTS
        if is_tensor(self.labels):
            on_cpu = self.labels.device.type == "cpu"
            elements = CACHE_ELEMENTS * backend(self.labels).get_num_threads() if on_cpu else ACCELERATOR_ELEMENTS
        return max(1, elements // self.logits.shape[1])

    def _chunks(self) -> Iterator[tuple[slice, Any]]:
        for span, chunk in self.logits.chunks(self._chunk_rows()):
            z = arrays.like(checks.array(chunk, self.name), self.labels)
            if dtype_name(z) != "float64":
                z = to_accumulation_dtype(z) if self.small else cast(z, "float32")
            yield span, z

    @np.errstate(all="ignore")
    def _moments(self, requests: list[tuple[float, bool]]) -> Any:
        """Return [points, 4, N]: the sum over classes of exp(l), its norm, the sums of a exp(l) and of (a^2 + c) exp(l)."""
        xp = backend(self.labels)
        first_pass = not len(self.top)
        fill = _softmax_moments if self.link == "softmax" else _sigmoid_moments
        # Two buffers are reused for every chunk: fresh memory would be mapped in page by page each time.
        buffers: tuple[Any, ...] = ()
        for span, z in self._chunks():
            if not buffers:
                buffers = tuple(xp.empty_like(z) for _ in range(2))
                sums = zeros((len(requests), 4, len(self)), z)
                if first_pass:
                    self.top, self.label = zeros((2, len(self)), z)
            if first_pass:
                self.top[span] = xp.amax(z, 1)
                self.label[span] = pick(z, self.labels[span])
            scores, weight = (buffer[: len(z)] for buffer in buffers)
            if self.link == "softmax":
                xp.subtract(z, self.top[span, None], out=scores)
            else:
                scores[:] = z
            if self.masked:
                xp.clip(scores, MASK, None, out=scores)
            for i, (s, derivatives) in enumerate(requests):
                fill(scores, math.exp(s), weight, sums[i, :, span], derivatives)
        return sums


def _softmax_moments(scores: Any, inverse: float, weight: Any, out: Any, derivatives: bool) -> None:
    xp = backend(scores)
    # In units of log 2, because exp2 takes a quarter of the time of exp.
    scale = _as_stored(inverse / LOG_2, scores)
    xp.multiply(scores, scale, out=weight)
    xp.exp2(weight, out=weight)
    xp.sum(weight, 1, out=out[0])
    out[1] = row_norms(weight)
    if derivatives:
        weight *= scores
        xp.sum(weight, 1, out=out[2])
        weight *= scores
        xp.sum(weight, 1, out=out[3])
        out[2] *= scale * LOG_2
        out[3] *= (scale * LOG_2) ** 2


def _as_stored(factor: float, like: Any) -> float:
    """Return `factor` rounded to the dtype of an array.

    The label's logit and the normaliser must be scaled by exactly the same number. Otherwise their difference is off by
    their mean times the rounding error.
    """
    return factor if dtype_name(like) == "float64" else ctypes.c_float(factor).value


def _sigmoid_moments(z: Any, inverse: float, weight: Any, out: Any, derivatives: bool) -> None:
    xp = backend(z)
    v = z * inverse
    log_p = log_sigmoid(v)
    xp.exp(log_p - xp.amax(log_p, 1)[:, None], out=weight)
    xp.sum(weight, 1, out=out[0])
    out[1] = row_norms(weight)
    if derivatives:
        a, c = _sigmoid_derivatives(v)
        first = weight * a
        xp.sum(first, 1, out=out[2])
        xp.sum(first * a + weight * c, 1, out=out[3])


def _sigmoid_derivatives(v: Any) -> tuple[Any, Any]:
    """Return a and c of log sigmoid(v), with sigmoid(-v) instead of 1 - sigmoid(v), which underflows much earlier."""
    a = v * sigmoid(-v)
    return a, -(v * sigmoid(v)) * a
