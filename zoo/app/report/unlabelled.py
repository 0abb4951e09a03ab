"""The part on data without labels: how accurate the models are there, from how often they agree."""

import itertools
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from scipy.special import ndtri

import diversity
from diversity.charts import inline
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.evidence import ALL_PAIRS, Evidence
from zoo.core.arrays import NO_PREDICTION
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

FIRST = 20  # rows of a table
TICKS = [0.01, 0.05, *(tenth / 10 for tenth in range(1, 10)), 0.85, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999]
COLUMNS = {
    "model": "model", "accuracy": "estimate", "low": "low", "high": "high", "source_accuracy": "labelled accuracy",
    "average_confidence": "average confidence", "atc": "ATC",
}  # fmt: skip


def unlabelled(known: Evidence) -> Part | None:
    """An estimate for each dataset that was named, or the sentence why there is none."""
    if not known.material.unlabelled:
        return None
    figures: list[Figure] = []
    tables: list[Table] = []
    said: list[Finding] = []
    numbers: list[dict[str, Any]] = []
    for place, runs in enumerate(known.material.unlabelled):
        name = _name(runs)
        try:
            found = diversity.accuracy_without_labels(runs, known.runs, seed=known.seed)
        except InputError as error:  # too few models, or other classes
            said.append(_no_answer(name, str(error)))
            numbers.append({"data": name, "refusal": str(error)})
            continue
        said.append(_finding(found, name, known))
        numbers.append({"data": name, **found.to_dict()})
        tables.append(_table(found, name, place))
        if np.isfinite(found.r2):
            figures.append(_figure(found, runs, known, place))
    lead = (
        "Where models agree less, they are less accurate too. Often the agreements of pairs, here and there, lie on a line, "
        "and the models' accuracies on the same one: then agreement tells accuracy without a label (Baek et al. 2022). "
        "Where there is no line, there is no answer. Beside the estimate stands what each model says alone: its average "
        "confidence, and the share of examples on which it is as sure as where it is right on the labelled data (ATC)."
    )
    looked_at = " and ".join(f"{len(_one(runs)):,} examples of {_name(runs)}" for runs in known.material.unlabelled)
    population = f"{looked_at}, whose labels are not looked at; labelled accuracy on {known.population}"
    section = Section("unlabelled", "How accurate elsewhere", lead, population, figures, tables)
    return Part(section, [_joined(said)], {"unlabelled": numbers})


def _one(runs: Runs) -> Outputs:
    return next(iter(runs.values()))


def _name(runs: Runs) -> str:
    return _one(runs).dataset or "unlabelled data"


def _no_answer(name: str, reason: str) -> Finding:
    return Finding("No answer", f"on {name}: {reason.rstrip('.')}.", warning=True)


def _finding(found: diversity.UnlabelledAccuracy, name: str, known: Evidence) -> Finding:
    """Of the best model, or where that was not run there of the most accurate one that was."""
    if found.refusal is not None:
        return _no_answer(name, found.refusal)
    rows = found.frame.set_index("model")
    model = known.best if known.best in rows.index else str(rows["source_accuracy"].idxmax())
    row, (labelled, new) = rows.loc[model], found.examples
    sentence = (
        f"is the accuracy to expect of {model} on {new:,} unlabelled examples of {name} ({found.level:.0%} interval "
        f"{row['low']:.1%} to {row['high']:.1%}); on {labelled:,} labelled ones it is {row['source_accuracy']:.1%}."
    )
    return Finding(f"{row['accuracy']:.1%}", sentence)


def _joined(said: list[Finding]) -> Finding:
    """One finding of several datasets, in the order in which they were named."""
    first, *others = said
    sentence = " ".join([first.sentence, *(f"{other.number} {other.sentence}" for other in others)])
    return Finding(first.number, sentence, all(one.warning for one in said))


def _table(found: diversity.UnlabelledAccuracy, data: str, place: int) -> Table:
    by = "accuracy" if found.refusal is None else "source_accuracy"
    chosen = found.frame.sort_values(by, ascending=False, kind="stable").head(FIRST)
    rows = [  # NaN is no number
        {title: None if row[name] != row[name] else row[name] for name, title in COLUMNS.items()}
        for row in chosen.to_dict(orient="records")
    ]
    title = data + (f": the first {len(rows)} of {len(found.frame)} models" if len(rows) < len(found.frame) else "")
    return Table(f"unlabelled-{place}", title, rows, frozenset(COLUMNS.values()) - {"model"})


def _figure(found: diversity.UnlabelledAccuracy, runs: Runs, known: Evidence, place: int) -> Figure:
    caption = (
        f"Shares on a probit scale. The line is that of the pairs (R² {found.r2:.3f}); a model is drawn at its labelled "
        "accuracy and its estimate. Pairs far from the line are a reason for doubt."
    )
    if found.refusal is not None:
        caption = (
            f"Shares on a probit scale. Only pairs on a rising line tell accuracy: here R² is {found.r2:.3f}, the slope "
            f"{found.slope:.2g}, and there is no estimate."
        )
    dots = pd.concat([_pairs(known, runs, found.examples), _models(found)], ignore_index=True)
    title = f"Agreement here and on {_name(runs)}"
    return Figure(f"agreements-{place}", title, caption, _chart(dots, found, _name(runs)), wide=True)


def _probit(share: Any, examples: int) -> Any:
    return ndtri(np.clip(share, 0.5 / examples, 1 - 0.5 / examples))


def _pairs(known: Evidence, runs: Runs, examples: tuple[int, int]) -> pd.DataFrame:
    """One row per pair, of many models only those with the best one: how often the two agree on both data."""
    both = [name for name in known.runs if name in runs]
    said = [{name: own[name].predictions for name in both} for own in (known.runs, runs.aligned())]
    centre = known.best if known.best in both else both[0]
    some = [(a, b) for a, b in itertools.combinations(both, 2) if len(both) <= ALL_PAIRS or centre in (a, b)]

    def agreements(own: dict[str, np.ndarray], count: int) -> Any:
        shares = [float(((own[a] == own[b]) & (own[a] != NO_PREDICTION)).mean()) for a, b in some]
        return _probit(np.array(shares), count)

    x, y = (agreements(own, count) for own, count in zip(said, examples, strict=True))
    first, second = zip(*some, strict=True)
    return pd.DataFrame({"what": "agreement of a pair", "first": first, "second": second, "here": x, "there": y})


def _models(found: diversity.UnlabelledAccuracy) -> pd.DataFrame:
    frame = found.frame.dropna(subset="accuracy")
    here, there = (_probit(frame[c], n) for c, n in zip(("source_accuracy", "accuracy"), found.examples, strict=True))
    return pd.DataFrame({"what": "accuracy of a model", "model": frame["model"], "here": here, "there": there})


def _chart(dots: pd.DataFrame, found: diversity.UnlabelledAccuracy, name: str) -> alt.LayerChart:
    axis = alt.Axis(labelExpr="format(cumulativeNormal(datum.value), '.3~%')", values=ndtri(TICKS).tolist())
    scale = alt.Scale(zero=False, nice=False, padding=10)
    x = alt.X("here:Q", title="on the labelled data", axis=axis, scale=scale)
    y = alt.Y("there:Q", title=f"on {name}", axis=axis, scale=scale)
    ends = np.array([dots["here"].min(), dots["here"].max()])
    line = pd.DataFrame({"here": ends, "there": found.slope * ends + found.intercept})
    marks = (
        alt.Chart(inline(dots))
        .mark_point(filled=True, opacity=0.7, size=45)
        .encode(x=x, y=y, color=alt.Color("what:N", title=None), tooltip=["what:N", "model:N", "first:N", "second:N"])
    )
    fit = alt.Chart(inline(line)).mark_line(color="grey", strokeDash=[4, 4]).encode(x=x, y=y)
    return (fit + marks).properties(width=600, height=320)
