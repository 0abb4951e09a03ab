"""What a newcomer has: files as pandas, NumPy, Keras, scikit-learn and PyTorch write them, under the names people give."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.svm import LinearSVC

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
def test_every_format_gives_the_same(tmp_path, suffix):
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
def test_names_people_give(tmp_path, true, predicted):
    table = pd.DataFrame({true: Y, predicted: P.argmax(1)})
    table.to_csv(tmp_path / "a.csv")  # with pandas' index in front
    check(zoo.import_outputs(tmp_path / "a.csv")["a"], "predictions", [str(i) for i in range(N)])
    table.to_csv(tmp_path / "b.csv", sep=";", index=False)
    check(zoo.import_outputs(tmp_path / "b.csv")["b"], "predictions", [str(i) for i in range(N)])


def test_names_nobody_gives_are_listed_and_can_be_chosen(tmp_path):
    table = pd.DataFrame({"stimulus": IDS, "object": NAMES[Y], "guess": NAMES[P.argmax(1)]})
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match=r"say what columns 'stimulus', 'object', 'guess' are with --kind"):
        zoo.import_outputs(tmp_path / "a.csv")
    chosen = {"ids": "stimulus", "labels": "object", "predictions": "guess"}
    check(zoo.import_outputs(tmp_path / "a.csv", columns=chosen)["a"], "predictions")
    with pytest.raises(InputError, match="no column 'answer' for the labels; found 'stimulus', 'object', 'guess'"):
        zoo.import_outputs(tmp_path / "a.csv", columns={"labels": "answer"})
    with pytest.raises(InputError, match="--column colour=guess: expected one of logits"):
        zoo.import_outputs(tmp_path / "a.csv", columns={"colour": "guess"})


def test_two_columns_that_could_be_the_labels_are_not_chosen_between(tmp_path):
    frame(target=Y).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match="columns 'Y_True', 'target' could all be the labels; choose one with --column"):
        zoo.import_outputs(tmp_path / "a.csv")
    with pytest.warns(ZooWarning, match="left out: 'target'"):
        check(zoo.import_outputs(tmp_path / "a.csv", columns={"labels": "Y_True"})["a"])


def test_keras_saves_what_predict_gives(tmp_path):
    np.savetxt(tmp_path / "net.csv", P, delimiter=",")  # no header
    np.savetxt(tmp_path / "y.txt", Y, fmt="%d")
    outputs = zoo.import_outputs(tmp_path / "net.csv", kind="probabilities", labels=Y)["net"]
    check(outputs, ids=[str(i) for i in range(N)])
    np.savez(tmp_path / "net.npz", preds=P, y_test=Y)
    with pytest.raises(InputError, match=r"'preds' has shape \[40, 3\], one number per class; say with --kind"):
        zoo.import_outputs(tmp_path / "net.npz")
    with pytest.warns(ZooWarning, match="'y_test'"):
        assert zoo.import_outputs(tmp_path / "net.npz", kind="probabilities", labels=Y)["net"].accuracy == TRUE


def test_predictions_beside_probabilities_are_compared_with_them(tmp_path):
    frame(pred=NAMES[P.argmax(1)]).to_csv(tmp_path / "a.csv", index=False)
    check(zoo.import_outputs(tmp_path / "a.csv")["a"])
    wrong = NAMES[P.argmax(1)].copy()
    wrong[7] = NAMES[P.argmin(1)][7]
    frame(pred=wrong).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(ZooWarning, match="differ from the highest probabilities in 1 of 40 rows, first row 7"):
        zoo.import_outputs(tmp_path / "a.csv")


def test_a_confidence_beside_a_prediction_is_not_a_distribution(tmp_path):
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
        with pytest.raises(InputError, match="say what arrays 'vit', 'cnn', 'lr' are with --kind"):
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

    def test_classes_are_those_of_the_whole_file(self, tmp_path):
        rows = [("a", "x", "cat", "cat"), ("a", "y", "dog", "cat"), ("b", "x", "cat", "owl"), ("b", "y", "dog", "dog")]
        pd.DataFrame(rows, columns=["model", "id", "label", "pred"]).to_csv(tmp_path / "f.csv", index=False)
        runs = zoo.import_outputs(tmp_path / "f.csv").aligned()
        assert runs["a"].classes == runs["b"].classes == ("cat", "dog", "owl")
        assert [run.accuracy for run in runs.values()] == [0.5, 0.5]

    def test_a_missing_row_is_said(self, tmp_path):
        rows = [("a", "x", 0, 0), ("a", "y", 1, 0), ("b", "x", 0, 1)]
        pd.DataFrame(rows, columns=["model", "id", "label", "pred"]).to_csv(tmp_path / "f.csv", index=False)
        with pytest.warns(ZooWarning, match="b: 1 rows of the examples of all models here are missing"):
            zoo.import_outputs(tmp_path / "f.csv")

    def test_json_by_model(self, tmp_path):
        held = {"labels": Y.tolist(), "cnn": {"probs": P.tolist()}, "vit": {"probs": P[:, ::-1].tolist()}}
        (tmp_path / "f.json").write_text(json.dumps(held))
        runs = zoo.import_outputs(tmp_path / "f.json")
        assert runs.names == ["cnn", "vit"]
        assert runs["cnn"].accuracy == TRUE


class TestAnswersOutsideTheClasses:
    def test_they_count_as_wrong_and_are_counted(self, tmp_path):
        told = NAMES[P.argmax(1)].astype(object)
        told[[3, 5]] = "no idea"
        table = pd.DataFrame({"id": IDS, "label": NAMES[Y], "answer": told})
        with pytest.warns(ZooWarning, match="a: 2 of 40 answers are none of the 3 classes .* e.g. 'no idea' in row 3"):
            outputs = zoo.import_outputs(table, name="a", classes=list(NAMES))["a"]
        assert np.flatnonzero(outputs.predictions == -1).tolist() == [3, 5]
        assert outputs.accuracy == accuracy_score(NAMES[Y], told.astype(str))
        stored = zoo.store.save(outputs)
        assert np.array_equal(stored.predictions, outputs.predictions)
        sure = zoo.Outputs.from_arrays("b", predictions=Y[::-1], labels=Y[::-1], ids=IDS[::-1], classes=list(NAMES))
        assert np.flatnonzero(zoo.Runs([sure, outputs]).aligned()["a"].predictions == -1).tolist() == [34, 36]

    def test_none_inside_is_a_mistake(self):
        with pytest.raises(InputError, match="no answer of a is one of the 3 classes; found 'CAT'"):
            zoo.import_outputs({"pred": ["CAT", "DOG"], "label": ["cat", "dog"]}, name="a", classes=list(NAMES))

    def test_an_empty_cell_is_not_an_answer(self, tmp_path):
        (tmp_path / "a.csv").write_text("id,label,pred\nx,cat,cat\ny,dog,\n")
        with pytest.raises(InputError, match=r"row 1 has no pred \(1 of 2 rows\)"):
            zoo.import_outputs(tmp_path / "a.csv")


class TestFrames:
    def test_pandas_with_its_index(self):
        check(zoo.import_outputs(frame().set_index("Filename"), name="a")["a"])
        with pytest.raises(InputError, match="frame: has no name of its own"):
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
        with pytest.raises(InputError, match="row 3 has no Y_True"):
            zoo.import_outputs(short, name="a")

    def test_datasets(self):
        datasets = pytest.importorskip("datasets")
        features = datasets.Features(
            {"label": datasets.ClassLabel(names=list(NAMES)), "logits": datasets.List(datasets.Value("float64"))}
        )
        table = datasets.Dataset.from_dict({"label": Y, "logits": Z.tolist()}, features=features)
        outputs = zoo.import_outputs(table, name="a", classes=list(NAMES))["a"]
        check(outputs, "logits", [str(i) for i in range(N)])

    def test_labels_are_names_and_the_columns_are_not(self):
        with pytest.raises(InputError, match="but the 3 columns have none; list them with --classes"):
            zoo.import_outputs({"logits": Z, "labels": NAMES[Y]}, name="a")
        check(zoo.import_outputs({"logits": Z, "labels": NAMES[Y], "ids": IDS}, name="a", classes=NAMES)["a"], "logits")

    def test_tensors_masked_arrays_and_classes_given_twice(self):
        tensors = {"logits": torch.from_numpy(Z), "labels": torch.from_numpy(Y), "ids": IDS}
        check(zoo.import_outputs(tensors, name="a")["a"], "logits")
        hidden = np.ma.masked_array(Y, mask=np.arange(N) == 3)
        for given in ({"arrays": {"logits": Z, "labels": hidden}}, {"arrays": {"logits": Z}, "labels": hidden}):
            with pytest.raises(InputError, match="a masked array with 1 values missing"):
                zoo.import_outputs(given.pop("arrays"), name="a", **given)
        with pytest.raises(InputError, match="classes: 'cat' is given twice"):
            zoo.import_outputs({"pred": ["cat"], "label": ["cat"]}, name="a", classes=["cat", "cat"])


class TestCollect:
    def test_a_pytorch_loop(self):
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

    def test_loaders_that_are_refused(self):
        data = torch.utils.data.TensorDataset(torch.randn(4, 5))
        network = torch.nn.Linear(5, K)
        with pytest.raises(InputError, match="the loader shuffles"):
            zoo.collect(network, torch.utils.data.DataLoader(data, shuffle=True), name="a")
        with pytest.raises(InputError, match="gives no batch"):
            zoo.collect(network, [], name="a")
        with pytest.raises(InputError, match="or a fitted classifier, found str"):
            zoo.collect("network", [], name="a")

    def test_scikit_learn(self):
        x, y = load_iris(return_X_y=True, as_frame=True)
        names = y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
        sure = LogisticRegression(max_iter=1000).fit(x, names)
        outputs = zoo.collect(sure, x, name="logistic", labels=names)
        assert outputs.classes == ("setosa", "versicolor", "virginica")
        assert outputs.accuracy == accuracy_score(names, sure.predict(x))
        np.testing.assert_array_equal(outputs.probabilities, sure.predict_proba(x))
        hard = LinearSVC().fit(x, names)
        outputs = zoo.collect(hard, x, name="svm", labels=names)
        assert (outputs.kind, outputs.accuracy) == ("predictions", accuracy_score(names, hard.predict(x)))


class TestBounds:
    def test_a_label_beyond_reason(self):
        with pytest.raises(InputError, match=r"label 1099511627776 asks for .* at most 1000000 .*ZOO_MAX_CLASSES"):
            zoo.import_outputs({"pred": [0, 1], "label": [0, 2**40]}, name="a")

    def test_an_id_of_a_megabyte(self):
        with pytest.raises(InputError, match=r"is 1000000 bytes long, expected at most 4096; .*ZOO_MAX_ID_BYTES"):
            zoo.import_outputs({"pred": [0, 1], "ids": ["a", "b" * 10**6]}, name="a")

    def test_bytes_that_are_not_utf8(self):
        with pytest.raises(InputError, match=r"caf\\udce9 is not UTF-8; rename it"):
            zoo.import_outputs({"pred": [0, 1], "ids": ["a", "caf\udce9"]}, name="a")

    def test_a_gzip_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ZOO_MAX_UNPACKED", str(2**20))
        with gzip.open(tmp_path / "a.csv.gz", "wb") as file:
            file.write(b"id,pred\n" + b"0,0\n" * 2**20)
        with pytest.raises(CorruptFile, match="ZOO_MAX_UNPACKED"):
            zoo.import_outputs(tmp_path / "a.csv.gz")

    @pytest.mark.parametrize("suffix", WRITERS)
    @pytest.mark.parametrize("data", [b"", b"\x00\xff garbage, that; is none\tof these", b"[" * 10**5, bytes(999)])
    def test_damaged_files_end_in_one_sentence(self, tmp_path, suffix, data):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(data)
        with pytest.raises((CorruptFile, InputError), match=r"a\."):
            zoo.import_outputs(path)

    @pytest.mark.parametrize("suffix", ["csv.gz", "json", "parquet", "feather"])
    def test_every_truncation_and_flip_ends_in_one_sentence_or_works(self, tmp_path, suffix):
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
