"""Comparisons give the same numbers as the functions, in every form and for every kind of outputs."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
import torch
from accelerator import DEVICES
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from raised import fields
from sklearn.metrics import cohen_kappa_score

import diversity
from diversity import _pair_rows
from diversity.chance_adjusted import adjusted, misses_of
from diversity.comparison import cka_rows, joint_histogram
from diversity.measures import MEASURES, names
from diversity.similarity import linear_cka
from diversity.specialization import prevalence_band, specialization_by_class
from zoo.calibration import calibrate, to_probabilities
from zoo.cards.card import Card, Training
from zoo.core.columns import Column
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

CLASSES = ("cat", "dog", "eel", "fox")


def arrays(seed, rows=300):
    rng = np.random.default_rng(seed)
    y = np.random.default_rng(99).integers(0, 4, rows)
    return rng.normal(size=(rows, 4)) + 1.5 * np.eye(4)[y], y


def outputs(name="a", seed=0, rows=300, kind="logits", **more):
    z, y = arrays(seed, rows)
    values = {"logits": z, "probabilities": to_probabilities(z), "predictions": z.argmax(1)}[kind]
    return Outputs.from_arrays(name, **{kind: values}, labels=y, classes=CLASSES, **more)


@pytest.fixture
def comparison():
    x = np.random.default_rng(5).normal(size=(2, 300, 6))
    return diversity.compare(
        outputs("a", 0, embeddings=x[0], dataset="d:test"), outputs("b", 1, embeddings=x[0] + x[1], dataset="d:test")
    )


def test_every_number_is_that_of_the_function(comparison):
    (z, y), (w, _) = arrays(0), arrays(1)
    a, b, p, q = z.argmax(1), w.argmax(1), to_probabilities(z), to_probabilities(w)
    table, joint = diversity.error_table(a, b, y), diversity.ensemble_table(p, q, y)
    for measure in names("errors"):
        assert getattr(comparison, measure) == getattr(table, measure)
    for measure in names("ensemble"):
        assert getattr(comparison, measure) == getattr(joint, measure)
    assert comparison.capa == pytest.approx(diversity.capa(p, q, y))
    np.testing.assert_allclose(comparison.theta, diversity.specialization_angle(p, q))
    assert comparison.mean_theta == pytest.approx(comparison.theta.mean())
    assert comparison.band == prevalence_band(comparison.theta, a, b, (p + q).argmax(1))
    assert comparison.by_class().equals(specialization_by_class(comparison.theta, a == y, b == y, y, CLASSES))
    x = np.random.default_rng(5).normal(size=(2, 300, 6))
    assert comparison.cka == pytest.approx(linear_cka(x[0], x[0] + x[1]))


def test_chunks_make_no_difference(comparison, monkeypatch):
    monkeypatch.setattr(_pair_rows, "CHUNK", 11)
    again = diversity.compare(outputs("a", 0), outputs("b", 1))
    assert again.ensemble_accuracy == comparison.ensemble_accuracy
    np.testing.assert_allclose(again.theta, comparison.theta)


def test_a_model_with_itself():
    r = diversity.compare(outputs(), outputs())
    assert (r.inconsistency, r.kappa, r.agreement, r.mean_theta) == (0, 1, 1, 0)
    assert r.ensemble_accuracy == r.accuracy_first
    low, high = r.interval("inconsistency")
    assert low == 0 < high < 0.02  # no difference in 300 examples is not none in all


@pytest.mark.parametrize("measure", [name for name, measure in MEASURES.items() if measure.has_interval])
def test_intervals_hold_the_value(comparison, measure):
    low, high = comparison.interval(measure)
    value = getattr(comparison, measure)
    assert isinstance(low, float)
    assert low <= value <= high or math.isclose(low, value) or math.isclose(high, value)


@pytest.mark.parametrize("measure", ["capa", "mean_theta", "gain_over_best"])
def test_intervals_are_those_of_resampled_examples(measure):
    a, b = outputs("a", 0), outputs("b", 1)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        rows = rng.integers(0, 300, 300)
        ids = [str(i) for i in range(300)]
        drawn = [dataclasses.replace(o.select(rows), ids=np.array(ids)) for o in (a, b)]
        found.append(getattr(diversity.compare(*drawn), measure))
    low, high = diversity.compare(a, b, resamples=3000).interval(measure)
    np.testing.assert_allclose([low, high], np.quantile(found, [0.025, 0.975]), atol=0.5 * np.std(found))


def test_calibrated_probabilities_are_used():
    runs = Runs([outputs("a", 0), dataclasses.replace(outputs("b", 1), values=Column([20 * arrays(1)[0]]))])
    overconfident = diversity.compare(runs["a"], runs["b"])
    calibrated = calibrate(runs)
    fair = diversity.compare(calibrated["a"], calibrated["b"])
    assert overconfident.mean_theta < -0.1
    assert abs(fair.mean_theta) < 0.05
    assert None not in fair.temperatures


def test_the_link_is_honoured():
    r = diversity.compare(outputs("a", 0, link="sigmoid"), outputs("b", 1))
    expected = diversity.specialization_angle(to_probabilities(arrays(0)[0], 1.0, "sigmoid"), to_probabilities(arrays(1)[0]))
    np.testing.assert_allclose(r.theta, expected)


@pytest.mark.parametrize("kinds", [("predictions", "predictions"), ("logits", "predictions")])
def test_predictions_only(kinds):
    r = diversity.compare(outputs("a", 0, kind=kinds[0]), outputs("b", 1, kind=kinds[1]))
    full = diversity.compare(outputs("a", 0), outputs("b", 1))
    assert (r.inconsistency, r.kappa, r.agreement) == (full.inconsistency, full.kappa, full.agreement)
    assert r.ensemble_accuracy is r.conversion_rate is r.theta is r.band is r.cka is None
    (z, y), (w, _) = arrays(0), arrays(1)
    assert r.capa == pytest.approx(adjusted(*misses_of(diversity.error_table(z.argmax(1), w.argmax(1), y)), 4))
    low, high = r.interval("capa")
    assert low < r.capa < high
    right = [x.argmax(1) == y for x in (z, w)]
    assert r.by_class().equals(specialization_by_class(None, *right, y, CLASSES))
    for call in (r.histogram, r.extremes, r.chart):
        with pytest.raises(InputError, check=fields(problem="probabilities")):
            call()
    with pytest.raises(InputError, check=fields(argument="measure", found="conversion_rate")):
        r.interval("conversion_rate")
    assert "Only predictions" in str(r)
    assert r.to_dict()["ensemble_accuracy"] is None


def test_a_missing_prediction_counts_as_wrong():
    a, b, y = [0, -1, 2, -1], [0, 1, -1, -1], [0, 1, 2, 3]
    turned = [3, 1, 0, 2]  # the second's classes in another order, its missing predictions still missing
    other = [turned.index(k) if k >= 0 else -1 for k in b]
    r = diversity.compare(
        Outputs.from_arrays("a", predictions=a, labels=y, classes=CLASSES),
        Outputs.from_arrays("b", predictions=other, labels=np.argsort(turned)[y], classes=[CLASSES[k] for k in turned]),
    )
    assert r.unanswered == (2, 2)
    assert r.cells.tolist() == [1, 1, 1, 0, 1]
    assert r.to_dict()["unanswered"] == [2, 2]
    assert "first 2, second 2" in str(r)
    with pytest.raises(InputError, match="-2"):
        Outputs.from_arrays("a", predictions=[0, -2], labels=[0, 1])


def test_mixed_kinds():
    full = diversity.compare(outputs("a", 0), outputs("b", 1))
    r = diversity.compare(outputs("a", 0, kind="probabilities"), outputs("b", 1))
    assert r.ensemble_accuracy == full.ensemble_accuracy


class TestAlignment:
    def test_rows_in_another_order(self, comparison):
        order = np.random.default_rng(0).permutation(300)
        r = diversity.compare(outputs("a", 0), outputs("b", 1).select(order))
        assert r.cells.tolist() == comparison.cells.tolist()

    def test_classes_in_another_order(self, comparison):
        z, y = arrays(1)
        turned = np.array([2, 0, 3, 1])
        other = Outputs.from_arrays(
            "b", logits=z[:, turned], labels=np.argsort(turned)[y], classes=[CLASSES[k] for k in turned]
        )
        r = diversity.compare(outputs("a", 0), other)
        assert r.cells.tolist() == comparison.cells.tolist()
        assert r.ensemble_accuracy == comparison.ensemble_accuracy

    def test_other_examples_are_refused(self):
        with pytest.raises(InputError, match="a and b"):
            diversity.compare(outputs("a", 0), outputs("b", 1).select(slice(0, 200)))

    def test_other_classes_are_refused(self):
        z, y = arrays(1)
        other = Outputs.from_arrays("b", logits=z, labels=y, classes=["cat", "dog", "eel", "gnu"])
        with pytest.raises(InputError, match="a and b"):
            diversity.compare(outputs("a", 0), other)

    def test_no_labels(self):
        with pytest.raises(InputError, check=fields(problem="no labels")):
            diversity.compare(*(dataclasses.replace(outputs(n), labels=None) for n in "ab"))


def test_category_comes_from_the_cards():
    def card(name, dataset):
        training = Training(dataset, "supervised", "softmax")
        return Card(name, "reference", "resnet", "resnet50", "digits", "softmax", "trained", training)

    r = diversity.compare(outputs("a", 0, card=card("a", "in1k")), outputs("b", 1, card=card("b", "wit")))
    assert r.category == "dataset"
    assert "Difference in training: training data." in str(r)


def test_views(comparison):
    text = str(comparison)
    assert all(len(line) <= 80 for line in text.splitlines())
    for expected in ("First: a", "Second: b", "300 examples of d:test", "conversion rate", "Not calibrated"):
        assert expected in text
    low, high = (f"{100 * end:.1f}" for end in comparison.interval("inconsistency"))
    words = " ".join(text.split())
    assert f"error inconsistency {comparison.inconsistency:.1%} (95% CI {low} to {high})" in words
    low, high = (f"{100 * end:.1f}" for end in comparison.interval("gain_over_mean"))
    assert f"gain over the mean member {100 * comparison.gain_over_mean:+.1f} points (95% CI {low} to {high})" in words
    assert f"Exactly one model classifies {int(comparison.inconsistent)} examples correctly" in words
    assert f"{comparison.inconsistency:.1%}" in repr(comparison)
    page = comparison._repr_html_()
    assert page.count("<tr>") >= 20
    assert f"{comparison.kappa:.3f}" in page


def test_long_names_and_markup_do_not_break_the_views():
    name = "<script>" + "x" * 150
    r = diversity.compare(outputs(name, 0), outputs("b", 1))
    assert all(len(line) <= 80 for line in str(r).splitlines())
    assert "<script>" not in r._repr_html_()


def test_frame_and_dictionary(comparison):
    frame = comparison.to_frame().set_index("measure")
    assert frame.loc["kappa", "value"] == comparison.kappa
    assert (frame.loc["kappa", "low"], frame.loc["kappa", "high"]) == comparison.interval("kappa")
    plain = json.loads(json.dumps(comparison.to_dict()))
    assert plain["first"] == "a"
    assert plain["examples"] == 300 == sum(plain["table"].values())
    assert plain["intervals"]["inconsistency"] == list(comparison.interval("inconsistency"))
    assert plain["ensemble_accuracy"] == comparison.ensemble_accuracy


def test_extremes_name_examples(comparison):
    frame = comparison.extremes(5)
    assert frame["more_confident"].tolist() == ["first"] * 5 + ["second"] * 5
    theta = dict(zip(comparison.rows.ids, comparison.theta, strict=True))
    assert frame["theta"].tolist() == [theta[i] for i in frame["id"]]
    assert set(frame["outcome"]) <= {"only first right", "only second right"}
    assert ((frame["label"] == frame["first"]) != (frame["label"] == frame["second"])).all()
    everything = comparison.extremes(1, inconsistent=False)
    assert everything["theta"].tolist() == [comparison.theta.max(), comparison.theta.min()]


def test_a_row_that_is_not_finite_is_named():
    z = arrays(1)[0].copy()
    z[271, 2] = np.nan
    broken = dataclasses.replace(outputs("b", 1), values=Column([z]))
    for call in (
        lambda: diversity.compare(outputs("a", 0), broken),
        lambda: diversity.pair_frame(Runs([outputs("a", 0), broken])),
    ):
        with pytest.raises(InputError, check=fields(argument="b", problem="'271'")):
            call()


def test_unknown_interval(comparison):
    with pytest.raises(InputError, check=fields(argument="measure", found="cka")):
        comparison.interval("cka")


def test_the_side_on_which_one_model_always_prevails_is_printed_as_any_angle():
    """The first is certain of its class and the second hardly prefers its own, so the first prevails at every angle."""
    y = np.arange(60) % 4
    first, second = np.full((2, 60, 4), 0.01)
    first[np.arange(60), y] = 0.97
    second += 0.23
    second[np.arange(60), (y + 1) % 4] = 0.28
    text = str(
        diversity.compare(*(Outputs.from_arrays(n, probabilities=p, labels=y) for n, p in (("a", first), ("b", second))))
    )
    assert "At any angle, the ensemble predicts the first's class" in " ".join(text.split())


def test_the_rows_of_cka_do_not_depend_on_their_order(monkeypatch):
    monkeypatch.setattr("diversity.comparison.CKA_ROWS", 100)
    x = np.random.default_rng(5).normal(size=(300, 6))
    a, b = (outputs(name, seed, embeddings=x + seed * x**2) for seed, name in enumerate("ab"))
    order = np.random.default_rng(0).permutation(300)
    expected = diversity.compare(a, b).cka
    assert diversity.compare(a.select(order), b).cka == pytest.approx(expected, rel=1e-12)
    assert diversity.compare(a, b, seed=1).cka == expected
    assert len(np.arange(300)[cka_rows(a.ids)]) == 100


MIRRORED = {"accuracy_first": "accuracy_second", "dominance": "dominated"}
MIRRORED |= {second: first for first, second in MIRRORED.items()}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(30, 120), st.integers(2, 5), st.sampled_from(["float64", "float32", "float16"]))
def test_exchanging_the_models_and_permuting_rows_and_classes_changes_no_measure(seed, rows, classes, dtype):
    """Symmetric measures are equal, directed ones mirrored; the second model may have another precision than the first."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    names, ids = [f"class {k}" for k in range(classes)], [f"image {i}" for i in range(rows)]
    z = (rng.normal(size=(2, rows, classes)) + 1.5 * np.eye(classes)[y]).astype(np.float16)
    top = np.sort(z, 2)
    assume((top[..., -1] > top[..., -2]).all())  # of equal maxima the first class wins, and that depends on the order
    x = rng.normal(size=(2, rows, 3))

    def run(name, logits, embeddings, permute):
        columns = rng.permutation(classes) if permute else np.arange(classes)
        order = rng.permutation(rows) if permute else np.arange(rows)
        return Outputs.from_arrays(
            name, logits=logits[order][:, columns], labels=np.argsort(columns)[y][order], embeddings=embeddings[order],
            ids=[ids[i] for i in order], classes=[names[k] for k in columns],
        )  # fmt: skip

    logits = z[0].astype(np.float64), z[1].astype(dtype)
    a, b = (run(name, values, e, False) for name, values, e in zip("ab", logits, x, strict=True))
    c, d = (run(name, values, e, True) for name, values, e in zip("ab", logits, x, strict=True))
    straight = diversity.compare(a, b, resamples=4)
    for other, swapped in ((diversity.compare(b, a, resamples=4), True), (diversity.compare(d, c, resamples=4), True),
                           (diversity.compare(c, d, resamples=4), False)):  # fmt: skip
        for name in MEASURES:
            expected = getattr(straight, MIRRORED.get(name, name) if swapped else name)
            expected = -expected if swapped and name == "mean_theta" else expected
            assert getattr(other, name) == pytest.approx(expected, abs=1e-6, nan_ok=True), name
        assert other.names == (straight.names[::-1] if swapped else straight.names)
        theta = dict(zip(other.rows.ids, -other.theta if swapped else other.theta, strict=True))
        np.testing.assert_allclose([theta[i] for i in straight.rows.ids], straight.theta, atol=1e-6)
        edges = [other.band.lower, other.band.upper]
        if swapped:
            edges = [None if edge is None else -edge for edge in reversed(edges)]
        assert edges == pytest.approx([straight.band.lower, straight.band.upper], abs=2e-6)
        ours, theirs = (frame.by_class().set_index("class").sort_index() for frame in (straight, other))
        assert theirs["advantage"].tolist() == pytest.approx((-1 if swapped else 1) * ours["advantage"])
        owners = (
            {"first": "second", "second": "first", "either": "either"} if swapped else {o: o for o in set(ours["owner"])}
        )
        assert theirs["owner"].tolist() == ours["owner"].map(owners).tolist()


def test_intervals_are_mirrored_too():
    straight, swapped = (
        diversity.compare(outputs("a", 0), outputs("b", 1)),
        diversity.compare(outputs("b", 1), outputs("a", 0)),
    )
    for name, measure in MEASURES.items():
        if measure.has_interval:
            low, high = straight.interval(name)
            expected = (-high, -low) if name == "mean_theta" else (low, high)
            assert swapped.interval(MIRRORED.get(name, name)) == pytest.approx(expected), name


def test_constant_embeddings_have_no_cka():
    x = np.ones((300, 3))
    assert math.isnan(diversity.compare(outputs("a", 0, embeddings=x), outputs("b", 1, embeddings=x)).cka)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_on_each_device(device):
    (z, y), (w, _) = arrays(0), arrays(1)
    a, b = (Outputs.from_arrays(n, logits=torch.from_numpy(x).float().to(device), labels=y) for n, x in (("a", z), ("b", w)))
    found, expected = diversity.compare(a, b), diversity.compare(outputs("a", 0), outputs("b", 1))
    assert found.capa == pytest.approx(expected.capa, abs=1e-6)
    assert found.ensemble_accuracy == expected.ensemble_accuracy
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-5)


def test_small_numbers_are_printed_with_their_digits():
    """McNemar's p-value of 50 against 0 is 2^-49; a gain of the size of a rounding error is 0."""
    y = np.zeros(60, int)
    wrong = np.where(np.arange(60) < 50, 1, 0)
    right, other = (Outputs.from_arrays(n, predictions=p, labels=y, classes=CLASSES) for n, p in (("a", y), ("b", wrong)))
    text = str(diversity.compare(right, other))
    assert f"{2.0**-49:.2g}" == "1.8e-15"
    assert "1.8e-15" in text
    alone = str(diversity.compare(outputs(), outputs()))
    assert not re.search(r"-0\.0+\b", alone)
    assert "nan" not in alone.lower()


def test_classes_with_a_significant_difference_are_printed(comparison):
    """The first is far better at cats, and by two of ninety at dogs."""
    y = np.repeat([0, 1], 90)
    first, second = y.copy(), y.copy()
    second[:20] = 2
    second[90:92] = 3
    text = str(diversity.compare(*(Outputs.from_arrays(n, predictions=p, labels=y, classes=CLASSES)
                                   for n, p in (("a", first), ("b", second)))))  # fmt: skip
    assert "cat (by 22.2 points)" in " ".join(text.split())
    assert "dog" not in text
    assert "none of the 4 classes" in " ".join(str(comparison).split())


def test_conditions():
    (z, y), (w, _) = arrays(0), arrays(1)
    kinds = np.array(["clean", "noise", "blur"])[np.arange(300) % 3]
    frame = diversity.compare(outputs("a", 0), outputs("b", 1)).by_condition(kinds).set_index("condition")
    assert frame.index.tolist() == ["clean", "noise", "blur"]
    for kind, row in frame.iterrows():
        inside = kinds == kind
        a, b = z.argmax(1)[inside] == y[inside], w.argmax(1)[inside] == y[inside]
        assert row["examples"] == 100
        assert row["kappa"] == pytest.approx(cohen_kappa_score(a, b))
        assert row["kappa_low"] < row["kappa"] < row["kappa_high"]
        assert row["accuracy_second"] == b.mean()
    with pytest.raises(InputError, check=fields(argument="conditions", found=299)):
        diversity.compare(outputs("a", 0), outputs("b", 1)).by_condition(kinds[:-1])


def test_several_pairs_on_one_population():
    models = [outputs(name, seed) for seed, name in enumerate("abc")]
    pairs = [diversity.compare(models[0], models[1]), diversity.compare(models[2].select(np.arange(299, -1, -1)), models[0])]
    frame = joint_histogram(pairs, bins=6)
    y = arrays(0)[1]
    a, b, c = (arrays(seed)[0].argmax(1) == y for seed in range(3))
    population = (a != b) | (a != c)
    assert frame.groupby("pair")["count"].sum().to_dict() == {"a, b": population.sum(), "c, a": population.sum()}
    p, q = (to_probabilities(arrays(seed)[0]) for seed in (2, 0))
    theta = np.arctan2(p.max(1), q.max(1)) - np.pi / 4
    expected = np.histogram(theta[population & c & ~a], 6, (-np.pi / 4, np.pi / 4))[0]
    found = frame[(frame["pair"] == "c, a") & (frame["outcome"] == "only first right")]
    assert found["count"].tolist() == expected.tolist()
    with pytest.raises(InputError, check=fields(argument="comparisons", problem="different examples")):
        joint_histogram([pairs[0], diversity.compare(*(m.select(slice(0, 200)) for m in models[:2]))])
    with pytest.raises(InputError, check=fields(argument="comparisons", found=0)):
        joint_histogram([])
