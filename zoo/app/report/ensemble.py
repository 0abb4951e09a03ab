"""The section on ensembles: the path of a greedy search, on the examples it searched and on the test split."""

from diversity.categories import category_title
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Figure, Part, Section, Table
from zoo.app.report.findings import smallest_sufficient


def ensemble(analysis: Analysis) -> Part:
    """Return the path of the search, with the smallest ensemble that suffices."""
    path = analysis.path
    rows = [
        {
            "model": str(row["model"]),
            "step": int(row["step"]),
            "differs in": category_title(row["category"]),
            "selection": float(row["selection"]),
            "test": float(row["test"]),
            "gain, points": float(row["gain"]) if row["step"] > 1 else None,
            "95% CI": (float(row["low"]), float(row["high"])) if row["step"] > 1 else None,
            "in the best ensemble": "yes" if row["in_best"] else "",
        }
        for row in path.to_frame().to_dict(orient="records")
    ]
    lead = (
        "Greedy search adds the model that improves accuracy most on the selection examples, one at a time"
        f"{', where predicted classes vote' if not analysis.has_probabilities else ''}. The test examples played no part in "
        "the search. If selection accuracy rises while test accuracy does not, the search overfits the selection examples."
    )
    figure = Figure(
        "path",
        "Accuracy as members are added",
        "Dashed: selection examples. Solid: test examples. The ring marks the ensemble with the best selection accuracy.",
        path.chart(),
        wide=True,
    )
    table = Table("steps", "", rows, frozenset({"selection", "test"}), frozenset({"gain, points", "95% CI"}))
    population = analysis.chosen("the members were")
    section = Section("ensemble", "Which models to combine", lead, population, [figure], [table])
    return Part(section, [smallest_sufficient(analysis)], {"path": path.to_dict()})
