"""The part on ensembles: what greedy search finds, on the examples it searched and on those it never saw."""

import ensembles
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.evidence import Evidence

NAMED = 3  # members spelt out in the finding; the table has all


def ensemble(known: Evidence) -> Part:
    """The path of a greedy search with what it really gains."""
    path, votes = known.path, not known.has_probabilities
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
    lead = (
        "Greedy search adds, one by one, the model that helps most on the selection examples"
        f"{', where the classes they predict vote' if votes else ''}; the result is judged on the test examples, which it "
        "never saw. Where the dashed line rises and the full one does not, it fits its own split."
    )
    figure = Figure(
        "path",
        "Accuracy as members are added",
        "Dashed: the selection examples. Full: the test examples. The ring is where the search would stop.",
        path.chart(),
        wide=True,
    )
    table = Table("steps", "", rows, frozenset({"selection", "test"}))
    section = Section(
        "ensemble", "Which of them to put together", lead, known.chosen("the members (selection)"), [figure], [table]
    )
    return Part(section, [_finding(path, known)], {"path": path.to_dict()})


def _finding(path: ensembles.Path, known: Evidence) -> Finding:
    start, *names = dict.fromkeys(str(name) for name in path.members[: path.best])
    if not names:
        sentence = f"No second model helps {start} on the {len(known.halves[0]):,} examples searched."
        return Finding("no gain", sentence, warning=True)
    low, high = path.interval or (0.0, 0.0)
    others = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    sentence = (
        f"on {known.tested} from adding {others} to {start}: {path.best_test_score:.1%} "
        f"(95% interval {100 * low:+.1f} to {100 * high:+.1f} points)."
    )
    if path.within_noise:
        sentence += " That is within noise: do not count on it."
    return Finding(f"{100 * (path.gain or 0.0):+.1f} points", sentence, path.within_noise)
