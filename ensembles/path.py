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
    members' shares (by name for Runs; [M] for arrays, so that `average(probs, path.weights)` is it). `gain` is how much
    better it is than the first `start` members on the test split, with its 95% interval; None without a test split.
    Positive gains are better, for losses too. Of a bagged search, `members` are ordered by weight, all belong to the
    ensemble, and `bags` holds the single searches.
    """

    members: list[Name]
    score: list[float]
    test_score: list[float] | None
    weights: dict[str, float] | np.ndarray
    best: int
    start: int
    objective: str
    gain: float | None
    interval: tuple[float, float] | None
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
    def categories(self) -> list[str | None]:
        """How each member's training differs from the first one's; None where a card is missing."""
        from ensembles.cards import categories

        return categories(self.members, self.runs)

    def to_frame(self) -> "pd.DataFrame":
        """One row a step: model, category against the first member, selection and test score, whether in the best."""
        import pandas as pd

        columns = {
            "step": range(1, len(self.members) + 1),
            "model": self.members,
            "category": self.categories,
            "selection": self.score,
            "test": [np.nan] * len(self.score) if self.test_score is None else self.test_score,
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
            "best": self.best,
            "start": self.start,
            "objective": self.objective,
            "gain": self.gain,
            "interval": None if self.interval is None else list(self.interval),
            "costs": self.costs,
            "settings": dict(self.settings),
        }

    def __str__(self) -> str:
        known = [category for category in self.categories if category]
        lines = [_line("step", "model", "category" if known else "", "selection", "test" if self.test_score else "")]
        for step, (model, category, score) in enumerate(zip(self.members, self.categories, self.score, strict=True)):
            test = f"{self.test_score[step]:.4f}" if self.test_score else ""
            number = f"{step + 1}{'*' if step + 1 == self.best else ' '}"
            lines.append(_line(number, str(model), (category or "–") if known else "", f"{score:.4f}", test))
        return "\n".join([*lines, *self.summary()])

    def summary(self) -> list[str]:
        """The lines below the table: what the best ensemble is and what it gains."""
        examples = self.settings.get("selection_examples"), self.settings.get("test_examples")
        distinct = len(set(self.members[: self.best]))
        lines = [f"* best {self.objective} on the {examples[0]} selection examples: {distinct} models in {self.best} picks"]
        if self.gain is not None and self.interval is not None:
            low, high = self.interval
            noise = "" if low > 0 or self.best == self.start else ", within noise"
            lines.append(f"  gain on {examples[1]} unseen examples {self.gain:+.4f} [{low:+.4f}, {high:+.4f}]{noise}")
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


def _line(step: str, model: str, category: str, selection: str, test: str) -> str:
    wide = WIDTH - 5 - 9 - 10 - 10
    model = model if len(model) <= wide else model[: wide - 1] + "…"
    return f"{step:>5} {model:<{wide - 1}} {category:<8}{selection:>10}{test:>10}".rstrip()
