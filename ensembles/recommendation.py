"""Which model to add next: predicted gains of candidates about which little is known, with prediction intervals.

Some models are known in full. For a candidate, only the card is known, or outputs on n labelled examples. The gain
measured on these examples is unbiased but noisy: a candidate changes about eight of 256 examples, so the standard error
is a full point, several times the difference between candidates. The gain is therefore predicted by ridge regression over
the known models, from features that vary less. They are computed for all models on the *same* n examples:

    soft gain             mean_i s(q'_i / h) - s(q_i / h), with q the ensemble's lead of the label and s the logistic
                          function: an example counts by how close it comes to changing, so every example is informative;
    likelihood gain       mean_i log p'_i(y_i) - log p_i(y_i);
    accuracy difference   the candidate's accuracy minus the base's;
    disagreement ratio    the fraction of different predictions divided by the mean error of the two models; the rate of
                          improvement is nearly linear in it (Theisen et al. 2023);
    changed examples      the first principal components of s(q'/h) over models: models that change the same examples have
                          similar gains;
    category              the training category relative to the nearest member, from the cards (Gontijo-Lopes et al. 2021).

Because all features are computed on the same examples, the regression learns what they mean on these examples. The penalty
minimises the leave-one-out error, which shrinks noisy features; this error also sets the width of the interval. A card alone
gives only category and accuracy, so intervals are wide. With fewer than ten known models, the regression is over the 59
pairs that the cards quote from Gontijo-Lopes et al. (Tables 1 to 4), in units of the base's error. Its prediction, with
doubled width, is a prior that is combined with the gain on the n examples, weighted by precision.

If no known model has the candidate's category, the regression extrapolates: its error is assumed to be three times as
large, and the prediction is combined with the gain on the n examples, too. If no known model has its training data, the
published pairs take the place of the known models, with the larger error of the two. The factor was chosen on the shipped
CIFAR-10 outputs, with one category after the other left out of the known models.

Limits: on these outputs, predictions rank candidates better than accuracy on the same examples does if the base is one
model. If the base is a greedy ensemble of three, the two do not differ measurably, and rank correlations are about 0.5
(`tests/benchmarks/recommend.py`).
"""

import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch

from diversity.bootstrap import check_level
from diversity.categories import CATEGORIES, category, category_title
from ensembles.inputs import Name, check_counts
from ensembles.model_library import ModelLibrary
from ensembles.search_setup import SearchSetup, as_list
from ensembles.text_table import text_table, wrapped
from zoo.calibration.temperature import fit_temperature
from zoo.cards.card import Card
from zoo.cards.names import among
from zoo.core import arrays
from zoo.core.text import check_unique
from zoo.core.units import MISSING, interval, percent, points
from zoo.errors import InputError, ZooWarning
from zoo.outputs.alignment import align
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas as pd

SOFTNESS = 0.1  # h, in probability: smaller leads count as undecided
COMPONENTS = 3
PENALTIES = np.geomspace(0.01, 300, 25)
MIN_KNOWN_MODELS = 10
MIN_EXAMPLES = 16
NEW_CATEGORY_WIDTH = 3.0  # factor on the error for a category that no known model has
PUBLISHED_WIDTH = 2.0  # factor on the error of a prediction from the published pairs, which have other data and another base

Candidate: TypeAlias = Outputs | Card


@dataclass(frozen=True)
class Prediction:
    """Predicted gains [C], their standard errors [C], and the degrees of freedom of these errors."""

    gain: np.ndarray
    error: np.ndarray
    degrees_of_freedom: float


def ridge(features: np.ndarray, gains: np.ndarray, new: np.ndarray) -> Prediction:
    """Return the gains predicted for `new` features [C, F] from features [M, F] and gains [M] of known models.

    Columns are standardised. With the features U diag(s) V, w = s^2 / (s^2 + penalty) and h_i the diagonal of U diag(w) U'
    plus 1 / M, the error of leaving out model i is its residual divided by 1 - h_i. The error of a new model is the root
    mean square of these errors, and grows with its distance from the known models.

    >>> x = np.arange(8.0)[:, None]
    >>> ridge(x, 2 * x[:, 0] + 1, np.array([[10.0]])).gain.round()
    array([21.])
    """
    centre, scale = features.mean(0), features.std(0)
    varies = scale > 1e-9
    x, x_new = ((rows[:, varies] - centre[varies]) / scale[varies] for rows in (features, new))
    u, s, v = np.linalg.svd(x, full_matrices=False)
    mean, models = gains.mean(), len(gains)
    projected = u.T @ (gains - mean)
    shrinkage = s**2 / (s**2 + PENALTIES[:, None])  # [penalties, F]
    leverage = u**2 @ shrinkage.T + 1 / models
    left_out = ((gains - mean)[:, None] - u @ (shrinkage * projected).T) / np.maximum(1 - leverage, 1e-6)
    squares = (left_out**2).mean(0)
    best = int(squares.argmin())
    penalised = s**2 + PENALTIES[best]
    distance = ((x_new @ v.T) ** 2 / penalised).sum(1) + 1 / models
    error = np.sqrt(squares[best] * (1 + distance) / (1 + leverage[:, best].mean()))
    degrees_of_freedom = max(1.0, models - 1 - float(shrinkage[best].sum()))
    return Prediction(mean + x_new @ v.T @ (s / penalised * projected), error, degrees_of_freedom)


@dataclass(frozen=True, eq=False)
class SampleFeatures:
    """Measures of M models on n labelled examples, each model added to the base."""

    accuracy: np.ndarray  # [M]
    disagreement: np.ndarray  # [M] with the base
    ratio: np.ndarray  # [M] disagreement divided by the mean error of the two
    gain: np.ndarray  # [M] of the ensemble over the base, on these examples
    changed: np.ndarray  # [M] fraction of examples that become correct or wrong
    features: np.ndarray  # [M, F]


def sample_features(base: np.ndarray, models: np.ndarray, labels: np.ndarray, members: int) -> SampleFeatures:
    """Return the measures of models [M, n, K] when each is added to a base [n, K] of `members` models; all probabilities."""
    rows = np.arange(len(labels))
    joint = (members * base + models) / (members + 1)
    base_predictions, base_correct = base.argmax(1), base.argmax(1) == labels
    predictions, joint_correct = models.argmax(2), joint.argmax(2) == labels
    accuracy, disagreement = (predictions == labels).mean(1), (predictions != base_predictions).mean(1)
    # One additional example, wrong for one of the two, avoids 0 / 0.
    ratio = disagreement / ((1 - accuracy + 1 - base_correct.mean()) / 2 + 0.5 / len(labels))
    soft = _soft_correct(joint, labels)
    floor = np.finfo(np.float32).tiny
    likelihood = np.log(np.maximum(joint[:, rows, labels], floor)) - np.log(np.maximum(base[rows, labels], floor))
    u, s, _ = np.linalg.svd(soft - soft.mean(0), full_matrices=False)
    features = [
        (soft - _soft_correct(base[None], labels)).mean(1), likelihood.mean(1), accuracy - base_correct.mean(), ratio,
        *(u * s).T[:COMPONENTS],
    ]  # fmt: skip
    gain, changed = joint_correct.mean(1) - base_correct.mean(), (joint_correct != base_correct).mean(1)
    return SampleFeatures(accuracy, disagreement, ratio, gain, changed, np.stack(features, 1))


def _soft_correct(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the logistic function [M, n] of the label's lead over the best other class, in units of `SOFTNESS`."""
    rows = np.arange(len(labels))
    label = probabilities[:, rows, labels]
    others = probabilities.copy()
    others[:, rows, labels] = -1
    return 1 / (1 + np.exp(-(label - others.max(2)) / SOFTNESS))


def category_features(name: str | None) -> list[float]:
    """Return a category as four ordinal features: whether it is beyond each of the first four.

    >>> category_features("reinit"), category_features("arch")
    ([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0])
    """
    level = CATEGORIES.index(name) if name in CATEGORIES else 0
    return [float(level > step) for step in range(len(CATEGORIES) - 1)]


@dataclass(frozen=True, eq=False)
class Recommendation:
    """Candidates by descending predicted gain over the base's accuracy.

    `table` has one row per candidate: model, gain and its interval (low, high), category relative to the nearest member,
    accuracy, disagreement and ratio (disagreement divided by mean error) on its examples, the number of `examples`, `by`
    (the data of the regression), and `new_category` (whether no known model has its category, or its training data).
    """

    base: list[Name]
    base_accuracy: float
    table: "pd.DataFrame" = field(repr=False)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The candidate with the largest predicted gain."""
        return str(self.table["model"].iloc[0])

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain types."""
        rows = self.table.to_dict(orient="records")
        return {"base": self.base, "base_accuracy": self.base_accuracy, "candidates": rows, "settings": self.settings}

    def __str__(self) -> str:
        rows = self.table.to_dict(orient="records")
        columns = {
            "model": [str(row["model"]) for row in rows],
            "differs in": [category_title(row["category"]) or MISSING for row in rows],
            "accuracy": [percent(row["accuracy"]) for row in rows],
            "ratio": [MISSING if math.isnan(row["ratio"]) else f"{row['ratio']:.2f}" for row in rows],
            "gain": [points(row["gain"]) for row in rows],
            f"{self.settings['level']:.0%} CI": [interval((row["low"], row["high"]), None) for row in rows],
            "from": [str(row["examples"] or "card") for row in rows],
        }
        base = f"{' + '.join(map(str, self.base))}, {percent(self.base_accuracy)} accuracy"
        lines = wrapped(f"gain: points over the base, {base}; ratio: disagreement with the base / mean error")
        lines += [f"predicted from {by}" for by in self.table["by"].unique()]
        if self.settings["shipped"]:
            lines.append(f"{self.settings['shipped']} of the known models are shipped")
        if new := list(self.table["model"][self.table["new_category"]]):
            lines.append(f"no known model has the category or training data of {', '.join(new)}: wider intervals")
        return "\n".join([*text_table(columns), *lines])


def recommend(
    runs: Runs,
    candidates: Candidate | Iterable[Candidate] | Mapping[str, Outputs],
    base: Name | Sequence[Name],
    *,
    examples: int = 256,
    level: float = 0.95,
    seed: int = 0,
    use_shipped: bool = True,
) -> Recommendation:
    """Predict what each candidate would add to the accuracy of the base, before it is run on all examples.

    Models with stored predictions only are skipped with a warning. If no known model has a candidate's training
    category or training data, the prediction extrapolates: its interval is wider, and a warning says so.

    Args:
        runs: outputs of the base's members and of all other known models, on the same labelled examples. The more models,
            the narrower the intervals.
        candidates: cards, or outputs on some of the same examples. Outputs without a temperature are calibrated on these.
            A candidate that is also in `runs` does not count as known.
        base: the model, or the equally weighted models, to which a candidate is added.
        examples: maximum number of examples of a candidate's outputs to use.
        level: level of the prediction intervals.
        seed: random seed of the choice of examples.
        use_shipped: whether models with shipped outputs on the same examples also count as known.

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

    check_counts(examples=examples)
    check_level(level)
    listed = _candidates(candidates)
    if not isinstance(runs, Runs):
        raise InputError(argument="runs", expected="Runs with the outputs of the known models", found=type(runs).__name__)
    runs, shipped = _known_runs(runs, base, listed, use_shipped)
    listed = [one for one in listed if isinstance(one, Card) or one.kind != "predictions"]
    if not listed:
        raise InputError(argument="candidates", expected="at least one model with more than predictions", found="none")
    setup = SearchSetup(runs, base=base, test_fraction=0, seed=seed)
    if not setup.base:
        raise InputError(argument="base", expected="at least one of the models", found="none")
    known = KnownGains.of(setup, [one.name for one in listed])
    rows = [_row_from_card(known, one) for one in listed if isinstance(one, Card)]
    for sample, group in _by_examples(known, [one for one in listed if isinstance(one, Outputs)], examples, seed):
        rows += _rows_from_examples(known, group, sample)
    for row in rows:
        prediction = row.pop("prediction")
        half_width = float(student.ppf((1 + level) / 2, prediction.degrees_of_freedom) * prediction.error[0])
        gain = float(prediction.gain[0])
        row |= {"gain": gain, "low": gain - half_width, "high": gain + half_width}
        row["new_category"] = known.is_new(row.pop("card"))
    _warn_of_new_categories(known, rows)
    columns = [
        "model", "gain", "low", "high", "category", "accuracy", "disagreement", "ratio", "examples", "by", "new_category",
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=columns).sort_values(["gain", "model"], ascending=[False, True], ignore_index=True)
    settings = {
        "level": level, "seed": seed, "known": len(known.models), "known_examples": len(setup.library.labels),
        "shipped": shipped,
    }  # fmt: skip
    return Recommendation([setup.library.names[m] for m in setup.base], known.base_accuracy, frame, settings)


@dataclass(frozen=True, eq=False)
class KnownGains:
    """A base, and other models whose gains over it are known."""

    library: ModelLibrary
    runs: Runs
    base: list[int]
    base_accuracy: float
    models: list[int]  # [M] positions of the known models
    gains: np.ndarray  # [M] over the base
    accuracies: np.ndarray  # [M]

    @classmethod
    def of(cls, setup: SearchSetup, candidates: Sequence[str]) -> "KnownGains":
        """Return the gains of all models of a setup except the base and the candidates."""
        library, names = setup.library, setup.library.names
        for model in setup.base:
            if names[model] in candidates:
                raise InputError(
                    f"{names[model]} is already in the base",
                    argument="candidates",
                    found=names[model],
                    hint="Remove it from one of them",
                )
        known = [m for m in range(len(library)) if m not in setup.base and names[m] not in candidates]
        ensemble = setup.empty_ensemble()
        accuracy = ensemble.score_of(setup.base)
        ensemble.add(setup.base[-1])
        scores = ensemble.scores(known, every=True) if known else {}
        gains = np.array([scores[model] - accuracy for model in known])
        accuracies = np.array([setup.accuracies[model] for model in known])
        return cls(library, cast(Runs, library.runs), setup.base, accuracy, known, gains, accuracies)

    def cards(self, models: Iterable[int]) -> list[Card | None]:
        return [self.runs[str(self.library.names[model])].card for model in models]

    def category(self, card: Card | None) -> str | None:
        """Return the smallest category between a model and any member of the base; None if it is unknown."""
        found = [category(member, card) for member in self.cards(self.base) if member is not None and card is not None]
        return min((one for one in found if one is not None), key=CATEGORIES.index, default=None)

    @cached_property
    def categories(self) -> list[str | None]:
        """The categories [M] of the known models."""
        return [self.category(card) for card in self.cards(self.models)]

    def is_new(self, card: Card | None) -> bool:
        """Return whether a candidate is of a category that no known model has, or has training data that none has."""
        kind = self.category(card)
        return kind is not None and (kind not in self.categories or self.has_new_data(card))

    def has_new_data(self, card: Card | None) -> bool:
        """Return whether a candidate has other training data than the base and every known model."""
        known = {one.dataset for one in self.cards([*self.base, *self.models]) if one is not None}
        return self.category(card) == "dataset" and card is not None and card.dataset not in known

    def needs_published(self, card: Card | None) -> bool:
        """Return whether published pairs predict a candidate better than the known models do."""
        return len(self.models) < MIN_KNOWN_MODELS or self.has_new_data(card)

    @property
    def card_features(self) -> tuple[np.ndarray, np.ndarray]:
        """Categories [M, 4] as features and logarithms of the errors [M] of the known models."""
        return np.array([category_features(one) for one in self.categories]), self.log_error(self.accuracies)

    def read(self, models: Iterable[int], rows: np.ndarray) -> np.ndarray:
        """Return the probabilities [M, n, K] of models on some rows."""
        at = torch.from_numpy(rows).to(self.library.device)
        return np.stack([arrays.to_numpy(self.library.rows(model, at)).astype(np.float64) for model in models])

    def log_error(self, accuracy: Any) -> Any:
        """Return the logarithm of an error divided by the base's; errors below 0.1% count as 0.1%."""
        return np.log(np.maximum(1 - np.asarray(accuracy, np.float64), 1e-3) / max(1 - self.base_accuracy, 1e-3))


def _candidates(candidates: Candidate | Iterable[Candidate] | Mapping[str, Outputs]) -> list[Candidate]:
    if isinstance(candidates, (Outputs, Card)):
        return [candidates]
    listed: list[Any] = list(candidates.values() if isinstance(candidates, Mapping) else candidates)
    for one in listed:
        if not isinstance(one, (Outputs, Card)):
            raise InputError(
                argument="candidates", expected="outputs or cards", found=one, hint="zoo.card(name) returns a card"
            )
    if not listed:
        raise InputError(argument="candidates", expected="at least one model", found="none")
    check_unique([one.name for one in listed], "candidates")
    return listed


def _known_runs(
    runs: Runs, base: Name | Sequence[Name], candidates: Sequence[Candidate], use_shipped: bool
) -> tuple[Runs, int]:
    """Return the runs with probabilities, extended by shipped outputs; and the number of shipped outputs."""
    listed = [one for one in candidates if isinstance(one, Outputs)]
    without = {one.name for one in (*runs.values(), *listed) if one.kind == "predictions"}
    if without:
        names = ", ".join(sorted(without))
        warnings.warn(f"skipped models with stored predictions only: {names}", ZooWarning, stacklevel=3)
    usable = Runs(one for one in runs.values() if one.name not in without)
    for name in as_list(base):
        if among(str(name), list(runs)) in without:
            raise InputError(
                "only predictions are stored, but gains are computed from probabilities", where=name, argument="base"
            )
    if not use_shipped or not len(usable):
        return usable, 0
    added = list(_shipped(next(iter(usable.values())), {*runs, *(one.name for one in candidates)}))
    return Runs([*usable.values(), *added]), len(added)


def _shipped(like: Outputs, excluded: Collection[str]) -> Iterator[Outputs]:
    """Iterate over the shipped outputs on the examples of `like`, calibrated, except of `excluded` models.

    A temperature is fitted on the other examples of the dataset, or on the same ones if no others are shipped.
    """
    from zoo.outputs import bundle
    from zoo.runs.resolver import split_spec

    spec = split_spec(like.dataset)[0]
    for outputs in () if spec is None else bundle.study(spec).values():
        row_of = {name: row for row, name in enumerate(outputs.ids.tolist())}
        rows = np.array([row_of.get(name, -1) for name in like.ids.tolist()])
        if outputs.name in excluded or outputs.kind == "predictions" or (rows < 0).any():
            continue
        if set(outputs.classes) != set(like.classes) or _class_names(outputs.select(rows)) != _class_names(like):
            continue  # another dataset of the same name
        others = np.setdiff1d(np.arange(len(outputs)), rows)
        fitted_on = outputs.select(others if len(others) >= MIN_EXAMPLES else rows)
        temperature = _calibrated(fitted_on, fitted_on.require_labels()).temperature
        yield replace(outputs.select(rows), temperature=temperature, dataset=like.dataset)


def _class_names(outputs: Outputs) -> list[str]:
    """Return the name [N] of each example's class, which does not depend on the order of the classes."""
    return np.asarray(outputs.classes)[outputs.require_labels()].tolist()


def _warn_of_new_categories(known: KnownGains, rows: Sequence[Mapping[str, Any]]) -> None:
    """Warn if gains are extrapolated to candidates unlike all known models. Published pairs have all categories."""
    new = [row for row in rows if row["new_category"]]
    if new and len(known.models) >= MIN_KNOWN_MODELS:
        names = ", ".join(row["model"] for row in new)
        warnings.warn(
            f"no known model has the category or training data of {names}, so the gains are extrapolated and their "
            "intervals are wider",
            ZooWarning,
            stacklevel=3,
        )


def _row_from_card(known: KnownGains, card: Card) -> dict[str, Any]:
    """Return a row of the table, predicted from category and accuracy."""
    accuracy = _card_accuracy(card)
    prediction, by = _predict(known, card, accuracy)
    return {
        "model": card.name, "card": card, "category": known.category(card), "accuracy": accuracy, "disagreement": math.nan,
        "ratio": math.nan, "examples": 0, "by": by, "prediction": prediction,
    }  # fmt: skip


def _card_accuracy(card: Card | None) -> float:
    return math.nan if card is None or card.accuracy is None else card.accuracy / 100


def _predict(known: KnownGains, card: Card | None, accuracy: float, *measured: np.ndarray) -> tuple[Prediction, str]:
    """Return the prediction for one candidate, and a phrase for the data of the regression.

    `measured` [M + 1, F] holds features of the known models and, last, of the candidate; published pairs have none.
    """
    if not known.needs_published(card):
        return _predict_from_known(known, card, accuracy, *measured)
    prediction, by = _predict_from_published(known, card, accuracy)
    if len(known.models) >= MIN_KNOWN_MODELS:  # for ensembles of several models the published errors may be too small
        error = _predict_from_known(known, card, accuracy, *measured)[0].error
        prediction = replace(prediction, error=np.maximum(prediction.error, error))
    return prediction, by


def _features(
    categories: np.ndarray, errors: np.ndarray, kind: str | None, error: float, *measured: np.ndarray
) -> np.ndarray:
    """Return features [M + 1, F] of M known models and, last, of one candidate.

    Args:
        categories: [M, 4] of the known models.
        errors: [M] logarithms of their errors.
        kind: the candidate's category; the features of categories are left out if it is unknown.
        error: the logarithm of the candidate's error; left out if it is NaN.
        measured: [M + 1, F] further features.
    """
    available = [kind is not None] * categories.shape[1] + [not math.isnan(error)]
    from_cards = np.vstack([np.column_stack([categories, errors]), [*category_features(kind), error]])[:, available]
    return np.column_stack([from_cards, *measured])


def _predict_from_known(
    known: KnownGains, card: Card | None, accuracy: float, *measured: np.ndarray
) -> tuple[Prediction, str]:
    kind = known.category(card)
    features = _features(*known.card_features, kind, known.log_error(accuracy), *measured)
    prediction = ridge(features[:-1], known.gains, features[-1:])
    if known.is_new(card):
        prediction = replace(prediction, error=prediction.error * NEW_CATEGORY_WIDTH)
    return prediction, f"{len(known.models)} known models"


def _predict_from_published(known: KnownGains, card: Card | None, accuracy: float) -> tuple[Prediction, str]:
    """Return a prediction regressed on the pairs that cards quote, in units of the base's error.

    With n equal members, the part of the error that averaging reduces falls as 1 / n. So adding a member to n removes
    2 / (n (n + 1)) of what adding the second member removed.
    """
    from zoo.models import registry

    quoted = [row for card in registry.known_models().values() for row in card.reference if row.category is not None]
    pairs = [(row.accuracy, row.ensemble_accuracy, row.category) for row in quoted if row.ensemble_accuracy is not None]
    alone, joint = np.array([pair[:2] for pair in pairs], np.float64).T
    base = alone[[pair[2] for pair in pairs].index("reinit")]  # the paper's base, trained again
    categories = np.array([category_features(pair[2]) for pair in pairs])
    gains, errors = (joint - base) / (100 - base), np.log((100 - alone) / (100 - base))
    features = _features(categories, errors, known.category(card), known.log_error(accuracy))
    prediction = ridge(features[:-1], gains, features[-1:])
    unit = (1 - known.base_accuracy) * 2 / (len(known.base) * (len(known.base) + 1))
    width = PUBLISHED_WIDTH * (NEW_CATEGORY_WIDTH if known.is_new(card) else 1)
    prior = replace(prediction, gain=prediction.gain * unit, error=prediction.error * unit * width)
    few = len(known.models) < MIN_KNOWN_MODELS
    reason = f"only {len(known.models)} models are known" if few else "no known model has the same training data"
    return prior, f"{len(pairs)} published pairs, because {reason}"


def _by_examples(
    known: KnownGains, candidates: Sequence[Outputs], examples: int, seed: int
) -> list[tuple[np.ndarray, list[Outputs]]]:
    """Group candidates by the base's rows on which they have outputs; return these rows, and the outputs in their order."""
    first = known.runs[str(known.library.names[known.base[0]])]
    row_of = {name: row for row, name in enumerate(first.ids.tolist())}
    groups: dict[bytes, tuple[np.ndarray, list[Outputs]]] = {}
    for one in candidates:
        candidate_row = {name: row for row, name in enumerate(one.ids.tolist()) if name in row_of}
        rows = np.sort(np.array([row_of[name] for name in candidate_row], np.int64))
        if len(rows) < MIN_EXAMPLES:
            raise InputError(
                where=one.name,
                argument="candidates",
                expected=f"outputs on at least {MIN_EXAMPLES} of the {len(first)} examples of {first.name}",
                found=len(rows),
                hint="Pass its card, or run it on some of the same examples",
            )
        if len(rows) > examples:
            rows = np.sort(np.random.default_rng(seed).choice(rows, examples, replace=False))
        in_order = [candidate_row[name] for name in first.ids[rows].tolist()]
        labelled = first.select(rows)
        aligned = _calibrated(align([labelled, one.select(np.array(in_order))])[1], labelled.require_labels())
        groups.setdefault(rows.tobytes(), (rows, []))[1].append(aligned)
    return list(groups.values())


def _calibrated(outputs: Outputs, labels: np.ndarray) -> Outputs:
    """Return calibrated outputs. If they have no temperature, it is fitted on these examples."""
    if outputs.kind != "logits" or outputs.temperature is not None:
        return outputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # with few examples the temperature may be at its bound
        fit = fit_temperature(outputs.values, labels, outputs.link, outputs.name)
    return replace(outputs, temperature=fit.temperature)


def _rows_from_examples(known: KnownGains, group: Sequence[Outputs], rows: np.ndarray) -> list[dict[str, Any]]:
    """Return rows of the table for candidates with outputs on the same examples."""
    labels = arrays.to_numpy(known.library.labels)[rows]
    candidates = np.stack([arrays.to_numpy(arrays.tensor(one.probabilities, one.name)) for one in group]).astype(np.float64)
    models = np.concatenate([known.read(known.models, rows), candidates]) if known.models else candidates
    sample = sample_features(known.read(known.base, rows).mean(0), models, labels, len(known.base))
    table = []
    for number, one in enumerate(group, len(known.models)):
        kind, accuracy = known.category(one.card), float(sample.accuracy[number])
        prior_only = known.needs_published(one.card)
        measured = sample.features[[*range(len(known.models)), number]]
        prediction, by = _predict(known, one.card, accuracy if prior_only else _card_accuracy(one.card), measured)
        if prior_only or known.is_new(one.card):
            prediction = _with_measured_gain(prediction, sample.gain[number], sample.changed[number], len(rows))
        row = {"model": one.name, "card": one.card, "category": kind, "accuracy": accuracy, "examples": len(rows), "by": by}
        row |= {"disagreement": float(sample.disagreement[number]), "ratio": float(sample.ratio[number])}
        table.append(row | {"prediction": prediction})
    return table


def _with_measured_gain(prior: Prediction, gain: float, changed: float, examples: int) -> Prediction:
    """Combine a prediction with the gain measured on a number of examples, weighted by precision.

    The gain is a mean of -1, 0 and 1; `changed` is the fraction that is not 0. Counting one more changed example keeps its
    variance above 0.
    """
    variance = (changed + 1 / examples) / examples
    prior_weight = variance / (variance + prior.error**2)
    combined = prior_weight * prior.gain + (1 - prior_weight) * gain
    return Prediction(combined, np.sqrt(prior_weight) * prior.error, prior.degrees_of_freedom)
