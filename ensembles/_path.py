"""What a greedy search found: the whole path, the best ensemble on it, and that ensemble as a model card."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from diversity.categories import category
from ensembles._library import Name
from zoo.cards.card import Card, EnsembleMember, Framework, Training, read, write
from zoo.cards.names import check_user_name, shared_ending
from zoo.core import files, home
from zoo.errors import InputError
from zoo.models import membership, registry
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

WIDTH = 80
# What to say of a path that ends where it starts, by what ended it.
NOTHING_ADDED = {
    "candidates": "nothing was added: no candidate is left beside the start",
    "budget": "nothing was added: beside the start no candidate fits the budget",
    "gain": "nothing was added: no candidate improves on the start",
    "bags": "every bag chose the same one model",
}


def categories(members: Sequence[Name], runs: Runs | None) -> list[str | None]:
    """The category of each member against the first: the outermost difference in how the two were trained."""
    cards = [None if runs is None else runs[str(name)].card for name in members]
    return [None if card is None or cards[0] is None or i == 0 else category(cards[0], card) for i, card in enumerate(cards)]


@dataclass(frozen=True, eq=False)
class Path:
    """Ensembles of growing size: with `members[i]` added, `score[i]` on the selection split and `test_score[i]` on the test.

    The first `start` members are the base, or without one the best single model; the others were added. The best ensemble
    is the first `best` members, the shortest prefix with the best selection score; `weights` are its members' shares (by
    name for Runs; [M] for arrays, so that `average(probs, path.weights)` is it). `test_gains[i]` is how much better the
    first i + 1 members are than the start on the test split, with 95% `intervals`; `gain` and `interval` are those of the
    best ensemble. Positive gains are better, for losses too. All are None without a test split. Of a bagged search,
    `members` are ordered by weight, all belong to the ensemble, and `bags` holds the single searches.
    """

    members: list[Name]
    score: list[float]
    test_score: list[float] | None
    weights: dict[str, float] | np.ndarray
    best: int
    start: int
    objective: str
    test_gains: list[float] | None
    intervals: list[tuple[float, float] | None] | None  # None inside: a user's own function, except for the best
    costs: list[float] | None = None  # of the ensembles, where the search had a budget
    settings: dict[str, Any] = field(default_factory=dict)
    bags: tuple["Path", ...] = ()
    runs: Runs | None = field(default=None, repr=False)

    @property
    def best_score(self) -> float:
        """The best ensemble's score on the selection split, which the search has fitted."""
        return self.score[self.best - 1]

    @property
    def best_test_score(self) -> float | None:
        """The best ensemble's score on the test split."""
        return None if self.test_score is None else self.test_score[self.best - 1]

    @property
    def gain(self) -> float | None:
        """What the best ensemble gains on the test split over the start."""
        return None if self.test_gains is None else self.test_gains[self.best - 1]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the gain: paired bootstrap over the test examples."""
        return None if self.intervals is None else self.intervals[self.best - 1]

    @property
    def within_noise(self) -> bool:
        """Whether something was added, and its gain on the test split may be none."""
        return self.interval is not None and self.best > self.start and self.interval[0] <= 0

    def noise(self) -> str:
        """A gain within noise, in words."""
        (low, high), gain = cast("tuple[float, float]", self.interval), cast(float, self.gain)
        digits = max(2, 1 - math.floor(math.log10(max(abs(low), abs(high), 1e-4))))
        return (
            f"the gain in {self.objective} on the test split, {gain:+.{digits}f} over the start, is within noise "
            f"(95% interval {low:+.{digits}f} to {high:+.{digits}f})"
        )

    @property
    def categories(self) -> list[str | None]:
        """How each member's training differs from the first one's; None where a card is missing."""
        return categories(self.members, self.runs)

    def to_frame(self) -> "pd.DataFrame":
        """One row per member: category against the first, scores, test gain and interval, whether it is in the best."""
        import pandas as pd

        columns = {
            "step": range(1, len(self.members) + 1),
            "model": self.members,
            "category": self.categories,
            "selection": self.score,
            "test": [np.nan] * len(self.score) if self.test_score is None else self.test_score,
            "gain": [np.nan] * len(self.score) if self.test_gains is None else self.test_gains,
            "low": [np.nan if interval is None else interval[0] for interval in self._intervals()],
            "high": [np.nan if interval is None else interval[1] for interval in self._intervals()],
            "in_best": [step < self.best for step in range(len(self.members))],
        }
        return pd.DataFrame(columns if self.costs is None else columns | {"cost": self.costs})

    def to_dict(self) -> dict[str, Any]:
        """Everything but the outputs, in plain types."""
        weights = self.weights
        return {
            "members": list(self.members),
            "categories": self.categories,
            "score": list(self.score),
            "test_score": None if self.test_score is None else list(self.test_score),
            "pretrained": weights
            if isinstance(weights, dict)
            else {str(m): float(weights[m]) for m in np.flatnonzero(weights)},
            "test_gains": self.test_gains,
            "intervals": self.intervals,
            "best": self.best,
            "start": self.start,
            "objective": self.objective,
            "gain": self.gain,
            "interval": self.interval,
            "costs": self.costs,
            "settings": dict(self.settings),
        }

    def __str__(self) -> str:
        return "\n".join([*table(self._columns()), *self.summary()])

    def _columns(self) -> dict[str, list[str]]:
        """The table as text, by column, with what is not known left out."""
        marks = ["*" if step + 1 == self.best else " " for step in range(len(self.members))]
        columns = {
            "step": [f"{step + 1}{mark}" for step, mark in enumerate(marks)],
            "model": [str(name) for name in self.members],
            "category": [category or "–" for category in self.categories],
            "select": [f"{score:.4f}" for score in self.score],
        }
        if self.bags:
            weights = self.weights
            columns["weight"] = [f"{weights[name]:.3f}" for name in self.members]  # type: ignore[index]
        if self.test_score is not None and self.test_gains is not None:
            columns["test"] = [f"{score:.4f}" for score in self.test_score]
            columns["gain"] = [f"{gain:+.3f}" for gain in self.test_gains]
            columns["95% interval"] = [f"{i[0]:+.3f} {i[1]:+.3f}" if i else "–" for i in self._intervals()]
        if self.costs is not None:
            columns["cost"] = [f"{cost:.3g}" for cost in self.costs]
        return columns

    def _intervals(self) -> list[tuple[float, float] | None]:
        return self.intervals or [None] * len(self.members)

    def summary(self) -> list[str]:
        """The lines below the table: what the best ensemble is and what it gains."""
        searched, unseen = self.settings.get("selection_examples"), self.settings.get("test_examples")
        models, picks = len(set(self.members[: self.best])), self.best
        size = f"{models} model{'s' * (models > 1)}" + (f" in {picks} picks" if picks != models else "")
        lines = [f"* best {self.objective} on the {searched} selection examples: {size}"]
        if self.best == self.start:
            ended = NOTHING_ADDED.get(self.settings.get("ended", "")) if len(self.members) == self.start else None
            lines.append(f"  {ended or 'nothing that was added improves on the start'}")
        elif self.gain is not None and self.interval is not None:
            low, high = self.interval
            noise = ", within noise" if self.within_noise else ""
            lines.append(f"  gain on {unseen} unseen examples {self.gain:+.4f} [{low:+.4f}, {high:+.4f}]{noise}")
        if uncalibrated := self.settings.get("uncalibrated"):
            lines.append(f"  {uncalibrated} models are not calibrated; zoo.calibrate(runs) finds their temperatures")
        if outside := self.settings.get("outside"):
            count = sum(outside.values())
            lines.append(f"  {count} answers of {len(outside)} models are none of the classes and count as wrong")
        return lines

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(index=False, float_format="{:.4f}".format, na_rep="–", border=0)
        return f"{table}<p>{'<br>'.join(line.strip() for line in self.summary())}</p>"

    def chart(self) -> "alt.Chart":
        """Score against members, on both splits."""
        from ensembles.charts import path_chart

        return path_chart(self)

    def to_model(self, name: str, title: str = "", overwrite: bool = False) -> Card:
        """Write the best ensemble to the user's cards, so that `zoo.load(name)` embeds and predicts with it."""
        if self.runs is None or isinstance(self.weights, np.ndarray):
            raise InputError(f"{name}: members are arrays, not models; search Runs to save an ensemble that can be loaded")
        if self.settings.get("kind") == "predictions":
            raise InputError(f"{name}: a model averages probabilities, but these members were chosen by their votes")
        title = title or f"Ensemble of {len(self.weights)} models"
        return save(name, self.runs, self.weights, self._record(self.runs[next(iter(self.weights))]), title, overwrite)

    def _record(self, first: Outputs) -> dict[str, Any]:
        """How the ensemble was found and what it scored, for the card."""
        return {
            "found_on": first.dataset or "unnamed",
            "objective": self.objective,
            "selection_score": self.best_score,
            "test_score": self.best_test_score,
            "test_gain": self.gain,
            "test_gain_interval": None if self.interval is None else list(self.interval),
            "picks": list(self.members[: self.best]),
            "search": {key: value for key, value in self.settings.items() if value is not None},
        }


def save(
    name: str, runs: Runs, shares: Mapping[str, float], details: dict[str, Any], title: str, overwrite: bool = False
) -> Card:
    """Write an ensemble of models with these shares to the user's cards; members in the order of the shares."""
    check_user_name(name, "ensemble name")
    outputs = [runs[member] for member in shares]
    cards = {one.name: _card(one, name) for one in outputs}
    taken = {known.lower(): card for known, card in registry.known_models().items()}.get(name.lower())
    replaceable = taken is not None and bool(taken.members) and taken.name == name
    membership.check(name, cards, lambda one: [m.name for m in cards[one].members] if one in cards else registry.parts(one))
    if taken is not None and not (replaceable and overwrite):
        hint = ", or pass overwrite=True" if replaceable else ""
        raise InputError(f"{name}: a model called {taken.name} exists already; choose another name{hint}")
    members = [
        EnsembleMember(
            one.name,
            shares[one.name],
            one.temperature or 1.0,
            one.details.get("calibration", {}).get("temperature_space", "logits"),
        )
        for one in outputs
    ]
    card = Card(
        name=name,
        source="ensemble",
        family="ensemble",
        architecture="ensemble",
        labels=_label_set(cards.values(), name),
        link="softmax",
        head="trained",
        training=Training(
            dataset=_shared((card.dataset for card in cards.values()), "unknown"),
            framework=cast(Framework, _shared((card.training.framework for card in cards.values()), "unknown")),
            objective=_shared((card.objective for card in cards.values()), "mixed"),
            hyperparameters={"members": sorted(shares)},
        ),
        license=_shared((card.license for card in cards.values()), "other"),
        members=members,
        details=details,
        title=title,
    )
    target = home.folder("cards") / f"{name}.md"
    files.make_folder(target.parent)
    files.write(target, write(card).encode())
    return read(target)


def _card(outputs: Outputs, name: str) -> Card:
    if outputs.card is None:
        raise InputError(f"{name}: its member {outputs.name} has no card, so it could not be loaded again")
    return outputs.card


def _label_set(cards: Iterable[Card], name: str) -> str:
    found = sorted({card.labels for card in cards})
    if len(found) != 1:
        raise InputError(f"{name}: members predict different label sets, {' and '.join(found)}; expected one")
    return found[0]


def _shared(values: Iterable[str], otherwise: str) -> str:
    found = set(values)
    return found.pop() if len(found) == 1 else otherwise


def table(columns: dict[str, list[str]]) -> list[str]:
    """Lines of at most 80 characters: of names too long the dataset they share is said in the title, then they are cut."""
    widths = {title: max(len(title), *map(len, cells)) for title, cells in columns.items()}
    room = WIDTH - sum(widths.values()) + widths["model"] - 2 * (len(widths) - 1)
    names, head = columns["model"], "model"
    if widths["model"] > room and (shared := shared_ending(names)):
        names, head = [name.removesuffix(shared) for name in names], f"model ({shared})"
    widths["model"] = min(max(map(len, [head, *names])), room)
    shown = {title: [title, *cells] for title, cells in columns.items()} | {"model": [head, *names]}
    lines = []
    for row in zip(*shown.values(), strict=True):
        cells = []
        for cell, (title, width) in zip(row, widths.items(), strict=True):
            if title in ("model", "category"):
                cells.append(f"{_cut(cell, width):<{width}}")
            else:
                cells.append(f"{cell:>{width}}")
        lines.append("  ".join(cells).rstrip())
    return lines


def _cut(name: str, width: int) -> str:
    """A long name without its middle: what tells two models apart is often at the end."""
    return name if len(name) <= width else f"{name[: width - 1 - width // 2]}…{name[-(width // 2) :]}"
