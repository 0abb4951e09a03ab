"""Accuracy on unlabelled data, estimated from how often models agree there and how confident they are.

Two estimates for each model i, on the probit scale, start from its accuracy on labelled source data, u = probit(accuracy):

    A_i = u_i - probit(agree_source(i)) + probit(agree_shifted(i))                                              (agreement)
    C_i = probit(fraction of shifted examples with a confidence >= t_i)                                        (confidence)

agree(i) is the fraction of examples on which model i predicts the class that the other models vote for. The vote of model j
has weight log((K - 1) p_j / (1 - p_j)), with K classes and source accuracy p_j. As in average thresholded confidence (ATC,
Garg et al. 2022), as many source examples are below the threshold t_i as the model gets wrong. Confidence is the largest
probability.

    e_i = (A_i + C_i) / 2, or A_i for a model with predictions only                                              (estimate)
    v_i = p (1 - p) (1/n + 1/N) / density(e_i)^2 + (f (u_i - e_i))^2 + (g (A_i - C_i) / 2)^2 + (h s)^2            (variance)

with p = cdf(e_i), n shifted and N source examples, and s the standard deviation of u - e over models. The first term is
sampling error. The others are for errors that cannot be measured without labels: an estimate is less reliable the further
it is from the source accuracy, the more its two parts differ, and the more the models differ in how much accuracy they lose.
The interval is e_i ± sqrt(v_i) times a quantile of Student's t, widened by half an example at both ends. The constants f, g,
h and the degrees of freedom come from corruptions with known labels. If the intervals are too wide to be useful, there is no
estimate.

For comparison, and for the chart: under many shifts the agreements of pairs lie on a line, and the accuracies of models on
the same line (Baek, Jiang, Raghunathan & Kolter 2022, Agreement-on-the-Line):

    probit(agreement_shifted(i, j)) = a probit(agreement_source(i, j)) + b        over all pairs, by least squares   (line)
    probit(accuracy_shifted(i))     = a probit(accuracy_source(i)) + b                                             (ALine-S)

Its goodness of fit discounts sampling error. With the pairs' distances from the line, and the variances of these distances
over resamples,

    R^2 = 1 - max(mean(distance^2) - mean(variance), 0) / var(probit(agreement_shifted)).                              (fit)
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from diversity import bootstrap
from diversity._checks import whole_number
from diversity._pair_rows import CHUNK, probabilities
from zoo.core import arrays
from zoo.core.columns import Column
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

# Fitted by maximum likelihood to seven kinds of corruption of Fashion-MNIST and six of CIFAR-10, both datasets with the same
# weight. The fit gave 0.05, 0.30, 1.21 and 0.41. DROP_ERROR was then raised until at least 95% of the intervals covered
# the true accuracy in each dataset, with all models and with six. Seven kinds leave six degrees of freedom.
DROP_ERROR = 0.15
DROP_ERROR_AGREEMENT = 0.3  # for a model with predictions only
SPREAD_ERROR = 1.25
MODELS_ERROR = 0.4
FREEDOM = 6
# Our choice: with narrower intervals, estimates were off by less than two points on average.
MAX_HALF_WIDTH = 0.08
VOTE_UNIT = 2**20  # votes are whole numbers of 1/VOTE_UNIT, so that their sum does not depend on the order of models
MIN_MODELS = 4
RESAMPLES = 200
# Up to ALL_PAIRS models, every pair is used. With more, each model is paired with PARTNERS others, because bootstrapping
# half a million pairs takes minutes.
ALL_PAIRS = 64
PARTNERS = 16
BLOCK_VALUES = 2**24  # values of a block of columns
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class AgreementLine:
    """The line through the agreements of P pairs, and the M models on it, all on the probit scale."""

    slope: np.ndarray
    intercept: np.ndarray
    r2: np.ndarray
    distances: np.ndarray  # [..., P] of the pairs' agreements from the line
    aline_s: np.ndarray  # [..., M]


@dataclass(frozen=True, eq=False)
class UnlabelledAccuracy:
    """Estimated accuracies on unlabelled data; `frame` has one row per model.

    Columns of `frame`: model, `accuracy` with the ends `low` and `high` of its confidence interval, its two parts
    `by_agreement` and `by_confidence`, `source_accuracy`, and for comparison `on_line` (ALine-S), `average_confidence` and
    `atc` (with negative entropy). Columns that need probabilities are NaN without them. If there is no estimate, `refusal`
    gives the reason, and accuracy, low and high are NaN.
    """

    frame: "pandas.DataFrame"
    slope: float
    intercept: float
    r2: float  # of the line, discounting sampling error: equation (fit) of this module
    pairs: int
    examples: tuple[int, int]  # labelled, unlabelled
    level: float  # of the confidence intervals
    half_width: float  # of the confidence intervals, mean over models, also if there is no estimate
    refusal: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain types."""
        return {**vars(self), "examples": list(self.examples), "frame": self.frame.to_dict("records")}

    def __str__(self) -> str:
        if self.refusal:
            return f"No estimate: {self.refusal}."
        line = f"{self.pairs} pairs of models, slope {self.slope:.3g}, R^2 {self.r2:.4f}"
        return (
            f"Estimates from agreement and confidence; {self.level:.0%} confidence intervals of "
            f"+-{100 * self.half_width:.1f} points on average. Agreement line: {line}."
        )


def accuracy_without_labels(
    shifted: Runs | Mapping[str, Outputs],
    source: Runs | Mapping[str, Outputs],
    level: float = bootstrap.LEVEL,
    min_r2: float = 0.0,
    resamples: int = RESAMPLES,
    seed: int = 0,
    max_half_width: float = MAX_HALF_WIDTH,
) -> UnlabelledAccuracy:
    """Estimate the accuracy of models on unlabelled data from agreement and confidence (equations: this module's docstring).

    Models without a temperature get one that is fitted on `source`. The estimate assumes that class frequencies stay about
    the same, and that the models do not all make the same mistakes. Use models that were trained differently: copies of a
    model always agree.

    Args:
        shifted: outputs on the unlabelled data. Labels are ignored.
        source: outputs of the same models on labelled data like their training data. Models in both runs are used: at least
            four.
        level: confidence level.
        min_r2: if the R^2 of the agreement line is below this, no estimate is given.
        resamples: number of resamples for the sampling error of the line.
        seed: random seed of the resamples.
        max_half_width: if the mean half-width of the confidence intervals is above this, no estimate is given; 0.08 is 8
            points.

    >>> rng = np.random.default_rng(0)
    >>> def runs(loss, rows=4000):
    ...     y, hard = rng.integers(0, 5, rows), rng.normal(size=(rows, 5))
    ...     noise = rng.normal(size=(8, rows, 5))
    ...     z = np.eye(5)[y] * np.linspace(2 - loss, 4 - loss, 8)[:, None, None] + hard + noise
    ...     return Runs(Outputs.from_arrays(f"model {i}", logits=z[i], labels=y) for i in range(8))
    >>> new = runs(loss=0.3)
    >>> found = accuracy_without_labels(new, runs(loss=0))
    >>> bool(max(abs(row.accuracy - new[row.model].accuracy) for row in found.frame.itertuples()) < 0.05)
    True
    """
    import pandas
    from scipy.special import ndtr
    from scipy.stats import t

    bootstrap.check_level(level)
    if not max_half_width > 0:
        raise InputError(argument="max_half_width", expected="a positive fraction, such as 0.08", found=max_half_width)
    if not min_r2 > -np.inf:
        raise InputError(argument="min_r2", expected="a number, at most 1", found=min_r2)
    source, shifted = _same_models(Runs(source), Runs(shifted))
    names, labels = source.names, source.labels
    first, second = _pairs(len(names), seed)
    correct, agree = _columns(source, first, second, labels)
    _, agree_shifted = _columns(shifted, first, second, None)
    examples = len(labels), len(agree_shifted[0])
    same_ids = np.array_equal(source[names[0]].ids, shifted[names[0]].ids)
    on_source = _resampled_means([*correct, *agree], resamples, seed)
    on_shifted = _resampled_means(agree_shifted, resamples, seed + (not same_ids))
    line = agreement_line(on_source[:, : len(names)], on_source[:, len(names) :], on_shifted, examples)
    slope, intercept, r2 = float(line.slope[0]), float(line.intercept[0]), _r2_beyond_sampling(line)
    accuracy = on_source[0, : len(names)]
    average, atc, thresholded = _by_confidence(source, shifted, labels)
    by_agreement = _by_agreement(source, shifted, accuracy)
    by_confidence = _probit(thresholded, examples[1])
    estimate, variance = combined(_probit(accuracy, examples[0]), by_agreement, by_confidence, examples)
    half = t.ppf((1 + level) / 2, FREEDOM) * np.sqrt(variance)
    # An accuracy on n examples is a multiple of 1/n, so it may differ from its probability by half an example.
    low = np.maximum(ndtr(estimate - half) - 0.5 / examples[1], 0)
    high = np.minimum(ndtr(estimate + half) + 0.5 / examples[1], 1)
    half_width = float((high - low).mean() / 2)
    refusal = _refusal(r2, min_r2, half_width, max_half_width, level)
    given = 1.0 if refusal is None else np.nan
    frame = pandas.DataFrame(
        {
            "model": names,
            "accuracy": given * ndtr(estimate),
            "low": given * low,
            "high": given * high,
            "by_agreement": ndtr(by_agreement),
            "by_confidence": ndtr(by_confidence),
            "on_line": ndtr(line.aline_s[0]),
            "source_accuracy": accuracy,
            "average_confidence": average,
            "atc": atc,
        }
    )
    return UnlabelledAccuracy(frame, slope, intercept, r2, len(first), examples, level, half_width, refusal)


def combined(
    source: ArrayLike, by_agreement: ArrayLike, by_confidence: ArrayLike, examples: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return equations (estimate) and (variance) for M models, all on the probit scale.

    Args:
        source: [M] accuracy on the source data.
        by_agreement: [M] equation (agreement).
        by_confidence: [M] equation (confidence); NaN for models with predictions only.
        examples: number of source and of shifted examples.

    >>> estimate, variance = combined([1.0, 0.9], [0.5, 0.5], [0.7, np.nan], (10**9, 10**9))
    >>> estimate.tolist(), np.sqrt(variance).round(3).tolist()  # hypot(0.15 * 0.4, 1.25 * 0.1), and 0.3 * 0.4
    ([0.6, 0.5], [0.139, 0.12])
    """
    from scipy.stats import norm

    u, a, c = (np.asarray(v, np.float64) for v in (source, by_agreement, by_confidence))
    alone = np.isnan(c)
    c = np.where(alone, a, c)
    estimate = (a + c) / 2
    p = norm.cdf(estimate)
    sampling = p * (1 - p) * (1 / examples[0] + 1 / examples[1]) / norm.pdf(estimate) ** 2
    drop = u - estimate
    by_drop = np.where(alone, DROP_ERROR_AGREEMENT, DROP_ERROR) * drop
    return estimate, sampling + by_drop**2 + (SPREAD_ERROR * (a - c) / 2) ** 2 + (MODELS_ERROR * drop.std()) ** 2


def agreement_line(
    accuracy: ArrayLike, agreement: ArrayLike, shifted: ArrayLike, examples: tuple[int, int] = (10**6, 10**6)
) -> AgreementLine:
    """Return the line through the agreements of P pairs on source and shifted data, with M models on it (ALine-S).

    Args:
        accuracy: [..., M] on the source data.
        agreement: [..., P] of the pairs on the source data.
        shifted: [..., P] agreement of the pairs on the shifted data.
        examples: number of source and of shifted examples. Fractions of 0 and 1 have an infinite probit, and are moved by
            half an example.

    >>> from scipy.special import ndtr
    >>> x = np.array([0.5, 1.0, 1.5, 2.0])
    >>> line = agreement_line(ndtr(x), ndtr(x), ndtr(0.8 * x - 0.2))
    >>> round(float(line.slope), 3), line.aline_s.round(3).tolist()
    (0.8, [0.2, 0.6, 1.0, 1.4])
    """
    u, x, y = _probit(accuracy, examples[0]), _probit(agreement, examples[0]), _probit(shifted, examples[1])
    dx, dy = (v - v.mean(-1, keepdims=True) for v in (x, y))
    xx, xy, yy = (dx * dx).sum(-1), (dx * dy).sum(-1), (dy * dy).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = xy / xx
        r2 = xy**2 / (xx * yy)
    intercept = y.mean(-1) - slope * x.mean(-1)
    return AgreementLine(
        slope=slope,
        intercept=intercept,
        r2=r2,
        distances=y - slope[..., None] * x - intercept[..., None],
        aline_s=slope[..., None] * u + intercept[..., None],
    )


def _r2_beyond_sampling(line: AgreementLine) -> float:
    """Return R^2 of the line in row 0 (the data), discounting the distances that vary over the other rows (resamples)."""
    squares = float((line.distances[0] ** 2).mean())
    by_sampling = float(line.distances[1:].var(0, ddof=1).mean())
    return 1 - (1 - float(line.r2[0])) * max(0.0, 1 - by_sampling / max(squares, TINY))


def _probit(fraction: ArrayLike, count: int) -> np.ndarray:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(np.asarray(fraction, np.float64), 0.5 / count, 1 - 0.5 / count)))


def _refusal(r2: float, min_r2: float, half_width: float, max_half_width: float, level: float) -> str | None:
    if not np.isfinite(r2):
        return "all pairs of models agree equally often, so agreement says nothing; use models that were trained differently"
    if r2 < min_r2:
        return (
            f"the agreements of pairs do not lie on a line (R^2 {r2:.4f}, expected at least {min_r2:g}); use more models "
            "with more varied accuracies, or label some examples"
        )
    if half_width > max_half_width:
        return (
            f"the {level:.0%} confidence intervals would be +-{100 * half_width:.2f} points on average, more than "
            f"+-{100 * max_half_width:g}; label some examples"
        )
    return None


def _same_models(source: Runs, shifted: Runs) -> tuple[Runs, Runs]:
    both = [name for name in source if name in list(shifted)]
    if len(both) < MIN_MODELS:
        expected = f"at least {MIN_MODELS} models with outputs on both datasets"
        raise InputError(argument="shifted", expected=expected, found=len(both))
    source, shifted = (Runs(runs[name] for name in both).aligned() for runs in (source, shifted))
    a, b = source[both[0]].classes, shifted[both[0]].classes
    if {*a} != {*b}:
        raise InputError(
            f"predicts {len(a)} classes on the labelled data and {len(b)} different ones on the unlabelled data",
            where=both[0],
        )
    return source, shifted


def _pairs(models: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second model of each pair: all pairs, or `PARTNERS` neighbours of each in a shuffled ring."""
    if models <= ALL_PAIRS:
        first, second = np.triu_indices(models, 1)
        return first, second
    order = np.random.default_rng(seed).permutation(models)
    steps = np.arange(1, PARTNERS // 2 + 1)
    return np.repeat(order, len(steps)), order[(np.arange(models)[:, None] + steps).ravel() % models]


def _columns(
    runs: Runs, first: np.ndarray, second: np.ndarray, labels: np.ndarray | None
) -> tuple[list[Tensor], list[Tensor]]:
    """Return whether each model is correct [N], and whether each pair agrees [N]. A missing prediction agrees with none."""
    predicted = [torch.from_numpy(outputs.predictions) for outputs in runs.values()]
    present = [row != arrays.NO_PREDICTION for row in predicted]
    y = None if labels is None else torch.from_numpy(np.array(labels))
    correct = [] if y is None else [row == y for row in predicted]
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return correct, [(predicted[i] == predicted[j]) & present[i] for i, j in pairs]


def _resampled_means(columns: list[Tensor], resamples: int, seed: int) -> np.ndarray:
    """Return the means [1 + resamples, F] of F columns: of the data, then over resamples that all columns share."""
    whole_number(resamples, "resamples", minimum=2)
    width = max(1, BLOCK_VALUES // len(columns[0]))
    parts = []
    for start in range(0, len(columns), width):
        block = torch.stack(columns[start : start + width], 1).double()
        parts.append(torch.cat([block.mean(0, keepdim=True), bootstrap.resampled_means(block, resamples, seed)]))
    return arrays.to_numpy(torch.cat(parts, 1))


def _by_agreement(source: Runs, shifted: Runs, accuracy: np.ndarray) -> np.ndarray:
    """Return A [M], the estimates from agreement in the equations at the top of this module."""
    classes, labelled = len(source[source.names[0]].classes), len(source.labels)
    p = np.clip(accuracy, 0.5 / labelled, 1 - 0.5 / labelled)
    votes = np.maximum(np.rint(VOTE_UNIT * np.log(max(classes - 1, 1) * p / (1 - p))), 1).astype(np.int64)
    before, after = (
        _probit(agreement_with_vote([outputs.predictions for outputs in runs.values()], votes, classes), count)
        for runs, count in ((source, labelled), (shifted, len(shifted[shifted.names[0]])))
    )
    return _probit(accuracy, labelled) - before + after


def agreement_with_vote(predictions: Sequence[np.ndarray], votes: np.ndarray, classes: int) -> np.ndarray:
    """Return the fraction [M] of examples on which each model predicts the class that the other models vote for.

    Args:
        predictions: [M] arrays [N] of class indices; a missing prediction is no vote and agrees with none.
        votes: [M] number of votes of each model. The winning class must get more votes than every other class.
        classes: number of classes.

    >>> agreement_with_vote(np.array([[0, 1], [0, 2], [0, 1]]), np.array([1, 1, 2]), 3).tolist()
    [1.0, 0.5, 0.5]
    """
    predicted, weights = torch.from_numpy(np.stack(predictions)), torch.from_numpy(np.asarray(votes))
    agrees = torch.zeros(len(predicted), dtype=torch.int64)
    for part in predicted.split(CHUNK, 1):
        present = part != arrays.NO_PREDICTION
        own = part.clamp(min=0).long()
        cast = weights[:, None] * present
        tally = torch.zeros(part.shape[1], max(classes, 2), dtype=torch.int64)
        tally.scatter_add_(1, own.T, cast.T)
        (most, next_most), winners = tally.topk(2, 1).values.T, tally.argmax(1)
        others = tally.gather(1, own.T).T - cast
        # The most votes for any class but the model's own.
        rival = torch.where(own == winners, next_most, most)
        agrees += (present & (others > rival)).sum(1)
    return arrays.to_numpy(agrees) / predicted.shape[1]


def _by_confidence(source: Runs, shifted: Runs, labels: np.ndarray) -> np.ndarray:
    """Return average confidence, ATC with negative entropy and ATC with confidence [3, M]; NaN without probabilities."""
    found = np.full((3, len(source)), np.nan)
    for place, (name, on_source) in enumerate(source.items()):
        on_shifted = shifted[name]
        if "predictions" in (on_source.kind, on_shifted.kind):
            continue
        temperature = on_source.temperature or _temperature(on_source, labels)
        before, after = (
            _scores(dataclasses.replace(outputs, temperature=temperature)) for outputs in (on_source, on_shifted)
        )
        wrong = int((on_source.predictions != labels).sum())
        confidence, atc = (_thresholded(x, y, wrong) for x, y in zip(before, after, strict=True))
        found[:, place] = after[0].mean(), atc, confidence
    return found


def _thresholded(before: np.ndarray, after: np.ndarray, wrong: int) -> float:
    """Return the fraction of `after` that reaches the threshold below which `wrong` of the scores `before` lie."""
    return float((after >= np.sort(before)[wrong]).mean()) if wrong < len(before) else 0.0


def _temperature(outputs: Outputs, labels: np.ndarray) -> float:
    from zoo.calibration.temperature import fit_temperature

    column = outputs.values if outputs.kind == "logits" else Column([np.log(np.maximum(outputs.probabilities, TINY))])
    return fit_temperature(column, labels, outputs.link, outputs.name).temperature


def _scores(outputs: Outputs) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence [N] and the negative entropy [N]."""
    parts = []
    for start in range(0, len(outputs), CHUNK):
        p = probabilities(outputs, slice(start, min(start + CHUNK, len(outputs)))).double()
        parts.append(torch.stack([p.amax(1), torch.special.xlogy(p, p).sum(1)]))
    confidence, negative_entropy = arrays.to_numpy(torch.cat(parts, 1))
    return confidence, negative_entropy
