"""Datasets by spec: images, labels, classes, order, and a fingerprint that changes with the contents."""

import csv
import io
import json
import os
import shutil
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from raised import fields
from small_models import save_images

from zoo import datasets
from zoo.cards import labels
from zoo.datasets import digits, fingerprints, folder, multilabel, tables
from zoo.errors import InputError, UnknownName, ZooError

REAL = os.environ.get("ZOO_TEST_DATA")  # a folder with the images of CIFAR-10 and Fashion-MNIST


def png(value, size=(4, 4)):
    file = io.BytesIO()
    Image.new("RGB", size, (value, value, value)).save(file, "PNG")
    return file.getvalue()


def write_parquet(path, count=5, label=None, features=None, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"image": [{"bytes": png(index), "path": None} for index in range(count)], **columns}
    if label is not None:
        data["label"] = label
    table = pa.table(data)
    if features:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path, row_group_size=2)


class TestDigits:
    def test_splits_are_fixed_stratified_and_disjoint(self):
        parts = {split: datasets.load(f"digits:{split}") for split in ("train", "calibration", "test")}
        assert [len(part) for part in parts.values()] == [896, 299, 602]
        ids = [row_id for part in parts.values() for row_id in part.ids]
        assert sorted(ids, key=int) == [str(row) for row in range(1797)]
        for part in parts.values():
            np.testing.assert_allclose(np.bincount(part.labels) / len(part), 0.1, atol=0.005)
        # Stored outputs and trained models refer to these splits.
        assert [part.ids[0] for part in parts.values()] == ["2", "5", "0"]
        assert [part.fingerprint[:8] for part in parts.values()] == ["35c54c5c", "84cc55f6", "869545f5"]

    def test_images_and_labels_are_scikit_learns(self):
        from sklearn.datasets import load_digits

        source, dataset = load_digits(), datasets.load("digits")
        assert dataset.spec == "digits:test"
        for index in (0, 100, -1):
            row = int(dataset.ids[index])
            assert dataset.labels[index] == source.target[row]
            pixels = np.asarray(dataset[index])
            assert pixels.shape == (8, 8, 3)
            np.testing.assert_allclose(pixels[:, :, 1], source.images[row] * 255 / 16, atol=0.5)

    def test_a_spec_may_select_rows(self):
        whole, part = datasets.load("digits:test"), datasets.load("digits:test[5:9]")
        assert part.ids == whole.ids[5:9]
        assert part.labels.tolist() == whole.labels[5:9].tolist()
        assert part.fingerprint != whole.fingerprint
        assert part[0].tobytes() == whole[5].tobytes()
        with pytest.raises(InputError, check=fields(where="digits:test[700:]", problem="602")):
            datasets.load("digits:test[700:]")

    def test_holes_are_fixed_and_labels_unchanged(self):
        whole, holed = datasets.load("digits:test"), datasets.load("digits-holes:test")
        assert holed.ids == whole.ids
        assert holed.labels.tolist() == whole.labels.tolist()
        assert (holed.label_set, holed.classes) == (whole.label_set, whole.classes)
        assert holed.fingerprint != whole.fingerprint
        before = np.stack([np.asarray(whole[row]) for row in range(len(whole))])
        after = np.stack([np.asarray(holed[row]) for row in range(len(holed))])
        changed = before != after
        assert (after[changed] == 0).all()
        assert abs(changed.sum() / (before > 0).sum() - digits.BLACK_PIXELS / 256) < 0.01
        assert holed[3].tobytes() == datasets.load("digits-holes:test[3:4]")[0].tobytes()

    def test_rotated_digits(self):
        upright, turned = datasets.load("digits:test"), datasets.load("digits-rotated:test")
        for row in range(20):
            expected = np.rot90(np.asarray(upright[row]), int(turned.labels[row]))
            assert (np.asarray(turned[row]) == expected).all()
        assert np.bincount(turned.labels).min() > 120

    @pytest.mark.parametrize("spec", ["digits-holes:train", "digits-rotated:calibration"])
    def test_an_unknown_split_is_refused(self, spec):
        with pytest.raises(UnknownName, check=fields(kind="split", where=spec, hint="test")):
            datasets.load(spec)

    def test_the_calibration_split(self):
        assert datasets.calibration_split("digits-holes:test[:50]") == "digits-holes:calibration"
        for spec in ("digits:train", "digits-rotated", "cifar10", "folder:x"):
            assert datasets.calibration_split(spec) is None

    def test_selections_of_selections(self):
        whole = datasets.load("digits:test")
        part = whole.select([9, 3, 7]).select([2, 0])
        assert part.ids == [whole.ids[7], whole.ids[9]]
        assert part[0].tobytes() == whole[7].tobytes()
        with pytest.raises(IndexError):
            part[2]


class TestSpecs:
    @pytest.mark.parametrize(
        ("spec", "canonical"),
        [
            ("digits", "digits:test"),
            ("cifar10", "cifar10:test"),
            ("in1k", "in1k:validation"),
            ("in1k:val", "in1k:validation"),
            ("food101:validation", "food101:test"),
            ("in-c/gaussian_noise/3", "in-c/gaussian_noise/3:test"),
            ("hf:a/b", "hf:a/b:test"),
            ("hf:a/b:train[:7]", "hf:a/b:train[:7]"),
            ("folder:/x/../y", "folder:/y"),
            ("digits:test[3:]", "digits:test[3:]"),
            ("digits:test[100:200][:10]", "digits:test[100:110]"),
            ("digits[5:][2:4]", "digits:test[7:9]"),
            ("digits[:5][3:90]", "digits:test[3:5]"),
            ("folder:/x:val", "folder:/x:validation"),
            ("cifar10.1-v6", "cifar10.1-v6"),
            ("mine:dev[:5]", "mine:dev[:5]"),
        ],
    )
    def test_every_dataset_has_one_canonical_spec(self, spec, canonical):
        assert datasets.canonical(spec, new=True) == canonical
        assert datasets.canonical(canonical, new=True) == canonical

    @pytest.mark.parametrize(
        ("spec", "facts"),
        [
            ("", {"argument": "data", "found": ""}),
            ("digits\0", {"argument": "data", "found": "digits\0"}),
            ("cifar:test", {"name": "cifar:test", "hint": "'cifar10'"}),
            ("cifar10:dev", {"kind": "split", "name": "validation", "hint": "train, test"}),
            ("in-c", {"expected": "in-c/CORRUPTION/SEVERITY", "found": "in-c"}),
            ("in-c/gaussian_noise/6", {"kind": "severity", "name": "6"}),
            ("in-c/fuzz/1", {"kind": "corruption", "name": "fuzz", "hint": "fog"}),
            ("in-a/x", {"expected": "in-a", "found": "in-a/x"}),
            ("folder:", {"expected": "folder:PATH", "found": "folder:"}),
            ("folder:/caf\udce9", {"problem": "UTF-8"}),
            ("digits[3:5][2:]", {"where": "digits[3:5][2:]", "problem": "602"}),
            ("hf:../../etc", {"problem": "'../../etc'", "expected": "OWNER/NAME"}),
        ],
    )
    def test_invalid_specs_are_refused(self, spec, facts):
        with pytest.raises(InputError, check=fields(**facts)):
            datasets.load(spec)

    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(UnknownName, check=fields(name="imagenette", hint=["cifar10, cifar100, ", "folder:PATH"])):
            datasets.load("imagenette")


class TestFolders:
    def test_classes_are_subfolders_in_order(self, tmp_path):
        save_images(tmp_path / "d", 2, classes=("zebra", "ant"))
        (tmp_path / "d/ant/notes.txt").write_text("not an image")
        (tmp_path / "d/ant/deeper").mkdir()
        shutil.copy(tmp_path / "d/ant/1.png", tmp_path / "d/ant/deeper/9.PNG")
        dataset = datasets.load(f"folder:{tmp_path / 'd'}")
        assert dataset.classes == ("ant", "zebra")
        assert dataset.ids == ["ant/0.png", "ant/1.png", "ant/deeper/9.PNG", "zebra/0.png", "zebra/1.png"]
        assert dataset.labels.tolist() == [0, 0, 0, 1, 1]
        assert dataset[2].tobytes() == Image.open(tmp_path / "d/ant/1.png").tobytes()

    def test_numeric_classes_are_sorted_as_numbers(self, tmp_path):
        save_images(tmp_path / "d", 1, classes=("10", "9", "2", "100"))
        dataset = datasets.load(f"folder:{tmp_path / 'd'}")
        assert dataset.classes == ("2", "9", "10", "100")
        assert dataset.ids == ["2/0.png", "9/0.png", "10/0.png", "100/0.png"]

    def test_folders_named_by_wordnet_ids_have_imagenets_classes(self, tmp_path):
        save_images(tmp_path / "d", 1, classes=("n02123045", "n01440764"))
        dataset = datasets.load(f"folder:{tmp_path / 'd'}")
        assert dataset.classes == labels.classes("imagenet-1k")
        assert [dataset.classes[label] for label in dataset.labels] == ["n01440764", "n02123045"]
        assert dataset.class_subset is None

    def test_images_without_class_folders_have_no_labels(self, tmp_path):
        save_images(tmp_path / "d", 3, classes=("x",))
        dataset = datasets.load(f"folder:{tmp_path / 'd/x'}")
        assert (dataset.labels, dataset.classes, len(dataset)) == (None, (), 3)

    def test_a_link_to_a_parent_folder_is_not_followed(self, tmp_path):
        save_images(tmp_path / "d", 1, classes=("x",))
        (tmp_path / "d/x/loop").symlink_to(tmp_path / "d/x", target_is_directory=True)
        assert datasets.load(f"folder:{tmp_path / 'd'}").ids == ["x/0.png"]

    @pytest.mark.parametrize("case", ["absent", "empty", "mixed", "file"])
    def test_invalid_folders_are_refused(self, tmp_path, case):
        if case == "mixed":
            save_images(tmp_path / "d", 1)
            shutil.copy(tmp_path / "d/cat/0.png", tmp_path / "d/loose.png")
        elif case == "empty":
            (tmp_path / "d/cat").mkdir(parents=True)
        elif case == "file":
            (tmp_path / "d").write_text("")
        problem = {"mixed": "both", "empty": "no images"}.get(case, "not a folder")
        with pytest.raises(ZooError, check=fields(where="folder:", problem=problem)):
            datasets.load(f"folder:{tmp_path / 'd'}")

    def test_folders_of_splits_are_not_classes(self, tmp_path):
        for split, classes in (("train", ("cat", "dog", "owl")), ("Val", ("dog", "cat")), ("test", ("owl",))):
            save_images(tmp_path / "d" / split, 2, classes=classes)
        spec = f"folder:{tmp_path / 'd'}"
        assert datasets.canonical(spec) == f"{spec}:test"
        test = datasets.load(spec)
        assert (test.spec, test.classes, test.ids) == (f"{spec}:test", ("cat", "dog", "owl"), ["owl/0.png", "owl/1.png"])
        assert test.labels.tolist() == [2, 2]
        assert datasets.load(f"{spec}:dev").ids == ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
        assert datasets.load(f"{spec}:train[:1]")[0].size == (12, 9)
        shutil.rmtree(tmp_path / "d/test")
        assert datasets.load(spec).spec == f"{spec}:validation"
        with pytest.raises(UnknownName, check=fields(kind="split", name="test", where=spec, problem="Val, train")):
            datasets.load(f"{spec}:test")

    def test_folders_that_may_be_splits_or_classes_are_refused(self, tmp_path):
        save_images(tmp_path / "a", 1, classes=("train", "test"))
        spec = f"folder:{tmp_path / 'a'}"
        with pytest.raises(InputError, check=fields(where=spec, problem="test, train", hint=f"{spec}:test")):
            datasets.load(spec)
        assert (datasets.load(f"{spec}:test").ids, datasets.load(f"{spec}:test").labels) == (["0.png"], None)
        save_images(tmp_path / "b/train", 1)
        save_images(tmp_path / "b", 1, classes=("extra",))
        with pytest.raises(InputError, check=fields(where="folder:", problem=["train", "extra"])):
            datasets.load(f"folder:{tmp_path / 'b'}")
        save_images(tmp_path / "c/val", 1)
        save_images(tmp_path / "c/valid", 1)
        with pytest.raises(InputError, check=fields(where="folder:", problem="val and valid", hint="one of them")):
            datasets.load(f"folder:{tmp_path / 'c'}")
        save_images(tmp_path / "vehicles", 1, classes=("car", "train"))  # a train is also a vehicle
        assert datasets.load(f"folder:{tmp_path / 'vehicles'}").classes == ("car", "train")

    @pytest.mark.parametrize("place", [b"caf\xe9/0.png", b"cat/\xff.png"])
    def test_names_that_are_not_utf8_are_refused(self, tmp_path, place):
        path = os.path.join(os.fsencode(tmp_path), b"d", place)
        os.makedirs(os.path.dirname(path))
        try:
            with open(path, "wb") as file:
                file.write(png(1))
        except OSError:
            pytest.skip("this file system accepts UTF-8 names only")
        with pytest.raises(InputError, check=fields(where="folder:", problem="UTF-8", hint="Rename")):
            datasets.load(f"folder:{tmp_path / 'd'}")

    def test_an_undecodable_image_is_named(self, tmp_path):
        save_images(tmp_path / "d", 1, classes=("x",))
        (tmp_path / "d/x/bad.jpg").write_bytes(b"\xff\xd8\xff garbage")
        dataset = datasets.load(f"folder:{tmp_path / 'd'}")
        with pytest.raises(datasets.Undecodable, check=fields(where="bad.jpg")):
            dataset[1]

    @pytest.mark.parametrize(
        ("image", "suffix", "grey"),
        [
            (Image.new("L", (1, 1), 200), ".png", 200),
            (Image.new("CMYK", (1, 1), (0, 0, 0, 55)), ".tif", 200),
            (Image.fromarray(np.full((1, 1), 40_000, np.uint16)), ".png", 156),
            (Image.new("L", (1, 1), 200).convert("P"), ".png", 200),
            (Image.new("LA", (1, 1), (156, 255)), ".png", 156),
            (Image.new("1", (1, 1), 1), ".png", 255),
        ],
        ids=["grey", "CMYK", "16 bits", "palette", "alpha", "black and white"],
    )
    def test_every_mode_becomes_rgb(self, tmp_path, image, suffix, grey):
        (tmp_path / "d").mkdir()
        image.save(tmp_path / f"d/one{suffix}")
        image = datasets.load(f"folder:{tmp_path / 'd'}")[0]
        assert (image.mode, image.getpixel((0, 0))) == ("RGB", (grey, grey, grey))


class TestFingerprints:
    def prepare(self, folder_path):
        save_images(folder_path, 2)
        return f"folder:{folder_path}"

    def test_a_fingerprint_does_not_depend_on_place_and_time(self, tmp_path):
        first = datasets.load(self.prepare(tmp_path / "a"))
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        os.utime(tmp_path / "b/cat/0.png", (1, 1))
        assert datasets.load(f"folder:{tmp_path / 'b'}").fingerprint == first.fingerprint

    @pytest.mark.parametrize("cached", [False, True])
    @pytest.mark.parametrize("change", ["pixel", "name", "class", "new", "removed", "empty class"])
    def test_a_fingerprint_changes_with_the_contents(self, tmp_path, change, cached, monkeypatch):
        if cached:
            monkeypatch.setattr(fingerprints, "CACHED_ABOVE", 0)
        spec = self.prepare(tmp_path / "a")
        before = datasets.load(spec).fingerprint
        assert datasets.load(spec).fingerprint == before
        file = tmp_path / "a/cat/0.png"
        if change == "pixel":  # same size, same modification time
            data, stat = bytearray(file.read_bytes()), file.stat()
            data[-20] ^= 1
            file.write_bytes(data)
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        elif change == "name":
            file.rename(file.with_name("x.png"))
        elif change == "class":
            file.rename(tmp_path / "a/dog/7.png")
        elif change == "new":
            shutil.copy(file, file.with_name("2.png"))
        elif change == "removed":
            file.unlink()
        else:
            (tmp_path / "a/emu").mkdir()
        assert datasets.load(spec).fingerprint != before

    def test_large_data_is_hashed_once(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fingerprints, "CACHED_ABOVE", 0)
        spec = self.prepare(tmp_path / "a")
        before = datasets.load(spec).fingerprint
        hashed = []
        monkeypatch.setattr(fingerprints.files, "sha256", lambda path: hashed.append(path) or "0" * 64)
        assert datasets.load(spec).fingerprint == before
        assert hashed == []


class TestTables:
    def test_the_hugging_face_layout(self, tmp_path):
        names = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
        write_parquet(tmp_path / "x.parquet", label=[0, 1, 1, 0, 1], features=names)
        dataset = datasets.load(f"parquet:{tmp_path / 'x.parquet'}")
        assert dataset.classes == ("cat", "dog")
        assert dataset.labels.tolist() == [0, 1, 1, 0, 1]
        assert dataset.ids == ["0", "1", "2", "3", "4"]
        assert [dataset[index].getpixel((0, 0))[0] for index in (4, 0, 3)] == [4, 0, 3]

    def test_several_files_are_one_dataset(self, tmp_path):
        write_parquet(tmp_path / "p/a.parquet", count=3, label=["owl", "cat", "cat"])
        write_parquet(tmp_path / "p/b.parquet", count=2, label=["dog", "owl"])
        for spec in (f"parquet:{tmp_path / 'p'}", f"parquet:{tmp_path / 'p'}/*.parquet"):
            dataset = datasets.load(spec)
            assert dataset.classes == ("cat", "dog", "owl")
            assert dataset.labels.tolist() == [2, 0, 0, 1, 2]
            assert [image.getpixel((0, 0))[0] for image in dataset] == [0, 1, 2, 0, 1]

    def test_images_by_path_and_as_plain_bytes(self, tmp_path):
        (tmp_path / "seven.png").write_bytes(png(7))
        pq.write_table(pa.table({"image": [{"bytes": None, "path": "seven.png"}]}), tmp_path / "x.parquet")
        assert datasets.load(f"parquet:{tmp_path / 'x.parquet'}")[0].getpixel((0, 0)) == (7, 7, 7)
        pq.write_table(pa.table({"img": [png(8)]}), tmp_path / "y.parquet")
        assert datasets.load(f"parquet:{tmp_path / 'y.parquet'}")[0].getpixel((0, 0)) == (8, 8, 8)

    @pytest.mark.parametrize("path", ["/etc/hostname", "../outside.png", "/dev/zero", "link.png", "absent.png", "a\0b"])
    def test_images_outside_of_the_tables_folder_are_refused(self, tmp_path, path):
        (tmp_path / "outside.png").write_bytes(png(1))
        (tmp_path / "d").mkdir()
        (tmp_path / "d/link.png").symlink_to(tmp_path / "outside.png")
        pq.write_table(pa.table({"image": [{"bytes": None, "path": path}]}), tmp_path / "d/x.parquet")
        problem = "not a file" if path in ("absent.png", "a\0b") else "outside"
        with pytest.raises(datasets.Undecodable, check=fields(where="row 0", problem=[repr(path), problem])):
            datasets.load(f"parquet:{tmp_path / 'd/x.parquet'}")[0]

    def test_a_label_above_the_limit_is_refused(self, tmp_path):
        write_parquet(tmp_path / "x.parquet", count=2, label=[0, 2**40])
        with pytest.raises(InputError, check=fields(where="x.parquet", problem="1099511627776", hint="ZOO_MAX_CLASSES")):
            datasets.load(f"parquet:{tmp_path / 'x.parquet'}")

    def test_a_damaged_table_is_named(self, tmp_path):
        path = tmp_path / "x.parquet"
        write_parquet(path, count=5, label=[0, 1, 0, 1, 0])
        whole = path.read_bytes()
        rng = np.random.default_rng(0)
        for _ in range(60):
            data = bytearray(whole)
            for place in rng.integers(0, len(data), 2):
                data[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(data)
            try:
                for index in range(len(dataset := datasets.load(f"parquet:{path}"))):
                    dataset[index]
            except ZooError as error:
                assert "x.parquet" in str(error) or isinstance(error, datasets.Undecodable)  # noqa: PT017

    def test_a_row_without_an_image_is_undecodable(self, tmp_path):
        pq.write_table(pa.table({"image": pa.array([None], pa.binary())}), tmp_path / "x.parquet")
        with pytest.raises(datasets.Undecodable, check=fields(where="row 0", problem="no image")):
            datasets.load(f"parquet:{tmp_path / 'x.parquet'}")[0]

    def test_multi_label_rows(self):
        truth = tables.truth([[0, 2], [], [1]], ["a", "b", "c"], "x")
        assert truth.targets.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
        assert tables.truth([["b"], ["a", "b"]], None, "x").targets.tolist() == [[0, 1], [1, 1]]
        assert tables.truth([[0, 1], [1, 1]], ["a", "b"], "x").targets.tolist() == [[0, 1], [1, 1]]
        with pytest.raises(InputError, check=fields(where="x: row 1", expected="2 classes", found="z")):
            tables.truth([["a"], ["z"]], ["a", "b"], "x")

    def test_an_unlabelled_split_of_the_hub(self):
        assert tables.truth([-1, -1], ["a", "b"], "x").labels is None

    @pytest.mark.parametrize(
        ("label", "facts"),
        [
            ([0.5, 1.0], {"argument": "labels", "found": np.dtype("float64")}),
            ([0, None], {"where": "row 1", "problem": "no label"}),
            ([0, -1], {"argument": "labels", "expected": "0 to 0", "found": "-1 to 0"}),
        ],
    )
    def test_invalid_labels_are_refused(self, tmp_path, label, facts):
        write_parquet(tmp_path / "x.parquet", count=2, label=label)
        with pytest.raises(InputError, check=fields(**facts)):
            datasets.load(f"parquet:{tmp_path / 'x.parquet'}")

    def test_invalid_files_are_refused(self, tmp_path):
        (tmp_path / "x.parquet").write_bytes(b"not parquet")
        with pytest.raises(ZooError, check=fields(where="x.parquet", problem="parquet file")):
            datasets.load(f"parquet:{tmp_path / 'x.parquet'}")
        with pytest.raises(ZooError, check=fields(problem="absent.parquet")):
            datasets.load(f"parquet:{tmp_path / 'absent.parquet'}")
        pq.write_table(pa.table({"text": ["a"]}), tmp_path / "y.parquet")
        with pytest.raises(InputError, check=fields(where="y.parquet", problem="text", expected="`image`")):
            datasets.load(f"parquet:{tmp_path / 'y.parquet'}")

    def test_a_loaded_table_can_be_pickled(self, tmp_path):
        import pickle

        write_parquet(tmp_path / "x.parquet")
        dataset = datasets.load(f"parquet:{tmp_path / 'x.parquet'}")
        _ = dataset[0]
        assert pickle.loads(pickle.dumps(dataset))[4].getpixel((0, 0)) == (4, 4, 4)


class TestKnownSets:
    @pytest.fixture
    def data(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ZOO_DATA", f"{tmp_path / 'nothing'}{os.pathsep}{tmp_path}")
        return tmp_path

    @pytest.mark.parametrize("file", ["test.parquet", "test-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"])
    def test_a_set_in_a_data_folder(self, data, file):
        names = {"label": {"names": list("abc"), "_type": "ClassLabel"}}
        write_parquet(data / "cifar10" / file, label=[0, 1, 2, 0, 1], features=names)
        dataset = datasets.load("cifar10")
        assert (dataset.name, dataset.spec, dataset.metric, dataset.classes) == (
            "cifar10",
            "cifar10:test",
            "accuracy",
            tuple("abc"),
        )

    def test_a_known_dataset_has_the_metric_of_its_authors(self, data):
        save_images(data / "pets/test", 1)
        assert datasets.load("pets").metric == "mean-per-class"

    def test_imagenet_a_is_two_hundred_of_the_thousand(self, data):
        subset = labels.classes("imagenet-a")
        save_images(data / "in-a", 1, classes=(subset[5], subset[0]))
        dataset = datasets.load("in-a")
        every = labels.classes("imagenet-1k")
        assert dataset.classes == subset
        assert dataset.labels.tolist() == [0, 5]
        assert [every[index] for index in dataset.class_subset] == list(subset)
        outside = next(name for name in every if name not in subset)
        save_images(data / "in-a/test", 1, classes=(outside,))
        with pytest.raises(InputError, check=fields(where="in-a", problem=[repr(outside), "200", "imagenet-a"])):
            datasets.load("in-a")

    def test_imagenet_v2_numbers_its_classes(self, data):
        save_images(data / "in-v2/test", 1, classes=("10", "9", "999"))
        dataset = datasets.load("in-v2")
        assert dataset.labels.tolist() == [9, 10, 999]
        assert dataset.classes == labels.classes("imagenet-1k")

    def test_imagenet_c_by_corruption_and_severity(self, data):
        save_images(data / "in-c/fog/2", 1, classes=("n01440764",))
        assert len(datasets.load("in-c/fog/2")) == 1
        with pytest.raises(ZooError, check=fields(where="in-c/fog/3:test", hint=["hendrycks/robustness", str(data)])):
            datasets.load("in-c/fog/3")

    def test_a_thousand_classes_of_other_names_are_in_imagenets_order(self, data):
        names = {"label": {"names": [f"name {k}" for k in range(1000)], "_type": "ClassLabel"}}
        write_parquet(data / "in1k/validation.parquet", label=[0, 5, 999, 1, 2], features=names)
        dataset = datasets.load("in1k")
        assert dataset.classes == labels.classes("imagenet-1k")
        assert dataset.labels.tolist() == [0, 5, 999, 1, 2]

    def test_voc_as_published(self, data):
        root = data / "voc2007/VOCdevkit/VOC2007"
        (root / "ImageSets/Main").mkdir(parents=True)
        (root / "JPEGImages").mkdir()
        for name, marks in {"cat": "000001  1\n000002 -1\n", "dog": "000001  0\n000002  1\n"}.items():
            (root / f"ImageSets/Main/{name}_test.txt").write_text(marks)
        for row_id in ("000001", "000002"):
            Image.new("RGB", (3, 3)).save(root / f"JPEGImages/{row_id}.jpg")
        dataset = datasets.load("voc2007")
        assert (dataset.classes, dataset.metric, dataset.labels) == (("cat", "dog"), "map", None)
        assert dataset.targets.tolist() == [[1, -1], [0, 1]]  # a difficult dog is ignored
        assert dataset[1].size == (3, 3)

    def test_chexpert_as_published(self, data):
        root = data / "chexpert"
        (root / "valid/p1").mkdir(parents=True)
        Image.new("L", (3, 3)).save(root / "valid/p1/view.jpg")
        with open(root / "valid.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["Path", "Sex", *multilabel.PATHOLOGIES])
            writer.writerow(["CheXpert-v1.0-small/valid/p1/view.jpg", "F", "1.0", "-1.0", "", "0.0", "1.0"])
        dataset = datasets.load("chexpert")
        assert dataset.targets.tolist() == [[1, 0, 0, 0, 1]]
        assert (dataset.metric, dataset[0].mode) == ("auc", "RGB")

    @pytest.mark.parametrize("spec", ["cifar100", "hf:some/where", "in-r"])
    def test_a_dataset_that_is_not_cached_is_refused_offline(self, data, spec, monkeypatch):
        monkeypatch.setenv("HF_HOME", str(data / "hf"))
        start = time.perf_counter()
        with pytest.raises(ZooError, check=fields(where=spec, problem=["hf/hub/datasets--", "HF_HUB_OFFLINE"])):
            datasets.load(spec)
        assert time.perf_counter() - start < 10  # one second if the machine is idle; the library tries for half a minute

    def test_a_dataset_that_is_not_cached_is_refused_without_a_network(self, data, monkeypatch):
        monkeypatch.setenv("HF_HOME", str(data / "hf"))
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("HF_DATASETS_OFFLINE", "0")
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        start = time.perf_counter()
        with pytest.raises(ZooError, check=fields(problem="http://127.0.0.1:9", hint=["hf download", str(data)])):
            datasets.load("cifar100")
        assert time.perf_counter() - start < 10  # one second if the machine is idle; the library tries for half a minute


def test_a_cached_repository_of_the_hub(tmp_path, monkeypatch):
    """The library `datasets` returns a table from its cache, as it does after a download."""
    library = pytest.importorskip("datasets")
    names = {"img": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    images = [{"bytes": png(value), "path": None} for value in (7, 8, 9)]
    table = pa.table({"img": images, "label": [0, 1, 1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": names}})})
    pq.write_table(table, tmp_path / "test.parquet")
    requested = []

    def load_dataset(repo, split):
        requested.append((repo, split))
        return library.Dataset.from_parquet(str(tmp_path / "test.parquet"), cache_dir=str(tmp_path / "prepared"))

    monkeypatch.setattr(library, "load_dataset", load_dataset)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (tmp_path / "hf/hub/datasets--uoft-cs--cifar10").mkdir(parents=True)
    dataset = datasets.load("cifar10")
    assert requested == [("uoft-cs/cifar10", "test")]
    assert (dataset.classes, dataset.labels.tolist()) == (("cat", "dog"), [0, 1, 1])
    assert [image.getpixel((0, 0)) for image in dataset] == [(7, 7, 7), (8, 8, 8), (9, 9, 9)]
    assert datasets.load("cifar10").fingerprint == dataset.fingerprint


class TestRealData:
    @pytest.fixture(autouse=True)
    def real(self, monkeypatch):
        if REAL is None:
            pytest.skip("needs CIFAR-10 and Fashion-MNIST as parquet; ZOO_TEST_DATA names their folder")
        monkeypatch.setenv("ZOO_DATA", REAL)

    def test_cifar10(self):
        dataset = datasets.load("cifar10:test")
        assert len(dataset) == 10_000
        assert dataset.classes == labels.classes("cifar10")
        assert np.bincount(dataset.labels).tolist() == [1000] * 10
        assert dataset[9_999].size == (32, 32)

    def test_fashion_mnist(self):
        dataset = datasets.load("fashion-mnist:test")
        assert dataset.classes == labels.classes("fashion-mnist")
        assert dataset[0].mode == "RGB"


def test_mixed_class_names_are_ordered_as_text():
    assert folder.class_order(["b", "10", "9"]) == ["10", "9", "b"]
