"""Charts: what they draw is what was measured, and can be read."""

import re

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert
from raised import fields

import diversity
from diversity import charts
from diversity.categories import TITLES
from diversity.comparison import joint_histogram
from zoo.calibration import fit_temperature, reliability, to_probabilities
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs


def drawn(chart):
    """The SVG, which needs a valid specification and a scene without errors."""
    return vl_convert.vegalite_to_svg(chart.to_json())


def rows_of(chart):
    return [row for data in chart.to_dict()["datasets"].values() for row in data]


@pytest.fixture
def outputs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 400)
    logits = rng.normal(size=(4, 400, 6)) + 1.5 * np.eye(6)[y]
    names = ("a", "b'c", "d.e", "f")
    return Runs(Outputs.from_arrays(n, logits=z, labels=y) for n, z in zip(names, logits, strict=True))


@pytest.fixture
def frame(outputs):
    frame = diversity.pair_frame(outputs, accuracy_band=None)
    return frame.assign(category=["reinit", "hparam", "hparam", "arch", "dataset", None])


def data_of(spec, part):
    """The rows behind a part of a chart that has its own."""
    return pd.DataFrame(spec["datasets"][part["data"]["name"]])


def marks(chart):
    """What each mark of the drawing says it stands for, field by field."""
    found = re.findall(r'<path aria-label="([^"]*)"', drawn(chart))
    return [dict(field.split(": ", 1) for field in label.split("; ")) for label in found]


def test_categories(frame):
    dots, ticks = {}, {}
    for mark in marks(charts.category_chart(frame, "conversion_rate")):
        if "first" in mark:
            dots[mark["first"].replace("&#39;", "'"), mark["second"].replace("&#39;", "'")] = mark
        else:
            ticks[mark["category"]] = mark
    assert len(dots) == 6
    for row in frame.itertuples():
        assert dots[row.first, row.second]["conversion_rate"] == f"{row.conversion_rate:.2%}"
    means = frame.fillna({"category": "unknown"}).groupby("category")["conversion_rate"].mean().rename(TITLES)
    drawn_means = {kind: float(mark["Mean of conversion_rate"]) for kind, mark in ticks.items()}
    assert drawn_means == pytest.approx(means.to_dict(), abs=1e-6)


def test_the_axis_has_the_measures_title_and_unit(frame):
    specs = [charts.category_chart(frame, name).to_dict() for name in ("agreement", "kappa")]
    fraction, coefficient = (spec["layer"][0]["encoding"]["y"] for spec in specs)
    assert (fraction["title"], fraction["axis"]) == ("same top-1 class", {"format": "%"})
    assert (coefficient["title"], coefficient["axis"]) == ("error consistency (kappa)", {})


@pytest.mark.parametrize("measure", ["gain_over_mean", "ensemble_accuracy", "conversion_rate"])
def test_gain(frame, measure):
    spec = charts.gain_chart(frame, measure).to_dict()
    x, y = frame["inconsistency"], frame[measure]
    low, high = diversity.regression(frame, y=measure, comparable_only=False).interval
    assert spec["title"] == f"r = {np.corrcoef(x, y)[0, 1]:.2f} (95% CI {low:.2f} to {high:.2f}), 6 pairs"
    line, dots, stars = (data_of(spec, layer) for layer in spec["layer"])
    slope, intercept = np.polyfit(x, y, 1)
    np.testing.assert_allclose(line[measure], slope * np.array([x.min(), x.max()]) + intercept, atol=2e-6)
    np.testing.assert_allclose(dots[["inconsistency", measure]], frame[["inconsistency", measure]], atol=1e-6)
    hparam = frame[frame["category"] == "hparam"]
    star = stars.set_index("category").loc[TITLES["hparam"]]
    assert star[measure] == pytest.approx(hparam[measure].sum() / 2, abs=1e-6)
    assert "<svg" in drawn(charts.gain_chart(frame, measure))


def test_the_line_of_gains_is_through_pairs_of_comparable_accuracy(frame):
    comparable = np.array([True, True, True, True, False, False])
    spec = charts.gain_chart(frame.assign(comparable=comparable)).to_dict()
    line, dots, stars = (data_of(spec, layer) for layer in spec["layer"])
    x, y = frame["inconsistency"][comparable], frame["gain_over_mean"][comparable]
    slope, intercept = np.polyfit(x, y, 1)
    np.testing.assert_allclose(line["gain_over_mean"], slope * np.array([x.min(), x.max()]) + intercept, atol=2e-6)
    assert (dots["opacity"] < 0.5).tolist() == (~comparable).tolist()
    assert TITLES["dataset"] not in set(stars["category"])
    assert "4 of 6 pairs" in spec["title"]
    too_few = charts.gain_chart(frame.assign(comparable=[True, *[False] * 5])).to_dict()
    assert "6 pairs" in too_few["title"]


def test_gains_that_differ_by_rounding_alone(frame):
    """Without rounding, such an axis has ticks like 3.0000000000000027%, under a title of r = nan."""
    same = frame.assign(gain_over_mean=0.03 + np.arange(6) * 5e-18 + np.array([0, 0, 0, 0, 0, 2.7e-17]))
    image = drawn(charts.gain_chart(same))
    assert "nan" not in image.lower()
    assert "r is undefined" in image
    assert "6 pairs" in image
    labels = re.findall(r">([\d.]+%)<", image)
    assert "3%" in labels
    assert all(len(label) <= 5 for label in labels)
    assert all(len(label) <= 5 for label in re.findall(r">([\d.]+%)<", drawn(charts.category_chart(same, "gain_over_mean"))))


def test_gain_needs_a_measure_of_the_frame(frame):
    with pytest.raises(InputError, check=fields(argument="measure", found="nope")):
        charts.gain_chart(frame, "nope")


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["resnet7-softmax.cifar10", "head.cifar10"], ["resnet7-softmax", "head"]),
        (["resnet7-softmax.cifar10", "head.digits"], ["resnet7-softmax.cifar10", "head.digits"]),
        (["wd-0.001", "lr-0.001"], ["wd-0.001", "lr-0.001"]),
    ],
)
def test_labels_leave_out_a_dataset_that_all_names_end_in(names, labels):
    written = re.findall(r"<text[^>]*>([^<]*)</text>", drawn(charts.matrix_chart(pd.DataFrame(np.eye(2), names, names))))
    assert sorted(text for text in written if not text[0].isdigit()) == sorted(2 * labels)


def test_matrix_and_dendrogram(outputs):
    m = diversity.pairwise(outputs)
    tree = diversity.cluster(m.agreement, m.names)
    plain = charts.matrix_chart(m.matrix("agreement"), "agreement")
    assert len(rows_of(plain)) == 16
    assert "<svg" in drawn(plain)
    ordered = charts.matrix_chart(m.matrix("agreement"), "agreement", tree)
    assert ordered.to_dict()["vconcat"][1]["encoding"]["x"]["sort"] == list(tree.leaves)
    assert "<svg" in drawn(ordered)
    alone = drawn(charts.dendrogram_chart(tree))
    for name in m.names:
        assert name.replace("'", "&#39;") in alone or name in alone
    with pytest.raises(InputError, check=fields(argument="tree")):
        charts.matrix_chart(m.matrix("agreement"), tree=diversity.cluster(m.agreement, ["p", "q", "r", "s"]))


def test_specialization(outputs):
    comparison = diversity.compare(outputs["a"], outputs["f"])
    chart = comparison.chart()
    assert isinstance(chart, alt.FacetChart)
    assert sum(row["count"] for row in rows_of(chart) if "count" in row) == 400
    image = drawn(chart)
    for outcome in ("both right", "only first right", "only second right", "both wrong"):
        assert outcome in image
    outcomes = {row["outcome"]: 0 for row in rows_of(chart) if "count" in row}
    for row in rows_of(chart):
        if "count" in row:
            outcomes[row["outcome"]] += row["count"]
    assert outcomes["only first right"] == comparison.only_first
    assert outcomes["both wrong"] == comparison.both_wrong
    by_class = charts.class_chart(comparison)
    apart = comparison.only_first + comparison.only_second
    assert sum(row["count"] for row in rows_of(by_class)) == apart
    assert "<svg" in drawn(by_class)


def test_class_chart_needs_probabilities():
    hard = [Outputs.from_arrays(n, predictions=[0, 1, 1], labels=[0, 1, 0]) for n in "ab"]
    with pytest.raises(InputError, check=fields(problem="probabilities")):
        charts.class_chart(diversity.compare(*hard))


def test_several_pairs_on_one_population(outputs):
    pairs = [diversity.compare(outputs["a"], outputs[name]) for name in ("f", "d.e")]
    right = {name: o.predictions == o.labels for name, o in outputs.items()}
    population = int(((right["a"] != right["f"]) | (right["a"] != right["d.e"])).sum())
    chart = charts.joint_theta_chart(joint_histogram(pairs))
    bars = marks(chart)
    for pair in ("a, f", "a, d.e"):
        assert sum(int(bar["examples"]) for bar in bars if bar["pair"] == pair) == population


def test_reliability(outputs):
    """Each point is the accuracy of the examples of its bin, counted here by hand."""
    a = outputs["a"]
    p = to_probabilities(a.logits)
    drawn_marks = marks(charts.reliability_chart(reliability(p, a.labels)))
    points = {(int(mark["count"]), float(mark["accuracy"].rstrip("%"))) for mark in drawn_marks if "count" in mark}
    bins = np.minimum((p.max(1) * 15).astype(int), 14)
    right = p.argmax(1) == a.labels
    expected = {(int((bins == k).sum()), round(100 * right[bins == k].mean(), 4)) for k in np.unique(bins)}
    assert points == expected


def test_reliability_before_and_after_of_several_models(outputs):
    frames = [fit_temperature(o.logits, o.labels).reliability().assign(model=n) for n, o in outputs.items()]
    spec = charts.reliability_chart(pd.concat(frames), min_count=5).to_dict()
    data = data_of(spec, spec)
    assert set(data["when"]) == {"before", "after"}
    assert data["count"].min() >= 5
    assert len(data) == sum((frame["count"] >= 5).sum() for frame in frames)
    assert spec["facet"]["field"] == "model"
