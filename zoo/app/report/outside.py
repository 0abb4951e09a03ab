"""The section on out-of-distribution data: how well the models' scores separate it from the data of the report."""

from typing import Any

from zoo.app.ood import detections
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Finding, Part, Section, Table
from zoo.app.trust import ENSEMBLE
from zoo.core.units import interval, percent

SHOWN = 20  # rows of a table
TITLE = "Out-of-distribution data"
MEASURES = {"AUROC": "auroc", "AUPR": "aupr", "FPR@95": "fpr95"}


def outside(analysis: Analysis) -> Part | None:
    """Return the detection measures of each model and of the ensemble of all, for each out-of-distribution dataset."""
    if not analysis.inputs.outside:
        return None
    inside = next(iter(analysis.inputs.runs.values()))
    tables, sentences, numbers = list[Table](), list[str](), list[dict[str, Any]]()
    for number, runs in enumerate(analysis.inputs.outside):
        first = next(iter(runs.values()))
        data = first.dataset or "out-of-distribution data"
        found = detections(analysis.inputs.runs, runs, ensemble=True, seed=analysis.seed)
        rows = sorted(found, key=lambda row: (row["model"] != ENSEMBLE, -row["auroc"]))
        tables.append(_table(rows, data, number))
        sentences.append(_sentence(rows, data, inside.dataset or "the examples of this report"))
        numbers.append({"data": data, "results": rows})
    lead = (
        "Examples unlike the training data should get a lower score: the confidence, minus the entropy, the energy of the "
        f"logits, or minus the disagreement between the members of {ENSEMBLE}, which has all models with equal weights. "
        "AUROC and AUPR: 100% is perfect. FPR@95: the fraction of out-of-distribution examples that is accepted if 95% of "
        "the others are."
    )
    examined = " and ".join(f"{one['results'][0]['out_examples']:,} examples of {one['data']}" for one in numbers)
    population = f"{examined}, against {len(inside):,} of {inside.dataset or 'this report'}; no temperatures"
    finding = Finding(TITLE, percent(_ensemble(numbers[0]["results"])["auroc"]), " ".join(sentences))
    return Part(Section("outside", TITLE, lead, population, tables=tables), [finding], {"out_of_distribution": numbers})


def _ensemble(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of the ensemble's confidence, which is reported because nothing was chosen on these examples."""
    return next(row for row in rows if (row["model"], row["score"]) == (ENSEMBLE, "confidence"))


def _sentence(rows: list[dict[str, Any]], data: str, inside: str) -> str:
    row = _ensemble(rows)
    alone = [one["auroc"] for one in rows if one["score"] == "confidence" and one["model"] != ENSEMBLE]
    return (
        f"The confidence of the ensemble of all {len(alone)} models separates {data} from {inside} with an AUROC of "
        f"{percent(row['auroc'])} ({interval((row['auroc_low'], row['auroc_high']))}); the confidence of the models alone "
        f"has {percent(min(alone))} to {percent(max(alone))}."
    )


def _table(rows: list[dict[str, Any]], data: str, number: int) -> Table:
    shown = [
        {"model": row["model"], "score": row["score"]}
        | {
            column: value
            for title, key in MEASURES.items()
            for column, value in ((title, row[key]), (f"{title} 95% CI", (row[f"{key}_low"], row[f"{key}_high"])))
        }
        for row in rows[:SHOWN]
    ]
    title = data + (f": the first {len(shown)} of {len(rows)} scores" if len(shown) < len(rows) else "")
    columns = frozenset(column for title in MEASURES for column in (title, f"{title} 95% CI"))
    return Table(f"outside-{number}", title, shown, columns)
