"""Models that run together: each image is decoded once, and every byte is that of separate runs."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from raised import fields
from small_models import save_images, small_model

from zoo import datasets
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import MissingWeights, ZooError, ZooWarning
from zoo.models import registry
from zoo.models.model import Model
from zoo.outputs import store
from zoo.runs import memory, runner
from zoo.runs.engines import extraction

DATA = "digits:test[:50]"


def run(models, data=DATA, **options):
    return runner.run(models, data=data, progress=False, **{"shard_rows": 16, "batch_size": 5, **options})


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def with_transform(model, **changes):
    model.transform = Pipeline(dataclasses.replace(model.transform.spec, **changes))
    return model


def half_size(image):
    return torch.from_numpy(np.moveaxis(np.array(image.resize((4, 4))), 2, 0) / np.float32(255))


def user_model(name="user", transform=half_size):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 10))
    return Model.of(network, transform, [str(k) for k in range(10)], name=name)


def four_models():
    """Two models with the same pixels and different means, one with another crop, and one with a user's transform."""
    return [
        small_model("a"),
        with_transform(small_model("b", seed=1), mean=(0.4, 0.3, 0.2)),
        with_transform(small_model("c", seed=2), resize=(10,)),
        user_model(),
    ]


def counting(spec=DATA):
    """Return a dataset and the list of the ids that it decodes."""
    dataset, decoded = datasets.load(spec), []
    ids = dict(zip(range(len(dataset)) if dataset.rows is None else dataset.rows.tolist(), dataset.ids, strict=True))

    def image(row):
        decoded.append(ids[row])
        return dataset.image(row)

    return dataclasses.replace(dataset, image=image), decoded


def failing(model, error):
    def forward(batch):
        raise error

    model.forward = forward
    return model


def test_each_image_is_decoded_once_for_all_models_and_resized_once_for_those_with_equal_pixels(monkeypatch):
    resized = []
    pixels = Pipeline.pixels
    monkeypatch.setattr(Pipeline, "pixels", lambda self, image: (resized.append(self.spec.resize), pixels(self, image))[1])
    dataset, decoded = counting()
    runs = run(four_models(), data=dataset, workers=0)
    assert runs.names == ["a", "b", "c", "user"]
    assert decoded == dataset.ids
    assert (resized.count((8,)), resized.count((10,))) == (50, 50)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_bytes_are_those_of_separate_runs(tmp_path, workers):
    folder = tmp_path / "data"
    save_images(folder, 20)
    (folder / "cat/1.png").write_bytes(b"not an image")
    for index in range(6):
        (folder / f"dog/{index}.png").write_bytes(b"")
    options = {"data": f"folder:{folder}", "batch_size": 3, "shard_rows": 7, "workers": workers}
    for model in four_models():
        with pytest.warns(ZooWarning, match="7 of 40"):
            run(model, home=tmp_path / "alone", **options)
    with pytest.warns(ZooWarning, match="7 of 40"):
        run(four_models(), home=tmp_path / "together", **options)
    assert contents(tmp_path / "together") == contents(tmp_path / "alone")


def test_devices_do_not_change_a_byte(tmp_path):
    run(four_models(), home=tmp_path / "one")
    run(four_models(), home=tmp_path / "two", device=["cpu", "cpu"])
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_only_shards_that_a_model_lacks_are_decoded_and_computed():
    whole = {outputs.name: contents(outputs.path) for outputs in run(four_models()).values()}
    for name, shard in (("a", 1), ("b", 2)):
        (folder,) = [run.path for run in store.stored() if run.identity.name == name]
        (folder / "manifest.json").unlink()
        (folder / f"{shard:05d}.safetensors").unlink()
    models = four_models()
    dataset, decoded = counting()
    runs = run(models, data=dataset, workers=0)
    assert decoded == dataset.ids[16:48]
    assert [sum(model.body.calls) for model in models[:3]] == [16, 16, 0]
    assert {outputs.name: contents(outputs.path) for outputs in runs.values()} == whole


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("where", ["forward", "transform", "not finite"])
def test_a_model_that_fails_does_not_cost_the_others(tmp_path, where, workers):
    run([small_model("a"), small_model("c", seed=2)], home=tmp_path / "expected")
    seventh = np.asarray(datasets.load(DATA)[7])

    def transform(image):
        if np.array_equal(np.asarray(image), seventh):
            raise KeyError("seven")
        return half_size(image)

    broken = {
        "forward": lambda: failing(small_model("b"), RuntimeError("mat1 and mat2")),
        "transform": lambda: user_model("b", transform),
        "not finite": lambda: small_model("b"),
    }[where]()
    if where == "not finite":
        broken.body.mix.weight[:] = torch.nan
    kind = RuntimeError if where == "forward" else ZooError
    with pytest.raises(kind, match=r"mat1|KeyError|finite"):
        run([small_model("a"), broken, small_model("c", seed=2)], home=tmp_path / "home", workers=workers)
    found = contents(tmp_path / "home")
    assert {name: found.get(name) for name in contents(tmp_path / "expected")} == contents(tmp_path / "expected")
    assert {run.identity.name for run in store.stored(tmp_path / "home")} == {"a", "c"}
    assert store.verify(tmp_path / "home").clean


def test_a_model_that_cannot_be_loaded_does_not_cost_the_others(monkeypatch):
    load = registry.load

    def some(name, **options):
        if name == "timm:test_resnet":
            raise MissingWeights("not here", where=name)
        return load(name, **options)

    monkeypatch.setattr(registry, "load", some)
    with pytest.raises(MissingWeights, check=fields(where="timm:test_resnet")):
        run(["timm:test_vit", "timm:test_resnet", "timm:test_efficientnet"], data="digits:test[:4]", pretrained=False)
    assert {run.identity.name for run in store.stored()} == {"timm:test_vit", "timm:test_efficientnet"}


def test_of_several_failures_one_is_raised_and_the_others_are_named():
    models = [failing(small_model(name), RuntimeError(name * 3)) for name in "xyz"]
    with pytest.warns(ZooWarning, match=r"y: yyy; z: zzz"), pytest.raises(RuntimeError, match="xxx"):
        run([*models, small_model("a")])
    assert [run.identity.name for run in store.stored()] == ["a"]


def test_a_pass_ends_early_if_every_model_has_failed():
    dataset, decoded = counting()
    with pytest.warns(ZooWarning), pytest.raises(RuntimeError):
        run([failing(small_model(name), RuntimeError(name)) for name in "xy"], data=dataset, workers=0)
    assert len(decoded) < len(dataset)


def test_models_that_do_not_fit_into_memory_together_run_in_several_groups(tmp_path, monkeypatch):
    run(four_models(), home=tmp_path / "together")
    needed = []
    monkeypatch.setattr(memory, "needed", lambda job: needed.append(job.name) or 10)
    for room, groups in ((0, 4), (19, 4), (20, 2), (39, 2), (40, 1)):
        monkeypatch.setattr(memory, "available", lambda devices, copies, room=room: room)
        dataset, decoded = counting()
        run(four_models(), data=dataset, home=tmp_path / str(room), workers=0)
        assert decoded == dataset.ids * groups
        assert contents(tmp_path / str(room)) == contents(tmp_path / "together")


def test_what_a_model_needs_grows_with_its_weights_and_with_its_shards():
    seen = {}
    forwards = extraction.run

    def note(jobs, *rest):
        seen.update({job.name: memory.needed(job) for job in jobs})
        return forwards(jobs, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extraction, "run", note)
        run([small_model("a"), small_model("many", classes=tuple(map(str, range(1000)))), small_model("none", classes=())])
    weights = 4 * (192 * 6 + 6 + 6 * 10 + 10)
    assert seen["a"] == weights + 2 * 4 * 16 * (10 + 4096)
    assert seen["none"] < seen["a"] < seen["many"]
    assert 0 < memory.available(["cpu"], 2) <= memory.available(["cpu"], 1)


def test_a_model_for_which_memory_is_too_short_in_a_group_runs_again_alone(monkeypatch):
    sizes, large = [], small_model("large")
    engine, forward = extraction.run, large.forward

    def note(jobs, *rest):
        sizes.append(len(jobs))
        return engine(jobs, *rest)

    def limited(batch):
        if sizes[-1] > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(batch)

    monkeypatch.setattr(extraction, "run", note)
    monkeypatch.setattr(large, "forward", limited)
    with pytest.warns(ZooWarning, match="does not fit"):
        runs = run([small_model("a"), large])
    assert sizes == [2, 1]
    np.testing.assert_array_equal(runs["large"].logits, runs["a"].logits)


def test_the_ray_engine_computes_the_same_groups(tmp_path, monkeypatch):
    """The work of a Ray actor, without a cluster."""
    from zoo.runs.engines import ray

    broken = failing(small_model("broken"), RuntimeError("mat1 and mat2"))
    seen = {}

    def stop(jobs, shards, *rest):
        seen.update(jobs=jobs, shards=shards)
        raise InterruptedError

    monkeypatch.setattr(extraction, "run", stop)
    dataset, decoded = counting()
    with pytest.raises(InterruptedError):
        run([*four_models(), broken], data=dataset, home=tmp_path / "ray")
    monkeypatch.undo()
    actor = ray._Writer(seen["jobs"], "cpu")
    rows = [actor({"shard": shard}) for shard in seen["shards"]]
    assert decoded == dataset.ids
    assert sum(row["images"] for row in rows) == 50
    assert all(json.loads(row["failures"]) == {"broken": "RuntimeError: mat1 and mat2"} for row in rows)
    assert all(json.loads(row["seconds"])["forward"] > 0 for row in rows)
    run(four_models(), home=tmp_path / "ray")
    run(four_models(), home=tmp_path / "local")
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
