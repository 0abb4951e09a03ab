"""Prediction sets: the classes whose score, which measures how badly a class fits an example, is at most a threshold.

`zoo.calibration.conformal` fits thresholds, and models whose cards have a `SetRule` apply it. Both use this module, so that
both have the same scores.

The score of LAC is 1 - p. Those of APS and RAPS order the classes by probability, of equally probable ones the first, and
add up what stands before a class: with u a random number of the example,

    sum of p before the class + u p + penalty max(0, rank - free).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from zoo.core import typed
from zoo.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from zoo.core.arrays import Array

Method = Literal["lac", "aps", "raps"]
Conditioning = Literal["marginal", "class", "cluster"]
_CHUNK = 2**20  # numbers whose scores are computed at once
_FIRST = 64  # classes that are scored first: few sets are larger


@dataclass(frozen=True)
class Score:
    """How badly a class fits an example."""

    method: Method
    penalty: float = 0.0  # RAPS: added for each class beyond `free`
    free: int = 0

    def of_classes(self, p: "Tensor", draws: "np.ndarray") -> "Tensor":
        """Return the score [N, K] of every class, given probabilities [N, K] and u [N]."""
        import torch

        if self.method == "lac":
            return 1 - p
        order = p.argsort(dim=1, descending=True, stable=True)
        return torch.empty_like(p).scatter_(1, order, self._of_ranks(p.gather(1, order), draws))

    def of_labels(self, p: "Tensor", labels: "Tensor", draws: "np.ndarray") -> "np.ndarray":
        """Return the score [N] of one class per example without sorting the others."""
        import numpy as np

        from zoo.core import arrays

        values, y = arrays.to_numpy(p), arrays.to_numpy(labels)
        of_label = values[np.arange(len(y)), y]
        if self.method == "lac":
            return 1 - of_label
        above = values > of_label[:, None]
        before, rank = np.einsum("nk,nk->n", values, above), count_true(above) + 1
        equal = values == of_label[:, None]
        for row in np.flatnonzero(count_true(equal) > 1):
            first = np.count_nonzero(equal[row, : y[row]])
            before[row] += first * of_label[row]
            rank[row] += first
        scores: np.ndarray = before + draws.astype(of_label.dtype) * of_label
        return scores + of_label.dtype.type(self.penalty) * np.maximum(rank - self.free, 0).astype(of_label.dtype)

    def sets(self, p: "Tensor", threshold: float, draws: "np.ndarray") -> "np.ndarray":
        """Return the sets [N, K] for one threshold.

        A set is then the first classes by probability. Sorting probabilities alone, by NumPy, is several times as fast as
        sorting the classes by them.
        """
        import numpy as np

        from zoo.core import arrays

        if self.method == "lac" or p.device.type != "cpu":
            return arrays.to_numpy(self.of_classes(p, draws)) <= threshold
        values = arrays.to_numpy(p)
        ascending = np.sort(values, 1)
        size = self._sizes(ascending[:, -_FIRST:], threshold, draws)
        longer = np.flatnonzero(size == _FIRST)
        size[longer] = self._sizes(ascending[longer], threshold, draws[longer])
        least = ascending[np.arange(len(size)), -np.maximum(size, 1)]
        sets: np.ndarray = values >= np.where(size > 0, least, np.inf)[:, None]
        tied = np.flatnonzero(count_true(sets) > size)
        if len(tied):
            sets[tied] = arrays.to_numpy(self.of_classes(p[tied], draws[tied])) <= threshold
        return sets

    def _sizes(self, ascending: "np.ndarray", threshold: float, draws: "np.ndarray") -> "np.ndarray":
        """Return how many of the most probable classes are in each set, given sorted probabilities [N, k]."""
        import torch

        from zoo.core import arrays

        scores = self._of_ranks(torch.from_numpy(ascending[:, ::-1].copy()), draws)
        return count_true(arrays.to_numpy(scores) <= threshold)

    def _of_ranks(self, ranked: "Tensor", draws: "np.ndarray") -> "Tensor":
        """Return the scores [N, K] of classes in descending order of their probabilities."""
        import torch

        u = torch.as_tensor(draws, dtype=ranked.dtype, device=ranked.device)[:, None]
        scores = ranked.cumsum(1) - ranked + u * ranked
        if self.penalty:
            rank = torch.arange(1, ranked.shape[1] + 1, device=ranked.device, dtype=ranked.dtype)
            scores = scores + self.penalty * (rank - self.free).clamp(min=0)
        return scores


@dataclass(frozen=True)
class SetRule:
    """Fitted thresholds and the score they apply to. The fields are those of `details.sets` on a card."""

    method: Method
    alpha: float  # accepted probability that a set misses the true class
    thresholds: list[float | None]  # one for all classes, or one per class; None: every set holds the class
    classes: int
    conditioning: Conditioning
    calibration_examples: int
    penalty: float = 0.0
    free: int = 0
    randomised: bool = True
    fitted_on: str = ""  # which examples, in words

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise InputError(argument="alpha", expected="between 0 and 1", found=self.alpha)
        if len(self.thresholds) not in (1, self.classes):
            expected = f"one number, or one for each of {self.classes} classes"
            raise InputError(argument="thresholds", expected=expected, found=len(self.thresholds))

    @property
    def score(self) -> Score:
        return Score(self.method, self.penalty, self.free)

    def predict_sets(self, probabilities: "Array", seed: int = 0) -> "np.ndarray":
        """Return the prediction sets as a boolean array [N, K].

        Args:
            probabilities: [N, K].
            seed: of the randomisation of APS and RAPS, which makes coverage exact rather than conservative.
        """
        import numpy as np

        from zoo.core import arrays

        shape = arrays.matrix(probabilities, "probabilities").shape
        if shape[1] != self.classes:
            raise InputError(argument="probabilities", expected=f"{self.classes} columns", found=shape[1])
        thresholds = np.array([np.inf if one is None else one for one in self.thresholds])
        rng = np.random.default_rng(arrays.seed(seed))
        sets = np.empty(tuple(shape), bool)
        for rows, p in parts(probabilities):
            draws = rng.random(len(p)) if self.randomised else np.ones(len(p))
            if len(thresholds) == 1:
                sets[rows] = self.score.sets(p, float(thresholds[0]), draws)
            else:
                sets[rows] = arrays.to_numpy(self.score.of_classes(p, draws)) <= thresholds
        return sets

    def __str__(self) -> str:
        by = {"marginal": "", "class": ", a threshold per class", "cluster": ", a threshold per cluster of classes"}
        examples = self.fitted_on or f"{self.calibration_examples:,} examples"
        return f"{100 * (1 - self.alpha):g}% coverage by {self.method.upper()}{by[self.conditioning]}, fitted on {examples}"


def read_rule(details: Mapping[str, Any], where: str) -> SetRule | None:
    """Return the rule in a card's details, None if there is none; `where` names the card in errors."""
    found = details.get("sets")
    return None if found is None else typed.build(SetRule, found, where, "zoo.details.sets")


def parts(probabilities: "Array") -> "Iterator[tuple[slice, Tensor]]":
    """Yield probabilities [N, K] a part of the rows at a time, as tensors of float32 or float64, after checking them."""
    from zoo.core import arrays

    p = arrays.matrix(probabilities, "probabilities")
    step = max(1, _CHUNK // max(1, p.shape[1]))
    for start in range(0, len(p), step):
        rows = slice(start, start + step)
        part = _as_floats(p[rows])
        if not _are_distributions(part):
            arrays.probabilities(p)  # says which row is wrong
        yield rows, part


def as_floats(probabilities: "Array") -> "Tensor":
    """Return probabilities [N, K] as a tensor of float32 or float64, after checking them.

    They are converted first, because sums of float16 take several times as long.
    """
    from zoo.core import arrays

    p = _as_floats(arrays.matrix(probabilities, "probabilities"))
    return p if _are_distributions(p) else arrays.probabilities(p)


def _as_floats(p: "Tensor") -> "Tensor":
    import torch

    return p.float() if p.dtype in (torch.float16, torch.bfloat16) else p


def _are_distributions(p: "Tensor") -> bool:
    """Return whether all is well, by two fast passes on the CPU; False elsewhere, where it is not known."""
    import numpy as np

    from zoo.core import arrays

    if p.device.type != "cpu" or not p.is_floating_point() or not p.numel():
        return False
    values = p.numpy()
    sums = values @ np.ones(p.shape[1], values.dtype)
    return bool(values.min() >= 0 and (np.abs(sums - 1) <= arrays.SUM_TOLERANCE).all())


def count_true(values: "np.ndarray") -> "np.ndarray":
    """Return how many values of each row [N, K] are true, several times as fast as NumPy counts booleans."""
    import numpy as np

    return values.view(np.uint8).sum(1, dtype=np.uint32).astype(np.int64)
