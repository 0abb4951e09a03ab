"""Outputs: declared, checked, and compared by id and class name."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import top_k_accuracy_score

from zoo.errors import InputError, UnknownName
from zoo.outputs.outputs import Outputs, Runs

Z = np.array([[2.0, 0.5, -1.0], [0.1, 3.0, 0.0], [1.0, 0.0, 4.0], [0.0, 1.0, 0.5]], np.float32)
Y = [0, 1, 2, 0]
NAMES = ["cat", "dog", "owl"]


def make(name="a", **given_here):
    return Outputs.from_arrays(**{"name": name, "logits": Z, "labels": Y, "classes": NAMES} | given_here)


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_what_is_given_is_what_is_read():
    outputs = make(embeddings=Z[:, :2], ids=["w", "x", "y", "z"])
    assert np.array_equal(outputs.logits, Z)
    assert np.array_equal(outputs.embeddings, Z[:, :2])
    assert outputs.ids.tolist() == ["w", "x", "y", "z"]
    assert outputs.classes == ("cat", "dog", "owl")
    assert outputs.accuracy == 0.75
    np.testing.assert_allclose(outputs.probabilities, softmax(Z), rtol=1e-6)
    np.testing.assert_allclose(outputs.probabilities_at([2, 0]), softmax(Z)[[2, 0]], rtol=1e-6)


def test_ids_and_classes_default_to_numbers():
    outputs = Outputs.from_arrays("a", logits=Z)
    assert outputs.ids.tolist() == ["0", "1", "2", "3"]
    assert outputs.classes == ("0", "1", "2")
    assert Outputs.from_arrays("a", predictions=[0, 2], labels=[3, 0]).classes == ("0", "1", "2", "3")


def test_tensors_stay_tensors():
    outputs = make(logits=torch.from_numpy(Z))
    assert isinstance(outputs.logits, torch.Tensor)
    assert isinstance(outputs.probabilities, torch.Tensor)
    assert outputs.predictions.tolist() == [0, 1, 2, 1]


def test_probabilities_give_back_themselves_and_logits_up_to_a_constant():
    p = softmax(Z)
    outputs = make(logits=None, probabilities=p)
    assert np.array_equal(outputs.probabilities, p)
    shift = outputs.logits - Z
    np.testing.assert_allclose(shift, np.repeat(shift[:, :1], 3, 1), atol=1e-5)
    zero = make(logits=None, probabilities=[[1.0, 0.0, 0.0]], labels=[0])
    assert zero.logits.tolist() == [[0.0, -np.inf, -np.inf]]


def test_a_temperature_changes_confidence_and_not_predictions():
    hot = dataclasses.replace(make(), temperature=2.0)
    np.testing.assert_allclose(hot.probabilities, softmax(Z / 2), rtol=1e-6)
    again = dataclasses.replace(make(logits=None, probabilities=softmax(Z)), temperature=2.0)
    np.testing.assert_allclose(again.probabilities, softmax(Z / 2), rtol=1e-5)
    assert np.array_equal(hot.predictions, make().predictions)


def test_a_masked_class_is_allowed():
    z = Z.copy()
    z[0, 1] = -np.inf
    assert make(logits=z).probabilities[0, 1] == 0


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": np.where(np.arange(4)[:, None] == 2, NAN, Z)}, "a logits: row 2 has NaN"),
        ({"logits": np.where(np.arange(4)[:, None] == 1, INF, Z)}, "a logits: row 1"),
        ({"logits": np.full((4, 3), -INF)}, "no finite value"),
        ({"logits": None}, "found none"),
        ({"probabilities": softmax(Z)}, "logits and probabilities"),
        ({"logits": None, "probabilities": Z}, "row 0 is not a distribution"),
        ({"logits": Z.astype(int)}, "floating-point"),
        ({"logits": Z[:, 0]}, r"expected shape \[N, K\]"),
        ({"logits": Z[:0], "labels": None}, "at least one row"),
        ({"logits": None, "predictions": np.array([], int), "labels": None}, "at least one row"),
        ({"logits": None, "predictions": [0, 1, 2, 3]}, "entry 3 is 3"),
        ({"logits": [[1.0, 2.0], [1.0]]}, "different lengths"),
        ({"labels": [0, 1, 2, 3]}, "a labels: entry 3 is 3, expected class indices in 0..2"),
        ({"labels": [0, -1, 0, 0]}, "entry 1 is -1"),
        ({"labels": [0.0, 1.0, 2.0, 0.0]}, "whole-number"),
        ({"labels": np.eye(3)[Y]}, "one-hot"),
        ({"labels": [0, 1]}, "expected 4 entries"),
        ({"classes": ["cat", "dog"]}, "2 class names for 3 columns"),
        ({"classes": ["cat", "dog", "cat"]}, "'cat' is given twice"),
        ({"ids": ["x", "y", "x", "z"]}, "'x' is given twice"),
        ({"ids": ["x"]}, "1 ids for 4 rows"),
        ({"embeddings": Z[:2]}, "embeddings: expected 4 rows"),
        ({"embeddings": Z[0]}, r"embeddings: expected shape \[N, D\]"),
        ({"embeddings": np.where(np.arange(4)[:, None] == 3, INF, Z)}, "embeddings: row 3 is not finite"),
        ({"targets": np.full((4, 3), 2)}, "zeros and ones"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        (
            {"logits": None, "classes": None, "predictions": [0] * 4, "labels": [0, 0, 0, 2**40]},
            "a: label 1099511627776 asks for",
        ),
        (
            {"logits": None, "classes": None, "predictions": [0, 0, 2**40, 0]},
            "a: label 1099511627776 asks for .* raise ZOO_MAX_CLASSES",
        ),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        make(**change)


@pytest.mark.parametrize("classes", [1, 2, 21_000])
def test_any_number_of_classes(classes):
    outputs = Outputs.from_arrays("a", logits=np.zeros((2, classes), np.float32), labels=[0, 0])
    assert outputs.accuracy == 1
    np.testing.assert_allclose(outputs.probabilities.sum(1), 1, rtol=1e-4)


def test_what_was_not_kept_says_so():
    only = Outputs.from_arrays("a", predictions=[0, 1], classes=NAMES)
    with pytest.raises(InputError, match="only predictions are stored, this needs logits"):
        _ = only.logits
    with pytest.raises(InputError, match="no labels"):
        _ = only.accuracy
    with pytest.raises(InputError, match="no embeddings"):
        _ = only.embeddings
    many = make(labels=None, targets=np.eye(3)[Y])
    with pytest.raises(InputError, match="several classes per example"):
        many.require_labels()


def test_selected_rows_keep_what_belongs_to_them():
    outputs = make(embeddings=Z, ids=list("wxyz"), targets=np.eye(3)[Y])
    for rows in ([3, 1], np.array([False, True, False, True])[[3, 2, 1, 0]], slice(None, None, -2), torch.tensor([2])):
        index = np.arange(4)[np.asarray(rows) if not isinstance(rows, slice) else rows]
        chosen = outputs.select(rows)
        assert np.array_equal(chosen.logits, Z[index])
        assert np.array_equal(chosen.embeddings, Z[index])
        assert chosen.labels.tolist() == [Y[i] for i in index]
        assert chosen.ids.tolist() == ["wxyz"[i] for i in index]
        assert np.array_equal(chosen.targets, np.eye(3)[Y][index])


@settings(deadline=None)
@given(rows=st.permutations(range(4)), columns=st.permutations(range(3)), kind=st.sampled_from(["logits", "predictions"]))
def test_rows_and_columns_in_another_order_are_aligned_by_name(rows, columns, kind):
    first = make(ids=list("wxyz"))
    rows, columns = list(rows), list(columns)
    back = np.argsort(columns)
    values = Z[rows][:, columns] if kind == "logits" else back[Z.argmax(1)[rows]]
    other = Outputs.from_arrays(
        "b",
        **{kind: values},
        labels=back[np.array(Y)[rows]],
        classes=[NAMES[c] for c in columns],
        ids=["wxyz"[r] for r in rows],
    )
    a, b = Runs([first, other]).aligned().values()
    assert b.classes == a.classes
    assert b.ids.tolist() == a.ids.tolist()
    assert np.array_equal(a.predictions, b.predictions)
    assert np.array_equal(a.labels, b.labels)
    if kind == "logits":
        assert np.array_equal(a.logits, b.logits)


def test_labels_missing_from_one_are_those_of_the_other():
    a, b = Runs([make(labels=None), make("b")]).aligned().values()
    assert a.labels.tolist() == b.labels.tolist() == Y


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": ["0", "1", "2", "9"]}, r"different examples \(1 ids only in the first, 1 only in the second, e.g. '3'\)"),
        ({"logits": Z[:3], "labels": Y[:3]}, "1 ids only in the first, 0 only in the second"),
        ({"classes": ["cat", "dog", "hen"]}, "different classes"),
        ({"logits": np.c_[Z, Z[:, :1]], "classes": [*NAMES, "background"]}, r"different classes \(3 and 4"),
        ({"labels": [0, 1, 2, 1]}, "labels differ on 1 examples, first '3'"),
    ],
)
def test_outputs_that_cannot_be_aligned(change, message):
    with pytest.raises(InputError, match=message):
        Runs([make(), make("b", **change)]).aligned()


def test_runs_are_a_mapping_in_order():
    runs = Runs([make("resnet-a"), make("vit"), make("resnet-b")])
    assert runs.names == list(runs) == ["resnet-a", "vit", "resnet-b"]
    assert runs.matching("resnet-*").names == ["resnet-a", "resnet-b"]
    assert runs.select([0]).labels.tolist() == [0]
    with pytest.raises(UnknownName, match=r"no outputs of 'vi'.*did you mean vit"):
        runs["vi"]
    with pytest.raises(InputError, match="'a' is given twice"):
        Runs([make(), make()])
    with pytest.raises(InputError, match="at least one"):
        _ = Runs([]).labels
    with pytest.raises(InputError, match="at least one"):
        Runs([]).aligned()


@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_correct_in_the_first_k_is_a_stable_sort(seed, k, tied):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(40, 6)).round(0 if tied else 6)
    y = rng.integers(0, 6, 40)
    outputs = Outputs.from_arrays("a", logits=z, labels=y)
    first = np.argsort(-z, axis=1, kind="stable")[:, :k]
    assert outputs.top_k_correct(k).tolist() == [label in row for label, row in zip(y, first, strict=True)]
    assert outputs.top_k_accuracy(1) == outputs.accuracy
    assert outputs.top5 == outputs.top_k_accuracy(5)
    if not tied:
        assert outputs.top_k_accuracy(k) == pytest.approx(top_k_accuracy_score(y, z, k=k, labels=range(6)) if k < 6 else 1)


def test_the_first_k_where_there_are_not_as_many():
    few = Outputs.from_arrays("few", logits=np.eye(3), labels=[0, 1, 2])
    assert few.top5 is None
    with pytest.raises(InputError, match="few: k is 4, expected a whole number from 1 to its 3 classes"):
        few.top_k_correct(4)
    said = Outputs.from_arrays("said", predictions=[0, 1], labels=[0, 0], classes=[str(k) for k in range(9)])
    assert said.correct.tolist() == [True, False]
    assert said.top5 is None
    with pytest.raises(InputError, match="said: only predictions are stored"):
        said.top_k_accuracy(5)
