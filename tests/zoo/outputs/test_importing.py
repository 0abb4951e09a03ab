"""Imported outputs: every format gives the same, kinds are declared or beyond doubt, and no file is trusted."""

import gzip
import io
import pickle
import warnings
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather
from raised import fields
from safetensors.numpy import save_file

from zoo import datasets
from zoo.cards import labels
from zoo.errors import CorruptFile, InputError, ZooWarning
from zoo.outputs import bundle
from zoo.outputs.importing.importer import import_outputs

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(6, 3)).astype(np.float32)
P = np.exp(Z) / np.exp(Z).sum(1, keepdims=True)
Y = np.array([0, 1, 2, 0, 1, 2])
NAMES = ["cat", "dog", "owl"]
IDS = [f"img-{i}" for i in range(6)]


def check(outputs, kind="logits", values=Z):
    assert outputs.kind == kind
    np.testing.assert_allclose(outputs.values, values, rtol=1e-6)
    assert outputs.labels.tolist() == Y.tolist()
    assert outputs.classes == tuple(NAMES)
    assert outputs.ids.tolist() == IDS


class TestArrays:
    def test_npz(self, tmp_path):
        np.savez_compressed(tmp_path / "a.npz", logits=Z, labels=Y, classes=NAMES, ids=IDS, embeddings=Z[:, :2])
        runs = import_outputs(tmp_path / "a.npz")
        assert runs.names == ["a"]
        check(runs["a"])
        assert np.array_equal(runs["a"].embeddings, Z[:, :2])

    def test_safetensors(self, tmp_path):
        save_file({"probabilities": P, "labels": Y}, tmp_path / "b.safetensors")
        check(import_outputs(tmp_path / "b.safetensors", classes=NAMES, ids=IDS)["b"], "probabilities", P)

    def test_npy_with_the_rest_given(self, tmp_path):
        np.save(tmp_path / "z.npy", Z)
        check(import_outputs(tmp_path / "z.npy", kind="logits", labels=Y, classes=NAMES, ids=IDS)["z"])
        np.save(tmp_path / "y.npy", Y)
        (tmp_path / "names.txt").write_text("\n".join(NAMES))
        (tmp_path / "ids.txt").write_text("\n".join(IDS))
        files = {"labels": tmp_path / "y.npy", "classes": tmp_path / "names.txt", "ids": tmp_path / "ids.txt"}
        check(import_outputs(tmp_path / "z.npy", name="z", kind="logits", **files)["z"])

    def test_a_folder_of_models_with_shared_labels(self, tmp_path):
        for index, name in enumerate(("one", "two")):
            np.save(tmp_path / f"{name}.npy", Z + index)
        np.save(tmp_path / "labels.npy", Y)
        (tmp_path / "classes.txt").write_text("\n".join(NAMES))
        (tmp_path / "ids.txt").write_text("\n".join(IDS))
        (tmp_path / "readme.md").write_text("")
        runs = import_outputs(tmp_path, kind="logits")
        assert runs.names == ["one", "two"]
        check(runs["two"], values=Z + 1)

    def test_labels_by_class_name(self, tmp_path):
        np.savez(tmp_path / "a.npz", logits=Z, labels=np.array(NAMES)[Y], classes=NAMES, ids=IDS)
        check(import_outputs(tmp_path / "a.npz")["a"])
        with pytest.raises(
            InputError, check=fields(where=["a.npz", "labels"], problem=["row 0", "'cat'"], expected="3 classes")
        ):
            import_outputs(tmp_path / "a.npz", classes=["dog", "owl", "hen"])

    def test_the_kind_is_declared_and_not_guessed_from_the_range(self, tmp_path):
        np.save(tmp_path / "z.npy", Z)
        with pytest.raises(InputError, check=fields(where="z.npy", problem="array", hint="{kind}")):
            import_outputs(tmp_path / "z.npy")
        np.savez(tmp_path / "x.npz", scores=Z)
        with pytest.raises(InputError, check=fields(where="x.npz", problem="'scores'", hint="{kind}")):
            import_outputs(tmp_path / "x.npz")
        np.savez(tmp_path / "x.npz", scores=P)
        assert import_outputs(tmp_path / "x.npz", kind="logits")["x"].kind == "logits"  # as declared, whatever the range
        with pytest.raises(InputError, check=fields(where="z.npy", argument="probabilities", problem="row 0")):
            import_outputs(tmp_path / "z.npy", kind="probabilities")
        with pytest.raises(InputError, check=fields(argument="kind", found="scores", expected="logits")):
            import_outputs(tmp_path / "z.npy", kind="scores")

    def test_rows_that_sum_to_one_are_probabilities(self, tmp_path):
        np.save(tmp_path / "p.npy", P)
        assert import_outputs(tmp_path / "p.npy")["p"].kind == "probabilities"
        np.savez(tmp_path / "x.npz", scores=P, labels=Y)
        np.testing.assert_array_equal(import_outputs(tmp_path / "x.npz")["x"].probabilities, P)
        np.savez(tmp_path / "y.npz", one=P, two=P[::-1], labels=Y)
        assert import_outputs(tmp_path / "y.npz").names == ["one", "two"]
        for values in (np.eye(3)[Y], np.round(P).astype(int), P * 1.01, -P):  # one-hot, whole, another sum, negative
            np.save(tmp_path / "q.npy", values)
            with pytest.raises(InputError, check=fields(where="q.npy", hint="{kind}")):
                import_outputs(tmp_path / "q.npy")

    def test_a_declaration_that_contradicts_the_file(self, tmp_path):
        np.savez(tmp_path / "a.npz", probabilities=P)
        with pytest.raises(InputError, check=fields(where="a.npz", argument="kind", problem="probabilities")):
            import_outputs(tmp_path / "a.npz", kind="logits")
        np.savez(tmp_path / "b.npz", probabilities=P, logits=Z)
        with pytest.raises(InputError, check=fields(where="b.npz", problem=["logits", "probabilities"], hint="{kind}")):
            import_outputs(tmp_path / "b.npz")
        assert import_outputs(tmp_path / "b.npz", kind="probabilities")["b"].kind == "probabilities"

    def test_arrays_of_unknown_meaning_are_left_out_with_a_warning(self, tmp_path):
        np.savez(tmp_path / "a.npz", logits=Z, learning_rate=0.1)
        with pytest.warns(ZooWarning, match="left out: 'learning_rate'"):
            import_outputs(tmp_path / "a.npz")

    def test_embeddings_alone(self, tmp_path):
        np.savez(tmp_path / "a.npz", features=Z, labels=Y)
        assert import_outputs(tmp_path / "a.npz")["a"].kind == "embeddings"


class TestTables:
    def frame(self):
        return pd.DataFrame(
            {"id": IDS, "label": np.array(NAMES)[Y], **{f"logits.{n}": Z[:, k] for k, n in enumerate(NAMES)}}
        )

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_one_column_per_class(self, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        frame = self.frame()
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
        check(import_outputs(path)["a"])
        frame = frame.rename(columns=lambda name: name.removeprefix("logits."))
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
        check(import_outputs(path, kind="logits")["a"])
        with pytest.raises(InputError, check=fields(where=path.name, problem=["'cat'", "'dog'", "'owl'"], hint="{kind}")):
            import_outputs(path)

    def test_columns_of_lists_and_several_models(self, tmp_path):
        frame = pd.concat(
            pd.DataFrame(
                {"model": name, "id": IDS, "label": Y, "probabilities": list(np.roll(P, shift, 0).astype(np.float64))}
            )
            for name, shift in (("one", 0), ("two", 1))
        )
        frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "all.parquet")
        runs = import_outputs(tmp_path / "all.parquet", classes=NAMES).aligned()
        assert set(runs.names) == {"one", "two"}
        order = [IDS.index(row_id) for row_id in runs["one"].ids]
        np.testing.assert_allclose(runs["one"].probabilities, P[order], rtol=1e-6)
        np.testing.assert_allclose(runs["two"].probabilities, np.roll(P, 1, 0)[order], rtol=1e-6)
        assert runs.labels.tolist() == Y[order].tolist()

    def test_predictions_by_name_or_number(self, tmp_path):
        predicted = Z.argmax(1)
        pd.DataFrame({"id": IDS, "label": Y, "prediction": predicted}).to_csv(tmp_path / "a.csv", index=False)
        check(import_outputs(tmp_path / "a.csv", classes=NAMES)["a"], "predictions", predicted)
        words = np.array(NAMES)
        pd.DataFrame({"id": IDS, "label": words[Y], "prediction": words[predicted]}).to_csv(tmp_path / "b.csv", index=False)
        check(import_outputs(tmp_path / "b.csv")["b"], "predictions", predicted)

    def test_ids_stay_texts(self, tmp_path):
        (tmp_path / "a.csv").write_text("id,prediction\n007,0\n7,1\n")
        assert import_outputs(tmp_path / "a.csv")["a"].ids.tolist() == ["007", "7"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("id,prediction\n", "has no rows"),
            ("id,label,prediction\na,,1\n", "row 0 has no label"),
            ("model,prediction\n,1\n", "row 0 has no model"),
            ("id,prediction\na,1\na,2\n", "duplicate 'a'"),
            ("id,label\na,1\n", "no outputs among its columns 'id', 'label'"),
            ('id,a,b\nx,1.0,2.0\n"', "not a readable table"),
        ],
    )
    def test_tables_that_are_refused(self, tmp_path, text, message):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises((InputError, CorruptFile), match=message):
            import_outputs(tmp_path / "a.csv")

    @pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "feather"])
    def test_two_columns_of_the_same_name(self, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        columns = {"id": ["a", "b"], "label": [0, 1], "prediction": [0, 1], "again": [1, 0]}
        if suffix in ("parquet", "feather"):
            table = pa.Table.from_arrays(
                [pa.array(cells) for cells in columns.values()], ["id", "label", "prediction", "label"]
            )
            (pq.write_table if suffix == "parquet" else write_feather)(table, path)
        else:
            separator = "\t" if suffix == "tsv" else ","
            pd.DataFrame(columns).rename(columns={"again": "label"}).to_csv(path, sep=separator, index=False)
        with pytest.raises(InputError, check=fields(where=path.name, problem="'label'")):
            import_outputs(path)

    def test_columns_without_names_are_no_duplicates(self, tmp_path):
        (tmp_path / "a.csv").write_text("id,label,prediction,,\na,0,0,,\nb,1,0,,\n")
        with pytest.warns(ZooWarning, match="Unnamed"):
            assert import_outputs(tmp_path / "a.csv")["a"].accuracy == 0.5

    def test_rows_of_different_lengths(self, tmp_path):
        pq.write_table(pa.table({"logits": [[1.0, 2.0], [1.0]]}), tmp_path / "a.parquet")
        with pytest.raises(InputError, check=fields(where=["a.parquet", "logits"], problem="1 to 2")):
            import_outputs(tmp_path / "a.parquet")


class TestDatasets:
    def test_labels_and_class_names_come_from_the_dataset_by_id(self, tmp_path):
        dataset = datasets.load("digits:test[:6]")
        order = [3, 0, 5]
        logits = np.eye(10, dtype=np.float32)[dataset.labels[order]]
        np.savez(tmp_path / "a.npz", logits=logits, ids=[dataset.ids[row] for row in order])
        with pytest.warns(ZooWarning, match=r"a: 3 rows of digits:test\[:6\] are missing"):
            outputs = import_outputs(tmp_path / "a.npz", data="digits:test[:6]")["a"]
        assert outputs.dataset == "digits:test[:6]"
        assert outputs.accuracy == 1
        np.savez(tmp_path / "b.npz", logits=logits, ids=["x", "y", "z"])
        with pytest.raises(InputError, check=fields(where=["b.npz", "b"], problem=["'x'", "digits:test[:6]"])):
            import_outputs(tmp_path / "b.npz", data="digits:test[:6]")

    def test_a_dataset_that_is_not_on_this_machine_gives_its_label_set(self, tmp_path):
        np.savez(tmp_path / "a.npz", logits=np.tile(Z, (1, 100))[:, :100])
        with pytest.warns(ZooWarning, match="cifar100:test is not on this machine.* no labels.*ZOO_DATA"):
            outputs = import_outputs(tmp_path / "a.npz", data="cifar100")["a"]
        assert (outputs.dataset, outputs.labels) == ("cifar100:test", None)
        assert outputs.classes == labels.classes("cifar100")
        imported = import_outputs({"pred": [0, 99], "label": [99, 99]}, name="b", data="cifar100")["b"]
        assert (imported.classes, imported.accuracy) == (outputs.classes, 0.5)
        named = import_outputs({"pred": ["Apfel", "Birne"], "label": ["Apfel", "Apfel"]}, name="c", data="cifar100")["c"]
        assert (named.classes, named.accuracy) == (("Apfel", "Birne"), 0.5)

    def test_a_known_dataset_without_images_gives_shipped_classes_and_labels(self, tmp_path):
        """Imports onto cifar10 had classes '0' to '9' and no labels, so that every later command refused them."""
        shipped = next(iter(bundle.study("cifar10:test").values()))
        np.save(tmp_path / "a.npy", np.eye(10, dtype=np.float32)[shipped.labels])
        outputs = import_outputs(tmp_path / "a.npy", kind="logits", data="cifar10:test")["a"]
        assert outputs.classes == shipped.classes == labels.classes("cifar10")
        np.testing.assert_array_equal(outputs.labels, shipped.labels)
        assert outputs.ids.tolist() == shipped.ids.tolist()
        assert outputs.accuracy == 1
        np.save(tmp_path / "b.npy", np.eye(10, dtype=np.float32)[shipped.labels[100:300]])
        part = import_outputs(tmp_path / "b.npy", kind="logits", data="cifar10:test[100:300]")["b"]
        assert (part.accuracy, part.dataset) == (1, "cifar10:test[100:300]")
        with pytest.raises(InputError, check=fields(where="b.npy", problem=["200 rows", "10000 examples"], hint="{ids}")):
            import_outputs(tmp_path / "b.npy", kind="logits", data="cifar10:test")
        wrong = np.roll(shipped.labels, 1)
        with pytest.raises(InputError, check=fields(where="a.npy", problem=["labels", "cifar10:test"])):
            import_outputs(tmp_path / "a.npy", kind="logits", data="cifar10:test", labels=wrong)


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


class TestUntrustedFiles:
    def test_pickles_are_refused_and_never_run(self, tmp_path):
        trap = tmp_path / "trap"
        for name in ("a.pkl", "a.pt"):
            (tmp_path / name).write_bytes(pickle.dumps(Touch(trap)))
            with pytest.raises(InputError, check=fields(where=name, problem="pickle", hint=".npz")):
                import_outputs(tmp_path / name, kind="logits")
        np.savez(tmp_path / "b.npz", logits=np.array([Touch(trap)], dtype=object))
        with pytest.raises(InputError, check=fields(where="b.npz", problem="Python objects")):
            import_outputs(tmp_path / "b.npz")
        np.save(tmp_path / "c.npy", np.array([Touch(trap)], dtype=object))
        with pytest.raises(InputError, check=fields(where="c.npy", problem="Python objects")):
            import_outputs(tmp_path / "c.npy", kind="logits")
        (tmp_path / "d.npy").write_bytes(pickle.dumps(Touch(trap)))
        with pytest.raises(CorruptFile, check=fields(where="d.npy", problem="NumPy array")):
            import_outputs(tmp_path / "d.npy", kind="logits")
        assert not trap.exists()

    def header(self, shape):
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        return file.getvalue()

    @pytest.mark.parametrize("shape", [(2**40, 1000), (3,), (2**62, 2**62)])
    def test_a_header_that_claims_more_than_the_file_holds(self, tmp_path, shape):
        data = self.header(shape) + bytes(100)
        (tmp_path / "a.npy").write_bytes(data)
        with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
            archive.writestr("logits.npy", data)
        for name in ("a.npy", "b.npz"):
            with pytest.raises(CorruptFile, check=fields(where=name, problem="claims shape")):
                import_outputs(tmp_path / name, kind="logits")

    def test_a_zip_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ZOO_MAX_UNPACKED", str(2**20))
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("logits.npy", self.header((2**22, 4)) + bytes(2**26))
        with pytest.raises(CorruptFile, match=r"a\.npz.*67108"):
            import_outputs(tmp_path / "a.npz")

    def test_a_parquet_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ZOO_MAX_UNPACKED", str(2**20))
        pq.write_table(pa.table({"prediction": np.zeros(10**6, np.int64)}), tmp_path / "a.parquet")
        with pytest.raises(CorruptFile, match=r"a\.parquet.*8000000"):
            import_outputs(tmp_path / "a.parquet")

    def test_two_arrays_of_one_name(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("logits.npy", self.header((1, 2)) + bytes(8))
            with pytest.warns(UserWarning, match="Duplicate name"):
                archive.writestr("logits.npy", self.header((1, 2)) + bytes(8))
        with pytest.raises(CorruptFile, check=fields(where="a.npz", problem="'logits'")):
            import_outputs(tmp_path / "a.npz")

    @pytest.mark.parametrize("suffix", ["npz", "npy", "parquet", "safetensors"])
    @pytest.mark.parametrize("data", [b"garbage that is none of these", bytes(1000)], ids=["garbage", "zeros"])
    def test_damaged_files(self, tmp_path, suffix, data):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(data)
        with pytest.raises(CorruptFile, match=r"a\."):
            import_outputs(path, kind="logits")

    @pytest.mark.parametrize("suffix", ["npz", "npy", "safetensors", "csv", "csv.gz", "tsv", "json", "parquet", "feather"])
    def test_empty_files(self, tmp_path, suffix):
        (tmp_path / f"a.{suffix}").touch()
        with pytest.raises(InputError, check=fields(where=f"a.{suffix}", problem="empty")):
            import_outputs(tmp_path / f"a.{suffix}")

    def test_empty_tables(self, tmp_path):
        (tmp_path / "a.csv").write_text("\n")
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b""))
        for name in ("a.csv", "a.csv.gz"):
            with pytest.raises(InputError, check=fields(where=name, problem="empty")):
                import_outputs(tmp_path / name)

    def test_truncated_archives(self, tmp_path):
        np.savez(tmp_path / "a.npz", logits=Z)
        data = (tmp_path / "a.npz").read_bytes()
        (tmp_path / "a.npz").write_bytes(data[: len(data) // 2])
        with pytest.raises(CorruptFile, match="not a readable"):
            import_outputs(tmp_path / "a.npz")
        flipped = bytearray(data)
        flipped[200] ^= 1
        (tmp_path / "a.npz").write_bytes(flipped)
        with pytest.raises(CorruptFile, match="CRC"):
            import_outputs(tmp_path / "a.npz")

    def test_files_that_do_not_exist_or_have_another_suffix(self, tmp_path):
        with pytest.raises(InputError, check=fields(where="a.npz", problem="exist")):
            import_outputs(tmp_path / "a.npz")
        (tmp_path / "a.xlsx").write_text("")
        with pytest.raises(InputError, check=fields(where="a.xlsx", expected=".csv")):
            import_outputs(tmp_path / "a.xlsx")
        with pytest.raises(InputError, check=fields(where=str(tmp_path), expected=".csv")):
            import_outputs(tmp_path)
        with pytest.raises(InputError, check=fields(argument="source", found=0)):
            import_outputs([])
        for name in ("a.npy", "b.npy"):
            np.save(tmp_path / name, Z)
        with pytest.raises(InputError, check=fields(argument="name", found="x")):
            import_outputs([tmp_path / "a.npy", tmp_path / "b.npy"], name="x", kind="logits")

    def test_arrays_of_nothing_and_odd_types(self, tmp_path):
        for number, (descr, shape) in enumerate(
            [("|V0", (10**10,)), ("<U0", (10**10,)), ("<f4", (10**10, 0)), ("<c8", (1,))]
        ):
            file = io.BytesIO()
            np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
            path = tmp_path / f"{number}.npy"
            path.write_bytes(file.getvalue() + (bytes(8) if descr == "<c8" else b""))
            with pytest.raises((InputError, CorruptFile), match=rf"{number}\.npy: (holds|claims)"):
                import_outputs(path, kind="logits")

    @pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_a_damaged_archive_is_an_error_that_names_it_or_is_read(self, tmp_path, compression):
        arrays = {"logits": Z, "labels": Y, "ids": np.array(IDS)}
        with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as file:
                    np.lib.format.write_array(file, array)
        self.shake(tmp_path / "a.npz")

    @pytest.mark.parametrize("suffix", ["npy", "safetensors"])
    def test_a_damaged_array_is_an_error_that_names_it_or_is_read(self, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        np.save(path, Z) if suffix == "npy" else save_file({"logits": Z, "labels": Y}, path)
        self.shake(path)

    def shake(self, path):
        whole = path.read_bytes()
        rng = np.random.default_rng(0)
        for number in range(300):
            data = bytearray(whole)
            for place in rng.integers(0, min(len(data), 200 if number % 2 else len(data)), 2):
                data[place] = rng.integers(256)
            path.write_bytes(data)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # an array may have got another name
                    import_outputs(path, kind="logits")
            except (InputError, CorruptFile) as error:
                assert "a." in str(error) and "\n" not in str(error)  # noqa: PT017, PT018
