"""Triage of labelled examples: mislabelled, ambiguous or unfamiliar, judged by models trained on other examples.

An example is likely mislabelled if the models contradict its label, ambiguous if differently trained models disagree, and
out of distribution or corrupt if no model is confident. `diversity.label_noise` computes the probability of a wrong label.
It ranks the examples; how many labels are wrong follows only from labels that people have checked (`label_checks`).

Similar models form one group (`group_models`): thirty seeds of one network count as one opinion, not thirty. A model with
predictions only casts a vote: the predicted class gets the model's accuracy as its probability, and the other classes share
the rest equally.
"""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from diversity._checks import whole_number
from diversity._pair_rows import finite_probabilities
from diversity.categories import CATEGORIES, category
from diversity.label_checks import WrongLabels, count_wrong_labels, read_checked, warn_unless_random
from diversity.label_noise import (
    MAX_ERROR_RATE,
    MIN_PROBABILITY,
    LabelNoise,
    fit_inverse_temperature,
    fit_label_noise,
)
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import softmax
from zoo.core.units import count
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

Kind = Literal["mislabelled", "ambiguous", "unsure", "fine"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MIN_GROUPS = 3
MARGIN_BAND = 0.05  # the margin averages the models whose accuracy is at most this far below the best
FIT_VALUES = 2**25  # models x examples x classes that the fit uses
CHUNK_VALUES = 2**23


@dataclass(frozen=True, eq=False)
class Triage:
    """Examples with the evidence on their labels, one row of `frame` each, the most likely wrong labels first.

    Columns of `frame`: id, kind, label, `suggested` (most likely other class), `wrong` (probability of a wrong label), its
    `log_odds`, `margin` (highest mean probability of another class minus that of the label, over the models that are at most
    5 points less accurate than the best), `against` (fraction of models that predict another class than the label),
    `for_suggested` (fraction of models that predict the suggested class), `split` (fraction of groups that do not predict
    the most common class), `ambiguity` (Jensen-Shannon divergence of the groups' distributions, as a fraction of its
    maximum) and `unsure` (mean entropy of the groups, as a fraction of its maximum).

    The probabilities rank the examples. They are calibrated for labels that are wrong at random, so their sum is no estimate
    of the number of wrong labels: a wrong label of a hard example looks like a mistake of the models. Among the 10,000 test
    images of CIFAR-10 the probabilities of 51 models sum to 2, and people found more than 50 wrong labels. `check` estimates
    the number from labels that people checked.

    Rows are sorted by `log_odds`, which finds labels that were flipped at random better than `margin` does. For labels that
    people contradict (CIFAR-10H), neither is significantly better than the other, or than 1 - mean probability of the same
    models (`tests/benchmarks/triage_people.py`).
    """

    frame: "pandas.DataFrame"
    groups: dict[str, tuple[str, ...]]  # names of each group's models
    weights: dict[str, float]  # of the groups
    confusion: "pandas.DataFrame"  # T: probability of each label (column) given the true class (row)
    dataset: str | None = None
    ids: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, str))  # [N] in the order of the dataset
    wrong_labels: WrongLabels | None = None  # None unless labels were checked

    def sample(self, count: int = 400, seed: int = 0) -> "pandas.DataFrame":
        """Return a simple random sample of examples to check, in random order: their ids and labels.

        The first k examples are a simple random sample too, so checking may stop early. The draw does not depend on the
        models. Suggested classes are left out, since they would influence the person who checks.

        Args:
            count: number of examples.
            seed: random seed of the draw.
        """
        examples = len(self.frame)
        if whole_number(count, "count") > examples:
            raise InputError(argument="count", expected=f"at most the number of examples, {examples}", found=count)
        by_id = self.frame[["id", "label"]].sort_values("id", kind="stable", ignore_index=True)
        rows = np.random.default_rng(arrays.seed(seed)).permutation(examples)[:count]
        return by_id.iloc[rows].reset_index(drop=True)

    def check(self, checked: ArrayLike | Array | Mapping[Any, object]) -> "Triage":
        """Return this result with the estimated number of wrong labels, `wrong_labels`.

        Args:
            checked: labels that people checked, a simple random sample such as `sample` returns: a mapping from example ids,
                or [N] in the order of the dataset. An entry is the correct class (its name or number) or a boolean: whether
                the label is correct. None, NaN, an empty text or -1 stand for a label that was not checked.
        """
        by_id = self.frame.set_index("id").loc[self.ids]
        classes = list(self.confusion.index)
        number_of = {name: number for number, name in enumerate(classes)}
        labels = np.array([number_of[name] for name in by_id["label"]])
        found = read_checked(checked, self.ids.tolist(), labels, classes)
        warn_unless_random(list(found), by_id["log_odds"].to_numpy())
        counted = count_wrong_labels(sum(found.values()), len(found), len(labels))
        return dataclasses.replace(self, wrong_labels=counted)

    def of_kind(self, kind: Kind) -> "pandas.DataFrame":
        """Return the examples of a kind, sorted by log-odds of a wrong label, ambiguity or unsureness."""
        if kind not in KINDS:
            raise InputError(argument="kind", expected=f"one of {', '.join(KINDS)}", found=kind)
        by = {"ambiguous": "ambiguity", "unsure": "unsure"}.get(kind, "log_odds")
        chosen = self.frame[self.frame["kind"] == kind]
        return chosen.sort_values(by, ascending=False, kind="stable", ignore_index=True)

    def counts(self) -> dict[str, int]:
        """Return the number of examples of each kind."""
        return {kind: int((self.frame["kind"] == kind).sum()) for kind in KINDS}

    def __str__(self) -> str:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in self.counts().items())
        checked = "" if self.wrong_labels is None else f"; {self.wrong_labels}"
        return f"{count(len(self.frame), 'example')}: {kinds}{checked}"


def triage(
    runs: Runs | Mapping[str, Outputs],
    labels: ArrayLike | Array | None = None,
    groups: Sequence[object] | None = None,
    checked: ArrayLike | Array | Mapping[Any, object] | None = None,
) -> Triage:
    """Find examples that are mislabelled, ambiguous, or unlike anything the models know.

    An example is *mislabelled* if the probability of a wrong label is above one half and most groups predict the suggested
    class; else *unsure* if the groups' mean confidence is below one half; else *ambiguous* if fewer than two thirds of the
    groups predict the same class, or if most models contradict the label; else *fine*. The equations are in
    `diversity.label_noise`.

    Args:
        runs: outputs of at least two models on examples that none of them was trained on: a network does not contradict a
            wrong label that it has memorised. Outputs without a temperature get one that is fitted to these labels, assuming
            that some of them are random. A model with predictions only votes.
        labels: [N] given labels; default: the labels of the runs.
        groups: [M] the group of each model; default: `group_models`.
        checked: labels that people checked, a simple random sample, as in `Triage.check`. With them, the number of wrong
            labels is estimated.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, 1000)
    >>> runs = Runs(Outputs.from_arrays(n, logits=9 * np.eye(4)[y] + 3 * rng.normal(size=(1000, 4))) for n in "abc")
    >>> given = np.where(np.arange(1000) < 10, (y + 1) % 4, y)
    >>> found = triage(runs, given)
    >>> sorted(int(row) for row in found.frame["id"][:10]), found.counts()["mislabelled"]
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 10)
    """
    import pandas

    runs = Runs(runs).aligned()
    if len(runs) < 2:
        raise InputError(argument="runs", expected="outputs of at least two models", found=len(runs))
    members = list(runs.values())
    first = members[0]
    y = arrays.to_numpy(checks.labels(runs.labels if labels is None else labels, len(first.classes), len(first)))
    if len(first.classes) < 2:
        raise InputError(where=first.name, expected="at least two classes", found=len(first.classes))
    _check_unseen(members)
    names = _group_names(members, groups)
    places = [[m for m, name in enumerate(names) if name == group] for group in dict.fromkeys(names)]
    chosen = _rows_to_fit(members)
    models = [_fit_model(outputs, chosen, y) for outputs in members]
    probs, predicted = _read(models, chosen)
    accuracy = (predicted == y[chosen]).mean(1)
    accurate = np.flatnonzero(accuracy >= accuracy.max() - MARGIN_BAND)
    noise = fit_label_noise(_group_log_probs(probs, places), y[chosen])
    evidence = [
        _evidence(*_read(models, rows), places, accurate, y[rows], noise)
        for rows in _chunks(len(y), len(members) * len(first.classes))
    ]
    columns = {name: np.concatenate([part[name] for part in evidence]) for name in evidence[0]}
    against = float(columns["against"].mean())
    if against > MAX_ERROR_RATE:
        raise InputError(
            f"the models contradict {against:.0%} of the labels",
            where=first.dataset if labels is None else None,
            argument=None if labels is None else "labels",
            hint="Check that the models know these classes, and that labels and examples are in the same order",
        )
    classes = np.array(first.classes, object)
    frame = pandas.DataFrame(
        {
            "id": first.ids,
            "kind": _kinds(columns),
            "label": classes[y],
            "suggested": classes[columns.pop("other")],
            **{name: values for name, values in columns.items() if name not in ("confidence", "groups_for")},
        }
    ).sort_values("log_odds", ascending=False, kind="stable", ignore_index=True)
    group_names = list(dict.fromkeys(names))
    result = Triage(
        frame,
        {name: tuple(members[m].name for m in place) for name, place in zip(group_names, places, strict=True)},
        dict(zip(group_names, noise.weights.tolist(), strict=True)),
        pandas.DataFrame(noise.confusion, index=list(first.classes), columns=list(first.classes)),
        first.dataset,
        first.ids,
    )
    return result if checked is None else result.check(checked)


def group_models(models: Sequence[Outputs]) -> list[str]:
    """Return the group [M] of each model by its card, named after the group's first model.

    Models of the same dataset, framework and architecture family form a group. If that gives fewer than three groups, only
    models that differ in nothing but their seed do. If there are still fewer than three, every model is a group of its own,
    as a model without a card always is.
    """
    for level in ("hparam", "reinit"):
        within_group = CATEGORIES[: CATEGORIES.index(level) + 1]
        firsts: list[Outputs] = []  # the first model of each group
        names = []
        for model in models:
            same = (o for o in firsts if o.card and model.card and category(o.card, model.card) in within_group)
            first = next(same, None)
            if first is None:
                firsts.append(model)
            names.append((first or model).name)
        if len(firsts) >= min(MIN_GROUPS, len(models)):
            return names
    return [model.name for model in models]


def _group_names(members: list[Outputs], groups: Sequence[object] | None) -> list[str]:
    if groups is None:
        return group_models(members)
    if len(groups) != len(members):
        raise InputError(argument="groups", expected=f"{len(members)} groups, one per model", found=len(groups))
    return [str(group) for group in groups]


def _check_unseen(members: list[Outputs]) -> None:
    """Warn if a model's card says that the model was trained on these examples."""
    for outputs in members:
        training_set = f"{outputs.card.dataset}:train" if outputs.card else None
        if training_set and outputs.dataset and outputs.dataset.partition("[")[0] == training_set:
            warnings.warn(
                f"{outputs.name} was trained on {training_set} and may have memorised wrong labels; use models that were "
                "trained on other examples (zoo train --data SPEC[start:stop])",
                ZooWarning,
                stacklevel=3,
            )
            return


def _chunks(rows: int, values_per_row: int) -> list[slice]:
    step = max(1, CHUNK_VALUES // values_per_row)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _rows_to_fit(members: list[Outputs]) -> np.ndarray:
    """Return the rows to fit on: all, or as many evenly spaced ones as `FIT_VALUES` allows."""
    examples = len(members[0])
    most = max(2, FIT_VALUES // (len(members) * len(members[0].classes)))
    return np.unique(np.linspace(0, examples - 1, min(most, examples)).astype(int))


@dataclass(frozen=True, eq=False)
class _Model:
    """Outputs, and how they become probabilities: by an inverse temperature, or by the accuracy of votes."""

    outputs: Outputs
    inverse_temperature: float = 1.0
    votes: np.ndarray | None = None  # [N] predictions of a model without probabilities
    accuracy: float = 0.0  # of the votes, estimated on the given labels


def _fit_model(outputs: Outputs, chosen: np.ndarray, y: np.ndarray) -> _Model:
    """Fit a model's probabilities to the labels of the chosen rows. A calibrated model keeps its temperature."""
    if outputs.kind == "predictions":
        votes = outputs.predictions
        cast = votes[chosen] != arrays.NO_PREDICTION
        hits = (votes[chosen] == y[chosen]).sum()
        return _Model(outputs, votes=votes, accuracy=float((hits + 1) / (cast.sum() + 2)))
    if outputs.temperature is not None:
        return _Model(outputs)
    raw = _read([_Model(outputs)], chosen)[0][0]
    return _Model(outputs, fit_inverse_temperature(raw, y[chosen]))


def _read(models: list[_Model], rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities [M, n, K] and the predictions [M, n] of all models on some rows."""
    probs, predicted = [], []
    for model in models:
        outputs, power = model.outputs, model.inverse_temperature
        if model.votes is not None:
            votes = model.votes[rows]
            p = _vote_probabilities(votes, len(outputs.classes), model.accuracy)
        else:
            is_slice = isinstance(rows, slice)
            read = finite_probabilities(outputs, rows) if is_slice else outputs.probabilities_at(rows)
            p = arrays.to_numpy(read).astype(np.float64)
            p = p if power == 1 else softmax(power * np.log(np.maximum(p, MIN_PROBABILITY)))
            votes = p.argmax(1)
        probs.append(p)
        predicted.append(votes)
    return np.stack(probs), np.stack(predicted)


def _vote_probabilities(votes: np.ndarray, classes: int, accuracy: float) -> np.ndarray:
    """Return probabilities [n, K]: the accuracy for the predicted class; uniform where there is no prediction."""
    p = np.full((len(votes), classes), (1 - accuracy) / (classes - 1))
    cast = votes != arrays.NO_PREDICTION
    p[np.flatnonzero(cast), votes[cast]] = accuracy
    p[~cast] = 1 / classes
    return p


def _group_log_probs(probs: np.ndarray, places: list[list[int]]) -> np.ndarray:
    """Return the logarithms [G, n, K] of the groups' mean probabilities."""
    return np.log(np.maximum(np.stack([probs[place].mean(0) for place in places]), MIN_PROBABILITY))


def _evidence(
    probs: np.ndarray, predicted: np.ndarray, places: list[list[int]], accurate: np.ndarray, y: np.ndarray, noise: LabelNoise
) -> dict[str, np.ndarray]:
    """Return the columns of the table for n examples, by name; `accurate` holds the models that the margin averages."""
    from scipy.special import expit, xlogy

    log_probs = _group_log_probs(probs, places)
    classes = probs.shape[2]
    cast = predicted != arrays.NO_PREDICTION
    group_cast = np.stack([cast[place].any(0) for place in places])
    by_group = np.where(group_cast, log_probs.argmax(2), arrays.NO_PREDICTION)
    odds, other = noise.odds(log_probs, y)
    votes = np.zeros((len(y), classes + 1))  # the last column counts groups without a prediction
    for group in by_group:
        votes[np.arange(len(y)), group] += 1
    p = np.exp(log_probs)
    entropy = -(p * log_probs).sum(2).mean(0)
    mixture = p.mean(0)
    divergence = -xlogy(mixture, mixture).sum(1) - entropy
    return {
        "other": other,
        "wrong": expit(odds),
        "log_odds": odds,
        "margin": margins(probs[accurate].mean(0), y),
        "against": ((predicted != y) & cast).sum(0) / np.maximum(cast.sum(0), 1),
        "for_suggested": (predicted == other).sum(0) / np.maximum(cast.sum(0), 1),
        "split": 1 - votes[:, :classes].max(1) / np.maximum(group_cast.sum(0), 1),
        "ambiguity": np.maximum(divergence, 0) / np.log(max(2, min(len(places), classes))),
        "unsure": entropy / np.log(classes),
        "confidence": p.max(2).mean(0),
        "groups_for": (by_group == other).mean(0),
    }


def margins(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the highest probability of another class minus the probability of the label [N].

    Args:
        probs: [N, K] probabilities.
        labels: [N] given labels.

    >>> margins(np.array([[0.5, 0.3, 0.2]]), np.array([1])).round(3).tolist()
    [0.2]
    """
    rows = np.arange(len(labels))
    others = probs.copy()
    others[rows, labels] = -np.inf
    return others.max(1) - probs[rows, labels]


def _kinds(columns: dict[str, np.ndarray]) -> np.ndarray:
    mislabelled = (columns["wrong"] > 0.5) & (columns["groups_for"] > 0.5)
    # Not `mislabelled`: most models contradict 1,118 labels of CIFAR-10's test set, people only 50 of these.
    contradicted = columns["against"] > 0.5
    return np.select(
        [mislabelled, columns["confidence"] < 0.5, (columns["split"] > 1 / 3) | contradicted],
        np.array(["mislabelled", "unsure", "ambiguous"], object),
        "fine",
    )
