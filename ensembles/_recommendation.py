"""Which model to add next: what candidates of which little is known would gain an ensemble, and how sure that is.

Some models are known in full, of a candidate only its card, or its outputs on n labelled examples. The gain on these is a
fair estimate, but a poor one: of 256 examples a candidate turns about eight, so its standard error is a full point, several
times what tells candidates apart. So it is predicted instead, by a ridge regression over the known models, from what varies
less and is computed for all of them on the *same* n examples:

    soft gain             mean_i s(q'_i / h) - s(q_i / h),  q the ensemble's lead of the label, s the logistic function:
                          an example counts by how near it comes to being turned, so all of them say something;
    likelihood gain       mean_i log p'_i(y_i) - log p_i(y_i);
    accuracy difference   the candidate's less the base's, which are right and wrong on much the same examples;
    disagreement ratio    the share of examples answered differently over the mean error of the two, in which the rate of
                          improvement is close to linear (Theisen et al. 2023);
    which examples turn   the first principal components of s(q'/h) over models: those that turn the same ones gain alike;
    category              how far its training is from the nearest member's (Gontijo-Lopes et al. 2021), from the cards.

That all are computed on the same examples takes away what is peculiar to these: the regression learns what such features
mean *there*. The penalty is the one with the least leave-one-out error, and that error is the interval's width, so noisy
features are shrunk as far as they deserve. A card alone gives category and accuracy, and hence wide intervals. With fewer
than ten known models the regression is over the 59 pairs that the cards quote from Gontijo-Lopes et al. (Tables 1 to 4), in
units of the base's error; it is the prior, of doubled width, to which the gain on the n examples is shrunk by precision.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from diversity.bootstrap import check_level
from diversity.categories import CATEGORIES, category
from ensembles._library import Library, Name
from ensembles._path import table
from ensembles._setup import Setup, at_least_one
from zoo.calibration.temperature import fit_temperature
from zoo.cards.card import Card
from zoo.core import arrays
from zoo.core.text import check_unique
from zoo.errors import InputError, ZooWarning
from zoo.outputs.alignment import align
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas as pd

SOFTNESS = 0.1  # h, in probability: leads of less than this are open questions
COMPONENTS = 3
PENALTIES = np.geomspace(0.01, 300, 25)
FEWEST_KNOWN = 10
FEWEST_EXAMPLES = 16
ELSEWHERE = 2.0  # how much wider the published pairs' errors are taken to be on other data and another base


@dataclass(frozen=True)
class Prediction:
    """Gains [C], their standard errors, and the degrees of freedom these are known with."""

    gain: np.ndarray
    error: np.ndarray
    freedom: float


def ridge(known: np.ndarray, gains: np.ndarray, wanted: np.ndarray) -> Prediction:
    """The gains of features [C, F] from those [M] of known models' features [M, F].

    Columns are standardised. With U diag(s) V the features, w = s^2 / (s^2 + penalty) and h_i the diagonal of U diag(w) U'
    plus 1 / M, the error of leaving model i out is its residual over 1 - h_i. A new model's is as large as that is in
    the root mean square, and grows with its distance from the known ones.

    >>> x = np.arange(8.0)[:, None]
    >>> ridge(x, 2 * x[:, 0] + 1, np.array([[10.0]])).gain.round()
    array([21.])
    """
    middle, scale = known.mean(0), known.std(0)
    told = scale > 1e-9
    x, new = (known[:, told] - middle[told]) / scale[told], (wanted[:, told] - middle[told]) / scale[told]
    u, s, v = np.linalg.svd(x, full_matrices=False)
    mean, models = gains.mean(), len(gains)
    along = u.T @ (gains - mean)
    kept = s**2 / (s**2 + PENALTIES[:, None])  # [penalties, F]
    leverage = u**2 @ kept.T + 1 / models
    left_out = ((gains - mean)[:, None] - u @ (kept * along).T) / np.maximum(1 - leverage, 1e-6)
    squares = (left_out**2).mean(0)
    best = int(squares.argmin())
    shrunk = s**2 + PENALTIES[best]
    distance = ((new @ v.T) ** 2 / shrunk).sum(1) + 1 / models
    error = np.sqrt(squares[best] * (1 + distance) / (1 + leverage[:, best].mean()))
    return Prediction(mean + new @ v.T @ (s / shrunk * along), error, max(1.0, models - 1 - float(kept[best].sum())))


@dataclass(frozen=True, eq=False)
class Sample:
    """What M models, each joined to a base of `members` models, show on n labelled examples."""

    accuracy: np.ndarray  # [M]
    disagreement: np.ndarray  # [M] with the base
    ratio: np.ndarray  # [M] disagreement over the mean error of the two
    gain: np.ndarray  # [M] of the ensemble over the base, on these examples
    turned: np.ndarray  # [M] the share of examples whose answer becomes right or wrong
    features: np.ndarray  # [M, F]


def sample(base: np.ndarray, models: np.ndarray, labels: np.ndarray, members: int) -> Sample:
    """From the base's probabilities [n, K], the models' [M, n, K] and labels [n]."""
    rows = np.arange(len(labels))
    joined = (members * base + models) / (members + 1)
    answers, right = base.argmax(1), base.argmax(1) == labels
    theirs, after = models.argmax(2), joined.argmax(2) == labels
    accuracy, disagreement = (theirs == labels).mean(1), (theirs != answers).mean(1)
    # One example more, wrong for one of the two: a ratio of nothing to nothing is then nothing.
    ratio = disagreement / ((1 - accuracy + 1 - right.mean()) / 2 + 0.5 / len(labels))
    soft = _soft_right(joined, labels)
    floor = np.finfo(np.float32).tiny
    likelihood = np.log(np.maximum(joined[:, rows, labels], floor)) - np.log(np.maximum(base[rows, labels], floor))
    u, s, _ = np.linalg.svd(soft - soft.mean(0), full_matrices=False)
    features = [
        (soft - _soft_right(base[None], labels)).mean(1), likelihood.mean(1), accuracy - right.mean(), ratio,
        *(u * s).T[:COMPONENTS],
    ]  # fmt: skip
    gain, turned = after.mean(1) - right.mean(), (after != right).mean(1)
    return Sample(accuracy, disagreement, ratio, gain, turned, np.stack(features, 1))


def _soft_right(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[M, n] the logistic function of the label's lead over the best other class, in units of the softness."""
    rows = np.arange(len(labels))
    own = probabilities[:, rows, labels]
    others = probabilities.copy()
    others[:, rows, labels] = -1
    return 1 / (1 + np.exp(-(own - others.max(2)) / SOFTNESS))


def category_steps(found: str | None) -> list[float]:
    """A category as four features, each whether it is at least so far; so neighbours share what they have in common.

    >>> category_steps("reinit"), category_steps("arch")
    ([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0])
    """
    level = CATEGORIES.index(found) if found in CATEGORIES else 0
    return [float(level > step) for step in range(len(CATEGORIES) - 1)]


@dataclass(frozen=True, eq=False)
class Recommendation:
    """Candidates by falling predicted gain over the base's accuracy, each with its interval and what it rests on.

    `table` has one row per candidate: model, gain, low, high, category (the nearest member's), accuracy, disagreement and
    ratio (disagreement over mean error) on its examples, how many `examples`, and `by`, what was regressed on.
    """

    base: list[Name]
    base_accuracy: float
    table: "pd.DataFrame" = field(repr=False)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The candidate of the greatest predicted gain."""
        return str(self.table["model"].iloc[0])

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types."""
        rows = self.table.to_dict(orient="records")
        return {"base": self.base, "base_accuracy": self.base_accuracy, "candidates": rows, "settings": self.settings}

    def __str__(self) -> str:
        rows = self.table.to_dict(orient="records")
        columns = {
            "model": [str(row["model"]) for row in rows],
            "category": [row["category"] or "–" for row in rows],
            "alone": ["–" if math.isnan(row["accuracy"]) else f"{row['accuracy']:.3f}" for row in rows],
            "ratio": ["–" if math.isnan(row["ratio"]) else f"{row['ratio']:.2f}" for row in rows],
            "gain": [f"{row['gain']:+.4f}" for row in rows],
            f"{self.settings['level']:.0%} interval": [f"{row['low']:+.4f} {row['high']:+.4f}" for row in rows],
            "from": [str(row["examples"] or "card") for row in rows],
        }
        lines = [f"over {', '.join(map(str, self.base))}: {self.base_accuracy:.4f} alone"]
        lines += [f"predicted from {by}" for by in self.table["by"].unique()]
        return "\n".join([*table(columns), *lines])


def recommend(
    runs: Runs, candidates: Any, base: Name | Sequence[Name], *, examples: int = 256, level: float = 0.95, seed: int = 0
) -> Recommendation:
    """What each candidate would add to the accuracy of the base, and how sure that is, before it is run on everything.

    runs: outputs of the base's members, and of all other models at hand, on the same labelled examples: the more, the
        narrower the intervals. base: the model, or the models with equal shares, to which one is to be added.
    candidates: cards; or outputs on some of the same examples, at most `examples` of which are looked at. Those without a
        temperature get one from these. A candidate that is also in `runs` is not taken to be known.
    level: of the intervals. seed: of the draw of examples.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 400)
    >>> z = 2 * np.eye(3)[labels] + rng.normal(size=(14, 400, 3)) * np.linspace(1, 3, 14)[:, None, None]
    >>> runs = Runs([Outputs.from_arrays(f"m{i}", logits=z[i], labels=labels, temperature=1.0) for i in range(14)])
    >>> found = recommend(runs, [runs["m1"], runs["m12"]], base="m5", examples=100)
    >>> found.best, found.table["examples"].tolist()
    ('m1', [100, 100])
    """
    import pandas as pd
    from scipy.stats import t as student

    at_least_one(examples=examples)
    check_level(level)
    subjects = _subjects(candidates)
    if not isinstance(runs, Runs):
        raise InputError(f"runs: expected Runs, the outputs of models known in full, found {type(runs).__name__}")
    setup = Setup(runs, base=base, test_fraction=0, seed=seed)
    if not setup.base:
        raise InputError("base: expected at least one of the models, found none")
    ground = _Ground.of(setup, [one.name for one in subjects])
    found = [_of_card(ground, one) for one in subjects if isinstance(one, Card)]
    for rows, group in _by_examples(ground, [one for one in subjects if isinstance(one, Outputs)], examples, seed):
        found += _of_examples(ground, group, rows)
    for row in found:
        prediction = row.pop("prediction")
        reach = float(student.ppf((1 + level) / 2, prediction.freedom) * prediction.error[0])
        gain = float(prediction.gain[0])
        row |= {"gain": gain, "low": gain - reach, "high": gain + reach}
    columns = ["model", "gain", "low", "high", "category", "accuracy", "disagreement", "ratio", "examples", "by"]
    frame = pd.DataFrame(found, columns=columns).sort_values(["gain", "model"], ascending=[False, True], ignore_index=True)
    settings = {"level": level, "seed": seed, "known": len(ground.known), "known_examples": len(setup.library.labels)}
    return Recommendation([setup.library.names[m] for m in setup.base], ground.accuracy, frame, settings)


@dataclass(frozen=True, eq=False)
class _Ground:
    """What candidates are judged from: a base, and models whose gains over it are known."""

    library: Library
    runs: Runs
    base: list[int]
    accuracy: float
    known: list[int]
    gains: np.ndarray  # [M] of the known models
    accuracies: np.ndarray  # [M] their own

    @classmethod
    def of(cls, setup: Setup, unknown: Sequence[str]) -> "_Ground":
        library, names = setup.library, setup.library.names
        for model in setup.base:
            if names[model] in unknown:
                raise InputError(f"candidates: {names[model]} is in the base already; leave one of the two out")
        known = [m for m in range(len(library)) if m not in setup.base and names[m] not in unknown]
        ensemble = setup.ensemble()
        accuracy = ensemble.score_of(setup.base)
        ensemble.add(setup.base[-1])
        scores = ensemble.scores(known, every=True) if known else {}
        right = arrays.to_numpy(setup.table.right(library.labels).float().mean(1)).astype(np.float64)
        gains = np.array([scores[model] - accuracy for model in known])
        return cls(library, cast(Runs, library.runs), setup.base, accuracy, known, gains, right[known])

    def cards(self, models: Iterable[int]) -> list[Card | None]:
        return [self.runs[str(self.library.names[model])].card for model in models]

    def category(self, card: Card | None) -> str | None:
        """How far a model's training is from that of the nearest member of the base."""
        found = [category(own, card) for own in self.cards(self.base) if own is not None and card is not None]
        return min((one for one in found if one is not None), key=CATEGORIES.index, default=None)

    @property
    def described(self) -> tuple[np.ndarray, np.ndarray]:
        """What cards say of the known models: categories [M, 4] and the logarithms of their errors [M]."""
        steps = np.array([category_steps(self.category(card)) for card in self.cards(self.known)])
        return steps, self.log_error(self.accuracies)

    def read(self, models: Iterable[int], rows: np.ndarray) -> np.ndarray:
        """[M, n, K] probabilities of models on some rows."""
        at = torch.from_numpy(rows).to(self.library.device)
        return np.stack([arrays.to_numpy(self.library.read(model, at)).astype(np.float64) for model in models])

    def log_error(self, accuracy: Any) -> Any:
        """The logarithm of an error over the base's; errors below 0.1% are taken to be that."""
        return np.log(np.maximum(1 - np.asarray(accuracy, np.float64), 1e-3) / max(1 - self.accuracy, 1e-3))


def _subjects(candidates: Any) -> list[Outputs | Card]:
    given = list(candidates.values()) if isinstance(candidates, Runs) else candidates
    listed = [given] if isinstance(given, (Outputs, Card)) else list(given)
    for one in listed:
        if not isinstance(one, (Outputs, Card)):
            raise InputError(f"candidates: expected outputs or cards, found {type(one).__name__}; zoo.card(name) gives one")
    if not listed:
        raise InputError("candidates: expected at least one, found none")
    check_unique([one.name for one in listed], "candidates")
    return listed


def _of_card(ground: _Ground, card: Card) -> dict[str, Any]:
    """A row of the table, its prediction from category and accuracy."""
    kind, accuracy = ground.category(card), _told_accuracy(card)
    prediction, by = (_from_known if len(ground.known) >= FEWEST_KNOWN else _from_published)(ground, kind, accuracy)
    row = {"model": card.name, "category": kind, "accuracy": accuracy, "disagreement": math.nan, "ratio": math.nan}
    return row | {"examples": 0, "by": by, "prediction": prediction}


def _told_accuracy(card: Card | None) -> float:
    return math.nan if card is None or card.accuracy is None else card.accuracy / 100


def _regressed(
    steps: np.ndarray, errors: np.ndarray, gains: np.ndarray, kind: str | None, error: float, *shown: np.ndarray
) -> Prediction:
    """From categories [M, 4], log errors [M] and what was `shown` by them and the candidate, [M + 1, F].

    What the candidate's card does not say is left out.
    """
    told = [kind is not None] * steps.shape[1] + [not math.isnan(error)]
    card = np.vstack([np.column_stack([steps, errors]), [*category_steps(kind), error]])[:, told]
    both = np.column_stack([card, *shown])
    return ridge(both[:-1], gains, both[-1:])


def _from_known(ground: _Ground, kind: str | None, accuracy: float, *shown: np.ndarray) -> tuple[Prediction, str]:
    found = _regressed(*ground.described, ground.gains, kind, ground.log_error(accuracy), *shown)
    return found, f"{len(ground.known)} known models"


def _from_published(ground: _Ground, kind: str | None, accuracy: float) -> tuple[Prediction, str]:
    """Regressed on the pairs that cards quote, in units of the base's error.

    Of n equal members the part of the error that averaging takes away falls as 1 / n, so that one more than n takes away
    2 / (n (n + 1)) of what the second did.
    """
    from zoo.models import registry

    quoted = [row for card in registry.known_models().values() for row in card.reference if row.category is not None]
    pairs = [(row.accuracy, row.ensemble_accuracy, row.category) for row in quoted if row.ensemble_accuracy is not None]
    own, joint = np.array([pair[:2] for pair in pairs], np.float64).T
    start = own[[pair[2] for pair in pairs].index("reinit")]  # the base itself, trained again
    steps = np.array([category_steps(pair[2]) for pair in pairs])
    gains, errors = (joint - start) / (100 - start), np.log((100 - own) / (100 - start))
    found = _regressed(steps, errors, gains, kind, ground.log_error(accuracy))
    unit = (1 - ground.accuracy) * 2 / (len(ground.base) * (len(ground.base) + 1))
    prior = replace(found, gain=found.gain * unit, error=found.error * unit * ELSEWHERE)
    return prior, f"{len(pairs)} published pairs, since only {len(ground.known)} models are known here"


def _by_examples(
    ground: _Ground, subjects: Sequence[Outputs], examples: int, seed: int
) -> list[tuple[np.ndarray, list[Outputs]]]:
    """Candidates that are known on the same examples, with the rows of these; outputs on these rows, in the base's order."""
    first = ground.runs[str(ground.library.names[ground.base[0]])]
    place = {name: row for row, name in enumerate(first.ids.tolist())}
    groups: dict[bytes, tuple[np.ndarray, list[Outputs]]] = {}
    for one in subjects:
        own = {name: row for row, name in enumerate(one.ids.tolist()) if name in place}
        rows = np.sort(np.array([place[name] for name in own], np.int64))
        if len(rows) < FEWEST_EXAMPLES:
            raise InputError(
                f"{one.name}: {len(rows)} of its {len(one)} examples are among the {len(first)} of {first.name}, expected "
                f"at least {FEWEST_EXAMPLES}; give its card, or run it on some of the same examples"
            )
        if len(rows) > examples:
            rows = np.sort(np.random.default_rng(seed).choice(rows, examples, replace=False))
        there = [own[name] for name in first.ids[rows].tolist()]
        labelled = first.select(rows)
        shown = _calibrated(align([labelled, one.select(np.array(there))])[1], labelled.require_labels())
        groups.setdefault(rows.tobytes(), (rows, []))[1].append(shown)
    return list(groups.values())


def _calibrated(outputs: Outputs, labels: np.ndarray) -> Outputs:
    """With a temperature from these examples where it has none: members are averaged calibrated."""
    if outputs.kind != "logits" or outputs.temperature is not None:
        return outputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # of few examples the temperature may stop at its bound
        fit = fit_temperature(outputs.values, labels, outputs.link, outputs.name)
    return replace(outputs, temperature=fit.temperature)


def _of_examples(ground: _Ground, group: Sequence[Outputs], rows: np.ndarray) -> list[dict[str, Any]]:
    """Rows of the table of candidates that are known on these examples."""
    members, labels = len(ground.base), arrays.to_numpy(ground.library.labels)[rows]
    candidates = np.stack([arrays.to_numpy(arrays.tensor(one.probabilities, one.name)) for one in group]).astype(np.float64)
    models = np.concatenate([ground.read(ground.known, rows), candidates]) if ground.known else candidates
    seen = sample(ground.read(ground.base, rows).mean(0), models, labels, members)
    found = []
    for number, one in enumerate(group, len(ground.known)):
        kind, accuracy = ground.category(one.card), float(seen.accuracy[number])
        if len(ground.known) >= FEWEST_KNOWN:
            shown = seen.features[[*range(len(ground.known)), number]]
            prediction, by = _from_known(ground, kind, _told_accuracy(one.card), shown)
        else:
            prior, by = _from_published(ground, kind, accuracy)
            # The gain is a mean of -1, 0 and 1; one turned example more than were seen keeps its error above nothing.
            noise = (seen.turned[number] + 1 / len(rows)) / len(rows)
            share = noise / (noise + prior.error**2)
            gain = share * prior.gain + (1 - share) * seen.gain[number]
            prediction = Prediction(gain, np.sqrt(share) * prior.error, prior.freedom)
        row = {"model": one.name, "category": kind, "accuracy": accuracy, "examples": len(rows), "by": by}
        row |= {"disagreement": float(seen.disagreement[number]), "ratio": float(seen.ratio[number])}
        found.append(row | {"prediction": prediction})
    return found
