"""How the errors of two models differ: Figures 1 to 4 and 8 and the tables of Gontijo-Lopes et al. 2021."""

import math
import re
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

import diversity
from diversity import charts
from diversity.categories import TITLES
from diversity.comparison import Comparison, joint_histogram
from diversity.specialization import LIMIT, OUTCOMES
from diversity.summary import ACCURACY_BAND, GAIN_PARTS, Line, fit_line
from probes.probe_charts import score_chart
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import CARDS, models
from zoo.app.figures.record import DIGITS, figure
from zoo.app.figures.result import Result, number
from zoo.app.figures.study import Study
from zoo.cards.names import bare, shared_ending
from zoo.errors import InputError
from zoo.outputs.outputs import Runs

EXAMPLE, IMAGENET = f"{DIGITS} --base resnet8-softmax", "MODELS --base resnet50-ra --data in1k"
BANDED = f"{IMAGENET} -O low=74 -O high=78"  # the paper compares models of 74% to 78%
ALL_IN_BAND = f"{BANDED} -O band=0"
MEASURES = ("gain_over_mean", "gain_over_best", "ensemble_accuracy", "conversion_rate")
SHORT = {"gain_over_mean": "gain (mean)", "gain_over_best": "gain (best)", "ensemble_accuracy": "ensemble"}
BY_CLASS = ("class", "count", "theta", "accuracy_first", "accuracy_second", "p_holm")  # columns of the table of Fig. 4
MAX_POINTS = 2000  # of a pair in the confidence plane
MAX_NAMED = 40  # classes whose names fit an axis
HORIZONTAL = alt.Header(labelAngle=0, labelAlign="left")  # of rows of panels with long names
OTHER = "other"  # group of classes that are in no group


def pairs(study: Study, runs: Runs, band: float, low: float, high: float) -> tuple[pd.DataFrame, str]:
    """Return one row per pair of models of comparable accuracy, with fractions, and a note on the pairs left out.

    Args:
        study: the models; its base, if it has one, is compared with every other model, otherwise all pairs are.
        runs: their outputs, on all or some of the examples.
        band: width of the band of accuracies in percentage points, as in `diversity.pair_frame`; 0: no band.
        low: least accuracy of a model, in percent.
        high: greatest accuracy of a model, in percent.
    """
    base = study.base_name
    inside = [name for name, one in study.runs.items() if low <= 100 * one.accuracy <= high or name == base]
    if len(inside) < 2:
        raise InputError(f"fewer than two models have accuracies from {low:g} to {high:g} percent", argument="low")
    frame = diversity.pair_frame(runs.subset(inside), base, accuracy_band=band or None)
    comparable = frame[frame["comparable"]].reset_index(drop=True)
    if not len(comparable):
        raise InputError(
            f"no two models have accuracies within the band of {band:g} points",
            argument="band",
            hint="Set a wider {band}; {band=0} uses all pairs",
        )
    both_wrong = comparable["double_fault"]
    comparable = comparable.assign(both_right=1 - comparable["inconsistency"] - both_wrong, both_wrong=both_wrong)
    within = f", within {band / 2:g} points of {base}" if base else f", at most {band:g} points of accuracy apart"
    left_out = f"; {len(frame) - len(comparable)} others are left out" if len(comparable) < len(frame) else ""
    of = f" of the {len(inside)} models with accuracies from {low:g}% to {high:g}%" if len(inside) < len(runs) else ""
    return comparable, f"{len(comparable)} pairs{of}{within if band else ''}{left_out}"


@figure("representation/1", "Error inconsistency by training category", [models(), CARDS], EXAMPLE, ALL_IN_BAND)
def by_category(study: Study, *, band: float = ACCURACY_BAND, low: float = 0.0, high: float = 100.0) -> Result:
    """Error inconsistency by training category, from the smallest difference in training to the largest.

    All examples count: predicted classes need no temperature. Models with an accuracy from `low` to `high` percent are used.
    """
    return _by_category(*pairs(study, study.runs, band, low, high), ["inconsistency"])


@figure("representation/8", "Examples that one, both or neither of two models gets right", [models(), CARDS],
        EXAMPLE, ALL_IN_BAND)  # fmt: skip
def outcomes_by_category(study: Study, *, band: float = ACCURACY_BAND, low: float = 0.0, high: float = 100.0) -> Result:
    """Examples that exactly one model, both models and neither model classifies correctly, by training category."""
    return _by_category(*pairs(study, study.runs, band, low, high), ["inconsistency", "both_right", "both_wrong"])


def _by_category(frame: pd.DataFrame, note: str, measures: Sequence[str]) -> Result:
    quoted = papers.models("1").groupby("category")["inconsistency"].mean()
    rows = []
    for name in measures:
        for row in category_means(frame, name).to_dict("records"):
            paper = float(quoted.get(row["category"], math.nan)) if name == "inconsistency" else math.nan
            rows.append({"measure": name, **row, "paper": paper})
    columns = ["category", "measure", "pairs", "models", "mean", "error", "paper"]
    table = pd.DataFrame(rows, columns=columns)
    notes = [note, "errors are delete-one-model jackknifes, since pairs share models"]
    of_two = [TITLES[kind] for kind in table.loc[table["models"] == 2, "category"].unique()]
    notes += [f"rests on two models, so it has no error: {', '.join(of_two)}"] if of_two else []
    return Result(table, shapes.side_by_side(*(charts.category_chart(frame, name) for name in measures)), tuple(notes))


def category_means(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the mean over the pairs of each category in percent, its jackknife error, and numbers of pairs and models."""
    table = diversity.by_category(frame.assign(inconsistency=frame[measure]))  # a mean over pairs, whatever the measure
    means = {"mean": 100 * table["inconsistency"], "error": 100 * table["inconsistency_se"]}
    return table[["category", "pairs", "models"]].assign(**means)


@figure("representation/2", "Ensemble gain against error inconsistency", [models(3), CARDS], EXAMPLE, ALL_IN_BAND)
def gains(study: Study, *, band: float = ACCURACY_BAND, low: float = 0.0, high: float = 100.0) -> Result:
    """Gain, accuracy and conversion rate of ensembles of two models against their error inconsistency.

    The gain over the mean member is the sum of three parts: from examples that one member classifies correctly, minus
    the loss where both do, plus the gain where neither does. The bootstrap of correlations draws recipes, with all seeds.
    """
    frame, note = pairs(study, study.calibrated, band, low, high)
    quoted = papers.pairs()
    known = fit_line(quoted["inconsistency"], quoted["gain_over_mean"])
    notes = [note]
    varied = frame["inconsistency"].round(9).nunique() > 1
    for name in MEASURES if varied else ():
        line = diversity.regression(frame, y=name, groups=study.rows)
        notes.append(f"{diversity.MEASURES[name].title} against error inconsistency: {_correlation(line)}")
    notes.append(f"gain over the mean member in the paper's Table 1: {known} over {known.points} models with ResNet-50")
    parts = 100 * frame[list(GAIN_PARTS)].mean()
    notes.append(
        f"mean gain over the mean member: {100 * frame['gain_over_mean'].mean():.2f} points = {parts.iloc[0]:.2f} from "
        f"conversion - {parts.iloc[1]:.2f} where both are right + {parts.iloc[2]:.2f} where both are wrong"
    )
    table = pd.concat(
        [frame[["first", "second", "category"]], 100 * frame[["inconsistency", *MEASURES, *GAIN_PARTS]]], axis=1
    )
    if study.base_name == papers.BASE:
        table = _with_paper(table, "second", quoted, ["inconsistency", "ensemble_accuracy"])
    shown = table.drop(columns=["conversion_rate", *GAIN_PARTS]).map(_number).rename(columns=SHORT)
    drawn = [
        charts.gain_chart(frame, name, study.rows) if varied else charts.category_chart(frame, name) for name in MEASURES
    ]
    chart = shapes.side_by_side(*drawn, columns=2)
    return Result(table, chart, tuple(notes), shown)


def _correlation(line: Line) -> str:
    low, high = line.interval
    return str(line) if math.isnan(low) else f"{line} (95% CI {low:.2f} to {high:.2f}, bootstrap over recipes)"


def _number(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _comparisons(study: Study) -> list[Comparison]:
    base = _base(study)
    return [diversity.compare(study.calibrated[base], other) for other in study.calibrated.values() if other.name != base]


@figure("representation/3", "Which model is more confident, by which is right", [models()], EXAMPLE, IMAGENET)
def specialization(study: Study, *, bins: int = 40) -> Result:
    """Histograms of the specialization angle, and the plane of both confidences.

    Examples count on which at least one pair is inconsistent. Dotted lines are the angles beyond which one model's
    prediction is the ensemble's in 90% of disagreements.
    """
    comparisons = _comparisons(study)
    frame = joint_histogram(comparisons, bins)
    shown = frame.pivot_table("count", "pair", "outcome", "sum", sort=False).astype(int).astype(str).reset_index()
    bands = {", ".join(one.names): one.band for one in comparisons}
    seconds = {pair: pair.rpartition(", ")[2] for pair in bands}  # the base is the same in every pair
    ending = shared_ending(list(seconds.values()))
    labels = {pair: bare(name).removesuffix(ending) for pair, name in seconds.items()}
    edges = pd.DataFrame(
        [(pair, band.lower, band.upper) if band else (pair, None, None) for pair, band in bands.items()],
        columns=["pair", "lower", "upper"],
    )
    data = frame.merge(edges, on="pair")
    shown = shown.merge(edges.assign(lower=edges["lower"].map(_edge), upper=edges["upper"].map(_edge)))
    note = "the ensemble predicts as the first model above `upper` and as the second below `lower`, in 90% of disagreements"
    angles = _angle_chart(data.assign(pair=data["pair"].map(labels)))
    planes = [_confidence_plane(one, labels[", ".join(one.names)]) for one in comparisons]
    chart = alt.vconcat(angles, alt.concat(*planes, columns=shapes.COLUMNS)).resolve_scale(color="independent")
    return Result(data, chart, (note,), shown)


def _edge(angle: float | None) -> str:
    return "–" if angle is None or math.isnan(angle) else f"{angle:.2f}"


def _angle_chart(data: pd.DataFrame) -> alt.FacetChart:
    bars = alt.Chart().mark_bar().encode(
        x=alt.X("low:Q", bin="binned", title="θ", scale=alt.Scale(domain=[-LIMIT, LIMIT], nice=False)),
        x2="high:Q",
        y=alt.Y("count:Q", title="examples"),
        color=alt.Color("outcome:N", legend=None, scale=alt.Scale(domain=list(OUTCOMES))),
        tooltip=["pair:N", "outcome:N", alt.Tooltip("low:Q", format=".2f"), "count:Q"],
    )  # fmt: skip
    lines = [
        alt.Chart().mark_rule(strokeDash=[3, 3], opacity=0.6).encode(x=alt.X(f"mean({name}):Q", title="θ"))
        for name in ("lower", "upper")
        if data[name].notna().any()
    ]
    return (
        alt.layer(bars, *lines, data=charts.inline(data))
        .properties(width=120, height=100)
        .facet(
            row=alt.Row("pair:N", sort=list(dict.fromkeys(data["pair"])), title=None, header=HORIZONTAL),
            column=alt.Column("outcome:N", sort=list(OUTCOMES), title=None),
        )
    )


def _confidence_plane(comparison: Comparison, label: str) -> alt.LayerChart:
    """Return the two confidences of examples with different outcomes, with a ray at each edge of the prevalence band."""
    rows = comparison.rows
    assert rows.confidences is not None  # `joint_histogram` raised an error for predictions without probabilities
    first, second = rows.first == rows.labels, rows.second == rows.labels
    chosen = np.flatnonzero(first != second)
    chosen = chosen[:: max(1, -(-len(chosen) // MAX_POINTS))]
    data = pd.DataFrame(
        {
            "first": rows.confidences[0, chosen], "second": rows.confidences[1, chosen],
            "outcome": np.where(first[chosen], OUTCOMES[1], OUTCOMES[2]),
        }
    )  # fmt: skip
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("first:Q", title=f"confidence of {bare(comparison.names[0])}", scale=unit)
    y = alt.Y("second:Q", title=["confidence of", label], scale=unit)
    points = alt.Chart(charts.inline(data)).mark_circle(size=14, opacity=0.6).encode(
        x=x, y=y,
        color=alt.Color(
            "outcome:N", scale=alt.Scale(domain=list(OUTCOMES)), title=None, legend=alt.Legend(values=list(OUTCOMES[1:3]))
        ),
    )  # fmt: skip
    band = comparison.band
    rays = []
    for angle in [0.0] if band is None else [0.0, *(edge for edge in (band.lower, band.upper) if edge is not None)]:
        # theta = atan2(c1, c2) - pi/4, so the ray of theta has direction (sin, cos) of theta + pi/4; it ends at the square.
        direction = np.array([math.sin(angle + LIMIT), math.cos(angle + LIMIT)])
        end = direction / direction.max()
        ray = pd.DataFrame({"first": [0.0, end[0]], "second": [0.0, end[1]]})
        dash = [1, 0] if angle == 0 else [3, 3]
        rays.append(alt.Chart(charts.inline(ray)).mark_line(color="grey", strokeDash=dash, strokeWidth=1).encode(x=x, y=y))
    return alt.layer(points, *rays).properties(width=160, height=160)


@figure("representation/4", "Which classes each model is more confident in", [models()], EXAMPLE,
        f"{IMAGENET} -O groups=nature:0-300,anthropogenic:500-900")  # fmt: skip
def specialization_by_class(study: Study, *, bins: int = 40, groups: tuple[str, ...] = ()) -> Result:
    """The specialization angle by class, of the examples that exactly one of two models classifies correctly.

    `groups` are ranges of class numbers, such as `nature:0-300`, in which the notes compare the two models.
    """
    comparisons = {", ".join(one.names): one for one in _comparisons(study)}
    frame = pd.concat([one.by_class().assign(pair=pair) for pair, one in comparisons.items()], ignore_index=True)
    group_of = _group_of(next(iter(comparisons.values())).classes, groups)
    drawn = [_class_chart(one, group_of, bins).properties(title=pair) for pair, one in comparisons.items()]
    notes = [
        f"{pair}: {row['group']} classes: accuracies {row['accuracy_first']:.1%} and {row['accuracy_second']:.1%} "
        f"(p = {row['p_holm']:.3f}), mean θ {row['theta']:.3f}"
        for pair, one in comparisons.items()
        for row in (one.by_class(group_of).to_dict("records") if groups else ())
        if row["group"] != OTHER
    ]
    names = frame["pair"].map({pair: one.names for pair, one in comparisons.items()})
    shown = frame[[*BY_CLASS]].round(3).map(number)
    shown.insert(0, "first", names.str[0])
    shown.insert(1, "second", names.str[1])
    return Result(frame, shapes.side_by_side(*drawn), tuple(notes), shown)


def _group_of(classes: Sequence[str], groups: Sequence[str]) -> dict[str, str]:
    """Return the group of each class, given ranges of class numbers."""
    group_of = dict.fromkeys(classes, OTHER)
    for text in groups:
        match = re.fullmatch(r"(?P<name>[^:]+):(?P<first>\d+)-(?P<last>\d+)", text)
        if match is None or int(match["last"]) >= len(classes):
            expected = f"NAME:FIRST-LAST, with class numbers below {len(classes)}"
            raise InputError(argument="groups", expected=expected, found=text)
        group_of |= dict.fromkeys(classes[int(match["first"]) : int(match["last"]) + 1], match["name"])
    return group_of


def _class_chart(comparison: Comparison, group_of: Mapping[str, str], bins: int) -> alt.TopLevelMixin:
    """Return a heatmap of angle by class, with names, in a panel per group; with more than `MAX_NAMED` classes, by group.

    Classes stand in the order of the first model's advantage. Many classes without groups are shown by number.
    """
    named, groups = len(group_of) <= MAX_NAMED, list(dict.fromkeys(group_of.values()))
    rows, theta = comparison.rows, comparison.rows.theta
    if theta is None or not (named or len(groups) > 1):
        return charts.class_chart(comparison, bins)
    edges = np.linspace(-LIMIT, LIMIT, bins + 1)
    chosen = np.flatnonzero((rows.first == rows.labels) != (rows.second == rows.labels))
    names = np.array(comparison.classes, object)[rows.labels[chosen]]
    data = pd.DataFrame(
        {
            "class": names, "group": [group_of[name] for name in names],
            "low": edges[np.digitize(theta[chosen], edges[1:-1])],
        }
    )  # fmt: skip
    x, order = ("class", comparison.by_class()["class"].tolist()) if named else ("group", groups)
    data = data.groupby([x, *(["group"] if named else []), "low"], sort=False).size().reset_index(name="examples")
    data["fraction"] = data["examples"] / data.groupby(x)["examples"].transform("sum")
    color = (
        alt.Color("examples:Q") if named else alt.Color("fraction:Q", title="of the group", legend=alt.Legend(format="%"))
    )
    chart = alt.Chart(charts.inline(data.assign(high=data["low"] + edges[1] - edges[0]))).mark_rect().encode(
        x=alt.X(f"{x}:N", sort=order, title=None),
        y=alt.Y("low:Q", title="θ  (upwards: first more confident)", scale=alt.Scale(domain=[-LIMIT, LIMIT], nice=False)),
        y2="high:Q",
        color=color.scale(scheme="viridis"),
        tooltip=[f"{x}:N", alt.Tooltip("low:Q", format=".2f"), "examples:Q"],
    ).properties(width=alt.Step(18 if named else 60), height=shapes.HEIGHT)  # fmt: skip
    if not named or len(groups) == 1:
        return chart
    return chart.facet(column=alt.Column("group:N", sort=groups, title=None), spacing=4).resolve_scale(x="independent")


COMPARED = ("accuracy", "temperature", "inconsistency", "ensemble_accuracy")  # columns of the paper's Tables 1 to 3


@figure("representation/table-1", "Models compared with the base", [models(), CARDS], EXAMPLE, BANDED)
@figure("representation/table-2", "High-accuracy models", [models(), CARDS], f"{EXAMPLE} -O low=99", f"{IMAGENET} -O low=80")
@figure(
    "representation/table-3", "Low-accuracy models", [models(), CARDS], f"{EXAMPLE} -O high=99.4", f"{IMAGENET} -O high=74"
)
def model_table(study: Study, *, low: float = 0.0, high: float = 100.0) -> Result:
    """Accuracy and temperature of each model, its error inconsistency with the base and the accuracy of their ensemble.

    Models with an accuracy from `low` to `high` percent are listed.
    """
    base = _base(study)
    frame = diversity.pair_frame(study.calibrated, base, accuracy_band=None)
    compared = frame.set_index("second")
    rows = _models(study, low, high)
    rows["temperature"] = [study.calibrated[name].temperature for name in rows["model"]]
    for name in ("inconsistency", "ensemble_accuracy"):
        rows[name] = [100 * compared[name].get(model, math.nan) for model in rows["model"]]
    chart = shapes.scatter(rows, "inconsistency", "ensemble_accuracy", "category", fit=False)
    means = category_means(frame[frame["second"].isin(rows["model"])], "inconsistency")
    by_kind = "; ".join(
        f"{row['category']} {row['mean']:.2f}"
        + ("" if math.isnan(row["error"]) else f" ± {row['error']:.2f}")
        + f" ({row['pairs']} pairs, {row['models']} models)"
        for row in means.to_dict("records")
    )
    notes = [f"compared with {base}"]
    notes += [f"mean error inconsistency by category, ± jackknife over models: {by_kind}"] if by_kind else []
    order = ["model", *COMPARED[:2], "category", *COMPARED[2:], "method", "head"]
    return Result(_with_paper(rows[order], "model", papers.models("1", "2", "3"), COMPARED), chart, tuple(notes))


@figure("representation/table-4", "Other models", [models(), CARDS], EXAMPLE, IMAGENET)
def other_models(study: Study, *, low: float = 0.0, high: float = 100.0) -> Result:
    """Accuracy of each model and its training category with the base."""
    rows = _models(study, low, high)
    chart = score_chart(rows.assign(score=rows["accuracy"] / 100, metric="accuracy"))
    return Result(_with_paper(rows, "model", papers.models("1", "2", "3", "4"), ["accuracy"]), chart)


def _base(study: Study) -> str:
    return study.base_name or study.names[0]


def _models(study: Study, low: float, high: float) -> pd.DataFrame:
    """Return the models with an accuracy from `low` to `high` percent."""
    cards = {name: card for name, card in study.cards.items() if card is not None}
    rows = [
        (name, accuracy, diversity.category(cards[_base(study)], card), f"{card.framework} / {card.dataset}", card.head)
        for name, outputs in study.runs.items()
        if low <= (accuracy := 100 * outputs.accuracy) <= high and (card := cards.get(name)) is not None
    ]
    if not rows:
        raise InputError(f"no model has an accuracy from {low:g} to {high:g} percent", argument="low")
    return pd.DataFrame(rows, columns=["model", "accuracy", "category", "method", "head"])


def _with_paper(table: pd.DataFrame, key: str, paper: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the table with the paper's numbers in further columns, as far as the paper has any of these models."""
    quoted = paper.drop_duplicates("model").set_index("model")
    new = {f"{name}_paper": [quoted[name].get(model, math.nan) for model in table[key]] for name in names}
    return table.assign(**{name: values for name, values in new.items() if any(value == value for value in values)})
