"""The section on ensembles: what greedy search finds, on the examples it searched and on those it never saw."""

import warnings
from typing import Any

import ensembles
from zoo.app.report.document import Figure, Finding, Section, Table
from zoo.errors import ZooWarning
from zoo.outputs import Runs

NAMED = 3  # members spelt out in the finding; the table has all


def together(runs: Runs, base: str | None = None, steps: int = 10, seed: int = 0) -> tuple[Section, Finding, dict[str, Any]]:
    """The path of a greedy search with what it really gains: of means of probabilities, or of votes where some have none."""
    votes = any(one.kind == "predictions" for one in runs.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # a gain within noise is said on the page
        path = ensembles.greedy(runs, base=base, steps=steps, seed=seed, kind="predictions" if votes else "probabilities")
    searched, unseen = path.settings["selection_examples"], path.settings["test_examples"]
    rows = [
        {
            "model": str(row["model"]),
            "step": int(row["step"]),
            "category": row["category"],
            "selection": float(row["selection"]),
            "test": float(row["test"]),
            "in the best": "yes" if row["in_best"] else "",
        }
        for row in path.to_frame().to_dict(orient="records")
    ]
    section = Section(
        "ensemble",
        "Which of them to put together",
        f"Greedy search adds, one by one, the model that helps most on {searched} examples"
        f"{', where the classes they predict vote' if votes else ''}; the result is judged on "
        f"{unseen} examples it never saw. Where the dashed line rises and the full one does not, it fits its own split.",
        figures=[
            Figure(
                "path",
                "Accuracy as members are added",
                "Dashed: the examples searched on. Full: unseen examples. The ring is where the search would stop.",
                path.chart(),
                wide=True,
            )
        ],
        tables=[Table("steps", "", rows, frozenset({"selection", "test"}))],
    )
    return section, _finding(path), {"path": path.to_dict()}


def _finding(path: ensembles.Path) -> Finding:
    names = [str(name) for name in path.members[: path.best]]
    if len(set(names)) == 1:
        return Finding("no gain", f"No second model helps {names[0]} on the examples searched.", warning=True)
    (low, high), points = path.interval or (0.0, 0.0), f"{100 * (path.gain or 0.0):+.1f} points"
    added = list(dict.fromkeys(names[1:]))
    others = ", ".join(added[:NAMED]) + (f" and {len(added) - NAMED} more" if len(added) > NAMED else "")
    sentence = f"from adding {others} to {names[0]}: {path.best_test_score:.1%} on unseen examples "
    sentence += f"(95% interval {100 * low:+.1f} to {100 * high:+.1f} points)."
    if path.within_noise:
        return Finding(points, sentence + " That is within noise: do not count on it.", warning=True)
    return Finding(points, sentence)
