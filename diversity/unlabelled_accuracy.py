"""Accuracy on unlabelled data, estimated from how often models agree there.

Under many distribution shifts the accuracies of models on both datasets lie on a line on the probit scale. The agreements of
pairs of models lie on the *same* line (Baek, Jiang, Raghunathan & Kolter 2022, Agreement-on-the-Line). Agreement needs no
labels, so the line can be fitted, and a model's accuracy on labelled source data gives its place on the line:

    probit(agreement_shifted(i, j)) = a probit(agreement_source(i, j)) + b        over all pairs, by least squares   (line)
    probit(accuracy_shifted(i))     = a probit(accuracy_source(i)) + b                                             (ALine-S)

ALine-D uses only the slope of the line. Subtracting (line) for a pair from the mean of (ALine-S) for i and j leaves

    (u_i + u_j) / 2 = probit(agreement_shifted(i, j)) + a ((x_i + x_j) / 2 - probit(agreement_source(i, j)))

with the unknown u = probit(accuracy_shifted) and x = probit(accuracy_source): one equation per pair, solved by least
squares. If a model is off the line and its agreements are too, ALine-D follows it. The estimates here are ALine-D.

If the agreements do not lie on a line, they say nothing about accuracy, and no estimate is given. The criterion is their
distance from the line beyond sampling error: with the pairs' distances e, and their variances s over resamples,

    R^2 = 1 - max(mean(e^2) - mean(s), 0) / var(probit(agreement_shifted)),                                            (fit)

so that sampling error with few examples does not hide a line. The authors found the line for neural networks but not for
other classifiers. Near chance accuracy, chance agreement bends it.
"""

import dataclasses
from collections.abc import Mapping
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

# Our choice. For 22 networks on CIFAR-10 with 25 corruptions: with an R^2 above it, estimates were off by at most 1.1 points
# and at least 91% of the intervals held the accuracy; for 0.96 to 0.978, by up to 7 points, and 18% to 77% of them did.
MIN_R2 = 0.98
MIN_MODELS = 4
RESAMPLES = 200
# Up to ALL_PAIRS models every pair is used. Of more, each is paired with PARTNERS others, because bootstrapping half a
# million pairs takes minutes.
ALL_PAIRS = 64
PARTNERS = 16
BLOCK_VALUES = 2**24  # values of a block of columns
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class AgreementLine:
    """The line through the agreements of P pairs, and estimates of M models' accuracies, all on the probit scale."""

    slope: np.ndarray
    intercept: np.ndarray
    r2: np.ndarray
    distances: np.ndarray  # [..., P] of the pairs' agreements from the line
    residual: np.ndarray  # standard deviation of the residuals of the ALine-D equations
    aline_s: np.ndarray  # [..., M]
    aline_d: np.ndarray  # [..., M]


@dataclass(frozen=True, eq=False)
class UnlabelledAccuracy:
    """Estimated accuracies on unlabelled data; `frame` has one row per model.

    Columns of `frame`: model, `accuracy` (ALine-D) with the ends `low` and `high` of its confidence interval, `on_line`
    (ALine-S), `source_accuracy`, and two baselines, `average_confidence` and `atc`, which are NaN without probabilities. If
    the agreements do not lie on a line, `refusal` gives the reason, and accuracy, low, high and on_line are NaN.
    """

    frame: "pandas.DataFrame"
    slope: float
    intercept: float
    r2: float  # of the line, beyond sampling error: equation (fit) of this module
    pairs: int
    examples: tuple[int, int]  # labelled, unlabelled
    level: float  # of the confidence intervals
    refusal: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain types."""
        return {**vars(self), "examples": list(self.examples), "frame": self.frame.to_dict("records")}

    def __str__(self) -> str:
        line = f"{self.pairs} pairs of models, slope {self.slope:.3g}, R^2 {self.r2:.3f}"
        return f"No estimate: {self.refusal}." if self.refusal else f"The agreements lie on a line ({line})."


def accuracy_without_labels(
    shifted: Runs | Mapping[str, Outputs],
    source: Runs | Mapping[str, Outputs],
    level: float = bootstrap.LEVEL,
    min_r2: float = MIN_R2,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> UnlabelledAccuracy:
    """Estimate the accuracy of models on unlabelled data from their agreement (equations in this module's docstring).

    The confidence interval, on the probit scale, adds two variances: over resamples of the examples (the same resamples for
    both datasets if their ids are equal), and of the residuals of the ALine-D equations, which measure how far a model's
    accuracy is from what its agreements imply.

    Two baselines need one model only, at a temperature fitted on `source` if the runs have none: the average confidence, and
    ATC (Garg et al. 2022): the fraction of examples with a negative entropy above a threshold. On `source`, as many examples
    are below that threshold as the model gets wrong.

    Args:
        shifted: outputs on the unlabelled data. Labels are ignored.
        source: outputs of the same models on labelled data like their training data. Models in both runs are used: at least
            four, preferably of different accuracies.
        level: confidence level.
        min_r2: R^2 of the line below which no estimate is given.
        resamples: number of resamples.
        seed: of the resamples.

    >>> rng = np.random.default_rng(0)
    >>> def runs(loss, rows=4000):
    ...     y, hard = rng.integers(0, 5, rows), rng.normal(size=(rows, 5))
    ...     noise = rng.normal(size=(8, rows, 5))
    ...     z = np.eye(5)[y] * np.linspace(2 - loss, 4 - loss, 8)[:, None, None] + hard + noise
    ...     return Runs(Outputs.from_arrays(f"model {i}", logits=z[i], labels=y) for i in range(8))
    >>> new = runs(loss=0.8)
    >>> found = accuracy_without_labels(new, runs(loss=0))
    >>> bool(max(abs(row.accuracy - new[row.model].accuracy) for row in found.frame.itertuples()) < 0.05)
    True
    """
    import pandas
    from scipy.special import ndtr
    from scipy.stats import t

    bootstrap.check_level(level)
    source, shifted = _same_models(Runs(source), Runs(shifted))
    names, labels = source.names, source.labels
    first, second = _pairs(len(names), seed)
    correct, agree = _columns(source, first, second, labels)
    _, agree_shifted = _columns(shifted, first, second, None)
    examples = len(labels), len(agree_shifted[0])
    same_ids = np.array_equal(source[names[0]].ids, shifted[names[0]].ids)
    on_source = _resampled_means([*correct, *agree], resamples, seed)
    on_shifted = _resampled_means(agree_shifted, resamples, seed + (not same_ids))
    line = agreement_line(on_source[:, : len(names)], on_source[:, len(names) :], on_shifted, (first, second), examples)
    # Row 0 is the data themselves, the others are resamples.
    variance = line.aline_d[1:].var(0, ddof=1) + line.residual[0] ** 2
    half = t.ppf((1 + level) / 2, len(names) - 2) * np.sqrt(variance)
    slope, intercept, r2 = float(line.slope[0]), float(line.intercept[0]), _r2_beyond_sampling(line)
    refusal = _refusal(slope, r2, min_r2)
    middle = line.aline_d[0] if refusal is None else np.full(len(names), np.nan)
    confidence, atc = _baselines(source, shifted, labels)
    frame = pandas.DataFrame(
        {
            "model": names,
            "accuracy": ndtr(middle),
            "low": ndtr(middle - half),
            "high": ndtr(middle + half),
            "on_line": ndtr(line.aline_s[0]) if refusal is None else np.nan,
            "source_accuracy": on_source[0, : len(names)],
            "average_confidence": confidence,
            "atc": atc,
        }
    )
    return UnlabelledAccuracy(frame, slope, intercept, r2, len(first), examples, level, refusal)


def agreement_line(
    accuracy: ArrayLike,
    agreement: ArrayLike,
    shifted: ArrayLike,
    pairs: tuple[ArrayLike, ArrayLike],
    examples: tuple[int, int] = (10**6, 10**6),
) -> AgreementLine:
    """Return the line through the agreements of P pairs on source and shifted data, with estimates for M models.

    Args:
        accuracy: [..., M] on the source data.
        agreement: [..., P] of the pairs on the source data.
        shifted: [..., P] agreement of the pairs on the shifted data.
        pairs: two arrays [P] with the first and the second model of each pair; every model must be in a pair.
        examples: number of source and of shifted examples. Fractions of 0 and 1 have an infinite probit, and are moved by
            half an example.

    >>> x, pairs = np.array([0.5, 1.0, 1.5, 2.0]), np.triu_indices(4, 1)  # probits that lie on y = 0.8 x - 0.2
    >>> between = (x[pairs[0]] + x[pairs[1]]) / 2 - 0.1
    >>> from scipy.special import ndtr
    >>> line = agreement_line(ndtr(x), ndtr(between), ndtr(0.8 * between - 0.2), pairs)
    >>> round(float(line.slope), 3), line.aline_d.round(3).tolist()
    (0.8, [0.2, 0.6, 1.0, 1.4])
    """
    from scipy.special import ndtri

    def probit(fraction: ArrayLike, count: int) -> np.ndarray:
        return np.asarray(ndtri(np.clip(np.asarray(fraction, np.float64), 0.5 / count, 1 - 0.5 / count)))

    u, x, y = probit(accuracy, examples[0]), probit(agreement, examples[0]), probit(shifted, examples[1])
    first, second = (np.asarray(side) for side in pairs)
    dx, dy = (v - v.mean(-1, keepdims=True) for v in (x, y))
    xx, xy, yy = (dx * dx).sum(-1), (dx * dy).sum(-1), (dy * dy).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = xy / xx
        r2 = xy**2 / (xx * yy)
    intercept = y.mean(-1) - slope * x.mean(-1)
    target = y + slope[..., None] * ((u[..., first] + u[..., second]) / 2 - x)
    # Least squares of (u_i + u_j) / 2 = target. Up to a factor, the matrix of the normal equations is the pairs' graph.
    models = u.shape[-1]
    graph, right = np.zeros((models, models)), np.zeros((*u.shape[:-1], models))
    np.add.at(graph, (first, second), 1.0)
    graph += graph.T
    graph += np.diag(graph.sum(1))
    for side in (first, second):
        np.add.at(right.T, side, 2 * target.T)
    estimate = np.linalg.solve(graph, right.reshape(-1, models).T).T.reshape(right.shape)
    residuals = target - (estimate[..., first] + estimate[..., second]) / 2
    return AgreementLine(
        slope=slope,
        intercept=intercept,
        r2=r2,
        distances=y - slope[..., None] * x - intercept[..., None],
        residual=np.sqrt((residuals**2).sum(-1) / max(len(first) - models, 1)),
        aline_s=slope[..., None] * u + intercept[..., None],
        aline_d=estimate,
    )


def _r2_beyond_sampling(line: AgreementLine) -> float:
    """Return the R^2 of the line in row 0 (the data), without the distances that sampling explains (the other rows)."""
    squares = float((line.distances[0] ** 2).mean())
    by_sampling = float(line.distances[1:].var(0, ddof=1).mean())
    return 1 - (1 - float(line.r2[0])) * max(0.0, 1 - by_sampling / max(squares, TINY))


def _refusal(slope: float, r2: float, min_r2: float) -> str | None:
    if not np.isfinite(r2):
        return "all pairs of models agree equally often, so there is no line; use models that differ more in accuracy"
    if slope <= 0:
        return f"pairs that agree more on the labelled data agree less on the unlabelled data (slope {slope:.2g})"
    if r2 < min_r2:
        return (
            f"the agreements of pairs do not lie on a line (R^2 {r2:.2f}, expected at least {min_r2:g}), so they say "
            "nothing about accuracy; use more models of more different accuracy, or label some examples"
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
    """Return [N] whether each model is correct, and [N] whether each pair agrees. A missing prediction agrees with none."""
    predicted = [torch.from_numpy(outputs.predictions) for outputs in runs.values()]
    present = [row != arrays.NO_PREDICTION for row in predicted]
    y = None if labels is None else torch.from_numpy(labels)
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


def _baselines(source: Runs, shifted: Runs, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return average confidence [M] and average thresholded confidence [M]; NaN for models with predictions only."""
    found = np.full((2, len(source)), np.nan)
    for place, (name, on_source) in enumerate(source.items()):
        on_shifted = shifted[name]
        if "predictions" in (on_source.kind, on_shifted.kind):
            continue
        temperature = on_source.temperature or _temperature(on_source, labels)
        both = (dataclasses.replace(outputs, temperature=temperature) for outputs in (on_source, on_shifted))
        (_, before), (confidence, after) = map(_scores, both)
        wrong = int((on_source.predictions != labels).sum())
        above = after >= np.sort(before)[wrong] if wrong < len(before) else np.zeros(1)
        found[:, place] = confidence.mean(), above.mean()
    return found[0], found[1]


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
