"""Probes of outputs: rows by id, classes by name, several classes per example, relearning."""

import dataclasses

import numpy as np
import pytest
from raised import fields
from sklearn.datasets import load_digits

import probes
from probes.model_probes import features_of
from probes.probe_charts import score_chart
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

DIGITS = load_digits()
NAMES = [f"digit {k}" for k in range(10)]


def outputs(name: str, rows: slice, pixels: slice = slice(None), **changes) -> Outputs:
    """Return outputs with images as embeddings and without predictions."""
    made = Outputs.from_arrays(
        name,
        embeddings=DIGITS.data[rows][:, pixels].astype(np.float32),
        labels=DIGITS.target[rows],
        ids=[f"row {n}" for n in range(1797)[rows]],
        classes=NAMES,
    )
    return dataclasses.replace(made, **changes)


TRAIN, TEST = slice(0, 500), slice(500, 900)


@pytest.mark.parametrize(("kind", "chosen"), [("linear", "strength"), ("knn", "k")])
def test_probe_scores_each_model_by_its_estimator(kind: str, chosen: str) -> None:
    train = Runs([outputs("all", TRAIN), outputs("half", TRAIN, slice(0, 32))])
    test = Runs([outputs("half", TEST, slice(0, 32)), outputs("all", TEST)])
    table = probes.probe(train, test, kind=kind)
    assert table["model"].tolist() == ["all", "half"]
    assert table["dimensions"].tolist() == [64, 32]
    estimator = {"linear": probes.LinearProbe, "knn": probes.KNNProbe}[kind]().fit(DIGITS.data[TRAIN], DIGITS.target[TRAIN])
    assert table["score"][0] == pytest.approx(estimator.score(DIGITS.data[TEST], DIGITS.target[TEST]), abs=0.005)
    assert table[chosen][0] == getattr(estimator, f"{chosen}_")
    assert table["score"][0] > table["score"][1]


def test_labels_are_matched_by_class_name() -> None:
    """The test outputs number the classes of the dataset differently."""
    train = outputs("m", TRAIN)
    turned = dataclasses.replace(
        outputs("m", TEST), labels=9 - DIGITS.target[TEST], label_classes=tuple(NAMES[::-1]), classes=("cat", "dog")
    )
    same = probes.probe(train, outputs("m", TEST))["score"][0]
    assert probes.probe(train, turned)["score"][0] == same
    assert same > 0.8


def test_rows_are_matched_by_id() -> None:
    first = outputs("first", TRAIN)
    order = np.random.default_rng(0).permutation(500)
    features, labels = features_of(Runs([first, dataclasses.replace(outputs("second", TRAIN).select(order))]))
    np.testing.assert_array_equal(features["second"], features["first"])
    assert labels[0] == f"digit {DIGITS.target[0]}"
    with pytest.raises(InputError, check=fields(where="first and second")):
        features_of(Runs([first, outputs("second", TEST)]))
    with pytest.raises(InputError, check=fields(argument="runs", found=0)):
        features_of(Runs([]))


def test_classes_of_multilabel_examples_are_matched_by_name() -> None:
    """Each digit has up to two classes, of three; their columns differ in order between the splits."""
    marks = np.stack([DIGITS.target % 2, DIGITS.target > 4, np.zeros(1797, int)], 1)
    train = outputs("m", TRAIN, labels=None, targets=marks[TRAIN], classes=("odd", "large", "green"))
    test = outputs("m", TEST, labels=None, targets=marks[TEST][:, [2, 1, 0]], classes=("green", "large", "odd"))
    table = probes.probe(train, test, metric="auc")
    expected = probes.MultilabelProbe(metric="auc").fit(DIGITS.data[TRAIN].astype(np.float32), marks[TRAIN][:, :2])
    assert table["score"][0] == pytest.approx(expected.score(DIGITS.data[TEST].astype(np.float32), marks[TEST][:, :2]))
    assert table["metric"][0] == "auc"
    with pytest.raises(InputError, check=fields(argument="kind", expected="linear", found="knn")):
        probes.probe(train, test, kind="knn")
    with pytest.raises(InputError, check=fields(argument="metric", expected="map, auc", found="accuracy")):
        probes.probe(train, test, metric="accuracy")
    with pytest.raises(InputError, check=fields(where="m", problem="classes")):
        probes.probe(train, dataclasses.replace(test, classes=("green", "large", "even")))


def test_bad_input_is_named() -> None:
    bare = dataclasses.replace(outputs("m", TRAIN), labels=None)
    with pytest.raises(InputError, check=fields(where="m", problem="labels")):
        probes.probe(bare, outputs("m", TEST))
    with pytest.raises(InputError, check=fields(argument="kind", expected="linear or knn", found="svm")):
        probes.probe(outputs("m", TRAIN), outputs("m", TEST), kind="svm")
    with pytest.raises(InputError, check=fields(argument="metric", expected="accuracy, mean-per-class", found="map")):
        probes.probe(outputs("m", TRAIN), outputs("m", TEST), metric="map")


def test_relearning_closes_the_gap_with_more_examples() -> None:
    logits = np.eye(10)[DIGITS.target] * 5.0
    model = Outputs.from_arrays("m", logits=logits, labels=DIGITS.target, embeddings=DIGITS.data)
    table = probes.relearn(model, per_class=[2, 5, 50])
    assert table["examples"].tolist() == [20, 50, 500]
    assert (table["original"] == 1.0).all()
    np.testing.assert_allclose(table["gap"], table["original"] - table["relearned"])
    assert table["relearned"].is_monotonic_increasing
    everything = probes.relearn(model)
    assert everything["examples"][0] == 1797 - round(1797 * 0.2)
    assert everything["relearned"][0] > table["relearned"].max() - 0.01
    with pytest.raises(InputError, check=fields(argument="per_class", found=1)):
        probes.relearn(model, per_class=1)
    with pytest.raises(InputError, check=fields(argument="test", found=1.5)):
        probes.relearn(model, test=1.5)


def test_score_chart_draws_a_bar_for_each_model() -> None:
    table = probes.probe(outputs("m", TRAIN), outputs("m", TEST), strengths=[1.0], validation=0)
    spec = score_chart(table).to_dict()
    (rows,) = spec["datasets"].values()
    assert [(row["model"], row["score"]) for row in rows] == [("m", table["score"][0])]
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["bar", "text"]


def test_the_default_metric_is_that_of_the_dataset() -> None:
    rare = np.flatnonzero((DIGITS.target[TEST] < 9) | (np.arange(400) < 200))  # classes of different sizes
    train = outputs("m", slice(0, 60), dataset="flowers:train")
    test = outputs("m", TEST, dataset="flowers:test").select(rare)
    asked = {
        metric: float(probes.probe(train, test, metric=metric)["score"].iloc[0]) for metric in ("accuracy", "mean-per-class")
    }
    assert asked["accuracy"] != asked["mean-per-class"]
    row = probes.probe(train, test).iloc[0]
    assert (row["metric"], row["score"]) == ("mean-per-class", asked["mean-per-class"])
    cars = probes.probe(train, dataclasses.replace(test, dataset="cars:test")).iloc[0]
    assert (cars["metric"], cars["score"]) == ("accuracy", asked["accuracy"])
