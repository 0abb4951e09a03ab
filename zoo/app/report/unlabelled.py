"""The section on unlabelled data: the accuracy to expect there, estimated from agreement and confidence."""

import itertools
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from scipy.special import ndtri

import diversity
from diversity.charts import inline
from zoo.app.report.analysis import MAX_ALL_PAIRS, Analysis
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.core.arrays import NO_PREDICTION
from zoo.core.units import interval, percent
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

SHOWN = 20  # rows of a table
TICKS = [0.01, 0.05, *(tenth / 10 for tenth in range(1, 10)), 0.85, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999]
TITLE = "Accuracy on unlabelled data"


def unlabelled(analysis: Analysis) -> Part | None:
    """Return an estimate for each unlabelled dataset, or the reason why there is none."""
    if not analysis.inputs.unlabelled:
        return None
    figures: list[Figure] = []
    tables: list[Table] = []
    findings: list[Finding] = []
    numbers: list[dict[str, Any]] = []
    for number, runs in enumerate(analysis.inputs.unlabelled):
        name = _name(runs)
        try:
            found = diversity.accuracy_without_labels(runs, analysis.runs, seed=analysis.seed)
        except InputError as error:  # too few models, or other classes
            findings.append(_no_estimate(name, str(error)))
            numbers.append({"data": name, "refusal": str(error)})
            continue
        findings.append(_finding(found, name, analysis))
        numbers.append({"data": name, **found.to_dict()})
        tables.append(_table(found, name, number))
        if np.isfinite(found.r2):
            figures.append(_figure(found, runs, analysis, number))
    lead = (
        "Models that agree less and are less confident are less accurate. The estimate averages two predictions. One is "
        "from how much less often a model agrees with the vote of the others, the other from how many examples are above "
        "the confidence threshold that gives its accuracy on the labelled data. The confidence interval is wider the more "
        "the two differ and the further they are from the labelled accuracy. If it would be too wide, there is no estimate. "
        "For comparison the table has two estimates from each model alone: average confidence, and average thresholded "
        "confidence (ATC)."
    )
    examined = " and ".join(f"{len(_first(runs)):,} examples of {_name(runs)}" for runs in analysis.inputs.unlabelled)
    population = f"{examined}, whose labels are not used; labelled accuracy on {analysis.population}"
    section = Section("unlabelled", "How accurate on unlabelled data", lead, population, figures, tables)
    return Part(section, [_joined(findings)], {"unlabelled": numbers})


def _first(runs: Runs) -> Outputs:
    return next(iter(runs.values()))


def _name(runs: Runs) -> str:
    return _first(runs).dataset or "unlabelled data"


def _no_estimate(name: str, reason: str) -> Finding:
    return Finding(TITLE, "no estimate", f"No estimate for {name}: {reason.rstrip('.')}.", warning=True)


def _finding(found: diversity.UnlabelledAccuracy, name: str, analysis: Analysis) -> Finding:
    """Return the estimate for the best model, or if that was not run on the data, for the most accurate one that was."""
    if found.refusal is not None:
        return _no_estimate(name, found.refusal)
    rows = found.frame.set_index("model")
    model = analysis.best if analysis.best in rows.index else str(rows["source_accuracy"].idxmax())
    row, (labelled, new) = rows.loc[model].to_dict(), found.examples
    text = (
        f"{analysis.short(model)} has an estimated accuracy of {percent(row['accuracy'])} on {new:,} unlabelled examples of "
        f"{name} ({interval((row['low'], row['high']), found.level)}); on {labelled:,} labelled examples it has "
        f"{percent(row['source_accuracy'])}."
    )
    return Finding(TITLE, percent(row["accuracy"]), text)


def _joined(findings: list[Finding]) -> Finding:
    """Return one finding on all datasets, in their order."""
    text = " ".join(one.sentence for one in findings)
    return Finding(TITLE, findings[0].number, text, all(one.warning for one in findings))


def _table(found: diversity.UnlabelledAccuracy, data: str, number: int) -> Table:
    key = "accuracy" if found.refusal is None else "source_accuracy"
    rows = [
        {
            "model": row["model"],
            "estimate": _or_none(row["accuracy"]),
            "95% CI": None if row["low"] != row["low"] else (float(row["low"]), float(row["high"])),
            "labelled accuracy": _or_none(row["source_accuracy"]),
            "average confidence": _or_none(row["average_confidence"]),
            "ATC": _or_none(row["atc"]),
        }
        for row in found.frame.sort_values(key, ascending=False, kind="stable").head(SHOWN).to_dict(orient="records")
    ]
    title = data + (f": the first {len(rows)} of {len(found.frame)} models" if len(rows) < len(found.frame) else "")
    percent = frozenset({"estimate", "95% CI", "labelled accuracy", "average confidence", "ATC"})
    return Table(f"unlabelled-{number}", title, rows, percent)


def _or_none(value: Any) -> float | None:
    return None if value != value else float(value)


def _figure(found: diversity.UnlabelledAccuracy, runs: Runs, analysis: Analysis, number: int) -> Figure:
    caption = (
        f"Fractions on a probit scale, with the line through the pairs (R² {found.r2:.4f}, slope {found.slope:.2g}). "
        + ("A model is drawn at its labelled accuracy and its estimate. " if found.refusal is None else "")
        + "Under many shifts the accuracies of models lie on this line too (Baek et al. 2022)."
    )
    dots = pd.concat([_pairs(analysis, runs, found.examples), _models(found)], ignore_index=True)
    title = f"Agreement on the labelled data and on {_name(runs)}"
    return Figure(f"agreements-{number}", title, caption, _chart(dots, found, _name(runs)), wide=True)


def _probit(fraction: Any, examples: int) -> Any:
    return ndtri(np.clip(fraction, 0.5 / examples, 1 - 0.5 / examples))


def _pairs(analysis: Analysis, runs: Runs, examples: tuple[int, int]) -> pd.DataFrame:
    """Return the agreement on both datasets, one row per pair; of many models only the pairs with the best one."""
    both = [name for name in analysis.runs if name in runs]
    predictions = [{name: one[name].predictions for name in both} for one in (analysis.runs, runs.aligned())]
    centre = analysis.best if analysis.best in both else both[0]
    pairs = [(a, b) for a, b in itertools.combinations(both, 2) if len(both) <= MAX_ALL_PAIRS or centre in (a, b)]

    def agreements(of: dict[str, np.ndarray], count: int) -> Any:
        return _probit([float(((of[a] == of[b]) & (of[a] != NO_PREDICTION)).mean()) for a, b in pairs], count)

    x, y = (agreements(of, count) for of, count in zip(predictions, examples, strict=True))
    first, second = zip(*pairs, strict=True)
    return pd.DataFrame({"what": "agreement of a pair", "first": first, "second": second, "labelled": x, "unlabelled": y})


def _models(found: diversity.UnlabelledAccuracy) -> pd.DataFrame:
    frame = found.frame.dropna(subset="accuracy")
    x, y = (_probit(frame[c], n) for c, n in zip(("source_accuracy", "accuracy"), found.examples, strict=True))
    return pd.DataFrame({"what": "accuracy of a model", "model": frame["model"], "labelled": x, "unlabelled": y})


def _chart(dots: pd.DataFrame, found: diversity.UnlabelledAccuracy, name: str) -> alt.LayerChart:
    axis = alt.Axis(labelExpr="format(cumulativeNormal(datum.value), '.3~%')", values=ndtri(TICKS).tolist())
    scale = alt.Scale(zero=False, nice=False, padding=10)
    x = alt.X("labelled:Q", title="on the labelled data", axis=axis, scale=scale)
    y = alt.Y("unlabelled:Q", title=f"on {name}", axis=axis, scale=scale)
    ends = np.array([dots["labelled"].min(), dots["labelled"].max()])
    line = pd.DataFrame({"labelled": ends, "unlabelled": found.slope * ends + found.intercept})
    marks = (
        alt.Chart(inline(dots))
        .mark_point(filled=True, opacity=0.7, size=45)
        .encode(x=x, y=y, color=alt.Color("what:N", title=None), tooltip=["what:N", "model:N", "first:N", "second:N"])
    )
    fit = alt.Chart(inline(line)).mark_line(color="grey", strokeDash=[4, 4]).encode(x=x, y=y)
    return (fit + marks).properties(width=600, height=320)
