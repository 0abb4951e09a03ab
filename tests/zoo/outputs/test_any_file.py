"""Import files written by pandas, NumPy, Keras, scikit-learn and PyTorch, with common column names."""

import gzip
import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from raised import fields
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import accuracy_score
from sklearn.svm import SVC, LinearSVC

import zoo
from zoo.errors import CorruptFile, InputError, ZooWarning

RNG = np.random.default_rng(0)
N, K = 40, 3
Z = RNG.normal(size=(N, K))
P = np.exp(Z) / np.exp(Z).sum(1, keepdims=True)
Y = RNG.integers(0, K, N)
NAMES = np.array(["cat", "dog", "owl"])
IDS = [f"{i:05d}.png" for i in range(N)]
TRUE = float(np.mean(P.argmax(1) == Y))


def frame(**more):
    return pd.DataFrame({"Filename": IDS, "Y_True": NAMES[Y], **{f"prob_{n}": P[:, k] for k, n in enumerate(NAMES)}, **more})


def check(outputs, kind="probabilities", ids=IDS):
    assert (outputs.kind, outputs.accuracy) == (kind, TRUE)
    assert outputs.ids.tolist() == ids
    assert np.array_equal(outputs.labels, Y)


WRITERS = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "csv.gz": lambda table, path: table.to_csv(path, index=False),
    "tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "json": lambda table, path: table.to_json(path, orient="records", double_precision=15),
    "jsonl": lambda table, path: table.to_json(path, orient="records", lines=True, double_precision=15),
    "jsonl.gz": lambda table, path: table.to_json(path, orient="records", lines=True, double_precision=15),
    "parquet": lambda table, path: table.to_parquet(path),
    "feather": lambda table, path: table.to_feather(path),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_all_formats_give_the_same_outputs(tmp_path, suffix):
    path = tmp_path / f"my.model.{suffix}"
    WRITERS[suffix](frame(), path)
    outputs = zoo.import_outputs(path)["my.model"]
    check(outputs)
    assert outputs.classes == tuple(NAMES)
    np.testing.assert_allclose(outputs.probabilities, P, rtol=1e-12)


@pytest.mark.parametrize(
    ("true", "predicted"),
    [("y_true", "y_pred"), ("true", "prediction"), ("Target", "Predicted"), ("gt", "yhat"), ("Label", "predicted_class")],
)
def test_common_names_of_columns(tmp_path, true, predicted):
    table = pd.DataFrame({true: Y, predicted: P.argmax(1)})
    table.to_csv(tmp_path / "a.csv")  # with pandas' index as the first column
    check(zoo.import_outputs(tmp_path / "a.csv")["a"], "predictions", [str(i) for i in range(N)])
    table.to_csv(tmp_path / "b.csv", sep=";", index=False)
    check(zoo.import_outputs(tmp_path / "b.csv")["b"], "predictions", [str(i) for i in range(N)])


def test_unknown_columns_are_listed_and_can_be_named(tmp_path):
    table = pd.DataFrame({"stimulus": IDS, "object": NAMES[Y], "guess": NAMES[P.argmax(1)]})
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(
        InputError, check=fields(where="a.csv", problem=["'stimulus'", "'object'", "'guess'"], hint="{kind}")
    ):
        zoo.import_outputs(tmp_path / "a.csv")
    chosen = {"ids": "stimulus", "labels": "object", "predictions": "guess"}
    check(zoo.import_outputs(tmp_path / "a.csv", columns=chosen)["a"], "predictions")
    with pytest.raises(InputError, check=fields(where="a.csv", argument="columns", problem=["'answer'", "'guess'"])):
        zoo.import_outputs(tmp_path / "a.csv", columns={"labels": "answer"})
    with pytest.raises(InputError, check=fields(argument="columns", found="colour=guess", expected="logits")):
        zoo.import_outputs(tmp_path / "a.csv", columns={"colour": "guess"})


def test_ambiguous_label_columns_are_an_error(tmp_path):
    frame(target=Y).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, check=fields(where="a.csv", problem=["'Y_True'", "'target'"], hint="{columns=labels")):
        zoo.import_outputs(tmp_path / "a.csv")
    with pytest.warns(ZooWarning, match="left out: 'target'"):
        check(zoo.import_outputs(tmp_path / "a.csv", columns={"labels": "Y_True"})["a"])


def test_arrays_predicted_by_keras(tmp_path):
    np.savetxt(tmp_path / "net.csv", P, delimiter=",")  # no header
    np.savetxt(tmp_path / "y.txt", Y, fmt="%d")
    outputs = zoo.import_outputs(tmp_path / "net.csv", kind="probabilities", labels=Y)["net"]
    check(outputs, ids=[str(i) for i in range(N)])
    np.savez(tmp_path / "net.npz", preds=Z, y_test=Y)
    with pytest.raises(InputError, check=fields(where="net.npz", problem=["'preds'", "[40, 3]"], hint="{kind}")):
        zoo.import_outputs(tmp_path / "net.npz")
    np.savez(tmp_path / "net.npz", preds=P, y_test=Y)
    with pytest.warns(ZooWarning, match="'y_test'"):
        assert zoo.import_outputs(tmp_path / "net.npz", kind="probabilities", labels=Y)["net"].accuracy == TRUE


def test_predictions_are_checked_against_probabilities(tmp_path):
    frame(pred=NAMES[P.argmax(1)]).to_csv(tmp_path / "a.csv", index=False)
    check(zoo.import_outputs(tmp_path / "a.csv")["a"])
    wrong = NAMES[P.argmax(1)].copy()
    wrong[7] = NAMES[P.argmin(1)][7]
    frame(pred=wrong).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(ZooWarning, match="differ from the highest probabilities in 1 of 40 rows, first row 7"):
        zoo.import_outputs(tmp_path / "a.csv")


def test_a_confidence_column_is_not_a_distribution(tmp_path):
    pd.DataFrame({"label": Y, "pred": P.argmax(1), "prob": P.max(1)}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(ZooWarning, match="left out: 'prob'"):
        assert zoo.import_outputs(tmp_path / "a.csv")["a"].kind == "predictions"


class TestManyModels:
    def test_arrays_by_model(self, tmp_path):
        np.savez(tmp_path / "all.npz", **{"vit.b/logits": Z, "vit.b/embeddings": Z, "cnn/logits": -Z}, labels=Y)
        runs = zoo.import_outputs(tmp_path / "all.npz")
        assert runs.names == ["vit.b", "cnn"]
        assert np.array_equal(runs["cnn"].logits, -Z)
        assert np.array_equal(runs["vit.b"].embeddings, Z)
        assert runs["cnn"].embeddings is None
        assert np.array_equal(runs.labels, Y)
        np.savez(tmp_path / "bare.npz", vit=Z, cnn=-Z, y=Y, lr=0.1)
        with pytest.raises(InputError, check=fields(where="bare.npz", problem=["'vit'", "'cnn'", "'lr'"], hint="{kind}")):
            zoo.import_outputs(tmp_path / "bare.npz")
        with pytest.warns(ZooWarning, match="left out: 'lr'"):
            assert zoo.import_outputs(tmp_path / "bare.npz", kind="logits").names == ["vit", "cnn"]

    def test_one_column_per_model(self, tmp_path):
        table = pd.DataFrame({"id": IDS, "label": NAMES[Y], "human 1": NAMES[P.argmax(1)], "human 2": "owl"})
        table.to_csv(tmp_path / "people.csv", index=False)
        runs = zoo.import_outputs(tmp_path / "people.csv", kind="predictions")
        assert runs.names == ["human 1", "human 2"]
        check(runs["human 1"], "predictions")
        assert runs["human 2"].accuracy == np.mean(Y == 2)

    def test_all_models_have_the_classes_of_the_file(self, tmp_path):
        rows = [("a", "x", "cat", "cat"), ("a", "y", "dog", "cat"), ("b", "x", "cat", "owl"), ("b", "y", "dog", "dog")]
        pd.DataFrame(rows, columns=["model", "id", "label", "pred"]).to_csv(tmp_path / "f.csv", index=False)
        runs = zoo.import_outputs(tmp_path / "f.csv").aligned()
        assert runs["a"].classes == runs["b"].classes == ("cat", "dog", "owl")
        assert [run.accuracy for run in runs.values()] == [0.5, 0.5]

    def test_a_model_with_missing_rows_causes_a_warning(self, tmp_path):
        rows = [("a", "x", 0, 0), ("a", "y", 1, 0), ("b", "x", 0, 1)]
        pd.DataFrame(rows, columns=["model", "id", "label", "pred"]).to_csv(tmp_path / "f.csv", index=False)
        with pytest.warns(ZooWarning, match="b: 1 rows of the examples of all models are missing"):
            zoo.import_outputs(tmp_path / "f.csv")

    def test_json_by_model(self, tmp_path):
        held = {"labels": Y.tolist(), "cnn": {"probs": P.tolist()}, "vit": {"probs": P[:, ::-1].tolist()}}
        (tmp_path / "f.json").write_text(json.dumps(held))
        runs = zoo.import_outputs(tmp_path / "f.json")
        assert runs.names == ["cnn", "vit"]
        assert runs["cnn"].accuracy == TRUE


BINARY = RNG.random(N)  # probability of the second class
LABELS = (RNG.random(N) < BINARY).astype(int)
CAT_DOG = np.array(["cat", "dog"])


class TestBinaryClassifiers:
    """Binary classification with one probability per example, that of the positive class."""

    def check(self, outputs):
        assert outputs.kind == "probabilities"
        np.testing.assert_allclose(outputs.probabilities, np.stack([1 - BINARY, BINARY], 1), rtol=1e-12)
        assert outputs.accuracy == accuracy_score(LABELS, BINARY > 0.5)

    @pytest.mark.parametrize("shape", [(N,), (N, 1)])
    @pytest.mark.parametrize("labels", [LABELS, CAT_DOG[LABELS], 2 * LABELS - 1], ids=["indices", "names", "signs"])
    def test_arrays(self, tmp_path, shape, labels):
        np.savez(tmp_path / "a.npz", probabilities=BINARY.reshape(shape), labels=labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is unknown which of the two classes is positive
            self.check(zoo.import_outputs(tmp_path / "a.npz")["a"])
        classes = ["-1", "1"] if -1 in labels.tolist() else CAT_DOG
        self.check(zoo.import_outputs(tmp_path / "a.npz", classes=classes)["a"])

    def test_the_second_class_is_positive_by_default_with_a_warning(self):
        with pytest.warns(ZooWarning, match="probability of 'dog'"):
            self.check(zoo.import_outputs({"probabilities": BINARY, "labels": CAT_DOG[LABELS]}, name="a")["a"])

    @pytest.mark.parametrize("column", ["prob", "y_prob", "p", "prob_dog", "y_pred"])
    def test_a_column_of_a_table(self, tmp_path, column):
        pd.DataFrame({"label": CAT_DOG[LABELS], column: BINARY}).to_csv(tmp_path / "a.csv", index=False)
        kind = "probabilities" if column in ("p", "y_pred") else None
        self.check(zoo.import_outputs(tmp_path / "a.csv", kind=kind, positive_class="dog")["a"])
        if column == "prob_dog":
            self.check(zoo.import_outputs(tmp_path / "a.csv")["a"])

    def test_the_first_class_may_be_the_positive_one(self, tmp_path):
        np.savez(tmp_path / "a.npz", probabilities=1 - BINARY, labels=CAT_DOG[LABELS])
        for positive in ("cat", 0):
            self.check(zoo.import_outputs(tmp_path / "a.npz", positive_class=positive)["a"])
        with pytest.raises(InputError, check=fields(argument="positive_class", name="cats", suggestions=("cat",))):
            zoo.import_outputs(tmp_path / "a.npz", positive_class="cats")

    def test_the_positive_class_is_inferred_from_predictions(self, tmp_path):
        table = pd.DataFrame({"label": CAT_DOG[LABELS], "pred": CAT_DOG[(BINARY > 0.5).astype(int)], "prob": 1 - BINARY})
        table.to_csv(tmp_path / "a.csv", index=False)
        self.check(zoo.import_outputs(tmp_path / "a.csv")["a"])  # 'cat' is predicted where prob > 1/2

    def test_invalid_probabilities_and_numbers_of_classes_are_errors(self, tmp_path):
        np.savez(tmp_path / "a.npz", probabilities=np.append(BINARY, 1.5), labels=np.append(LABELS, 0))
        with pytest.raises(InputError, check=fields(where="a.npz", argument="probabilities", problem=f"row {N} is 1.5")):
            zoo.import_outputs(tmp_path / "a.npz")
        np.savez(tmp_path / "b.npz", probabilities=BINARY, labels=Y)
        with pytest.raises(InputError, check=fields(where="b.npz", problem="3 classes", hint="{classes}")):
            zoo.import_outputs(tmp_path / "b.npz")
        np.savez(tmp_path / "c.npz", predictions=[0.2, 0.9], labels=[0, 1])
        with pytest.raises(InputError, check=fields(where="c.npz", problem="from 0 to 1", hint="{kind=probabilities}")):
            zoo.import_outputs(tmp_path / "c.npz")
        assert zoo.import_outputs(tmp_path / "c.npz", kind="probabilities")["c"].accuracy == 1


class TestFormats:
    def test_a_json_list_of_predictions(self, tmp_path):
        """The format in which the predictions on CIFAR-10.1 were published."""
        (tmp_path / "net.json").write_text(json.dumps(P.argmax(1).tolist()))
        outputs = zoo.import_outputs(tmp_path / "net.json", labels=Y)["net"]
        assert (outputs.kind, outputs.accuracy) == ("predictions", TRUE)
        (tmp_path / "net.json").write_text(json.dumps(NAMES[P.argmax(1)].tolist()))
        assert zoo.import_outputs(tmp_path / "net.json", labels=NAMES[Y])["net"].accuracy == TRUE
        (tmp_path / "net.json").write_text(json.dumps(P.tolist()))
        assert zoo.import_outputs(tmp_path / "net.json", labels=Y)["net"].kind == "probabilities"
        (tmp_path / "net.json").write_text('[1, "two"]')
        with pytest.raises(InputError, check=fields(where="net.json")):
            zoo.import_outputs(tmp_path / "net.json")

    def test_a_json_object_by_id(self, tmp_path):
        named = dict(zip(IDS, NAMES[P.argmax(1)].tolist(), strict=True))
        (tmp_path / "net.json").write_text(json.dumps(named))
        check(zoo.import_outputs(tmp_path / "net.json", labels=NAMES[Y])["net"], "predictions")
        rows = {name: {"label": str(NAMES[k]), "prediction": named[name]} for name, k in zip(IDS, Y, strict=True)}
        (tmp_path / "net.json").write_text(json.dumps(rows))
        check(zoo.import_outputs(tmp_path / "net.json")["net"], "predictions")

    def test_semicolons_and_decimal_commas(self, tmp_path):
        frame().to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",")
        outputs = zoo.import_outputs(tmp_path / "a.csv")["a"]
        check(outputs)
        np.testing.assert_allclose(outputs.probabilities, P, rtol=1e-12)
        np.savetxt(tmp_path / "b.csv", P, delimiter=";")
        (tmp_path / "b.csv").write_text((tmp_path / "b.csv").read_text().replace(".", ","))  # without a header
        np.testing.assert_allclose(zoo.import_outputs(tmp_path / "b.csv")["b"].probabilities, P, rtol=1e-12)

    @pytest.mark.parametrize("prefix", ["label_", "true_", ""])
    def test_labels_as_one_hot_columns(self, tmp_path, prefix):
        table = frame(**{f"{prefix}{name}": (k == Y).astype(int) for k, name in enumerate(NAMES)}).drop(columns="Y_True")
        table.to_csv(tmp_path / "a.csv", index=False)
        check(zoo.import_outputs(tmp_path / "a.csv")["a"])

    def test_an_array_of_one_hot_labels(self, tmp_path):
        np.savez(tmp_path / "a.npz", probabilities=P, labels=np.eye(K)[Y], ids=IDS)
        check(zoo.import_outputs(tmp_path / "a.npz")["a"])

    def test_columns_that_sum_to_one_are_probabilities(self, tmp_path):
        table = pd.DataFrame({"id": IDS, "label": NAMES[Y]}).join(pd.DataFrame(P, columns=NAMES))
        table.to_csv(tmp_path / "a.csv", index=False)
        check(zoo.import_outputs(tmp_path / "a.csv")["a"])

    @pytest.mark.parametrize("kind", ["probabilities", "predictions"])
    @pytest.mark.parametrize("prefix", ["pred_", "y_pred_"])
    def test_two_blocks_of_columns(self, tmp_path, kind, prefix):
        """One-hot labels beside probabilities, or beside one-hot predictions."""
        values = P if kind == "probabilities" else np.eye(K, dtype=int)[P.argmax(1)]
        table = pd.DataFrame({"id": IDS, **{f"true_{name}": (k == Y).astype(int) for k, name in enumerate(NAMES)}})
        table = table.join(pd.DataFrame(values, columns=[f"{prefix}{name}" for name in NAMES]))
        table.to_csv(tmp_path / "a.csv", index=False)
        outputs = zoo.import_outputs(tmp_path / "a.csv")["a"]
        check(outputs, kind)
        assert outputs.classes == tuple(NAMES)

    def test_a_single_prefixed_column_is_not_a_prediction(self):
        table = frame().drop(columns=[f"prob_{name}" for name in NAMES]).assign(pred=NAMES[P.argmax(1)], pred_seconds=0.5)
        with pytest.warns(ZooWarning, match="left out: 'pred_seconds'"):
            check(zoo.import_outputs(table, name="a")["a"], "predictions")

    @pytest.mark.parametrize("prefix", ["prob_", "logit_", "pred_", ""])
    @pytest.mark.parametrize("text", [False, True], ids=["numbers", "names"])
    def test_numbered_columns_in_any_order(self, prefix, text):
        """In text order, column 10 comes before column 2; label 2 must still mean class 2."""
        rng = np.random.default_rng(1)
        y = rng.integers(0, 12, 200)
        z = rng.normal(size=(200, 12)) + 2 * np.eye(12)[y]
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        columns = {f"{prefix}{k}": (z if prefix == "logit_" else p)[:, k] for k in range(12)}
        table = pd.DataFrame({"id": range(200), "label": y.astype(str) if text else y} | dict(sorted(columns.items())))
        outputs = zoo.import_outputs(table, name="a")["a"]
        assert outputs.accuracy == accuracy_score(y, z.argmax(1))
        assert outputs.classes == tuple(str(k) for k in range(12))
        named = zoo.import_outputs(table, name="a", classes=[f"class {k}" for k in range(12)])["a"] if not text else outputs
        assert named.accuracy == outputs.accuracy

    def test_a_block_of_logits_beside_a_block_of_probabilities(self, tmp_path):
        table = frame(**{f"logit_{name}": Z[:, k] for k, name in enumerate(NAMES)})
        table.to_csv(tmp_path / "a.csv", index=False)
        with pytest.raises(InputError, check=fields(where="a.csv", problem=["logits", "probabilities"], hint="{kind}")):
            zoo.import_outputs(tmp_path / "a.csv")
        for kind in ("logits", "probabilities"):
            check(zoo.import_outputs(tmp_path / "a.csv", kind=kind)["a"], kind)

    @pytest.mark.parametrize(
        ("text", "facts"),
        [
            ("id,label,logits_a,logits_b\nx,a,1,2\ny,b,nan,1\n", {"argument": "logits", "problem": "row 1"}),
            ("id,label,prob_a,prob_b\nx,a,.5,.5\ny,b,.9,.9\n", {"argument": "probabilities", "problem": "row 1"}),
            ("id,label,pred\nx,a,a\nx,b,b\n", {"problem": "'x'"}),
            ("id,label,prob_a,prob_b\nx,a,50.0,50\ny,b,90,10\n", {"hint": "by 100"}),
            ("id,label,prob_a,prob_b\nx,a,50%,50%\ny,b,90%,10%\n", {"problem": ["prob_a", "'50%'"]}),
            ("id,label,logits_a,logits_b\nx,a,1,2\ny,c,1,1\n", {"where": "labels", "problem": ["row 1", "'c'"]}),
        ],
    )
    def test_errors_name_the_file_and_the_row(self, tmp_path, text, facts):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(InputError, check=fields(**facts)) as raised:
            zoo.import_outputs(tmp_path / "a.csv")
        assert "a.csv" in raised.value.where


class TestDroppedRows:
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
    def test_rows_with_missing_values(self, tmp_path, suffix):
        table = frame()
        table.loc[3, "Y_True"] = None
        table.loc[5, "prob_cat"] = np.nan
        WRITERS[suffix](table, tmp_path / f"a.{suffix}")
        with pytest.warns(ZooWarning, match="dropped 2 of 40 rows of a"):
            outputs = zoo.import_outputs(tmp_path / f"a.{suffix}", drop_missing=True)["a"]
        kept = [row for row in range(N) if row not in (3, 5)]
        assert outputs.ids.tolist() == [IDS[row] for row in kept]
        np.testing.assert_array_equal(outputs.labels, Y[kept])
        np.testing.assert_allclose(outputs.probabilities, P[kept], rtol=1e-12)

    def test_integers_stay_integers(self, tmp_path):
        (tmp_path / "a.csv").write_text("id,label,pred\nx,0,1\ny,,1\nz,1,1\nw,1,\n")
        with pytest.warns(ZooWarning, match="dropped 2 of 4 rows of a"):
            outputs = zoo.import_outputs(tmp_path / "a.csv", drop_missing=True)["a"]
        assert (outputs.labels.tolist(), outputs.predictions.tolist(), outputs.ids.tolist()) == ([0, 1], [1, 1], ["x", "z"])

    def test_rows_without_ids_keep_their_row_numbers(self, tmp_path):
        """Otherwise they would be matched to different examples of another model."""
        np.savez(tmp_path / "a.npz", logits=np.where(np.arange(N)[:, None] == 7, np.nan, Z), labels=Y)
        with pytest.warns(ZooWarning, match="dropped 1 of 40 rows of a"):
            outputs = zoo.import_outputs(tmp_path / "a.npz", drop_missing=True)["a"]
        assert outputs.ids.tolist() == [str(row) for row in range(N) if row != 7]
        whole = zoo.import_outputs({"logits": Z, "labels": Y}, name="b")["b"]
        both = zoo.Runs([whole, outputs]).common()
        np.testing.assert_array_equal(both["a"].logits, both["b"].logits)

    def test_rows_of_a_known_dataset_without_ids(self, tmp_path):
        dataset = zoo.datasets.load("digits:test[:20]")
        logits = np.eye(10)[dataset.labels]
        logits[4] = np.nan
        np.save(tmp_path / "a.npy", logits)
        with pytest.warns(ZooWarning) as warned:
            outputs = zoo.import_outputs(tmp_path / "a.npy", kind="logits", data="digits:test[:20]", drop_missing=True)["a"]
        assert any("dropped 1 of 20" in str(warning.message) for warning in warned)
        assert outputs.ids.tolist() == [row_id for row, row_id in enumerate(dataset.ids) if row != 4]
        assert outputs.accuracy == 1
        np.save(tmp_path / "a.npy", logits[:-1])  # with another number of rows, positions do not identify examples
        with (
            pytest.warns(ZooWarning, match="dropped 1 of 19"),
            pytest.raises(InputError, check=fields(where="a.npy", problem=["19 rows", "20 examples"], hint="{ids}")),
        ):
            zoo.import_outputs(tmp_path / "a.npy", kind="logits", data="digits:test[:20]", drop_missing=True)

    def test_one_column_per_model(self, tmp_path):
        (tmp_path / "a.csv").write_text("id,label,human 1,human 2\nx,cat,cat,dog\ny,dog,,dog\nz,,cat,dog\n")
        with pytest.warns(ZooWarning) as warned:
            runs = zoo.import_outputs(tmp_path / "a.csv", kind="predictions", drop_missing=True)
        assert {name: outputs.ids.tolist() for name, outputs in runs.items()} == {"human 1": ["x"], "human 2": ["x", "y"]}
        assert sum("dropped" in str(warning.message) for warning in warned) == 2
        assert runs["human 2"].classes == ("cat", "dog")

    def test_labels_from_another_file_are_dropped_with_their_rows(self, tmp_path):
        (tmp_path / "a.csv").write_text('pred\n0\n""\n1\n')
        with pytest.warns(ZooWarning, match="dropped 1 of 3 rows"):
            outputs = zoo.import_outputs(tmp_path / "a.csv", labels=[0, 1, 1], drop_missing=True)["a"]
        assert (outputs.labels.tolist(), outputs.predictions.tolist()) == ([0, 1], [0, 1])
        with pytest.raises(InputError, check=fields(where="a.csv", argument="labels", found=2)):
            zoo.import_outputs(tmp_path / "a.csv", labels=[0, 1], drop_missing=True)

    def test_no_remaining_row_is_an_error(self):
        with pytest.raises(InputError, check=fields(problem="every row of a")):
            zoo.import_outputs({"logits": np.full((3, 2), np.nan)}, name="a", drop_missing=True)

    def test_nothing_is_dropped_from_complete_rows(self, tmp_path):
        frame().to_csv(tmp_path / "a.csv", index=False)
        check(zoo.import_outputs(tmp_path / "a.csv", drop_missing=True, drop_unknown=True)["a"])

    def test_rows_with_predictions_outside_the_classes(self, tmp_path):
        predicted = NAMES[P.argmax(1)].astype(object)
        predicted[[3, 5]] = "no idea"
        table = pd.DataFrame({"id": IDS, "label": NAMES[Y], "answer": predicted})
        with pytest.warns(ZooWarning, match="2 of 40 predictions of a .* dropped"):
            outputs = zoo.import_outputs(table, name="a", classes=list(NAMES), drop_unknown=True)["a"]
        kept = [row for row in range(N) if row not in (3, 5)]
        assert outputs.ids.tolist() == [IDS[row] for row in kept]
        assert outputs.predictions.tolist() == P.argmax(1)[kept].tolist()
        with pytest.warns(ZooWarning, match="2 of 40 predictions of a .* dropped"):  # the classes are those of the labels
            outputs = zoo.import_outputs(table, name="a", drop_unknown=True)["a"]
        assert (outputs.classes, outputs.ids.tolist()) == (tuple(NAMES), [IDS[row] for row in kept])
        assert zoo.import_outputs(table, name="a")["a"].classes == (*NAMES[:2], "no idea", "owl")


class TestAccuracyBelowChance:
    LABELS = np.arange(60) % 5

    def test_the_best_permutation_is_suggested(self):
        shifted = (self.LABELS + 1) % 5  # as if labels started at 1
        with pytest.warns(ZooWarning, match=r"a: accuracy 0\.0% .* chance \(20\.0%\).* would give 100\.0%") as warned:
            zoo.import_outputs({"pred": shifted, "label": self.LABELS}, name="a")
        assert "'1' as '0'" in str(warned[0].message)

    def test_chance_and_few_examples_give_no_warning(self):
        rng = np.random.default_rng(0)
        zoo.import_outputs({"pred": rng.integers(0, 5, 60), "label": self.LABELS}, name="a")
        zoo.import_outputs({"pred": (self.LABELS[:20] + 1) % 5, "label": self.LABELS[:20]}, name="a")

    def test_bundles_are_checked_too(self, tmp_path):
        outputs = zoo.Outputs.from_arrays("a", predictions=(self.LABELS + 1) % 5, labels=self.LABELS)
        zoo.export_outputs([outputs], tmp_path / "a.safetensors")
        with pytest.warns(ZooWarning, match="far below chance"):
            zoo.import_outputs(tmp_path / "a.safetensors")


class TestPredictionsOutsideTheClasses:
    def test_they_are_errors_of_the_model_and_are_counted(self, tmp_path):
        predicted = NAMES[P.argmax(1)].astype(object)
        predicted[[3, 5]] = "no idea"
        table = pd.DataFrame({"id": IDS, "label": NAMES[Y], "answer": predicted})
        with pytest.warns(ZooWarning, match=r"2 of 40 predictions of a .* 3 classes .*'no idea' in row 3"):
            outputs = zoo.import_outputs(table, name="a", classes=list(NAMES))["a"]
        assert np.flatnonzero(outputs.predictions == -1).tolist() == [3, 5]
        assert outputs.accuracy == accuracy_score(NAMES[Y], predicted.astype(str))
        stored = zoo.store.save(outputs)
        assert np.array_equal(stored.predictions, outputs.predictions)
        sure = zoo.Outputs.from_arrays("b", predictions=Y[::-1], labels=Y[::-1], ids=IDS[::-1], classes=list(NAMES))
        assert np.flatnonzero(zoo.Runs([sure, outputs]).aligned()["a"].predictions == -1).tolist() == [34, 36]

    def test_it_is_an_error_if_all_predictions_are_outside(self):
        with pytest.raises(InputError, check=fields(problem=["3 classes", "'CAT'"], expected="'cat'")):
            zoo.import_outputs({"pred": ["CAT", "DOG"], "label": ["cat", "dog"]}, name="a", classes=list(NAMES))

    def test_an_empty_cell_is_an_error(self, tmp_path):
        (tmp_path / "a.csv").write_text("id,label,pred\nx,cat,cat\ny,dog,\n")
        with pytest.raises(InputError, check=fields(where="a.csv", problem=["row 1", "pred", "1 of 2"], hint="{drop_")):
            zoo.import_outputs(tmp_path / "a.csv")
        (tmp_path / "b.csv").write_text("id,label,human 1,human 2\nx,cat,cat,dog\ny,dog,,dog\n")
        with pytest.raises(InputError, check=fields(where="b.csv", problem=["row 1", "human 1"])):
            zoo.import_outputs(tmp_path / "b.csv", kind="predictions")


class TestFrames:
    def test_pandas_with_its_index(self):
        check(zoo.import_outputs(frame().set_index("Filename"), name="a")["a"])
        with pytest.raises(InputError, check=fields(where="frame", hint="{name=")):
            zoo.import_outputs(frame())

    def test_a_categorical(self):
        table = frame(model="m")
        table["Y_True"] = table["Y_True"].astype("category")
        check(zoo.import_outputs(table)["m"])

    def test_polars(self, tmp_path):
        polars = pytest.importorskip("polars")
        table = polars.DataFrame({name: values.tolist() for name, values in frame().items()})
        names = polars.Enum(NAMES.tolist())
        lists = polars.DataFrame({"id": IDS, "label": NAMES[Y].tolist(), "probs": P.tolist()})
        for given in (
            table,
            table.lazy(),
            table.with_columns(polars.col("Y_True").cast(polars.Categorical)),
            table.with_columns(polars.col("Y_True").cast(names)),
        ):
            outputs = zoo.import_outputs(given, name="a")["a"]
            check(outputs)
            np.testing.assert_array_equal(outputs.probabilities, P)
        for given in (lists, lists.with_columns(polars.col("probs").cast(polars.Array(polars.Float64, K)))):
            check(zoo.import_outputs(given, name="a", classes=NAMES)["a"])
        for suffix, write in (
            ("csv", table.write_csv), ("parquet", table.write_parquet), ("feather", table.write_ipc),
            ("jsonl", table.write_ndjson), ("json", table.write_json),
        ):  # fmt: skip
            write(tmp_path / f"a.{suffix}")
            check(zoo.import_outputs(tmp_path / f"a.{suffix}")["a"])
        short = table.with_columns(
            polars.when(polars.col("Filename") == IDS[3]).then(None).otherwise("Y_True").alias("Y_True")
        )
        with pytest.raises(InputError, check=fields(problem=["row 3", "Y_True"])):
            zoo.import_outputs(short, name="a")

    def test_datasets(self):
        datasets = pytest.importorskip("datasets")
        features = datasets.Features(
            {"label": datasets.ClassLabel(names=list(NAMES)), "logits": datasets.List(datasets.Value("float64"))}
        )
        table = datasets.Dataset.from_dict({"label": Y, "logits": Z.tolist()}, features=features)
        outputs = zoo.import_outputs(table, name="a", classes=list(NAMES))["a"]
        check(outputs, "logits", [str(i) for i in range(N)])

    def test_text_labels_need_class_names_for_the_columns(self):
        with pytest.raises(InputError, check=fields(where="labels", problem="3 columns", hint="{classes}")):
            zoo.import_outputs({"logits": Z, "labels": NAMES[Y]}, name="a")
        check(zoo.import_outputs({"logits": Z, "labels": NAMES[Y], "ids": IDS}, name="a", classes=NAMES)["a"], "logits")

    def test_tensors_masked_arrays_and_duplicate_classes(self):
        tensors = {"logits": torch.from_numpy(Z), "labels": torch.from_numpy(Y), "ids": IDS}
        check(zoo.import_outputs(tensors, name="a")["a"], "logits")
        hidden = np.ma.masked_array(Y, mask=np.arange(N) == 3)
        for given in ({"arrays": {"logits": Z, "labels": hidden}}, {"arrays": {"logits": Z}, "labels": hidden}):
            with pytest.raises(InputError, check=fields(argument="labels", problem="masked")):
                zoo.import_outputs(given.pop("arrays"), name="a", **given)
        with pytest.raises(InputError, check=fields(where="classes", problem="'cat'")):
            zoo.import_outputs({"pred": ["cat"], "label": ["cat"]}, name="a", classes=["cat", "cat"])


class _PredictOnly:
    """A classifier that predicts classes without scores."""

    def __init__(self, model):
        self.model = model

    def predict(self, x):
        return self.model.predict(x)


class TestCollect:
    def test_a_pytorch_loader(self):
        images = torch.randn(N, 5)
        network = torch.nn.Sequential(torch.nn.Linear(5, K), torch.nn.Dropout(0.5))
        network.train()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, torch.from_numpy(Y)), batch_size=7)
        outputs = zoo.collect(network, loader, name="mine", classes=list(NAMES))
        with torch.inference_mode():
            np.testing.assert_allclose(outputs.logits, network[0](images), rtol=1e-5, atol=1e-6)
        assert np.array_equal(outputs.labels, Y)
        assert network.training
        mapping = [{"pixel_values": images, "labels": torch.from_numpy(Y), "id": IDS}]
        assert zoo.collect(network, mapping, name="mine").ids.tolist() == IDS

    def test_invalid_loaders(self):
        data = torch.utils.data.TensorDataset(torch.randn(4, 5))
        network = torch.nn.Linear(5, K)
        with pytest.raises(InputError, check=fields(argument="data", problem="shuffles", hint="shuffle=False")):
            zoo.collect(network, torch.utils.data.DataLoader(data, shuffle=True), name="a")
        with pytest.raises(InputError, check=fields(argument="data", found=0)):
            zoo.collect(network, [], name="a")
        with pytest.raises(InputError, check=fields(argument="model", found="str")):
            zoo.collect("network", [], name="a")

    def test_scikit_learn(self):
        x, y = load_iris(return_X_y=True, as_frame=True)
        names = y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
        sure = LogisticRegression(max_iter=1000).fit(x, names)
        outputs = zoo.collect(sure, x, name="logistic", labels=names)
        assert outputs.classes == ("setosa", "versicolor", "virginica")
        assert outputs.accuracy == accuracy_score(names, sure.predict(x))
        np.testing.assert_array_equal(outputs.probabilities, sure.predict_proba(x))
        hard = RidgeClassifier().fit(x, names)
        outputs = zoo.collect(_PredictOnly(hard), x, name="ridge", labels=names)
        assert (outputs.kind, outputs.accuracy) == ("predictions", accuracy_score(names, hard.predict(x)))

    @pytest.mark.parametrize("make", [LinearSVC, SVC, RidgeClassifier])
    @pytest.mark.parametrize("classes", [2, 3])
    def test_a_decision_function_gives_logits(self, make, classes):
        x, y = load_iris(return_X_y=True)
        x, y = x[y < classes], np.array(["setosa", "versicolor", "virginica"])[y[y < classes]]
        model = make().fit(x, y)
        outputs = zoo.collect(model, x, name="a", labels=y)
        assert (outputs.kind, outputs.logits.shape) == ("logits", (len(x), classes))
        assert np.array_equal(np.array(outputs.classes)[outputs.predictions], model.predict(x))
        scores = model.decision_function(x)
        np.testing.assert_array_equal(
            outputs.logits[:, 1] - outputs.logits[:, 0] if classes == 2 else outputs.logits, scores
        )


class TestBounds:
    def test_a_label_that_implies_too_many_classes(self):
        with pytest.raises(InputError, check=fields(problem="1099511627776", expected="1000000", hint="ZOO_MAX_CLASSES")):
            zoo.import_outputs({"pred": [0, 1], "label": [0, 2**40]}, name="a")

    def test_an_id_of_a_megabyte(self):
        with pytest.raises(InputError, check=fields(problem="1000000 bytes", expected="4096", hint="ZOO_MAX_ID_BYTES")):
            zoo.import_outputs({"pred": [0, 1], "ids": ["a", "b" * 10**6]}, name="a")

    def test_bytes_that_are_not_utf8(self):
        with pytest.raises(InputError, check=fields(problem="caf\\udce9", hint="Rename")):
            zoo.import_outputs({"pred": [0, 1], "ids": ["a", "caf\udce9"]}, name="a")

    def test_a_gzip_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ZOO_MAX_UNPACKED", str(2**20))
        with gzip.open(tmp_path / "a.csv.gz", "wb") as file:
            file.write(b"id,pred\n" + b"0,0\n" * 2**20)
        with pytest.raises(CorruptFile, match="ZOO_MAX_UNPACKED"):
            zoo.import_outputs(tmp_path / "a.csv.gz")

    @pytest.mark.parametrize("suffix", WRITERS)
    @pytest.mark.parametrize("data", [b"", b"\x00\xff garbage, that; is none\tof these", b"[" * 10**5, bytes(999)])
    def test_damaged_files_are_errors_that_name_the_file(self, tmp_path, suffix, data):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(data)
        with pytest.raises((CorruptFile, InputError), match=r"a\."):
            zoo.import_outputs(path)

    @pytest.mark.parametrize("suffix", ["csv.gz", "json", "parquet", "feather"])
    def test_a_truncated_or_changed_file_is_read_or_named_in_the_error(self, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        WRITERS[suffix](frame(), path)
        whole = path.read_bytes()
        rng = np.random.default_rng(1)
        for number in range(60):
            data = bytearray(whole)
            if number % 2:
                data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            else:
                del data[int(rng.integers(len(data))) :]
            path.write_bytes(data)
            try:
                zoo.import_outputs(path)
            except (CorruptFile, InputError) as error:
                assert "a." in str(error)  # noqa: PT017
            except ZooWarning:
                pass
