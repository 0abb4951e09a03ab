"""What is wrong with these examples? Models that learnt elsewhere, held against the labels that people gave.

All models against the label: likely mislabelled. Models that split by how they were trained: ambiguous. No model sure:
out of distribution, or corrupt. How likely a label is wrong is a question for `diversity.label_noise`.

Models of one kind are one group (`group_models`): thirty seeds of one network are one opinion, not thirty.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from diversity._pair_rows import probabilities
from diversity.categories import CATEGORIES, category
from diversity.label_noise import FLOOR, MOST_WRONG, LabelNoise, believable_power, fit_label_noise
from zoo.core import arrays
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

Kind = Literal["mislabelled", "ambiguous", "unsure", "fine"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ENOUGH_GROUPS = 3
FIT_NUMBERS = 2**25  # of models x examples x classes that the fit looks at
CHUNK_NUMBERS = 2**23


@dataclass(frozen=True, eq=False)
class Triage:
    """Every example with its evidence, one row of `frame` each, from the likeliest wrong label to the least likely.

    Columns: id, kind, label, `suggested` (the likeliest other class), `wrong` (the chance that the label is wrong) and its
    log-odds, `against` (the share of models that answer something else), `for_suggested` (that answer it), `split` (the
    share of groups that do not give the most common answer), `ambiguity` (how much the groups' distributions differ:
    their Jensen-Shannon divergence, as a share of the most it can be) and `unsure` (the groups' mean entropy, likewise).
    """

    frame: "pandas.DataFrame"
    groups: dict[str, tuple[str, ...]]  # the models of each
    weights: dict[str, float]
    confusion: "pandas.DataFrame"  # T
    dataset: str | None = None

    @property
    def expected_wrong(self) -> tuple[float, float, float]:
        """How many labels are wrong, with the ends of a 95% interval, if the chances are right."""
        p = self.frame["wrong"].to_numpy()
        half = 1.96 * float(np.sqrt((p * (1 - p)).sum()))
        return float(p.sum()), max(0.0, float(p.sum()) - half), float(p.sum()) + half

    def of_kind(self, kind: Kind) -> "pandas.DataFrame":
        """The examples of a kind, by the evidence for it: wrong, ambiguity, or unsure."""
        if kind not in KINDS:
            raise InputError(f"kind: expected one of {', '.join(KINDS)}, found {kind!r}")
        by = {"ambiguous": "ambiguity", "unsure": "unsure"}.get(kind, "log_odds")
        chosen = self.frame[self.frame["kind"] == kind]
        return chosen.sort_values(by, ascending=False, kind="stable", ignore_index=True)

    def counts(self) -> dict[str, int]:
        """How many examples there are of each kind."""
        return {kind: int((self.frame["kind"] == kind).sum()) for kind in KINDS}

    def __str__(self) -> str:
        count, low, high = self.expected_wrong
        found = ", ".join(f"{number:,} {kind}" for kind, number in self.counts().items())
        return f"{len(self.frame):,} examples: {found}; about {count:.0f} labels are wrong ({low:.0f} to {high:.0f})"


def triage(runs: Runs | Mapping[str, Outputs], labels: Any = None, groups: Sequence[Any] | None = None) -> Triage:
    """Which labels are likely wrong, which examples ambiguous, which unlike anything the models know.

    `runs` are of at least two models on examples that none of them was trained on: a network that learnt a wrong label by
    heart sees nothing wrong with it. `labels` [N] default to the runs' own. `groups` [M] say which models are of one kind,
    by default `group_models`. `diversity.label_noise` has the equations. Outputs without a temperature get one here, fitted
    to these labels as a mixture of right and random ones.

    An example is *mislabelled* where the chance of a wrong label is above one half and most groups answer the suggested
    class; else *unsure* where the groups' mean confidence is below one half; else *ambiguous* where no class is the answer
    of two thirds of the groups; else *fine*.

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
        raise InputError(f"triage: expected at least two models to hold against the labels, found {len(runs)}")
    members = list(runs.values())
    first = members[0]
    y = arrays.to_numpy(arrays.labels(runs.labels if labels is None else labels, len(first.classes), len(first)))
    if len(first.classes) < 2:
        raise InputError(f"{first.name}: expected at least two classes, found {len(first.classes)}")
    _check_unseen(members)
    names = _group_names(members, groups)
    places = [[m for m, name in enumerate(names) if name == group] for group in dict.fromkeys(names)]
    chosen, powers = _sample(members, y)
    noise = fit_label_noise(arrays.to_numpy(_grouped(_read(members, chosen, powers), places)), y[chosen])
    evidence = [
        _evidence(_read(members, rows, powers), places, y[rows], noise)
        for rows in _chunks(len(y), len(members) * len(first.classes))
    ]
    columns = {name: np.concatenate([part[name] for part in evidence]) for name in evidence[0]}
    against = float(columns["against"].mean())
    if against > MOST_WRONG:
        raise InputError(
            f"the models contradict {against:.0%} of the labels: they do not know these classes, or labels and examples are "
            "not in the same order; check both"
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
    called = list(dict.fromkeys(names))
    return Triage(
        frame,
        {name: tuple(members[m].name for m in place) for name, place in zip(called, places, strict=True)},
        dict(zip(called, noise.weights.tolist(), strict=True)),
        pandas.DataFrame(noise.confusion, index=list(first.classes), columns=list(first.classes)),
        first.dataset,
    )


def group_models(models: Sequence[Outputs]) -> list[str]:
    """[M] the group of each model by its card: the coarsest kinds of training difference that leave at least three groups.

    Models of one dataset, framework and architecture family are one group; where that makes fewer than three, models alike
    in all but the seed; else, and without cards, every model is its own.
    """
    for level in ("hparam", "reinit"):
        near = CATEGORIES[: CATEGORIES.index(level) + 1]
        found: list[Outputs] = []
        names = []
        for one in models:
            same = next((o for o in found if o.card and one.card and category(o.card, one.card) in near), None)
            if same is None:
                found.append(one)
            names.append((same or one).name)
        if len(found) >= min(ENOUGH_GROUPS, len(models)):
            return names
    return [one.name for one in models]


def _group_names(members: list[Outputs], groups: Sequence[Any] | None) -> list[str]:
    if groups is None:
        return group_models(members)
    if len(groups) != len(members):
        raise InputError(f"groups: expected {len(members)}, one per model, found {len(groups)}")
    return [str(group) for group in groups]


def _check_unseen(members: list[Outputs]) -> None:
    """A warning where a model's card says that it was trained on these very examples."""
    for outputs in members:
        seen = f"{outputs.card.dataset}:train" if outputs.card else None
        if seen and outputs.dataset and outputs.dataset.partition("[")[0] == seen:
            warnings.warn(
                f"{outputs.name}: was trained on {seen}, and what it learnt by heart it will not call wrong; take models "
                "trained on other examples (zoo train --data SPEC[start:stop])",
                ZooWarning,
                stacklevel=3,
            )
            return


def _chunks(rows: int, numbers: int) -> list[slice]:
    step = max(1, CHUNK_NUMBERS // numbers)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _sample(members: list[Outputs], y: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """As many examples as the fit can take, evenly spaced, and the power that makes each model's probabilities fit there."""
    most = max(2, FIT_NUMBERS // (len(members) * len(members[0].classes)))
    chosen = np.unique(np.linspace(0, len(y) - 1, min(most, len(y))).astype(int))
    raw = [None if o.temperature is not None else arrays.to_numpy(_read([o], chosen, [1.0])[0]) for o in members]
    powers = [1.0 if p is None else believable_power(p, y[chosen]) for p in raw]
    return chosen, powers


def _read(members: list[Outputs], rows: Any, powers: Sequence[float]) -> Tensor:
    """[M, n, K] probabilities of all models, at their temperature or power."""
    found = []
    for outputs, power in zip(members, powers, strict=True):
        whole = isinstance(rows, slice)
        p = probabilities(outputs, rows) if whole else arrays.tensor(outputs.probabilities_at(rows), outputs.name)
        p = p.double().cpu()
        found.append(p if power == 1 else torch.softmax(power * p.clamp(min=FLOOR).log(), 1))
    return torch.stack(found)


def _grouped(probs: Tensor, places: list[list[int]]) -> Tensor:
    """[G, n, K] logarithms of the groups' mean probabilities."""
    return torch.stack([probs[place].mean(0) for place in places]).clamp(min=FLOOR).log()


def _evidence(probs: Tensor, places: list[list[int]], y: np.ndarray, noise: LabelNoise) -> dict[str, np.ndarray]:
    """Of n examples all that a row of the table says, by name."""
    from scipy.special import expit

    log_probs = _grouped(probs, places)
    said, answers = arrays.to_numpy(probs.argmax(2)), arrays.to_numpy(log_probs.argmax(2))
    odds, other = noise.odds(arrays.to_numpy(log_probs), y)
    classes = probs.shape[2]
    votes = np.stack([np.bincount(column, minlength=classes).max() for column in answers.T]) / len(places)
    p = log_probs.exp()
    entropy = -(p * log_probs).sum(2).mean(0)
    mixture = p.mean(0)
    divergence = -torch.special.xlogy(mixture, mixture).sum(1) - entropy
    return {
        "other": other,
        "wrong": expit(odds),
        "log_odds": odds,
        "against": (said != y).mean(0),
        "for_suggested": (said == other).mean(0),
        "split": 1 - votes,
        "ambiguity": arrays.to_numpy(divergence.clamp(min=0)) / np.log(max(2, min(len(places), classes))),
        "unsure": arrays.to_numpy(entropy) / np.log(classes),
        "confidence": arrays.to_numpy(p.amax(2).mean(0)),
        "groups_for": (answers == other).mean(0),
    }


def _kinds(columns: dict[str, np.ndarray]) -> np.ndarray:
    mislabelled = (columns["wrong"] > 0.5) & (columns["groups_for"] > 0.5)
    return np.select(
        [mislabelled, columns["confidence"] < 0.5, columns["split"] > 1 / 3],
        np.array(["mislabelled", "unsure", "ambiguous"], object),
        "fine",
    )
