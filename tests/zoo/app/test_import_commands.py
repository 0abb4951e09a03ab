"""`zoo import` and `zoo export`."""

import json

import numpy as np
import pandas as pd
import pytest
from raised import fields

from zoo.errors import InputError
from zoo.outputs.store import open_runs

N = 200
LABELS = np.random.default_rng(5).integers(0, 4, N)


def test_options_of_import(cli, invoke, tmp_path):
    """Unusual columns, a new dataset, a table about the models."""
    names = ["one", "two", "three"]
    rows = [
        {"net": n, "stimulus": f"{i}.png", "what": f"c{LABELS[i]}", "guess": f"c{LABELS[-i]}"}
        for n in names
        for i in range(N)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "all.csv", index=False)
    pd.DataFrame({"model": names, "family": "cnn", "params": "5M"}).to_csv(tmp_path / "models.csv", index=False)
    assert "--column" in cli("import", tmp_path / "all.csv", "--data", "mine", code=2).err
    columns = ("--column", "predictions=guess", "--column", "labels=what", "--column", "ids=stimulus")
    printed = cli("import", tmp_path / "all.csv", "--data", "mine", *columns, "--meta", tmp_path / "models.csv", "--json")
    assert {row["model"] for row in printed.json} == set(names)
    assert "mine is a new dataset" in printed.err
    assert open_runs("two", "mine")["two"].card.details == {"params": 5e6}
    with pytest.raises(InputError, check=fields(argument="columns", found="guess")):
        invoke("import", tmp_path / "all.csv", "--column", "guess")
    for words in ([tmp_path / "absent.csv"], [tmp_path / "all.csv", *columns, "--meta", tmp_path / "absent.csv"], ["a.pkl"]):
        with pytest.raises(InputError, match=r"absent.csv|a\.pkl"):
            invoke("import", *words)


def test_logits_labels_and_classes_in_several_files(cli, tmp_path):
    logits = np.random.default_rng(0).normal(size=(5, 10)).astype(np.float32)
    np.save(tmp_path / "mine.npy", logits)
    assert "--kind" in cli("import", tmp_path / "mine.npy", code=2).err
    (tmp_path / "labels.txt").write_text("\n".join("01234"))
    (tmp_path / "classes.txt").write_text("\n".join("0123456789"))
    words = (
        "import", tmp_path / "mine.npy", "--kind", "logits", "--labels", tmp_path / "labels.txt", "--classes",
        tmp_path / "classes.txt", "--data", "cifar100:test",
    )  # fmt: skip
    (row,) = cli(*words, "--json").json
    assert row["accuracy"] == np.mean(logits.argmax(1) == np.arange(5))
    assert row["top-5"] == np.mean([k in np.argsort(-values)[:5] for k, values in enumerate(logits)])
    assert np.array_equal(open_runs("mine", data="cifar100")["mine"].logits, logits)
    np.save(tmp_path / "mine.npy", logits + 1)
    assert "--replace" in cli(*words, code=2).err
    cli(*words, "--replace")


def test_rows_are_dropped_and_the_positive_class_is_named(cli, tmp_path):
    (tmp_path / "a.csv").write_text("id,label,pred\nu,cat,cat\nv,dog,\nw,dog,na\nx,dog,dog\n")
    assert "--drop-missing" in cli("import", tmp_path / "a.csv", code=2).err
    printed = cli("import", tmp_path / "a.csv", "--drop-missing", "--drop-unknown", "--data", "d", "--json")
    assert (printed.json[0]["examples"], printed.json[0]["classes"], printed.json[0]["accuracy"]) == (2, 2, 1)
    assert "1 of 4 rows" in printed.remarks
    assert "1 of 3 predictions" in printed.remarks
    assert "'na' in row 2" in printed.remarks  # of the file
    (tmp_path / "b.csv").write_text("id,label,prob\nu,ill,0.1\nv,well,0.8\n")
    assert cli("import", tmp_path / "b.csv", "--data", "e", "--json").json[0]["accuracy"] == 1
    words = ("import", tmp_path / "b.csv", "--data", "f", "--positive-class", "ill", "--json")
    assert cli(*words).json[0]["accuracy"] == 0


def test_errors_in_files_name_no_option(cli, tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.eye(3), labels=[0, 1, 7])
    message = cli("import", tmp_path / "a.npz", code=2).err
    assert "labels: entry 2 is 7" in message
    assert "--labels" not in message
    (tmp_path / "labels.txt").write_text("0\n1\n7\n")
    np.savez(tmp_path / "a.npz", logits=np.eye(3))
    assert "labels" in cli("import", tmp_path / "a.npz", "--labels", tmp_path / "labels.txt", code=2).err


def test_errors_of_files_that_are_not_stored_name_the_options_of_import(cli, tmp_path):
    (tmp_path / "a.csv").write_text("id,label,pred\nu,cat,cat\nv,dog,\n")
    for command in (("compare",), ("ensemble", "combine")):
        assert "`zoo import --drop-missing`" in cli(*command, "--from", tmp_path / "a.csv", code=2).err


def test_ids_of_another_import_are_an_error_that_says_how_to_go_on(cli, tmp_path):
    """As after an import without the columns of ids."""
    (tmp_path / "a.csv").write_text("Datei,label,pred\nu,cat,cat\nv,dog,cat\n")
    cli("import", tmp_path / "a.csv", "--data", "d")
    words = ("import", tmp_path / "a.csv", "--data", "d", "--column", "ids=Datei", "--replace")
    assert "zoo rm --data d" in cli(*words, code=2).err
    cli("rm", "--data", "d", "--yes")
    cli(*words)


class TestBundles:
    @pytest.fixture
    def bundles(self, cli, store_outputs, tmp_path):
        folder = tmp_path / "bundles"
        folder.mkdir()
        for seed, name in enumerate(["a", "b", "c"]):
            store_outputs(name, seed, data="my-set")
        cli("export", "a", "b", "-o", folder / "two.safetensors")
        cli("export", "c", "-o", folder / "one.safetensors")
        cli("rm", "*", "--yes")
        return folder

    def test_several_bundles_and_a_folder_of_them(self, cli, bundles):
        expected = [("a", "my-set"), ("b", "my-set"), ("c", "my-set")]
        for source in ([bundles / "two.safetensors", bundles / "one.safetensors"], [bundles]):
            rows = cli("import", *source, "--replace", "--json").json
            assert sorted((row["model"], row["dataset"]) for row in rows) == expected
        assert len(cli("pairs", "--from", bundles, "--long", "--json").json) == 3

    def test_options_apply_or_are_refused(self, cli, bundles, invoke):
        (row,) = cli(
            "import", bundles / "one.safetensors", "--name", "mine", "--data", "my-set", "--kind", "logits", "--json"
        ).json
        assert (row["model"], row["dataset"]) == ("mine", "my-set")
        for argument, value in (("data", "other-set"), ("kind", "predictions"), ("link", "sigmoid")):
            with pytest.raises(InputError, check=fields(argument=argument, found=value, where="one.safetensors")):
                invoke("import", bundles / "one.safetensors", f"--{argument}", value)
        with pytest.raises(InputError, check=fields(argument="name", problem="several models")):
            invoke("import", bundles / "two.safetensors", "--name", "mine")
        (bundles / "ids.txt").write_text("1\n2\n")
        with pytest.raises(InputError, check=fields(argument="ids")):
            invoke("import", bundles / "one.safetensors", "--ids", bundles / "ids.txt")


class TestExport:
    @pytest.mark.parametrize("ending", [".csv", ".parquet"])
    def test_tables(self, cli, store_outputs, tmp_path, ending):
        outputs = [
            store_outputs(name, seed, data="my-set", classes=["cat", "dog", "=1+1", "owl"]) for seed, name in enumerate("ab")
        ]
        path = tmp_path / f"all{ending}"
        cli("export", "a", "b", "-o", path)
        table = pd.read_csv(path) if ending == ".csv" else pd.read_parquet(path)
        assert list(table.columns[:5]) == ["model", "id", "label", "prediction", "confidence"]
        assert len(table) == 800
        for one in outputs:
            rows = table[table["model"] == one.name]
            assert rows["id"].tolist() == one.ids.tolist()
            names = [{"=1+1": "'=1+1"}.get(name, name) if ending == ".csv" else name for name in one.classes]
            assert rows["label"].tolist() == [names[k] for k in one.labels]
            assert rows["prediction"].tolist() == [names[k] for k in one.predictions]
            assert rows["confidence"].to_numpy() == pytest.approx(one.probabilities.max(1), rel=1e-5)
            assert rows.filter(like="probabilities.").to_numpy() == pytest.approx(one.probabilities, rel=1e-4, abs=1e-7)

    @pytest.mark.parametrize("ending", [".csv", ".parquet", ".safetensors"])
    def test_a_file_can_be_imported_again(self, cli, store_outputs, tmp_path, ending):
        first = store_outputs("a", 0, data="my-set", classes=["cat", "dog", "emu", "owl"])
        store_outputs("b", 1, data="my-set", classes=["cat", "dog", "emu", "owl"])
        cli("export", "*", "--data", "my-set", "-o", tmp_path / f"all{ending}")
        cli("rm", "*", "--yes")
        cli("import", tmp_path / f"all{ending}", "--data", "my-set")
        again = open_runs("a", "my-set")["a"]
        assert again.classes == first.classes
        assert np.array_equal(again.predictions, first.predictions)
        assert np.asarray(again.probabilities) == pytest.approx(np.asarray(first.probabilities), abs=2e-3)

    def test_predictions_have_no_probabilities(self, cli, store_outputs, tmp_path):
        store_outputs("a", 0, data="my-set", kind="predictions")
        about = cli("export", "a", "-o", tmp_path / "a.csv", "--json").json
        assert about["rows"] == 400
        assert list(pd.read_csv(tmp_path / "a.csv").columns) == ["model", "id", "label", "prediction"]

    def test_bundle(self, cli, store_outputs, tmp_path):
        store_outputs("a", 0, data="my-set")
        printed = cli("export", "a", "-o", tmp_path / "a.safetensors", "--json")
        assert [model["name"] for model in printed.json["models"]] == ["a"]
        assert f"wrote {tmp_path / 'a.safetensors'}" in printed.err

    def test_mistakes(self, invoke, store_outputs, tmp_path):
        store_outputs("a", 0, data="my-set")
        with pytest.raises(InputError, check=fields(argument="output", expected=[".safetensors", ".csv", ".parquet"])):
            invoke("export", "a", "-o", tmp_path / "a.xlsx")
        with pytest.raises(InputError, check=fields(argument="embeddings")):
            invoke("export", "a", "-o", tmp_path / "a.csv", "--embeddings-of", "a")
        with pytest.raises(InputError, match="a"):
            invoke("export", "a", "-o", tmp_path / "a.safetensors", "--embeddings-of", "a")


def test_json_of_an_import_can_be_read(cli, tmp_path):
    np.savez(tmp_path / "mine.npz", logits=np.eye(3), labels=np.arange(3))
    printed = cli("import", tmp_path / "mine.npz", "--data", "d", "--json")
    assert json.loads(printed.out)[0]["accuracy"] == 1
