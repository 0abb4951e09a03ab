"""The negative log-likelihood as a function of the temperature, with its slope and curvature, in one pass over the logits.

Everything is written in s = log(1/T), with b = 1/T. Let l be the log-probability up to a constant a row, p = softmax(l),
a = dl/ds and c = b^2 d2l/db^2. A row labelled y has

    nll       = log sum_k exp(l_k) - l_y
    slope     = d nll / ds         = E_p[a] - a_y
    curvature = b^2 d2 nll / db^2  = E_p[a^2 + c] - E_p[a]^2 - c_y

Softmax: l = (z - max z)/T, so a = l and c = 0, and the curvature is Var_p[l].
Sigmoid, p_k = sigmoid(v_k) / sum_j sigmoid(v_j) with v = z/T: l = log sigmoid(v) less its maximum in the row,
a = v sigmoid(-v), c = -v^2 sigmoid(v) sigmoid(-v), and the curvature can be negative: not convex in b.
"""

import ctypes
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from zoo.core import arrays
from zoo.core.columns import Column
from zoo.core.types import Link
from zoo.errors import InputError

# No temperature is looked for beyond these.
MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-4, 1e4
# Elements of a chunk a core: it and its exponentials stay in the second-level cache. Accelerators want long kernels.
CACHE_ELEMENTS = 2**18
ACCELERATOR_ELEMENTS = 2**24
# Up to as many numbers are computed with in float64, whatever their type: it costs nothing to speak of.
SMALL_ELEMENTS = 2**21
# Stands in for minus infinity, which would turn 0 * inf into NaN in the moments; its exponential is 0 at any temperature.
MASK = -1e30
LOG_2 = math.log(2)


@dataclass(frozen=True)
class Point:
    """The likelihood at one temperature: means over the examples, and what each row says of its top-1 class."""

    log_inverse: float
    nll: float
    slope: float
    curvature: float
    brier: float
    confidence: Tensor  # [N] probability of the top-1 class
    rivalled: Tensor  # [N] whether another class may be just as probable

    @property
    def temperature(self) -> float:
        return math.exp(-self.log_inverse)


class Likelihood:
    """Logits [N, K] in one or more blocks of rows, with their labels [N], and weights [N] where rows do not count alike."""

    def __init__(
        self,
        logits: Column,
        labels: Tensor,
        link: Link,
        name: str,
        whole: "Likelihood | None" = None,
        weights: Tensor | None = None,
    ) -> None:
        self.logits, self.labels, self.link, self.name = logits, labels, link, name
        self.weights = weights
        self.examples = float(len(labels) if weights is None else weights.sum())  # how many they count for
        self.whole = whole  # what this is a sample of
        self.top = self.label = torch.empty(0)  # [N] greatest logit, and the label's: filled by the first pass
        self.masked = False  # set when infinities are met, which are replaced from then on
        self.small = whole is None and len(labels) * logits.shape[1] <= SMALL_ELEMENTS

    def __len__(self) -> int:
        return len(self.labels)

    def sample(self, elements: int) -> "Likelihood":
        """About `elements` numbers of it: every n-th row of every block, as views; itself when it is no larger."""
        step = -(-len(self) * self.logits.shape[1] // elements)
        if step <= 1:
            return self
        starts = np.cumsum([0, *(len(block) for block in self.logits.blocks)])
        kept = [slice(start, end, step) for start, end in itertools.pairwise(starts)]
        thinned = Column([block[::step] for block in self.logits.blocks])
        labels = torch.cat([self.labels[rows] for rows in kept])
        weights = None if self.weights is None else torch.cat([self.weights[rows] for rows in kept])
        sample = Likelihood(thinned, labels, self.link, self.name, self, weights)
        sample.masked = self.masked
        return sample

    def at(self, *log_inverses: float) -> list[Point]:
        """The likelihood at each of these values of s = log(1/T); the logits are read once."""
        return self._evaluate([(s, True) for s in log_inverses])

    def beside_one(self, log_inverse: float) -> tuple[Point, Point]:
        """The likelihood at T = 1, of which slope and curvature are not asked and NaN, and at s = `log_inverse`."""
        before, point = self._evaluate([(0.0, False), (log_inverse, True)])
        return before, point

    def curve(self, log_inverses: Sequence[float]) -> list[float]:
        """The mean NLL at each of these values of s, in float64: what differences of 1e-12 can be told from."""
        if not len(self.top):
            self.at(0.0)  # finds rows that cannot be used, and masked classes
        inverses = [math.exp(s) for s in log_inverses]
        sums = torch.zeros(0)
        for span, chunk in self._chunks():
            z = chunk.to(arrays.accumulation_dtype(chunk.device))
            z = z - z.amax(1, keepdim=True) if self.link == "softmax" else z
            z = z.clamp(min=MASK) if self.masked else z
            label = self.labels[span, None]
            group = max(1, CACHE_ELEMENTS // z.numel())
            parts = []
            for start in range(0, len(inverses), group):
                log_p = torch.stack([z * inverse for inverse in inverses[start : start + group]])
                log_p = log_p if self.link == "softmax" else logsigmoid(log_p)
                log_p = log_p - log_p.amax(2, keepdim=True)
                right = log_p.gather(2, label.expand(len(log_p), -1, -1))[:, :, 0]
                losses = log_p.exp().sum(2).log() - right
                parts.append((losses if self.weights is None else losses * self.weights[span].to(losses)).sum(1))
            sums = torch.cat(parts) if span.start == 0 else sums + torch.cat(parts)
        return arrays.to_numpy(sums / self.examples).tolist()

    def _evaluate(self, wanted: list[tuple[float, bool]]) -> list[Point]:
        moments = self._moments(wanted)
        self._check_range()
        if not self.masked and not moments.isfinite().all():
            self._check_rows()
            self.masked = True
            moments = self._moments(wanted)
        return [self._point(s, derivatives, *moments[i].unbind()) for i, (s, derivatives) in enumerate(wanted)]

    def _point(self, s: float, derivatives: bool, total: Tensor, norm: Tensor, first: Tensor, second: Tensor) -> Point:
        inverse = math.exp(s)
        if self.link == "softmax":
            log_y = a_y = (self.label - self.top) * _rounded(inverse / LOG_2, self.top) * LOG_2
            c_y = torch.zeros_like(log_y)
        else:
            log_y = logsigmoid(self.label * inverse) - logsigmoid(self.top * inverse)
            a_y, c_y = _sigmoid_derivatives(self.label * inverse)
        mean = first / total
        rows = torch.stack(
            [
                total.log() - log_y,
                mean - a_y,
                second / total - mean.square() - c_y,
                (norm / total).square() - 2 * log_y.exp() / total + 1,  # |p - onehot|^2 = |p|^2 - 2 p_y + 1
            ]
        )
        rows = rows if self.weights is None else rows * self.weights.to(rows)
        nll, slope, curvature, brier = (float(mean) for mean in arrays.total(rows, 1) / self.examples)
        if not derivatives:
            slope = curvature = math.nan
        # The greatest exp(l) is 1: of probability 1 / total, and with a second one the squares sum to 2 at least.
        return Point(s, nll, slope, curvature, brier, total.reciprocal(), norm.square() > 1.99)

    def hits(self, point: Point) -> Tensor:
        """[N] whether the label is the predicted class, the first of equal maxima; only rows that may have two are read."""
        hits = self.on_top
        unsure = hits & point.rivalled
        for span, z in self._chunks():
            rows = unsure[span].nonzero()[:, 0]
            if len(rows):
                hits[span][rows] = z[rows].argmax(1) == self.labels[span][rows]
        return hits

    @property
    def on_top(self) -> Tensor:
        """[N] whether the label has the greatest logit, alone or with others."""
        return self.top == self.label

    def _check_rows(self) -> None:
        """An error for a row that cannot be used; none if masked classes are all there is to the infinities."""
        if self.whole is not None:
            self.whole.at(0.0)  # which names the row by its number there
        for trouble, what in (
            (~self.top.isfinite(), "has NaN, +inf or no finite value; expected finite logits"),
            (self.label == -torch.inf, "has a logit of -inf at its own label, which masks the true class"),
        ):
            rows = trouble.nonzero()[:, 0]
            if len(rows):
                raise InputError(f"{self.name}: row {int(rows[0])} {what} ({len(rows)} such rows)")

    def _check_range(self) -> None:
        """An error for logits that, divided by the least temperature, overflow in the type they will be used in."""
        largest = float(self.top.max())
        limit = torch.finfo(torch.float64 if str(self.logits.dtype).endswith("float64") else torch.float32).max
        if self.link == "sigmoid" and limit * MIN_TEMPERATURE < largest < math.inf:
            raise InputError(f"{self.name}: logits as large as {largest:.3g} cannot be divided by a temperature")

    def _chunks(self) -> Iterator[tuple[slice, Tensor]]:
        first = self.logits.blocks[0]
        on_host = not isinstance(first, Tensor) or first.device.type == "cpu"
        elements = CACHE_ELEMENTS * torch.get_num_threads() if on_host else ACCELERATOR_ELEMENTS
        for span, chunk in self.logits.chunks(max(1, elements // self.logits.shape[1])):
            z = arrays.tensor(chunk, self.name)
            wide = arrays.accumulation_dtype(z.device) if self.small else torch.float32
            yield span, z if z.dtype == torch.float64 else z.to(wide)

    def _moments(self, wanted: list[tuple[float, bool]]) -> Tensor:
        """[points, 4, N]: over classes the sum of exp(l), its norm, the sums of a exp(l) and (a^2 + c) exp(l)."""
        first_look = not len(self.top)
        fill = _softmax_moments if self.link == "softmax" else _sigmoid_moments
        # Three buffers, written again for every chunk: fresh memory would be mapped in page by page each time.
        buffers: tuple[Tensor, ...] = ()
        for span, z in self._chunks():
            if not buffers:
                buffers = tuple(torch.empty_like(z) for _ in range(3))
                sums = z.new_zeros(len(wanted), 4, len(self))
                if first_look:
                    self.top, self.label = z.new_empty(2, len(self)).unbind()
            if first_look:
                self.top[span] = z.amax(1)
                self.label[span] = z.gather(1, self.labels[span, None])[:, 0]
            scores, log_p, weight = (buffer[: len(z)] for buffer in buffers)
            if self.link == "softmax":
                torch.sub(z, self.top[span, None], out=scores)
            else:
                scores.copy_(z)
            if self.masked:
                scores.clamp_(min=MASK)
            for i, (s, derivatives) in enumerate(wanted):
                fill(scores, math.exp(s), log_p, weight, sums[i, :, span], derivatives)
        return sums


def _softmax_moments(scores: Tensor, inverse: float, log_p: Tensor, weight: Tensor, out: Tensor, derivatives: bool) -> None:
    # In units of log 2, since exp2 takes little more than half the time of exp.
    torch.mul(scores, _rounded(inverse / LOG_2, scores), out=log_p)
    torch.exp2(log_p, out=weight)
    torch.sum(weight, 1, out=out[0])
    torch.linalg.vector_norm(weight, dim=1, out=out[1])
    if derivatives:
        torch.sum(weight.mul_(log_p), 1, out=out[2]).mul_(LOG_2)
        torch.sum(weight.mul_(log_p), 1, out=out[3]).mul_(LOG_2**2)


def _rounded(factor: float, like: Tensor) -> float:
    """`factor` as the tensor's own type holds it: label and normaliser must be scaled by the very same number, or the
    difference between them is off by as much as their mean times the rounding."""
    return factor if like.dtype == torch.float64 else ctypes.c_float(factor).value


def _sigmoid_moments(z: Tensor, inverse: float, v: Tensor, weight: Tensor, out: Tensor, derivatives: bool) -> None:
    torch.mul(z, inverse, out=v)
    log_p = logsigmoid(v)
    torch.exp(log_p - log_p.amax(1, keepdim=True), out=weight)
    torch.sum(weight, 1, out=out[0])
    torch.linalg.vector_norm(weight, dim=1, out=out[1])
    if derivatives:
        a, c = _sigmoid_derivatives(v)
        first = weight * a
        torch.sum(first, 1, out=out[2])
        torch.sum(first * a + weight * c, 1, out=out[3])


def _sigmoid_derivatives(v: Tensor) -> tuple[Tensor, Tensor]:
    """a and c of log sigmoid(v); sigmoid(-v) rather than 1 - sigmoid(v), which is 0 long before it should be."""
    a = v * torch.sigmoid(-v)
    return a, -(v * torch.sigmoid(v)) * a
