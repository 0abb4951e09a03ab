"""Bundles: imports equal exports for outputs of every kind, and contents are validated even if the checksum is valid."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from raised import fields
from safetensors import safe_open

import zoo
from zoo.calibration import calibrate
from zoo.core import tensorfile
from zoo.errors import CorruptFile, InputError, ZooError, ZooWarning
from zoo.outputs import bundle, store
from zoo.outputs.importing.importer import import_outputs
from zoo.outputs.outputs import Outputs, Runs


def made_runs(rows: int = 50, classes: int = 5, seed: int = 0) -> Runs:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    logits = rng.normal(0, 4, (2, rows, classes)).astype(np.float32) + 3 * np.eye(classes, dtype=np.float32)[y]
    ids = [f"image {i}.png" for i in range(rows)]
    names = [f"class {k}" for k in range(classes)]
    shared = {"labels": y, "ids": ids, "classes": names, "dataset": "mine:test"}
    card = zoo.card("resnet50-cosine.in1k")
    return Runs(
        [
            Outputs.from_arrays("a", logits=logits[0], embeddings=rng.normal(size=(rows, 7)), card=card, **shared),
            Outputs.from_arrays("b", logits=logits[1], link="sigmoid", **shared),
            Outputs.from_arrays("c", predictions=logits[0].argmax(1), **shared),
        ]
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    bundle.export_outputs(made_runs(), tmp_path / "all.safetensors", embeddings=["a"])
    return tmp_path / "all.safetensors"


def forge(path: Path, change) -> None:
    """Change the tensors or the metadata of a bundle and recompute its checksum."""
    tensors, note = tensorfile.read_sealed(path)
    tensors = {name: np.array(array) for name, array in tensors.items()}
    change(tensors, note)
    path.write_bytes(tensorfile.encode(tensors, note))


class TestRoundTrip:
    def test_export_and_import_are_inverse(self, path: Path) -> None:
        runs, back = made_runs(), bundle.read(path)
        assert back.names == runs.names
        for name, outputs in runs.items():
            assert (back[name].predictions == outputs.predictions).all()
            assert (back[name].labels == outputs.labels).all()
            assert back[name].ids.tolist() == outputs.ids.tolist()
            assert (back[name].classes, back[name].link, back[name].kind) == (outputs.classes, outputs.link, outputs.kind)
            assert (back[name].card, back[name].dataset) == (outputs.card, "mine:test")
        np.testing.assert_allclose(back["a"].embeddings, runs["a"].embeddings, rtol=1e-3, atol=1e-3)
        assert back["b"].embeddings is None

    @settings(max_examples=150)
    @given(
        kind=st.sampled_from(["logits", "probabilities", "predictions", "embeddings"]),
        link=st.sampled_from(["softmax", "sigmoid"]),
        name=st.sampled_from(["a", "mm@epoch1", "timm:resnet18", "open_clip:ViT-B-32/openai", "é ü", "labels", "a.b/c"]),
        dtype=st.sampled_from([np.float16, np.float32, np.float64]),
        scale=st.sampled_from([1e-6, 1.0, 100.0, 1e4, 1e6, 1e30]),
        truth=st.sampled_from(["labels", "targets", "none"]),
        temperature=st.sampled_from([None, 0.3, 7.0]),
        has_card=st.booleans(),
        seed=st.integers(0, 2**32 - 1),
    )
    @example("logits", "sigmoid", "mm@epoch1", np.float32, 1e4, "targets", 0.3, True, 0)
    @example("embeddings", "softmax", "timm:resnet18", np.float32, 1e6, "labels", None, True, 0)
    def test_all_kinds_names_and_precisions_are_preserved(
        self, tmp_path_factory, kind, link, name, dtype, scale, truth, temperature, has_card, seed
    ) -> None:
        rng = np.random.default_rng(seed)
        rows, classes = 12, 3
        with np.errstate(over="ignore"):
            values = np.nan_to_num((scale * rng.normal(size=(rows, classes))).astype(dtype))
        p = rng.dirichlet([0.05] * classes, rows).astype(dtype)
        arrays = {
            "logits": {"logits": values, "embeddings": values},
            "probabilities": {"probabilities": p, "embeddings": values},
            "predictions": {"predictions": rng.integers(-1, classes, rows)},
            "embeddings": {"embeddings": values},
        }[kind]
        truths = {
            "labels": {"labels": rng.integers(0, classes, rows)},
            "targets": {"targets": rng.integers(-1, 2, (rows, classes))},
        }.get(truth, {})
        card = dataclasses.replace(zoo.card("timm:test_vit"), name=name) if has_card else None
        before = Outputs.from_arrays(
            name,
            **arrays,
            **truths,
            classes=["x", "y", "z"],
            link=link,
            temperature=temperature,
            dataset="m:test",
            card=card,
        )
        file = tmp_path_factory.mktemp("trip") / "file.safetensors"
        note = bundle.export_outputs([before], file, embeddings=[name] if "embeddings" in arrays else [])
        after = bundle.read(file)[name]
        for field in ("name", "kind", "classes", "link", "temperature", "dataset", "card", "label_classes"):
            assert getattr(after, field) == getattr(before, field), field
        assert after.ids.tolist() == before.ids.tolist()
        for field in ("labels", "targets"):
            assert getattr(after, field) is None if getattr(before, field) is None else True
            np.testing.assert_array_equal(getattr(after, field), getattr(before, field))
        if kind != "embeddings":
            np.testing.assert_array_equal(after.predictions, before.predictions)
        if kind in ("logits", "probabilities"):
            moved = np.abs(np.asarray(after.probabilities, np.float64) - np.asarray(before.probabilities, np.float64)).max()
            assert moved <= note["models"][0]["largest_change"] * (1 + 1e-6) + 1e-7 < 2e-3
        if before.embeddings is not None:
            x, y = np.asarray(before.embeddings, np.float64), np.asarray(after.embeddings, np.float64)
            assert (np.abs(x - y) <= 1e-3 * np.abs(x) + 1e-6 * np.abs(x).max(0)).all()
        home = file.parent / "home"
        stored = store.save(after, home)
        np.testing.assert_array_equal(stored.values, after.values)
        assert store.verify(home).clean

    def test_the_stated_rounding_error_bounds_every_probability(self, tmp_path: Path) -> None:
        runs = made_runs(rows=500)
        note = bundle.export_outputs(runs, tmp_path / "all.safetensors")
        back = bundle.read(tmp_path / "all.safetensors")
        for about in note["models"][:2]:
            moved = np.abs(back[about["name"]].probabilities - runs[about["name"]].probabilities).max()
            assert 0 < moved <= about["largest_change"] * (1 + 1e-6) < bundle.MAX_CHANGE

    @given(
        seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-4, 1.0, 1000.0]),
        link=st.sampled_from(["softmax", "sigmoid"]),
    )  # fmt: skip
    def test_near_ties_keep_their_prediction(self, tmp_path_factory, seed: int, scale: float, link: str) -> None:
        rng = np.random.default_rng(seed)
        logits = (rng.normal(size=(40, 3)) * scale).astype(np.float32)
        logits[:, 1] = np.nextafter(logits[:, 0], np.float32(np.inf))  # rounding makes them equal
        outputs = Outputs.from_arrays("a", logits=logits, labels=[0] * 40, link=link)  # type: ignore[arg-type]
        path = tmp_path_factory.mktemp("ties") / "a.safetensors"
        bundle.export_outputs([outputs], path)
        assert (bundle.read(path)["a"].predictions == logits.argmax(1)).all()

    @pytest.mark.parametrize("values", [[[1e6, 0.0], [-1e6, 1e6]], [[0.0, -1e300], [1.0, 2.0]]])
    def test_large_logits_are_stored_with_more_digits(self, tmp_path: Path, values) -> None:
        outputs = Outputs.from_arrays("large", logits=values, labels=[0, 1])
        bundle.export_outputs([outputs], tmp_path / "x.safetensors")
        back = bundle.read(tmp_path / "x.safetensors")["large"]
        np.testing.assert_allclose(back.probabilities, outputs.probabilities, atol=bundle.MAX_CHANGE)
        assert np.isfinite(back.logits).all()

    def test_masked_classes_stay_masked_and_no_other_class_becomes_masked(self, tmp_path: Path) -> None:
        logits = np.array([[0.0, -np.inf, -1e5], [3.0, -np.inf, 1.0]], np.float32)
        bundle.export_outputs([Outputs.from_arrays("a", logits=logits)], tmp_path / "x.safetensors")
        np.testing.assert_array_equal(np.isneginf(bundle.read(tmp_path / "x.safetensors")["a"].logits), np.isneginf(logits))

    def test_temperatures_are_preserved(self, tmp_path: Path, zoo_home: Path) -> None:
        runs = calibrate(Runs(made_runs().subset(["a", "b"])), 0.5, temperature_space="logits")
        bundle.export_outputs(runs, tmp_path / "x.safetensors")
        back = bundle.read(tmp_path / "x.safetensors")
        assert {name: outputs.temperature for name, outputs in back.items()} == {
            name: outputs.temperature for name, outputs in runs.items()
        }
        assert back["a"].calibration == runs["a"].calibration
        stored = store.save(made_runs()["a"])
        store.save_fit(stored, {"temperature": 2.5, "split": "mine:val", "rows": 9})
        bundle.export_outputs([stored], tmp_path / "y.safetensors")
        again = store.save(bundle.read(tmp_path / "y.safetensors")["a"], tmp_path / "home")
        assert store.read_fits(again.path)["mine:val"]["temperature"] == 2.5

    def test_models_without_labels_get_the_labels_of_the_others(self, tmp_path: Path) -> None:
        bare = dataclasses.replace(made_runs()["c"], labels=None, name="bare")
        bundle.export_outputs([made_runs()["a"], bare], tmp_path / "x.safetensors")
        assert bundle.read(tmp_path / "x.safetensors")["bare"].accuracy == made_runs()["c"].accuracy

    def test_a_bundle_can_be_read_with_numpy(self, path: Path) -> None:
        """Use only the code in the module's docstring, without this package."""
        runs = made_runs()
        with safe_open(path, "numpy") as file:
            about = json.loads(file.metadata()["zoo"])
            ids = json.loads(file.get_tensor("ids").tobytes())
            values = {model["name"]: file.get_tensor(f"{model['kind']}/{model['name']}") for model in about["models"]}
            labels = file.get_tensor(about["models"][0]["labels"])
        assert ids == runs["a"].ids.tolist()
        assert about["classes"] == list(runs["a"].classes)
        assert (values["a"].argmax(1) == labels).mean() == pytest.approx(runs["a"].accuracy)

    @pytest.mark.parametrize(
        ("runs", "embeddings", "facts"),
        [
            (made_runs(), ["b"], {"where": "b", "problem": "embeddings"}),
            ([], [], {"argument": "runs", "found": 0}),
            ([dataclasses.replace(made_runs()["a"], name="a\nb")], [], {"argument": "name", "found": "a\nb"}),
            ([dataclasses.replace(made_runs()["a"], name="caf\udce9")], [], {"problem": "UTF-8"}),
        ],
    )
    def test_invalid_exports_leave_no_file(self, tmp_path: Path, runs, embeddings, facts) -> None:
        with pytest.raises(InputError, check=fields(**facts)):
            bundle.export_outputs(runs, tmp_path / "x.safetensors", embeddings=embeddings)
        assert list(tmp_path.iterdir()) == []


def _set_entry(number: int, **changes):
    return lambda tensors, note: note["models"][number].update(changes)


def _set_note(**changes):
    return lambda tensors, note: note.update(changes)


def _set_tensor(name: str, change):
    return lambda tensors, note: tensors.update({name: change(tensors[name])})


def _remove_tensor(name: str):
    return lambda tensors, note: tensors.pop(name)


def _with_value(value, row: int = 3):
    def change(array: np.ndarray) -> np.ndarray:
        array = array.astype(np.float32)
        array[row] = value
        return array

    return change


def _ids(change):
    def forged(array: np.ndarray) -> np.ndarray:
        return np.frombuffer(json.dumps(change(json.loads(array.tobytes()))).encode(), np.uint8)

    return forged


FIT = {"temperature": 2.0, "split": "v", "rows": 3}
DEEP = json.loads("[" * 400 + "]" * 400)
# Changes that make one model invalid: it is skipped and the other models are read.
OF_ONE_MODEL = {
    "NaN logits": (0, _set_tensor("logits/a", _with_value(np.nan))),
    "infinite logits": (0, _set_tensor("logits/a", _with_value(np.inf))),
    "more columns than classes": (0, _set_tensor("logits/a", lambda z: np.pad(z, ((0, 0), (0, 1))))),
    "fewer rows than ids": (0, _set_tensor("logits/a", lambda z: z[:-1])),
    "logits of three dimensions": (0, _set_tensor("logits/a", lambda z: z[..., None])),
    "logits that are whole numbers": (0, _set_tensor("logits/a", lambda z: z.astype(np.int32))),
    "no logits": (0, _remove_tensor("logits/a")),
    "NaN embeddings": (0, _set_tensor("embeddings/a", _with_value(np.nan))),
    "empty embeddings": (0, _set_tensor("embeddings/a", lambda x: x[:, :0])),
    "embeddings with fewer rows": (0, _set_tensor("embeddings/a", lambda x: x[:-1])),
    "predictions of unknown classes": (2, _set_tensor("predictions/c", lambda k: k * 0 + 77)),
    "predictions below -1": (2, _set_tensor("predictions/c", lambda k: k * 0 - 2)),
    "predictions of 0.5": (2, _set_tensor("predictions/c", lambda k: k + np.float32(0.5))),
    "predictions [N, 1]": (2, _set_tensor("predictions/c", lambda k: k[:, None])),
    "probabilities that sum to 21": (0, lambda tensors, note: (
        note["models"][0].update(kind="probabilities"), tensors.update({"probabilities/a": tensors["logits/a"] * 0 + 4.2}))),
    "negative probabilities": (0, lambda tensors, note: (
        note["models"][0].update(kind="probabilities"),
        tensors.update({"probabilities/a": np.tile(np.float32([2, -1, 0, 0, 0]), (50, 1))}))),
    "an unknown kind": (0, _set_entry(0, kind="secrets")),
    "an unknown link": (0, _set_entry(0, link="tanh")),
    "a kind that is a list": (0, _set_entry(0, kind=["logits"])),
    "a name that is a number": (0, _set_entry(0, name=7)),
    "an empty name": (0, lambda tensors, note: (
        note["models"][0].update(name=""), tensors.update({"logits/": tensors["logits/a"]}))),
    "a name with a control character": (0, lambda tensors, note: (
        note["models"][0].update(name="a\x1b"), tensors.update({"logits/a\x1b": tensors["logits/a"]}))),
    "the name of another model": (1, lambda tensors, note: (
        note["models"][1].update(name="a"))),
    "a card that is no card": (0, _set_entry(0, card="nonsense")),
    "a card that is a number": (0, _set_entry(0, card=3)),
    "a temperature of 0": (0, _set_entry(0, temperature=0.0)),
    "a negative temperature": (0, _set_entry(0, temperature=-2.0)),
    "a temperature that is a text": (0, _set_entry(0, temperature="2")),
    "fits that are a list": (0, _set_entry(0, fits=[1])),
    "a fit without a temperature": (0, _set_entry(0, fits={"mine:val": {"rows": 3}})),
    "a fit with a temperature of 0": (0, _set_entry(0, fits={"mine:val": {"temperature": 0.0}})),
    "a fit of unknown rows": (0, _set_entry(0, fits={"v": FIT | {"rows": "many"}})),
    "a fit of a negative number of rows": (0, _set_entry(0, fits={"v": FIT | {"rows": -3}})),
    "a fit without a split": (0, _set_entry(0, calibration={"temperature": 2.0}, temperature=2.0)),
    "a fit on a split that is a mapping": (0, _set_entry(0, calibration=FIT | {"split": {}}, temperature=2.0)),
    "a fit in an unknown space": (0, _set_entry(0, fits={"v": FIT | {"temperature_space": "x"}})),
    "a dataset with a line break": (0, _set_entry(0, dataset="mine\nyours")),
    "calibration that is a list": (0, _set_entry(0, calibration=[])),
    "calibration without a temperature": (0, _set_entry(0, calibration={"split": "x"})),
    "undecodable that is a text": (0, _set_entry(0, undecodable="all")),
    "undecodable without ids": (0, _set_entry(0, undecodable=[{"reason": "x"}])),
    "labels that do not exist": (0, _set_entry(0, labels="labels/none")),
    "labels that are logits": (0, _set_entry(0, labels="logits/b")),
    "targets of another shape": (0, _set_entry(0, targets="labels")),
    "a field that is unknown": (0, _set_entry(0, secret=1)),
    "a field that is missing": (0, lambda tensors, note: note["models"][0].pop("kind")),
    "an entry that is a list": (0, lambda tensors, note: note["models"].__setitem__(0, [1])),
    "a card that is nested deeply": (0, _set_entry(0, card=DEEP)),
    "calibration that is nested deeply": (0, _set_entry(0, calibration=DEEP)),
}  # fmt: skip
# Changes that make the whole file invalid.
OF_THE_FILE = {
    "duplicate ids": _set_tensor("ids", _ids(lambda ids: ["x", "x", *ids[2:]])),
    "ids that are numbers": _set_tensor("ids", _ids(lambda ids: list(range(len(ids))))),
    "ids that are a mapping": _set_tensor("ids", _ids(lambda ids: dict.fromkeys(ids))),
    "ids of a megabyte": _set_tensor("ids", _ids(lambda ids: ["x" * 10**6, *ids[1:]])),
    "ids that are not UTF-8": _set_tensor("ids", _ids(lambda ids: ["\ud800", *ids[1:]])),
    "ids that are not JSON": _set_tensor("ids", lambda ids: ids[::-1]),
    "no ids": _remove_tensor("ids"),
    "duplicate classes": _set_note(classes=["a", "a", "b", "c", "d"]),
    "fewer classes than columns": _set_note(classes=["a", "b"]),
    "classes that are numbers": _set_note(classes=[0, 1, 2, 3, 4]),
    "classes that are a text": _set_note(classes="abcde"),
    "labels [N, 1]": _set_tensor("labels", lambda y: y[:, None]),
    "labels that are floating-point numbers": _set_tensor("labels", lambda y: y.astype(np.float32)),
    "labels beyond the classes": _set_tensor("labels", lambda y: y + 1000),
    "negative labels": _set_tensor("labels", lambda y: y - 7),
    "fewer labels than ids": _set_tensor("labels", lambda y: y[:-1]),
    "no models": _set_note(models=[]),
    "models that are a mapping": _set_note(models={"a": 1}),
    "models that are nested deeply": _set_note(models=DEEP),
    "a dataset that is a list": _set_note(dataset=["mine"]),
    "a schema that is a text": _set_note(schema="2"),
    "a schema of the future": _set_note(schema=99),
    "another form": _set_note(form="weights"),
    "a dataset with a terminal escape": _set_note(dataset="\x1b[31m"),
}


class TestForgeries:
    """A bundle has a checksum without a key, so anybody can create a file with a valid checksum."""

    @pytest.mark.parametrize("forgery", OF_ONE_MODEL)
    def test_an_invalid_model_is_skipped_and_the_others_are_read(self, path: Path, forgery: str, zoo_home: Path) -> None:
        number, change = OF_ONE_MODEL[forgery]
        forge(path, change)
        with pytest.warns(ZooWarning, match=r"all\.safetensors.*skipped"):
            runs = import_outputs(path)
        assert runs.names == [name for name in "abc" if name != "abc"[number]]
        assert {name: outputs.accuracy for name, outputs in runs.items()} == {
            name: made_runs()[name].accuracy for name in runs.names
        }

    @pytest.mark.parametrize("forgery", OF_THE_FILE)
    def test_an_invalid_file_is_an_error_and_nothing_is_written(self, path: Path, forgery: str, zoo_home: Path) -> None:
        forge(path, OF_THE_FILE[forgery])
        with pytest.raises((InputError, CorruptFile)) as raised:
            Runs(store.save(outputs) for outputs in import_outputs(path).values())
        assert "all.safetensors" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert not (zoo_home / "outputs").exists()

    def test_messages_name_the_file_and_are_short(self, path: Path) -> None:
        """A message must not show a field as a command-line option, and long names are truncated."""
        whole = path.read_bytes()
        forge(path, _set_entry(0, name="x\n" * 3000))
        with pytest.warns(ZooWarning) as warned:
            bundle.read(path)
        message = str(warned[0].message)
        assert len(message) < 500
        assert "\n" not in message
        path.write_bytes(whole)
        forge(path, _set_tensor("labels", lambda y: y - 7))
        with pytest.raises(InputError, check=fields(where=["all.safetensors", "a"], argument="labels")) as raised:
            bundle.read(path)
        raised.value.options = {"labels": "--labels"}
        assert "--labels" not in str(raised.value)

    def test_every_changed_byte_is_detected(self, path: Path) -> None:
        whole = path.read_bytes()
        for position in range(8, len(whole), 97):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
            with pytest.raises(CorruptFile, match=r"all\.safetensors"):
                bundle.read(path)

    def test_labels_that_contradict_a_known_dataset_are_an_error(self, tmp_path: Path) -> None:
        shipped = next(iter(bundle.study("cifar10:test").values()))
        wrong = dataclasses.replace(shipped, labels=np.roll(shipped.labels, 1), name="wrong", path=None)
        bundle.export_outputs([wrong], tmp_path / "x.safetensors")
        with pytest.raises(InputError, check=fields(where="x.safetensors", problem=["labels", "cifar10:test"])):
            import_outputs(tmp_path / "x.safetensors")

    def test_a_model_that_contradicts_a_known_dataset_is_skipped(self, tmp_path: Path) -> None:
        shipped = next(iter(bundle.study("cifar10:test").values()))
        bundle.export_outputs([shipped], tmp_path / "a.safetensors")

        def add_model(tensors, note):
            entry = dict(note["models"][0], name="other", labels="labels/other")
            note["models"].append(entry)
            tensors[f"{entry['kind']}/other"] = tensors[f"{entry['kind']}/{shipped.name}"]
            tensors["labels/other"] = np.roll(tensors["labels"], 1)

        forge(tmp_path / "a.safetensors", add_model)
        with pytest.warns(ZooWarning, match=r"a\.safetensors: other: .*labels.*skipped"):
            assert import_outputs(tmp_path / "a.safetensors").names == [shipped.name]


class TestOptions:
    """Import options either apply to a bundle or raise an error."""

    def test_the_name_of_a_single_model(self, tmp_path: Path) -> None:
        bundle.export_outputs([made_runs()["a"]], tmp_path / "x.safetensors")
        assert import_outputs(tmp_path / "x.safetensors", name="mine").names == ["mine"]

    def test_a_name_for_several_models_is_an_error(self, path: Path) -> None:
        with pytest.raises(InputError, check=fields(argument="name", found="mine")):
            import_outputs(path, name="mine")

    def test_the_dataset_of_a_bundle_without_one(self, tmp_path: Path) -> None:
        outputs = dataclasses.replace(made_runs()["a"], dataset=None)
        bundle.export_outputs([outputs], tmp_path / "x.safetensors")
        assert import_outputs(tmp_path / "x.safetensors", data="other:test")["a"].dataset == "other:test"

    @pytest.mark.parametrize(
        ("options", "found"),
        [
            ({"data": "other:test"}, "other:test"),
            ({"kind": "probabilities"}, "probabilities"),
            ({"kind": "logits"}, "logits"),  # c has predictions
            ({"link": "sigmoid"}, "sigmoid"),
        ],
    )
    def test_options_that_contradict_the_bundle_are_errors(self, path: Path, options, found) -> None:
        with pytest.raises(InputError, check=fields(where="all.safetensors", argument=next(iter(options)), found=found)):
            import_outputs(path, **options)

    @pytest.mark.parametrize(
        "options",
        [
            {"labels": np.zeros(50, int)},
            {"classes": list("abcde")},
            {"ids": list(range(50))},
            {"columns": {"labels": "y"}},
            {"positive_class": "class 0"},
        ],
    )
    def test_options_for_data_in_the_bundle_are_errors(self, path: Path, options) -> None:
        with pytest.raises(InputError, check=fields(where="all.safetensors", argument=next(iter(options)))):
            import_outputs(path, **options)

    def test_options_that_agree_with_the_bundle_are_accepted(self, path: Path, tmp_path: Path) -> None:
        assert import_outputs(path, data="mine:test").names == ["a", "b", "c"]
        bundle.export_outputs([made_runs()["a"]], tmp_path / "one.safetensors")
        assert import_outputs(tmp_path / "one.safetensors", kind="logits", link="softmax").names == ["a"]

    def test_rows_without_a_prediction_are_dropped_on_request(self, tmp_path: Path) -> None:
        outputs = Outputs.from_arrays("a", predictions=[0, -1, 1], labels=[0, 0, 1])
        bundle.export_outputs([outputs], tmp_path / "x.safetensors")
        assert len(import_outputs(tmp_path / "x.safetensors", drop_missing=True)["a"]) == 3
        with pytest.warns(ZooWarning, match="1 of 3 predictions of a .* dropped"):
            part = import_outputs(tmp_path / "x.safetensors", drop_unknown=True)["a"]
        assert (part.ids.tolist(), part.accuracy) == (["0", "2"], 1)

    def test_a_table_about_the_models(self, path: Path, tmp_path: Path) -> None:
        (tmp_path / "meta.csv").write_text("model,family\na,mixer\nb,mixer\nc,vit\n")
        runs = import_outputs(path, meta=tmp_path / "meta.csv")
        assert [outputs.card.family for outputs in runs.values()] == ["mixer", "mixer", "vit"]


class TestSources:
    def test_several_bundles_folders_and_other_files(self, tmp_path: Path) -> None:
        runs = made_runs()
        folder = tmp_path / "folder"
        folder.mkdir()
        bundle.export_outputs([runs["a"]], folder / "one.safetensors")
        bundle.export_outputs([runs["b"]], tmp_path / "two.safetensors")
        np.savez(tmp_path / "net.npz", logits=runs["a"].logits, labels=runs["a"].labels)
        assert import_outputs(folder).names == ["a"]
        assert import_outputs([folder / "one.safetensors", tmp_path / "two.safetensors"]).names == ["a", "b"]
        assert import_outputs([tmp_path / "net.npz", folder, tmp_path / "two.safetensors"]).names == ["net", "a", "b"]
        (folder / "copy.safetensors").write_bytes((folder / "one.safetensors").read_bytes())
        both = fields(where=["copy.safetensors", "one.safetensors"], problem="'a'", hint="{name=NAME}")
        with pytest.raises(InputError, check=both):
            import_outputs(folder)

    def test_a_symbolic_link_is_followed(self, path: Path, tmp_path: Path) -> None:
        """Some installers and the Hugging Face cache use symbolic links."""
        link = tmp_path / "link.safetensors"
        link.symlink_to(path)
        assert bundle.is_bundle(link)
        assert bundle.read(link).names == import_outputs(link).names == ["a", "b", "c"]
        os.unlink(path)
        assert not bundle.is_bundle(link)
        with pytest.raises(ZooError, match=r"link\.safetensors|all\.safetensors"):
            import_outputs(link)

    def test_other_files_are_not_bundles(self, tmp_path: Path) -> None:
        assert not bundle.is_bundle(Path(__file__))
        assert not bundle.is_bundle(tmp_path)
        (tmp_path / "x.safetensors").write_bytes(tensorfile.encode({"logits": np.zeros((2, 2), np.float32)}, {"form": "x"}))
        assert not bundle.is_bundle(tmp_path / "x.safetensors")
