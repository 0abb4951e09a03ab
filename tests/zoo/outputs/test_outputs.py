"""`Outputs` and `Runs`: declared kinds, validated arrays, and alignment by example id and class name."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from sklearn.metrics import top_k_accuracy_score

from zoo.errors import InputError, UnknownName
from zoo.outputs.outputs import Outputs, Runs

Z = np.array([[2.0, 0.5, -1.0], [0.1, 3.0, 0.0], [1.0, 0.0, 4.0], [0.0, 1.0, 0.5]], np.float32)
Y = [0, 1, 2, 0]
NAMES = ["cat", "dog", "owl"]
NAN, INF = float("nan"), float("inf")


def make(name="a", **changes):
    return Outputs.from_arrays(**{"name": name, "logits": Z, "labels": Y, "classes": NAMES} | changes)


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_attributes():
    outputs = make(embeddings=Z[:, :2], ids=["w", "x", "y", "z"])
    assert np.array_equal(outputs.logits, Z)
    assert np.array_equal(outputs.embeddings, Z[:, :2])
    assert outputs.require_embeddings() is outputs.embeddings
    assert outputs.ids.tolist() == ["w", "x", "y", "z"]
    assert outputs.classes == ("cat", "dog", "owl")
    assert outputs.predictions.tolist() == [0, 1, 2, 1]
    assert outputs.correct.tolist() == [True, True, True, False]
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


def test_read_only_arrays_stay_read_only():
    fixed = {"logits": Z.copy(), "embeddings": Z.copy(), "ids": np.array(list("wxyz"))}
    for array in fixed.values():
        array.flags.writeable = False
    outputs = make(**fixed)
    assert not outputs.logits.flags.writeable
    assert not outputs.embeddings.array().flags.writeable
    assert outputs.ids is fixed["ids"]


def test_probabilities_are_stored_unchanged_and_determine_logits_up_to_a_constant():
    p = softmax(Z)
    outputs = make(logits=None, probabilities=p)
    assert np.array_equal(outputs.probabilities, p)
    shift = outputs.logits - Z
    np.testing.assert_allclose(shift, np.repeat(shift[:, :1], 3, 1), atol=1e-5)
    zero = make(logits=None, probabilities=[[1.0, 0.0, 0.0]], labels=[0])
    assert zero.logits.tolist() == [[0.0, -np.inf, -np.inf]]


def test_a_temperature_changes_the_confidence_but_not_the_predictions():
    calibrated = dataclasses.replace(make(), temperature=2.0)
    np.testing.assert_allclose(calibrated.probabilities, softmax(Z / 2), rtol=1e-6)
    from_probabilities = dataclasses.replace(make(logits=None, probabilities=softmax(Z)), temperature=2.0)
    np.testing.assert_allclose(from_probabilities.probabilities, softmax(Z / 2), rtol=1e-5)
    assert np.array_equal(calibrated.predictions, make().predictions)


def test_a_class_may_be_masked():
    z = Z.copy()
    z[0, 1] = -np.inf
    assert make(logits=z).probabilities[0, 1] == 0


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"logits": np.where(np.arange(4)[:, None] == 2, NAN, Z)}, {"argument": "logits", "problem": "row 2"}),
        ({"logits": np.where(np.arange(4)[:, None] == 1, INF, Z)}, {"argument": "logits", "problem": "row 1"}),
        ({"logits": np.full((4, 3), -INF)}, {"argument": "logits", "problem": "row 0"}),
        ({"logits": None}, {"problem": "none"}),
        ({"probabilities": softmax(Z)}, {"problem": "logits and probabilities"}),
        ({"logits": None, "probabilities": Z}, {"argument": "probabilities", "problem": "row 0"}),
        ({"logits": Z.astype(int)}, {"argument": "logits", "expected": "floating-point"}),
        ({"logits": Z[:, 0]}, {"argument": "logits", "expected": "[N, K]", "found": [4]}),
        ({"logits": Z[:0], "labels": None}, {"argument": "logits", "expected": "at least one row"}),
        ({"logits": None, "predictions": np.array([], int), "labels": None}, {"argument": "predictions", "found": 0}),
        ({"logits": None, "predictions": [0, 1, 2, 3]}, {"argument": "predictions", "problem": "entry 3 is 3"}),
        ({"logits": [[1.0, 2.0], [1.0]]}, {"argument": "logits", "problem": "different lengths"}),
        ({"labels": [0, 1, 2, 3]}, {"argument": "labels", "problem": "entry 3 is 3", "expected": "0 to 2"}),
        ({"labels": [0, -1, 0, 0]}, {"argument": "labels", "problem": "entry 1 is -1"}),
        ({"labels": [0.0, 1.0, 2.0, 0.0]}, {"argument": "labels", "expected": "whole-number"}),
        ({"labels": np.array([0, NAN, 2, 0])}, {"argument": "labels", "expected": "whole-number"}),
        ({"labels": np.ma.masked_array(Y, [0, 1, 0, 0])}, {"argument": "labels", "problem": "masked"}),
        ({"logits": np.ma.masked_array(Z, np.arange(12).reshape(4, 3) == 5)}, {"argument": "logits", "problem": "masked"}),
        ({"labels": np.eye(3)[Y]}, {"argument": "labels", "hint": "one-hot"}),
        ({"labels": [0, 1]}, {"argument": "labels", "expected": "4 ", "found": 2}),
        ({"classes": ["cat", "dog"]}, {"argument": "classes", "expected": "3 names", "found": 2}),
        ({"classes": ["cat", "dog", "cat"]}, {"where": "classes", "problem": "'cat'"}),
        ({"ids": ["x", "y", "x", "z"]}, {"where": "ids", "problem": "'x'"}),
        ({"ids": ["x"]}, {"argument": "ids", "expected": "4 ids", "found": 1}),
        ({"embeddings": Z[:2]}, {"argument": "embeddings", "expected": "4 rows", "found": 2}),
        ({"embeddings": Z[0]}, {"argument": "embeddings", "expected": "[N, D]", "found": [3]}),
        ({"embeddings": np.where(np.arange(4)[:, None] == 3, INF, Z)}, {"argument": "embeddings", "problem": "row 3"}),
        ({"targets": np.full((4, 3), 2)}, {"argument": "targets", "expected": "[4, 3]"}),
        ({"temperature": 0.0}, {"argument": "temperature", "found": 0.0}),
        ({"link": "probit"}, {"argument": "link", "found": "probit"}),
        ({"labels": [0, 1, 2, 3], "label_classes": ["x", "y"]}, {"argument": "labels", "expected": "0 to 1"}),
        (
            {"logits": None, "classes": None, "predictions": [0] * 4, "labels": [0, 0, 0, 2**40]},
            {"problem": "1099511627776", "hint": "ZOO_MAX_CLASSES"},
        ),
        (
            {"logits": None, "classes": None, "predictions": [0, 0, 2**40, 0]},
            {"problem": "1099511627776", "hint": "ZOO_MAX_CLASSES"},
        ),
    ],
)
def test_invalid_arrays_are_errors_that_name_the_model(change, facts):
    with pytest.raises(InputError, check=fields(**{"where": "a", **facts})) as raised:
        make(**change)
    assert str(raised.value).startswith("a: ")


@pytest.mark.parametrize("classes", [1, 2, 21_000])
def test_any_number_of_classes(classes):
    outputs = Outputs.from_arrays("a", logits=np.zeros((2, classes), np.float32), labels=[0, 0])
    assert outputs.accuracy == 1
    np.testing.assert_allclose(outputs.probabilities.sum(1), 1, rtol=1e-4)


def test_missing_data_raise_an_error_when_used():
    only = Outputs.from_arrays("a", predictions=[0, 1], classes=NAMES)
    assert only.embeddings is None
    with pytest.raises(InputError, check=fields(where="a", problem="only predictions")):
        _ = only.logits
    with pytest.raises(InputError, check=fields(where="a", problem="only predictions")):
        _ = only.probabilities
    with pytest.raises(InputError, check=fields(where="a", problem="no labels")):
        _ = only.accuracy
    with pytest.raises(InputError, check=fields(where="a", problem="no embeddings")):
        only.require_embeddings()
    with pytest.raises(InputError, check=fields(where="a", problem="for d:test")):
        dataclasses.replace(only, dataset="d:test").require_embeddings()
    with pytest.raises(InputError, check=fields(where="a", problem="several classes per example")):
        make(labels=None, targets=np.eye(3)[Y]).require_labels()


def test_labels_with_other_classes_give_no_accuracy():
    outputs = make(labels=[0, 1, 1, 0], label_classes=["tame", "wild"])
    assert outputs.labels.tolist() == [0, 1, 1, 0]
    with pytest.raises(InputError, check=fields(where="a", problem=["3 classes", "2 of", "tame"])):
        _ = outputs.accuracy


def test_selected_rows_keep_all_their_data():
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


def test_aligned_runs_share_labels():
    a, b = Runs([make(labels=None), make("b")]).aligned().values()
    assert a.labels.tolist() == b.labels.tolist() == Y


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"ids": ["0", "1", "2", "9"]}, {"problem": ["examples", "1 only in the first, 1 only in the second", "'3'"]}),
        ({"logits": Z[:3], "labels": Y[:3]}, {"problem": "1 only in the first, 0 only in the second"}),
        ({"classes": ["cat", "dog", "hen"]}, {"problem": ["classes", "3 and 3"]}),
        ({"logits": np.c_[Z, Z[:, :1]], "classes": [*NAMES, "background"]}, {"problem": ["classes", "3 and 4"]}),
        ({"labels": [0, 1, 2, 1]}, {"problem": ["labels differ on 1 examples", "'3'"]}),
    ],
)
def test_runs_that_cannot_be_aligned_are_named(change, facts):
    with pytest.raises(InputError, check=fields(where="a and b", **facts)):
        Runs([make(), make("b", **change)]).aligned()


def test_the_error_about_different_examples_suggests_common_examples():
    runs = Runs([make(), make("b", logits=Z[1:], labels=Y[1:], ids=["1", "2", "3"])])
    with pytest.raises(InputError, check=fields(hint=["Runs.common()", "--common"])):
        runs.aligned()
    common = runs.common()
    assert common["a"].ids.tolist() == common["b"].ids.tolist() == ["1", "2", "3"]
    np.testing.assert_array_equal(common["a"].logits, Z[1:])
    with pytest.raises(InputError, check=fields(where="a, b", problem="no example in common")):
        Runs([make(), make("b", ids=list("wxyz"))]).common()


def test_runs_are_an_ordered_mapping():
    runs = Runs([make("resnet-a"), make("vit"), make("resnet-b")])
    assert runs.names == list(runs) == ["resnet-a", "vit", "resnet-b"]
    assert runs.subset("resnet-*").names == ["resnet-a", "resnet-b"]
    assert runs.select([0]).labels.tolist() == [0]
    with pytest.raises(UnknownName, check=fields(name="vi", suggestions=("vit",))):
        runs["vi"]
    with pytest.raises(InputError, check=fields(problem="'a'")):
        Runs([make(), make()])
    for use in (lambda: Runs([]).labels, Runs([]).aligned, Runs([]).common):
        with pytest.raises(InputError, check=fields(argument="runs", expected="at least one")):
            use()


def test_the_frame_of_runs_has_one_row_per_model():
    ten = Outputs.from_arrays("ten", logits=np.eye(10)[:4], labels=[0, 1, 2, 0])
    frame = Runs([make(embeddings=Z[:, :2]), make("b", logits=None, predictions=Y), ten]).to_frame().set_index("model")
    assert frame["accuracy"].tolist() == [0.75, 1.0, 0.75]
    assert frame.loc["a", "embeddings"] == 2
    assert frame.loc["ten", "top5"] == 1
    assert frame["kind"].tolist() == ["logits", "predictions", "logits"]


@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_top_k_correct_breaks_ties_by_class_order(seed, k, tied):
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


def test_top_k_needs_k_classes_and_scores():
    few = Outputs.from_arrays("few", logits=np.eye(3), labels=[0, 1, 2])
    assert few.top5 is None
    with pytest.raises(InputError, check=fields(where="few", argument="k", found=4)):
        few.top_k_correct(4)
    only = Outputs.from_arrays("only", predictions=[0, 1], labels=[0, 0], classes=[str(k) for k in range(9)])
    assert only.correct.tolist() == [True, False]
    assert only.top5 is None
    with pytest.raises(InputError, check=fields(where="only", problem="only predictions")):
        only.top_k_accuracy(5)


def test_outputs_are_saved_and_replaced(zoo_home):
    saved = make(dataset="mine").save()
    assert saved.path.is_relative_to(zoo_home)
    with pytest.raises(InputError, check=fields(where="a", hint="replace=True")):
        make(logits=Z + 1, dataset="mine").save()
    np.testing.assert_array_equal(make(logits=Z + 1, dataset="mine").save(replace=True).logits, Z + 1)
