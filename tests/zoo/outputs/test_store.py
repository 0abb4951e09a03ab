"""The store of outputs: outputs are opened unchanged, found by name, and identified by their digests."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from small_models import small_model

from zoo.cards import card_index
from zoo.core import files, tensorfile
from zoo.errors import CorruptFile, InputError, UnknownName, ZooWarning
from zoo.outputs import bundle, store, stored_names
from zoo.outputs.outputs import Outputs
from zoo.outputs.store import layout
from zoo.runs import runner

Z = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)


def make(name="a", **changes):
    return Outputs.from_arrays(
        **{"name": name, "logits": Z, "labels": np.arange(10) % 3, "dataset": "cifar10:test"} | changes
    )


def run(name="small", data="digits:test[:20]", **options):
    return runner.run(small_model(name), data=data, progress=False, shard_rows=8, **options)[name]


@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 30), classes=st.integers(1, 4), kind=st.sampled_from(["logits", "probabilities", "predictions"]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]), extra=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_opened_outputs_equal_saved_outputs(rows, classes, kind, dtype, extra, seed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, classes)).astype(dtype)
    values = {
        "logits": z,
        "probabilities": (np.exp(z) / np.exp(z).sum(1, keepdims=True)).astype(dtype),
        "predictions": z.argmax(1),
    }[kind]
    before = Outputs.from_arrays(
        "é/name", **{kind: values}, classes=[f"k{k}" for k in range(classes)], ids=[f"{i} ü" for i in range(rows)],
        labels=rng.integers(0, classes, rows) if extra else None, embeddings=z if extra else None,
    )  # fmt: skip
    home = tmp_path_factory.mktemp("home")
    store.save(before, home)
    after = store.open_runs(home=home)["é/name"]
    assert (after.kind, after.classes, after.ids.tolist()) == (kind, before.classes, before.ids.tolist())
    assert np.asarray(after.values).dtype == np.asarray(before.values).dtype
    assert np.array_equal(after.values, before.values)
    assert (after.labels is None) == (before.labels is None)
    assert after.labels is None or np.array_equal(after.labels, before.labels)
    assert after.embeddings is None if not extra else np.array_equal(after.embeddings, before.embeddings)
    assert store.verify(home).clean


def test_columns_are_memory_mapped_and_read_only():
    outputs = run()
    assert len(outputs.values.blocks) == 3
    for block in outputs.values.blocks:
        assert not block.flags.owndata
        assert not block.flags.writeable


def test_the_layout_on_disk():
    outputs = run()
    assert outputs.path.parent.name.startswith("digits-test-20-")
    assert outputs.path.name.startswith("small-")
    manifest = json.loads((outputs.path / "manifest.json").read_text())
    assert manifest["schema"] == 1
    assert [(entry["file"], entry["rows"]) for entry in manifest["shards"]] == [
        ("00000.safetensors", 8), ("00001.safetensors", 8), ("00002.safetensors", 4),
    ]  # fmt: skip
    identity = manifest["identity"]
    assert identity["dataset"] == "digits:test[:20]"
    assert identity["precision"] == "float32"
    assert len(identity["weights"]) == 64
    assert identity["classes"] == list("0123456789")


NAMES = [
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\windows",
    "con",
    "a" * 300,
    "Small",
    "SMALL",
    "small",
    "..",
    "a/b",
    "é",
    " ",
]


def test_unusual_names_stay_inside_the_store_and_do_not_collide(tmp_path):
    for name in NAMES:
        store.save(make(name), tmp_path)
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert all(path.resolve().is_relative_to(tmp_path / "outputs") for path in folders)
    assert len({path.name.lower() for path in folders if (path / "manifest.json").exists()}) == len(NAMES)
    assert sorted(run.identity.name for run in store.stored(tmp_path)) == sorted(NAMES)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "a" * 301])
def test_invalid_names_are_errors(name, tmp_path):
    with pytest.raises(InputError, check=fields(argument="name", expected="1 to 300 bytes", found=name[:60])):
        store.save(make(name), tmp_path)


def test_a_shard_of_another_run_is_detected():
    first, second = run(), run("other")
    shard = "00000.safetensors"
    (first.path / shard).write_bytes((second.path / shard).read_bytes())
    with pytest.raises(CorruptFile, check=fields(where=shard, problem="checksum", hint="zoo verify --set-aside")):
        store.open_runs("small")
    (first.path / "manifest.json").unlink()
    with pytest.warns(ZooWarning, match=r"00000\.safetensors: belongs to another run"):
        again = run()
    assert store.verify().clean
    assert np.array_equal(again.ids, second.ids)


def test_a_shard_that_is_a_link_is_not_followed(tmp_path):
    outputs = run()
    shard = outputs.path / "00001.safetensors"
    shard.rename(tmp_path / "elsewhere.safetensors")
    shard.symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(CorruptFile, check=fields(where="00001.safetensors", problem="regular file")):
        store.open_runs("small")
    assert not store.verify().clean


def change_manifest(path, **changes):
    manifest = {key: value for key, value in json.loads(path.read_text()).items() if key != "sha256"}
    files.write_json(path, {**manifest, **changes})  # with a valid checksum


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: {"shards": [{**m["shards"][0], "file": "../../../x"}, *m["shards"][1:]]}, "match its own digest"),
        (lambda m: {"shards": m["shards"][:1]}, "match its own digest"),
        (lambda m: {"identity": {**m["identity"], "precision": "float16"}}, "match its own digest"),
        (lambda m: {"identity": {**m["identity"], "classes": list("9876543210")}}, "match its own digest"),
        (lambda m: {"identity": {**m["identity"], "surprise": 1}}, "not a manifest of outputs"),
        (lambda m: {"identity": {**m["identity"], "shard_rows": 0}}, "20 examples"),
        (lambda m: {"identity": {**m["identity"], "examples": "20"}}, "identity.examples"),
        (lambda m: {"identity": None}, "not a manifest of outputs"),
        (lambda m: {"undecodable": None}, "not a manifest of outputs"),
        (lambda m: {"undecodable": [{"reason": "cut off"}]}, "not a manifest of outputs"),
        (lambda m: {"schema": 99}, "schema"),
    ],
)
def test_a_manipulated_manifest_is_detected(change, message):
    path = run().path / "manifest.json"
    change_manifest(path, **change(json.loads(path.read_text())))
    report = store.verify()
    assert not report.clean
    with pytest.warns(ZooWarning, match=rf"manifest\.json.*{message}"), pytest.raises(UnknownName):
        store.open_runs("small")


def test_damaged_files_are_set_aside_on_request_and_computed_again():
    outputs = run()
    shard = outputs.path / "00001.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + b"!")
    assert store.verify().set_aside == {}
    assert shard.exists()
    report = store.verify(set_aside=True)
    assert report.set_aside == {shard: outputs.path / "00001.safetensors.corrupt-1"}
    assert store.verify().problems == {shard: "is missing"}
    assert run().path == outputs.path
    assert shard.read_bytes() == whole
    assert store.verify().clean


def test_an_unfinished_run_is_neither_damaged_nor_opened():
    outputs = run()
    (outputs.path / "manifest.json").unlink()
    (outputs.path / "00002.safetensors").unlink()
    (checked,) = store.verify().runs
    assert (checked.state, checked.files) == ("unfinished", 2)
    with pytest.raises(UnknownName, check=fields(name="small", kind="stored model")):
        store.open_runs("small")


def test_an_empty_store_is_clean():
    assert store.verify().clean
    assert store.verify().runs == []


def test_runs_are_found_by_name_pattern_and_dataset():
    run("net-a"), run("net-b"), run("net-a", data="digits:test[:10]")
    runs = store.open_runs("net-*", data="digits:test[:20]")
    assert runs.names == ["net-a", "net-b"]
    assert len(store.open_runs(["net-a"], data="digits:test[:10]")["net-a"]) == 10
    with pytest.raises(InputError, check=fields(problem=["digits:test[:10]", "digits:test[:20]"], hint="{data}")):
        store.open_runs("net-a")
    with pytest.raises(UnknownName, check=fields(name="net-c", suggestions=("net-b", "net-a"))):
        store.open_runs("net-c", data="digits:test[:20]")
    with pytest.raises(UnknownName, check=fields(name="xyz", suggestions=())):
        store.open_runs("xyz", data="digits:test[:20]")


def test_a_digest_selects_one_of_several_runs_with_a_name():
    exact, half = run(), run(precision="bfloat16")
    names = {outputs: f"small@{outputs.details['digest'][:8]}" for outputs in (exact, half)}
    with pytest.raises(InputError, check=fields(where="small", problem=["2 ", "precision"], hint=list(names.values()))):
        store.open_runs("small")
    for outputs, name in names.items():
        assert store.open_runs(name)["small"].path == outputs.path


def test_outputs_on_a_changed_dataset_are_not_opened(tmp_path):
    from small_models import save_images

    save_images(tmp_path / "data", 2)
    spec = f"folder:{tmp_path / 'data'}"
    run(data=spec)
    assert store.open_runs("small", data=spec).names == ["small"]
    (tmp_path / "data/cat/0.png").write_bytes((tmp_path / "data/cat/1.png").read_bytes())
    with pytest.raises(UnknownName):
        store.open_runs("small", data=spec)
    (tmp_path / "data").rename(tmp_path / "elsewhere")  # only the dataset's spec can be compared now
    assert store.open_runs("small", data=spec).names == ["small"]


def test_a_temperature_is_stored_and_not_applied_on_opening():
    outputs = run()
    store.save_fit(outputs, {"temperature": 2, "split": "digits:calibration"})
    store.save_fit(outputs, {"temperature": 3, "split": "elsewhere"})
    assert run().temperature is None
    assert store.open_runs("small")["small"].temperature is None
    fits = store.read_fits(outputs.path)
    assert {split: fit["temperature"] for split, fit in fits.items()} == {"digits:calibration": 2.0, "elsewhere": 3.0}
    assert store.verify().clean
    path = outputs.path / "calibration.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"2.0", b"9.0"))
    with pytest.raises(CorruptFile, match=r"calibration\.json.*checksum"):
        store.read_fits(outputs.path)
    assert list(store.verify().problems) == [path]
    files.write_json(path, {"schema": 1, "fits": {"x": {"temperature": -1.0}}})
    with pytest.raises(CorruptFile, check=fields(where="calibration.json", problem=["'x'", "-1.0"])):
        store.read_fits(outputs.path)
    assert store.verify(set_aside=True).set_aside.keys() == {path}
    assert store.read_fits(outputs.path) == {}
    with pytest.raises(InputError, check=fields(where="small", argument="temperature", found=0.0)):
        store.save_fit(outputs, {"temperature": 0, "split": "x"})
    store.save_fit(make(), {"temperature": 1.5, "split": "x"})  # in memory only, so nothing is stored


def test_different_identities_have_different_digests():
    base = layout.Identity(
        "a", "logits", "softmax", ("x", "y"), "w", "t", "float32", True, "f", 10, dataset="d", dataset_name="d"
    )  # fmt: skip
    changes = {
        "name": "b", "kind": "embeddings", "link": "sigmoid", "classes": ("y", "x"), "weights": "v", "transform": "u",
        "precision": "float16", "embeddings": False, "fingerprint": "g", "examples": 11, "shard_rows": 7,
        "label_classes": ("z",), "predicts": "p",
    }  # fmt: skip
    digests = {dataclasses.replace(base, **{field: value}).digest for field, value in changes.items()}
    assert len(digests | {base.digest}) == len(changes) + 1
    assert {field.name for field in dataclasses.fields(base)} - set(changes) == {"dataset", "dataset_name", "card"}


SEALED = ["weights/m/model.safetensors", "weights/m/head.safetensors", "weights/m/checkpoint.safetensors",
          "heads/k.safetensors", "datasets/k.safetensors", "models/k.json", "fingerprints/k.json", "cache/cards-k.json",
          "hashes.json"]  # fmt: skip


@pytest.mark.parametrize("place", SEALED)
def test_one_changed_byte_in_other_files_is_detected(zoo_home, place):
    path = zoo_home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        files.write_json(path, {"schema": 1, "value": 1.5})
    else:
        path.write_bytes(tensorfile.encode({"weight": Z}, {"step": 15}))
    assert store.verify().clean
    old, new = (b"1.5", b"9.5") if path.suffix == ".json" else (b": 15", b": 95")
    path.write_bytes(path.read_bytes().replace(old, new))
    ((damaged, problem),) = store.verify().problems.items()
    assert damaged == path
    assert "checksum" in problem
    assert store.verify(set_aside=True).set_aside.keys() == {path}
    assert store.verify().clean


@pytest.mark.parametrize("field", ["dataset", "dataset_name", "card"])
def test_the_checksum_covers_manifest_fields_outside_the_digest(zoo_home, field):
    path = run().path / "manifest.json"
    value = json.loads(path.read_text())
    value["identity"][field] = "another"
    path.write_text(json.dumps(value, indent=1))
    assert list(store.verify().problems) == [path]


@pytest.fixture
def shipped_files(tmp_path, monkeypatch):
    """Create a folder of shipped files: weights of one model and outputs of two."""
    folder = tmp_path / "model_cards"
    folder.mkdir()
    name = "resnet7-softmax.cifar10"
    for suffix in (".md", ".safetensors"):
        shutil.copy(card_index.shipped_folder() / f"{name}{suffix}", folder)
    bundle.export_outputs([make("x"), make("y")], folder / "cifar10.outputs.safetensors")
    monkeypatch.setattr(card_index, "shipped_folder", lambda: folder)
    bundle._open_shipped.cache_clear()
    yield folder
    bundle._open_shipped.cache_clear()


@pytest.mark.parametrize("name", ["resnet7-softmax.cifar10.safetensors", "cifar10.outputs.safetensors"])
def test_damaged_shipped_files_are_reported_and_not_renamed(shipped_files, name):
    assert store.verify().clean
    path = shipped_files / name
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    report = store.verify(set_aside=True)
    assert not report.clean
    assert list(report.problems) == [path]
    assert "pip install" in report.problems[path]
    assert report.set_aside == {}
    assert path.exists()


def test_the_error_about_damaged_shipped_outputs_has_a_remedy(shipped_files):
    path = shipped_files / "cifar10.outputs.safetensors"
    assert bundle.shipped("x", "cifar10:test") is not None
    bundle._open_shipped.cache_clear()
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(CorruptFile, check=fields(where=path.name, hint="pip install")):
        bundle.shipped("x", "cifar10:test")
    path.write_bytes(b"damaged header")
    stored_names._read_note.cache_clear()
    with pytest.warns(ZooWarning, match=r"cifar10\.outputs\.safetensors.*pip install"):
        assert bundle.shipped("x", "cifar10:test") is None


def test_shipped_outputs_may_be_symbolic_links(shipped_files, tmp_path):
    """Some installers use symbolic links for the files of a package."""
    path = shipped_files / "cifar10.outputs.safetensors"
    path.rename(tmp_path / "blob")
    path.symlink_to(tmp_path / "blob")
    assert bundle.shipped("x", "cifar10:test").name == "x"
    assert stored_names.shipped_names("cifar10:test") == {"x", "y"}
    assert store.verify().clean
