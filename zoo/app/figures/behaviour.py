"""How errors differ between two models: Figures 1 to 4 and 8 and the tables of Gontijo-Lopes et al. 2021."""

import math
from collections.abc import Sequence

import pandas as pd

import diversity
import zoo
from diversity import charts
from probes.charts import score_chart
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import CARDS, models
from zoo.app.figures.record import DIGITS, figure
from zoo.app.figures.result import Result
from zoo.app.figures.study import Study
from zoo.cards.names import bare
from zoo.errors import InputError

HERE, THERE = f"{DIGITS} --base resnet8-softmax", "NAMES --base resnet50-ra --data in1k"
BAND = f"{THERE} -O low=74 -O high=78"  # of about equal accuracy: else errors differ because one model makes more of them


def pairs(study: Study, base: str | None, low: float = 0.0, high: float = 100.0) -> pd.DataFrame:
    """One row per pair, as shares: the base with every other model in the band of accuracies, or all pairs of these."""
    kept = [name for name in study.names if name == base or name in _in_band(study, low, high)]
    if len(kept) < 2:
        raise InputError(f"low={low:g} and high={high:g} leave {len(kept)} of {len(study.names)} models, expected 2 or more")
    frame = diversity.pair_frame(zoo.Runs([study.calibrated[name] for name in kept]), base)
    return frame.assign(both_right=1 - frame["inconsistency"] - frame["double_fault"], both_wrong=frame["double_fault"])


@figure("representation/1", "Errors by how training differs", [models(), CARDS], HERE, BAND)
def by_category(study: Study, *, low: float = 0.0, high: float = 100.0) -> Result:
    """Error inconsistency by category, least difference in training first."""
    return _by_category(pairs(study, study.base_name, low, high), ["inconsistency"])


@figure("representation/8", "Where one, both or none of two is right", [models(), CARDS], HERE, BAND)
def by_category_in_full(study: Study, *, low: float = 0.0, high: float = 100.0) -> Result:
    """The same of the examples that both get right and that both get wrong."""
    return _by_category(pairs(study, study.base_name, low, high), ["inconsistency", "both_right", "both_wrong"])


def _by_category(frame: pd.DataFrame, measures: Sequence[str]) -> Result:
    theirs = papers.models("1").groupby("category")["inconsistency"].mean()
    rows = []
    for name in measures:
        for kind in diversity.CATEGORIES:
            values = 100 * frame.loc[frame["category"] == kind, name]
            if len(values):
                quoted = float(theirs[kind]) if name == "inconsistency" else math.nan
                rows.append((kind, name, len(values), values.mean(), values.sem(), quoted))
    table = pd.DataFrame(rows, columns=["category", "measure", "pairs", "mean", "error", "paper"])
    return Result(table, shapes.side_by_side(*(charts.category_chart(frame, name) for name in measures)))


@figure("representation/2", "What different errors are worth", [models(3), CARDS], HERE, BAND)
def gains(study: Study, *, low: float = 0.0, high: float = 100.0) -> Result:
    """Gain, accuracy and conversion rate of an ensemble of two against their error inconsistency."""
    frame, theirs = pairs(study, study.base_name, low, high), papers.pairs()
    measures = ["gain_over_mean", "ensemble_accuracy", "conversion_rate"]
    known = diversity.regression(theirs["inconsistency"], theirs["gain_over_mean"])
    lines = {name: diversity.regression(frame["inconsistency"], frame[name]) for name in measures}
    notes = [
        f"{diversity.MEASURES[name].title} against error inconsistency: {_correlation(line, study.base_name)}"
        for name, line in lines.items()
    ]
    notes.append(f"the paper's Table 1, gain over the mean member: {known} over {known.points} models beside ResNet-50")
    shown = ["inconsistency", *measures]
    table = pd.concat([frame[["first", "second", "category"]], 100 * frame[shown]], axis=1)
    if study.base_name == papers.BASE:
        table = _beside(table, "second", theirs, ["inconsistency", "ensemble_accuracy"])
    return Result(table, shapes.side_by_side(*(charts.gain_chart(frame, name) for name in measures)), tuple(notes))


def _correlation(line: diversity.Line, base: str | None) -> str:
    """In words; with its interval for pairs of one model with others, which are independent as all pairs are not."""
    low, high = line.interval
    return str(line) if base is None or math.isnan(low) else f"{line}, 95% interval {low:.2f} to {high:.2f}"


def _comparisons(study: Study) -> list[diversity.Comparison]:
    base = _base(study)
    return [diversity.compare(study.calibrated[base], other) for other in study.calibrated.values() if other.name != base]


@figure("representation/3", "Who is surer, by who is right", [models()], HERE, THERE)
def specialization(study: Study, *, bins: int = 40) -> Result:
    """Histograms of the specialization angle on the examples where at least one pair is inconsistent."""
    frame = diversity.joint_histogram(_comparisons(study), bins)
    shown = frame.pivot_table("count", "pair", "outcome", "sum", sort=False).astype(int).astype(str).reset_index()
    others = {pair: bare(pair.rpartition(", ")[2]) for pair in frame["pair"].unique()}  # the base has no part in a label
    return Result(frame, charts.joint_theta_chart(frame.assign(pair=frame["pair"].map(others))), (), shown)


@figure("representation/4", "Which classes each model is surer of", [models()], HERE, THERE)
def specialization_by_class(study: Study, *, bins: int = 40) -> Result:
    """The angle by class, of the examples that exactly one of two models gets right."""
    found = {", ".join(one.names): one for one in _comparisons(study)}
    frame = pd.concat([one.by_class().assign(pair=pair) for pair, one in found.items()], ignore_index=True)
    return Result(
        frame, shapes.side_by_side(*(charts.class_chart(one, bins).properties(title=p) for p, one in found.items()))
    )


BESIDE = ("accuracy", "temperature", "inconsistency", "ensemble_accuracy")


@figure("representation/table-1", "Models beside the base", [models(), CARDS], HERE, BAND)
@figure("representation/table-2", "High-accuracy models", [models(), CARDS], f"{HERE} -O low=99", f"{THERE} -O low=80")
@figure("representation/table-3", "Low-accuracy models", [models(), CARDS], f"{HERE} -O high=99.4", f"{THERE} -O high=74")
def model_table(study: Study, *, low: float = 0.0, high: float = 100.0) -> Result:
    """Each model with its temperature, and beside the base its error inconsistency and their ensemble's accuracy."""
    beside = pairs(study, _base(study)).set_index("second")
    rows = _models(study, low, high)
    order = ["model", *BESIDE[:2], "category", *BESIDE[2:], "method", "head"]
    rows["temperature"] = [study.calibrated[name].temperature for name in rows["model"]]
    for name in ("inconsistency", "ensemble_accuracy"):
        rows[name] = [100 * beside[name].get(model, math.nan) for model in rows["model"]]
    chart = shapes.scatter(rows, "inconsistency", "ensemble_accuracy", "category", fit=False)
    return Result(_beside(rows[order], "model", papers.models("1", "2", "3"), BESIDE), chart, (f"beside {_base(study)}",))


@figure("representation/table-4", "Other models", [models(), CARDS], HERE, THERE)
def other_models(study: Study, *, low: float = 0.0, high: float = 100.0) -> Result:
    """Each model with its accuracy and its category against the base."""
    rows = _models(study, low, high)
    chart = score_chart(rows.assign(score=rows["accuracy"] / 100, metric="accuracy"))
    return Result(_beside(rows, "model", papers.models("1", "2", "3", "4"), ["accuracy"]), chart)


def _base(study: Study) -> str:
    return study.base_name or study.names[0]


def _in_band(study: Study, low: float, high: float) -> dict[str, float]:
    """The accuracies that lie in the band, in percent."""
    accuracies = {name: 100 * outputs.accuracy for name, outputs in study.runs.items()}
    return {name: accuracy for name, accuracy in accuracies.items() if low <= accuracy <= high}


def _models(study: Study, low: float, high: float) -> pd.DataFrame:
    """The models whose accuracy lies in the band, in percent."""
    cards = {name: card for name, card in study.cards.items() if card is not None}
    rows = [
        (name, accuracy, diversity.category(cards[_base(study)], card), f"{card.framework} / {card.dataset}", card.head)
        for name, accuracy in _in_band(study, low, high).items()
        if (card := cards.get(name)) is not None
    ]
    return pd.DataFrame(rows, columns=["model", "accuracy", "category", "method", "head"])


def _beside(table: pd.DataFrame, key: str, theirs: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The table with the paper's numbers in columns of their own, where the paper has the model."""
    quoted = theirs.drop_duplicates("model").set_index("model")
    new = {f"{name}_paper": [quoted[name].get(model, math.nan) for model in table[key]] for name in names}
    return table.assign(**{name: values for name, values in new.items() if any(value == value for value in values)})
