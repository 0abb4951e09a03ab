"""What a greedy search found: the whole path, and the best ensemble on it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ensembles.library import Name
from zoo.outputs import Runs

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from zoo.cards import Card

WIDTH = 80


@dataclass(frozen=True, eq=False)
class Path:
    """Ensembles of growing size: with `members[i]` added, `score[i]` on the selection split and `test_score[i]` on the test.

    The best ensemble is the first `best` members, the shortest prefix with the best selection score; `weights` are its
    members' shares (by name for Runs; [M] for arrays, so that `average(probs, path.weights)` is it). `test_gains[i]` is
    how much better the first i + 1 members are than the first `start` on the test split, with 95% `intervals`; `gain` and
    `interval` are those of the best ensemble. Positive gains are better, for losses too. All are None without a test
    split. Of a bagged search, `members` are ordered by weight, all belong to the ensemble, and `bags` holds the single
    searches.
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
    def categories(self) -> list[str | None]:
        """How each member's training differs from the first one's; None where a card is missing."""
        from ensembles.cards import categories

        return categories(self.members, self.runs)

    def to_frame(self) -> "pd.DataFrame":
        """One row a step: model, category against the first member, scores, test gain and interval, whether in the best."""
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
            "weights": weights
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
        return "\n".join([*_table(self._columns()), *self.summary()])

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
            lines.append("  nothing that was added improves on the start")
        elif self.gain is not None and self.interval is not None:
            low, high = self.interval
            noise = "" if low > 0 else ", within noise"
            lines.append(f"  gain on {unseen} unseen examples {self.gain:+.4f} [{low:+.4f}, {high:+.4f}]{noise}")
        if uncalibrated := self.settings.get("uncalibrated"):
            lines.append(f"  {uncalibrated} models are not calibrated; zoo.calibrate(runs) finds their temperatures")
        return lines

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(index=False, float_format="{:.4f}".format, na_rep="–", border=0)
        return f"{table}<p>{'<br>'.join(line.strip() for line in self.summary())}</p>"

    def chart(self) -> "alt.Chart":
        """Score against members, on both splits."""
        from ensembles.charts import path_chart

        return path_chart(self)

    def to_model(self, name: str, title: str = "", overwrite: bool = False) -> "Card":
        """Write the best ensemble as a model card, so that `zoo.load(name)` embeds and predicts with it."""
        from ensembles.saving import save_path

        return save_path(self, name, title, overwrite)


def _table(columns: dict[str, list[str]]) -> list[str]:
    """Lines of at most 80 characters: names are cut where they must be, everything else fits."""
    widths = {title: max(len(title), *map(len, cells)) for title, cells in columns.items()}
    widths["model"] = min(widths["model"], WIDTH - sum(widths.values()) + widths["model"] - 2 * (len(widths) - 1))
    lines = []
    for row in zip(*([title, *cells] for title, cells in columns.items()), strict=True):
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
