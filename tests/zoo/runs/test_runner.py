"""`zoo.run`: the right numbers in the right rows, stored, resumed, never mistaken for those of another run."""

import dataclasses
import re
import shutil
import signal
import warnings

import numpy as np
import pytest
import torch
from raised import fields
from small_models import save_images, small_model

from zoo import datasets
from zoo.core import files
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning
from zoo.models import registry
from zoo.outputs import store
from zoo.runs import model_facts, runner
from zoo.runs.engines import loader

DATA = "digits:test[:50]"


def run(model, data=DATA, **options):
    runs = runner.run(model, data=data, progress=False, **{"shard_rows": 16, "batch_size": 5, **options})
    return next(iter(runs.values()))


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_outputs_are_those_of_the_model_on_each_image():
    model, dataset = small_model(), datasets.load(DATA)
    outputs = run(model)
    images = list(dataset)
    np.testing.assert_allclose(outputs.logits, model.predict(images).numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs.embeddings, model.embed(images).numpy(), rtol=1e-5, atol=1e-6)
    assert outputs.ids.tolist() == dataset.ids
    assert np.array_equal(outputs.labels, dataset.labels)
    assert outputs.classes == tuple("0123456789")
    assert outputs.dataset == DATA
    assert outputs.accuracy == np.mean(model.predict(images).argmax(1).numpy() == dataset.labels)
    assert outputs.card.name == "small"


def test_finished_outputs_are_opened_without_computing():
    model = small_model()
    first = run(model)
    model.body.calls.clear()
    second = run(model)
    assert model.body.calls == []
    assert np.array_equal(first.logits, second.logits)


def test_a_named_model_is_not_loaded_if_its_outputs_are_stored(monkeypatch):
    options = {"data": "digits:test[:4]", "pretrained": False, "progress": False}
    before = runner.run("timm:test_vit", **options)["timm:test_vit"]

    def refuse(*args, **more):
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(registry, "load", refuse)
    after = runner.run("timm:test_vit", **options)["timm:test_vit"]
    assert np.array_equal(before.logits, after.logits)
    with pytest.raises(AssertionError, match="loaded"):
        runner.run("timm:test_vit", **{**options, "pretrained": True})


def test_only_missing_shards_are_computed_and_only_their_images_decoded():
    model, dataset = small_model(), datasets.load(DATA)
    outputs = run(model)
    whole = contents(outputs.path)
    (outputs.path / "00001.safetensors").unlink()
    (outputs.path / "manifest.json").unlink()
    decoded = []

    def image(row):
        decoded.append(row)
        return dataset.image(row)

    model.body.calls.clear()
    run(model, data=dataclasses.replace(dataset, image=image), workers=0)
    first = dataset.rows[16]
    assert decoded == list(range(first, first + 16))
    assert sum(model.body.calls) == 16
    assert contents(outputs.path) == whole


def test_batches_begin_with_their_shard():
    model = small_model()
    run(model, shard_rows=16, batch_size=5)
    assert model.body.calls == [5, 5, 5, 1, 5, 5, 5, 1, 5, 5, 5, 1, 2]


def test_workers_and_devices_do_not_change_a_byte(tmp_path):
    expected = run(small_model(), home=tmp_path / "a").path
    with_workers = run(small_model(), home=tmp_path / "b", workers=2).path
    two_devices = run(small_model(), home=tmp_path / "c", device=["cpu", "cpu"]).path
    assert contents(expected) == contents(with_workers) == contents(two_devices)


@pytest.mark.parametrize(
    "change",
    [
        {"precision": "bfloat16"},
        {"data": "digits:test[:49]"},
        {"model": small_model(seed=1)},
        {"model": small_model(name="other")},
        {"model": small_model(classes=tuple("1023456789"))},
        {"transform": (0.4, 0.5, 0.5)},
    ],
    ids=["precision", "data", "weights", "name", "classes", "transform"],
)
def test_another_identity_is_never_reused(change):
    before = run(small_model())
    options = dict(change)
    model = options.pop("model", small_model())
    mean = options.pop("transform", None)
    if mean is not None:
        model.transform = Pipeline(dataclasses.replace(model.transform.spec, mean=mean))
    after = run(model, **options)
    assert model.body.calls
    assert after.path != before.path
    assert np.array_equal(run(small_model()).logits, before.logits)


def test_outputs_on_changed_data_are_computed_again(tmp_path):
    save_images(tmp_path / "data", 3)
    model = small_model()
    before = run(model, data=f"folder:{tmp_path / 'data'}")
    shutil.copy(tmp_path / "data/cat/0.png", tmp_path / "data/dog/1.png")
    after = run(model, data=f"folder:{tmp_path / 'data'}")
    assert before.path != after.path
    assert np.array_equal(after.logits[4], after.logits[0])
    assert not np.array_equal(before.logits[4], before.logits[0])


def damage(path, how):
    data = path.read_bytes()
    path.write_bytes(
        {
            "truncated": data[: len(data) // 2],
            "bit flipped": data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
            "zero-filled": bytes(len(data)),
            "empty": b"",
            "trailing garbage": data + b"garbage",
        }[how]
    )


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("how", ["truncated", "bit flipped", "zero-filled", "empty", "trailing garbage"])
def test_a_damaged_shard_is_set_aside_and_made_again(how, finished):
    outputs = run(small_model())
    whole, logits = contents(outputs.path), outputs.logits
    if not finished:
        (outputs.path / "manifest.json").unlink()
    damage(outputs.path / "00002.safetensors", how)
    report = store.verify()
    assert not report.clean
    assert list(report.problems) == [outputs.path / "00002.safetensors"]
    with pytest.warns(ZooWarning, match=r"00002\.safetensors.*set aside as 00002\.safetensors\.corrupt-1"):
        again = run(small_model())
    assert np.array_equal(again.logits, logits)
    after = contents(outputs.path)
    assert after.pop("00002.safetensors.corrupt-1") != whole["00002.safetensors"]
    assert after == whole
    assert store.verify().clean


def test_a_damaged_manifest_is_set_aside_and_nothing_is_computed_again():
    model = small_model()
    outputs = run(model)
    damage(outputs.path / "manifest.json", "truncated")
    model.body.calls.clear()
    with pytest.warns(ZooWarning, match="manifest.json"):
        run(model)
    assert model.body.calls == []
    assert store.verify().clean


def test_undecodable_images_are_named_and_the_others_keep_their_rows(tmp_path):
    folder = tmp_path / "data"
    save_images(folder, 4)
    (folder / "cat/1.png").write_bytes(b"not an image")
    (folder / "dog/0.png").write_bytes((folder / "dog/0.png").read_bytes()[:60])
    model = small_model(classes=("cat", "dog"))
    with pytest.warns(ZooWarning, match="2 of 8 images cannot be decoded and are left out: cat/1.png, dog/0.png"):
        outputs = run(model, data=f"folder:{folder}", shard_rows=3, batch_size=2)
    assert outputs.ids.tolist() == ["cat/0.png", "cat/2.png", "cat/3.png", "dog/1.png", "dog/2.png", "dog/3.png"]
    assert outputs.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert [entry["id"] for entry in outputs.details["undecodable"]] == ["cat/1.png", "dog/0.png"]
    expected = model.predict([folder / row_id for row_id in outputs.ids]).numpy()
    np.testing.assert_allclose(outputs.logits, expected, rtol=1e-5, atol=1e-6)


def test_a_shard_of_nothing_but_undecodable_images(tmp_path):
    folder = tmp_path / "data"
    save_images(folder, 3)
    for index in range(3):
        (folder / f"cat/{index}.png").write_bytes(b"")
    with pytest.warns(ZooWarning, match="3 of 6"):
        outputs = run(small_model(classes=("cat", "dog")), data=f"folder:{folder}", shard_rows=3)
    assert outputs.ids.tolist() == ["dog/0.png", "dog/1.png", "dog/2.png"]
    for index in range(3):
        (folder / f"dog/{index}.png").write_bytes(b"")
    with pytest.raises(InputError, check=fields(where="small", problem="decoded")):
        run(small_model(classes=("cat", "dog")), data=f"folder:{folder}", shard_rows=3)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_vanishes_is_an_error_not_an_undecodable_one(tmp_path, workers):
    save_images(tmp_path / "data", 2)
    dataset = datasets.load(f"folder:{tmp_path / 'data'}")
    (tmp_path / "data/dog/1.png").unlink()
    with pytest.raises(ZooError, check=fields(where="dog/1.png", problem="No such file or directory")):
        run(small_model(classes=("cat", "dog")), data=dataset, workers=workers)


def test_out_of_memory_halves_the_batch_and_says_so(monkeypatch):
    expected = run(small_model(), home=None)
    model = small_model(name="large")
    forward = model.forward

    def limited(batch):
        if len(batch) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(batch)

    monkeypatch.setattr(model, "forward", limited)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        outputs = run(model, batch_size=12)
    messages = [str(warning.message) for warning in warned]
    assert [re.findall(r"\d+", message) for message in messages] == [["12", "6"], ["6", "3"]]
    assert all(message.startswith("large: ") for message in messages)
    np.testing.assert_allclose(outputs.logits, expected.logits, rtol=1e-5, atol=1e-6)

    def never(batch):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(model, "forward", never)
    with pytest.warns(ZooWarning), pytest.raises(ZooError, check=fields(where="large", problem="single image")):
        run(model, data="digits:test[:20]")


def test_other_runtime_errors_are_not_taken_for_a_lack_of_memory(monkeypatch):
    model = small_model()

    def broken(batch):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(model, "forward", broken)
    with pytest.raises(RuntimeError, match="mat1"):
        run(model)


def test_outputs_that_are_not_finite_name_the_image():
    model, dataset = small_model(), datasets.load(DATA)
    brightest = int(np.argmax([np.asarray(image).sum() for image in dataset]))
    model.body.mix.weight[:] = 0
    model.body.mix.bias[:] = 0
    forward = model.network.forward

    def sometimes(batch):
        embeddings, logits = forward(batch)
        peak = batch.flatten(1).sum(1) == batch.flatten(1).sum(1).max()
        logits[peak & (batch.flatten(1).sum(1) > limit)] = float("nan")
        return embeddings, logits

    limit = float(model.transform(dataset[brightest]).sum()) - 1e-3
    model.network.forward = sometimes
    with pytest.raises(ZooError, check=fields(where=["small", dataset.ids[brightest]], problem=["finite", "float32"])):
        run(model)


def test_half_precision_is_near_and_stored_as_float32():
    exact, half = run(small_model()), run(small_model(), precision="bfloat16")
    assert half.logits.dtype == np.float32
    assert not np.array_equal(exact.logits, half.logits)
    np.testing.assert_allclose(exact.logits, half.logits, atol=0.05)


def test_train_mode_left_on_changes_nothing():
    model = small_model()
    model.network.train()
    np.testing.assert_array_equal(run(model).logits, run(small_model(name="b")).logits)


def test_embeddings_are_left_out_on_request_and_outputs_with_embeddings_serve_as_well():
    model = small_model()
    bare = run(model, embeddings=False)
    assert bare.embeddings is None
    with pytest.raises(InputError, check=fields(where="small", problem="embeddings")):
        bare.require_embeddings()
    assert run(model).path == bare.path  # by default outputs without embeddings serve as well
    full = run(model, embeddings=True)
    assert full.embeddings is not None
    model.body.calls.clear()
    assert run(model, embeddings=False).path == full.path
    assert run(model).path == full.path
    assert model.body.calls == []


def test_columns_follow_the_classes_names_not_their_places():
    order = tuple("9876543210")
    outputs = run(small_model(classes=order))
    model = small_model(classes=order)
    assert outputs.classes == tuple("0123456789")
    expected = model.predict(list(datasets.load(DATA))).numpy()[:, ::-1]
    np.testing.assert_allclose(outputs.logits, expected, rtol=1e-5, atol=1e-6)


def test_a_bare_encoder_keeps_embeddings_and_labels():
    outputs = run(small_model(classes=()))
    assert outputs.kind == "embeddings"
    assert outputs.embeddings.shape == (50, 6)
    assert len(outputs.require_labels()) == 50
    with pytest.raises(InputError, check=fields(where="small", problem=["embeddings", "predictions"])):
        _ = outputs.predictions


def test_other_classes_than_the_datasets_are_kept_but_not_scored():
    outputs = run(small_model(classes=("cat", "dog")))
    assert outputs.logits.shape == (50, 2)
    assert np.array_equal(outputs.labels, datasets.load(DATA).labels)
    with pytest.raises(InputError, check=fields(where="small", problem=["2 classes", "10 of digits"])):
        _ = outputs.accuracy


def test_zero_shot_heads_are_made_for_the_datasets_classes(monkeypatch):
    asked = {}

    def load(name, pretrained, device, classes):
        asked["classes"] = classes
        return small_model(name="clip-vit-b32", classes=classes)

    monkeypatch.setattr(registry, "load", load)
    outputs = runner.run("clip-vit-b32", data="digits:test[:5]", progress=False)["clip-vit-b32"]
    assert asked["classes"] == outputs.classes == tuple("0123456789")


def test_names_patterns_and_models_mix_and_each_counts_once():
    assert runner.resolve(["resnet50-cos*", "resnet50-cosine", "resnet50-cosine.imagenet"]) == [
        "resnet50-cosine.in1k", "resnet50-cosine.digits"
    ]  # fmt: skip
    with pytest.raises(UnknownName, check=fields(kind="model", problem="nothing-*")):
        runner.resolve("nothing-*")
    with pytest.raises(InputError, check=fields(argument="models")):
        runner.resolve([])


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"batch_size": 0}, {"argument": "batch_size", "found": 0}),
        ({"batch_size": 2.5}, {"argument": "batch_size", "found": 2.5}),
        ({"shard_rows": True}, {"argument": "shard_rows", "found": True}),
        ({"precision": "float8"}, {"argument": "precision", "found": "float8"}),
        ({"engine": "spark"}, {"argument": "engine", "found": "spark"}),
        ({"resize_mode": "crop"}, {"argument": "resize_mode", "found": "crop"}),
        ({"device": "cuda:7"}, {"argument": "device", "found": "cuda:7"}),
        ({"device": "tpu"}, {"argument": "device", "found": "tpu"}),
        ({"data": "digits:tset"}, {"name": "tset", "where": "digits:tset"}),
        ({"workers": -1}, {"argument": "workers", "found": -1}),
    ],
)
def test_invalid_options_are_refused(options, facts):
    with pytest.raises(InputError, check=fields(**facts)):
        run(small_model(), **options)


def test_few_images_are_decoded_without_workers():
    assert loader.useful_workers(None, 100, 1) == 0
    assert 1 <= loader.useful_workers(None, 100_000, 1) <= loader.MAX_WORKERS
    assert loader.useful_workers(3, 10, 1) == 3


def test_nothing_is_printed_but_one_line_at_the_end(capsys):
    runner.run(small_model(), data=DATA)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"small on {DATA}: 50 images in ")
    assert printed.err.count("\n") == 1
    runner.run(small_model(), data=DATA)
    assert capsys.readouterr().err == ""


def test_a_run_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(small_model(), workers=1)


def test_a_disk_that_fills_up_loses_nothing_that_was_finished(tmp_path):
    resource = pytest.importorskip("resource", reason="file size limits of POSIX")
    model = small_model()
    whole = contents(run(model, home=tmp_path / "whole", shard_rows=4).path)
    room = max(len(data) for name, data in whole.items() if name != "manifest.json")
    assert room < len(whole["manifest.json"])
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        with pytest.raises(ZooError, check=fields(where="manifest.json", problem="written")):
            run(model, home=tmp_path / "full", shard_rows=4)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room // 2, before[1]))
        with pytest.raises(ZooError, check=fields(where="00000.safetensors", problem="written")):
            run(model, home=tmp_path / "fuller", shard_rows=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert store.verify(tmp_path / "full").clean
    model.body.calls.clear()
    assert contents(run(model, home=tmp_path / "full", shard_rows=4).path) == whole
    assert model.body.calls == []
    assert contents(run(model, home=tmp_path / "fuller", shard_rows=4).path) == whole


@pytest.mark.parametrize("change", ["library", "weights", "card"])
def test_a_model_is_hashed_again_when_anything_it_depends_on_was_changed(change, monkeypatch, zoo_home):
    loads = []
    load = registry.load

    def counted(*args, **more):
        loads.append(args)
        return load(*args, **more)

    monkeypatch.setattr(registry, "load", counted)
    options = {"data": "digits:test[:3]", "pretrained": False, "progress": False}
    first = runner.run("timm:test_vit", **options)["timm:test_vit"]
    runner.run("timm:test_vit", **options)
    assert len(loads) == 1
    if change == "library":
        monkeypatch.setattr(model_facts, "_versions", lambda: ["torch 99"])
    elif change == "weights":
        key = f"timm:{registry.card('timm:test_vit').id}@latest/model.safetensors"
        files.write_json(zoo_home / "hashes.json", {"schema": 1, "hashes": {key: "0" * 64}})
    else:
        card = registry.card
        monkeypatch.setattr(registry, "card", lambda name: dataclasses.replace(card(name), license="other"))
    again = runner.run("timm:test_vit", **options)["timm:test_vit"]
    assert len(loads) == 2  # hashed again, found to be the same, and so not run again
    assert again.path == first.path
