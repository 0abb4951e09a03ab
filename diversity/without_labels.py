"""How accurate are models on data that nobody has labelled? Their agreement with each other tells.

Under many shifts the accuracies of models lie on a line on the probit scale, and so does the agreement of every two of
them, on the *same* line (Baek, Jiang, Raghunathan & Kolter 2022, Agreement-on-the-Line). Agreement needs no labels, so the
line can be drawn, and labelled data of the kind that models know give a model's place on it:

    probit(agreement_shifted(i, j)) = a probit(agreement_source(i, j)) + b        over all pairs, by least squares   (line)
    probit(accuracy_shifted(i))     = a probit(accuracy_source(i)) + b                                             (ALine-S)

ALine-D takes from the line only its slope. What is left of the line's equations, taken for i, j and their agreement, is

    (u_i + u_j) / 2 = probit(agreement_shifted(i, j)) + a ((x_i + x_j) / 2 - probit(agreement_source(i, j)))

for the unknown u = probit(accuracy_shifted) and x = probit(accuracy_source): one equation per pair, solved by least squares.
It follows a model that lies off the line where its agreements do, and is what is reported here.

Where the agreements do not lie on a line, nothing ties them to accuracy, and no answer is given. What counts is how far
they are from it beyond sampling error: with e the pairs' distances from the line, and s their variances over draws,

    R^2 = 1 - max(mean(e^2) - mean(s), 0) / var(probit(agreement_shifted)),                                            (fit)

so that few examples do not hide a line, nor many pairs make one. The authors saw it hold for
neural networks and not for other classifiers; and at accuracies near chance, chance agreement bends it.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from diversity import bootstrap
from diversity._pair_rows import CHUNK, probabilities
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.columns import Column
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

# Our choice. On CIFAR-10 under 25 corruptions, with 22 networks, estimates above it were off by 1.1 points or less, and 91%
# or more of the intervals held; from 0.96 to 0.978 they were off by up to 7, and 18% to 77% held.
LEAST_R2 = 0.98
FEWEST = 4  # models
RESAMPLES = 200
# Every pair of so many models; of more, each with PARTNERS others, since bootstrapping half a million pairs takes minutes.
ALL_PAIRS = 64
PARTNERS = 16
BLOCK = 2**24  # numbers of a block of columns
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class AgreementLine:
    """What M models' agreement says about their accuracy: the line, and both estimates [..., M] on the probit scale."""

    slope: np.ndarray
    intercept: np.ndarray
    r2: np.ndarray
    distances: np.ndarray  # [..., P] of the pairs' agreement from the line
    residual: np.ndarray  # standard deviation of what the pairs' equations leave over
    on_line: np.ndarray  # ALine-S
    of_pairs: np.ndarray  # ALine-D


@dataclass(frozen=True, eq=False)
class UnlabelledAccuracy:
    """Accuracies on data without labels; `frame` has one row per model.

    Columns: model, `accuracy` (ALine-D) with the ends `low` and `high` of its interval, `on_line` (ALine-S),
    `source_accuracy`, and what the usual estimates say: `average_confidence` and `atc`. Where the line does not hold,
    `refusal` says why in a sentence, and accuracy, low, high and on_line are NaN; without probabilities the last two are.
    `r2` is of the line, beyond sampling error (equation (fit) of this module).
    """

    frame: "pandas.DataFrame"
    slope: float
    intercept: float
    r2: float
    pairs: int
    examples: tuple[int, int]  # labelled, unlabelled
    level: float
    refusal: str | None

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types."""
        return {**vars(self), "examples": list(self.examples), "frame": self.frame.to_dict("records")}

    def __str__(self) -> str:
        line = f"{self.pairs} pairs of models, slope {self.slope:.3g}, R^2 {self.r2:.3f}"
        return f"No answer: {self.refusal}." if self.refusal else f"The agreements lie on a line ({line})."


def accuracy_without_labels(
    shifted: Runs | Mapping[str, Outputs],
    source: Runs | Mapping[str, Outputs],
    level: float = bootstrap.LEVEL,
    least_r2: float = LEAST_R2,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> UnlabelledAccuracy:
    """The accuracy of models on unlabelled data, from runs on them and on labelled data that the models know.

    Models in both runs count, at least four, the more different in accuracy the better; labels of `shifted` are not looked
    at. The module's docstring has the equations. The interval, on the probit scale, adds up the variance over draws of the
    examples (the same of both datasets where these are of the same ids) and that of what the pairs' equations leave over,
    which is how far a model's accuracy can be from what its agreements say.

    Beside it stand two estimates that need one model alone, at a temperature fitted on `source` where the runs carry none:
    the mean of its confidence, and ATC (Garg et al. 2022): the share of examples whose negative entropy is above the
    threshold that leaves, on `source`, as many examples below it as the model gets wrong.

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
    known, new = _same_models(Runs(source), Runs(shifted))
    names, labels = known.names, known.labels
    first, second = _pairs(len(names), seed)
    correct, agree = _columns(known, first, second, labels)
    _, agree_new = _columns(new, first, second, None)
    examples = len(labels), len(agree_new[0])
    paired = np.array_equal(known[names[0]].ids, new[names[0]].ids)
    here, there = _draws([*correct, *agree], resamples, seed), _draws(agree_new, resamples, seed + (not paired))
    line = agreement_line(here[:, : len(names)], here[:, len(names) :], there, (first, second), examples)
    # Row 0 is the data as they are, the others are draws.
    spread = line.of_pairs[1:].var(0, ddof=1) + line.residual[0] ** 2
    half = t.ppf((1 + level) / 2, len(names) - 2) * np.sqrt(spread)
    slope, intercept, r2 = float(line.slope[0]), float(line.intercept[0]), _beyond_sampling(line)
    refusal = _refusal(slope, r2, least_r2)
    middle = line.of_pairs[0] if refusal is None else np.full(len(names), np.nan)
    confidence, atc = _baselines(known, new, labels)
    frame = pandas.DataFrame(
        {
            "model": names,
            "accuracy": ndtr(middle),
            "low": ndtr(middle - half),
            "high": ndtr(middle + half),
            "on_line": ndtr(line.on_line[0]) if refusal is None else np.nan,
            "source_accuracy": here[0, : len(names)],
            "average_confidence": confidence,
            "atc": atc,
        }
    )
    return UnlabelledAccuracy(frame, slope, intercept, r2, len(first), examples, level, refusal)


def agreement_line(
    accuracy: Array,
    agreement: Array,
    shifted: Array,
    pairs: tuple[Any, Any],
    examples: tuple[int, int] = (10**6, 10**6),
) -> AgreementLine:
    """The line through P pairs' agreement on source and shifted data [..., P], and what it says of M models' accuracy.

    `accuracy` [..., M] is on the source; `pairs` are the first and the second model of each, two arrays [P], such that every
    model is in a pair. Shares of 0 and 1 are moved in by half of one of so many `examples`, since their probit is infinite.

    >>> x, pairs = np.array([0.5, 1.0, 1.5, 2.0]), np.triu_indices(4, 1)  # probits that lie on y = 0.8 x - 0.2
    >>> between = (x[pairs[0]] + x[pairs[1]]) / 2 - 0.1
    >>> from scipy.special import ndtr
    >>> line = agreement_line(ndtr(x), ndtr(between), ndtr(0.8 * between - 0.2), pairs)
    >>> round(float(line.slope), 3), line.of_pairs.round(3).tolist()
    (0.8, [0.2, 0.6, 1.0, 1.4])
    """
    from scipy.special import ndtri

    def probit(share: Any, count: int) -> np.ndarray:
        return np.asarray(ndtri(np.clip(np.asarray(share, np.float64), 0.5 / count, 1 - 0.5 / count)))

    u, x, y = probit(accuracy, examples[0]), probit(agreement, examples[0]), probit(shifted, examples[1])
    first, second = (np.asarray(side) for side in pairs)
    dx, dy = (v - v.mean(-1, keepdims=True) for v in (x, y))
    xx, xy, yy = (dx * dx).sum(-1), (dx * dy).sum(-1), (dy * dy).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = xy / xx
        r2 = xy**2 / (xx * yy)
    intercept = y.mean(-1) - slope * x.mean(-1)
    known = y + slope[..., None] * ((u[..., first] + u[..., second]) / 2 - x)
    # Least squares of (u_i + u_j) / 2 = known: the normal equations have, up to a factor, the pairs' graph as their matrix.
    models = u.shape[-1]
    graph, right = np.zeros((models, models)), np.zeros((*u.shape[:-1], models))
    np.add.at(graph, (first, second), 1.0)
    graph += graph.T
    graph += np.diag(graph.sum(1))
    for side in (first, second):
        np.add.at(right.T, side, 2 * known.T)
    estimate = np.linalg.solve(graph, right.reshape(-1, models).T).T.reshape(right.shape)
    left = known - (estimate[..., first] + estimate[..., second]) / 2
    return AgreementLine(
        slope=slope,
        intercept=intercept,
        r2=r2,
        distances=y - slope[..., None] * x - intercept[..., None],
        residual=np.sqrt((left**2).sum(-1) / max(len(first) - models, 1)),
        on_line=slope[..., None] * u + intercept[..., None],
        of_pairs=estimate,
    )


def _beyond_sampling(line: AgreementLine) -> float:
    """R^2 of the line through the data as they are, in row 0, without the distances that the draws in the others explain."""
    squares = float((line.distances[0] ** 2).mean())
    by_chance = float(line.distances[1:].var(0, ddof=1).mean())
    return 1 - (1 - float(line.r2[0])) * max(0.0, 1 - by_chance / max(squares, TINY))


def _refusal(slope: float, r2: float, least_r2: float) -> str | None:
    if not np.isfinite(r2):
        return "all pairs of models agree equally often, so there is no line; take models that differ more in accuracy"
    if slope <= 0:
        return f"models that agree more on the labelled data agree less on the others (slope {slope:.2g})"
    if r2 < least_r2:
        return (
            f"the agreements of pairs do not lie on a line (R^2 {r2:.2f}, expected at least {least_r2:g}), so they say "
            "nothing about accuracy here; more models, of more different accuracy, may, else label some examples"
        )
    return None


def _same_models(source: Runs, shifted: Runs) -> tuple[Runs, Runs]:
    both = [name for name in source if name in list(shifted)]
    if len(both) < FEWEST:
        raise InputError(f"expected at least {FEWEST} models with outputs on both datasets, found {len(both)}")
    known, new = (Runs(runs[name] for name in both).aligned() for runs in (source, shifted))
    a, b = known[both[0]].classes, new[both[0]].classes
    if {*a} != {*b}:
        raise InputError(f"{both[0]}: predicts {len(a)} classes on the labelled data and {len(b)} others on the unlabelled")
    return known, new


def _pairs(models: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and second model of each pair: all of them, or each model with `PARTNERS` others around a shuffled ring."""
    if models <= ALL_PAIRS:
        first, second = np.triu_indices(models, 1)
        return first, second
    order = np.random.default_rng(seed).permutation(models)
    steps = np.arange(1, PARTNERS // 2 + 1)
    return np.repeat(order, len(steps)), order[(np.arange(models)[:, None] + steps).ravel() % models]


def _columns(
    runs: Runs, first: np.ndarray, second: np.ndarray, labels: np.ndarray | None
) -> tuple[list[Tensor], list[Tensor]]:
    """[N] of each model whether it is right, and of each pair whether they agree; where one is silent, they do not."""
    said = [torch.from_numpy(outputs.predictions) for outputs in runs.values()]
    answered = [row != arrays.NO_PREDICTION for row in said]
    y = None if labels is None else torch.from_numpy(labels)
    correct = [] if y is None else [row == y for row in said]
    return correct, [(said[i] == said[j]) & answered[i] for i, j in zip(first.tolist(), second.tolist(), strict=True)]


def _draws(columns: list[Tensor], resamples: int, seed: int) -> np.ndarray:
    """[1 + resamples, F] means of the columns: as they are, then over draws of the examples, the same for all of them."""
    if resamples < 2:
        raise InputError(f"resamples: expected at least 2, found {resamples}")
    width = max(1, BLOCK // len(columns[0]))
    parts = []
    for start in range(0, len(columns), width):
        block = torch.stack(columns[start : start + width], 1).double()
        parts.append(torch.cat([block.mean(0, keepdim=True), bootstrap.resampled_means(block, resamples, seed)]))
    return arrays.to_numpy(torch.cat(parts, 1))


def _baselines(source: Runs, shifted: Runs, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[M] average confidence, and average thresholded confidence; NaN of models that give predictions alone."""
    found = np.full((2, len(source)), np.nan)
    for place, (name, known) in enumerate(source.items()):
        new = shifted[name]
        if "predictions" in (known.kind, new.kind):
            continue
        heat = known.temperature or _temperature(known, labels)
        (_, before), (confidence, after) = (_scores(dataclasses.replace(o, temperature=heat)) for o in (known, new))
        wrong = int((known.predictions != labels).sum())
        above = after >= np.sort(before)[wrong] if wrong < len(before) else np.zeros(1)
        found[:, place] = confidence.mean(), above.mean()
    return found[0], found[1]


def _temperature(outputs: Outputs, labels: np.ndarray) -> float:
    from zoo.calibration.temperature import fit_temperature

    column = outputs.values if outputs.kind == "logits" else Column([np.log(np.maximum(outputs.probabilities, TINY))])
    return fit_temperature(column, labels, outputs.link, outputs.name).temperature


def _scores(outputs: Outputs) -> tuple[np.ndarray, np.ndarray]:
    """[N] confidence, and negative entropy."""
    parts = []
    for start in range(0, len(outputs), CHUNK):
        p = probabilities(outputs, slice(start, min(start + CHUNK, len(outputs)))).double()
        parts.append(torch.stack([p.amax(1), torch.special.xlogy(p, p).sum(1)]))
    confidence, negative_entropy = arrays.to_numpy(torch.cat(parts, 1))
    return confidence, negative_entropy
