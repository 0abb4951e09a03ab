"""Triage of labelled examples: mislabelled, ambiguous or unfamiliar, judged by models trained on other examples.

An example is likely mislabelled if the models contradict its label, ambiguous if differently trained models disagree, and
out of distribution or corrupt if no model is confident. `diversity.label_noise` computes the probability of a wrong label.

Models of one kind form one group (`group_models`): thirty seeds of one network count as one opinion, not thirty.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from diversity._pair_rows import probabilities
from diversity.categories import CATEGORIES, category
from diversity.label_noise import (
    MAX_ERROR_RATE,
    MIN_PROBABILITY,
    LabelNoise,
    fit_inverse_temperature,
    fit_label_noise,
)
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

Kind = Literal["mislabelled", "ambiguous", "unsure", "fine"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MIN_GROUPS = 3
FIT_VALUES = 2**25  # models x examples x classes that the fit uses
CHUNK_VALUES = 2**23


@dataclass(frozen=True, eq=False)
class Triage:
    """Examples with their evidence, one row of `frame` each, sorted by the probability of a wrong label, highest first.

    Columns of `frame`: id, kind, label, `suggested` (most likely other class), `wrong` (probability of a wrong label), its
    `log_odds`, `against` (fraction of models that predict another class than the label), `for_suggested` (fraction of
    models that predict the suggested class), `split` (fraction of groups that do not predict the most common class),
    `ambiguity` (Jensen-Shannon divergence of the groups' distributions, as a fraction of its maximum) and `unsure` (mean
    entropy of the groups, as a fraction of its maximum).
    """

    frame: "pandas.DataFrame"
    groups: dict[str, tuple[str, ...]]  # names of each group's models
    weights: dict[str, float]  # of the groups
    confusion: "pandas.DataFrame"  # T: probability of each label (column) given the true class (row)
    dataset: str | None = None

    @property
    def expected_wrong(self) -> tuple[float, float, float]:
        """Expected number of wrong labels and the ends of its 95% interval, if the probabilities are calibrated."""
        p = self.frame["wrong"].to_numpy()
        half = 1.96 * float(np.sqrt((p * (1 - p)).sum()))
        return float(p.sum()), max(0.0, float(p.sum()) - half), float(p.sum()) + half

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
        count, low, high = self.expected_wrong
        found = ", ".join(f"{number:,} {kind}" for kind, number in self.counts().items())
        return f"{len(self.frame):,} examples: {found}; about {count:.0f} labels are wrong (95% CI {low:.0f} to {high:.0f})"


def triage(
    runs: Runs | Mapping[str, Outputs],
    labels: ArrayLike | Array | None = None,
    groups: Sequence[object] | None = None,
) -> Triage:
    """Find examples that are mislabelled, ambiguous, or unlike anything the models know.

    An example is *mislabelled* if the probability of a wrong label is above one half and most groups predict the suggested
    class; else *unsure* if the groups' mean confidence is below one half; else *ambiguous* if fewer than two thirds of the
    groups predict the same class; else *fine*. The equations are in `diversity.label_noise`.

    Args:
        runs: outputs of at least two models on examples that none of them was trained on: a network does not contradict a
            wrong label that it has memorised. Outputs without a temperature get one that is fitted to these labels, assuming
            that some of them are random.
        labels: [N] given labels; default: those of the runs.
        groups: [M] the group of each model; default: `group_models`.

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
    y = arrays.to_numpy(arrays.labels(runs.labels if labels is None else labels, len(first.classes), len(first)))
    if len(first.classes) < 2:
        raise InputError(where=first.name, expected="at least two classes", found=len(first.classes))
    _check_unseen(members)
    names = _group_names(members, groups)
    places = [[m for m, name in enumerate(names) if name == group] for group in dict.fromkeys(names)]
    chosen, powers = _fit_powers(members, y)
    noise = fit_label_noise(arrays.to_numpy(_group_log_probs(_read(members, chosen, powers), places)), y[chosen])
    evidence = [
        _evidence(_read(members, rows, powers), places, y[rows], noise)
        for rows in _chunks(len(y), len(members) * len(first.classes))
    ]
    columns = {name: np.concatenate([part[name] for part in evidence]) for name in evidence[0]}
    against = float(columns["against"].mean())
    if against > MAX_ERROR_RATE:
        raise InputError(
            f"the models contradict {against:.0%} of the labels",
            argument="labels",
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
    return Triage(
        frame,
        {name: tuple(members[m].name for m in place) for name, place in zip(group_names, places, strict=True)},
        dict(zip(group_names, noise.weights.tolist(), strict=True)),
        pandas.DataFrame(noise.confusion, index=list(first.classes), columns=list(first.classes)),
        first.dataset,
    )


def group_models(models: Sequence[Outputs]) -> list[str]:
    """Return the group [M] of each model by its card, named after the group's first model.

    Models of the same dataset, framework and architecture family form a group. If that makes fewer than three groups, models
    that differ only in their seed do. If these are still too few, or without cards, every model is a group of its own.
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


def _fit_powers(members: list[Outputs], y: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Return the rows to fit on, evenly spaced, and each model's inverse temperature there; 1 if it is calibrated."""
    most = max(2, FIT_VALUES // (len(members) * len(members[0].classes)))
    chosen = np.unique(np.linspace(0, len(y) - 1, min(most, len(y))).astype(int))
    raw = [None if o.temperature is not None else arrays.to_numpy(_read([o], chosen, [1.0])[0]) for o in members]
    powers = [1.0 if p is None else fit_inverse_temperature(p, y[chosen]) for p in raw]
    return chosen, powers


def _read(members: list[Outputs], rows: Any, powers: Sequence[float]) -> Tensor:
    """Return the probabilities [M, n, K] of all models, raised to their powers."""
    found = []
    for outputs, power in zip(members, powers, strict=True):
        is_slice = isinstance(rows, slice)
        p = probabilities(outputs, rows) if is_slice else arrays.tensor(outputs.probabilities_at(rows), outputs.name)
        p = p.double().cpu()
        found.append(p if power == 1 else torch.softmax(power * p.clamp(min=MIN_PROBABILITY).log(), 1))
    return torch.stack(found)


def _group_log_probs(probs: Tensor, places: list[list[int]]) -> Tensor:
    """Return the logarithms [G, n, K] of the groups' mean probabilities."""
    return torch.stack([probs[place].mean(0) for place in places]).clamp(min=MIN_PROBABILITY).log()


def _evidence(probs: Tensor, places: list[list[int]], y: np.ndarray, noise: LabelNoise) -> dict[str, np.ndarray]:
    """Return the columns of the table for n examples, by name."""
    from scipy.special import expit

    log_probs = _group_log_probs(probs, places)
    predicted, by_group = arrays.to_numpy(probs.argmax(2)), arrays.to_numpy(log_probs.argmax(2))
    odds, other = noise.odds(arrays.to_numpy(log_probs), y)
    classes = probs.shape[2]
    votes = np.stack([np.bincount(column, minlength=classes).max() for column in by_group.T]) / len(places)
    p = log_probs.exp()
    entropy = -(p * log_probs).sum(2).mean(0)
    mixture = p.mean(0)
    divergence = -torch.special.xlogy(mixture, mixture).sum(1) - entropy
    return {
        "other": other,
        "wrong": expit(odds),
        "log_odds": odds,
        "against": (predicted != y).mean(0),
        "for_suggested": (predicted == other).mean(0),
        "split": 1 - votes,
        "ambiguity": arrays.to_numpy(divergence.clamp(min=0)) / np.log(max(2, min(len(places), classes))),
        "unsure": arrays.to_numpy(entropy) / np.log(classes),
        "confidence": arrays.to_numpy(p.amax(2).mean(0)),
        "groups_for": (by_group == other).mean(0),
    }


def _kinds(columns: dict[str, np.ndarray]) -> np.ndarray:
    mislabelled = (columns["wrong"] > 0.5) & (columns["groups_for"] > 0.5)
    return np.select(
        [mislabelled, columns["confidence"] < 0.5, columns["split"] > 1 / 3],
        np.array(["mislabelled", "unsure", "ambiguous"], object),
        "fine",
    )
