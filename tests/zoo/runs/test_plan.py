"""What a run would do, found out without storing outputs; and the time of its stages."""

import pytest
from small_models import save_images, small_model

from zoo.errors import ZooError
from zoo.outputs import store
from zoo.runs import memory, runner
from zoo.runs.engines.stages import STAGES, Stages
from zoo.runs.plan import plan

OPTIONS = {"data": "digits:test[:50]", "shard_rows": 16, "batch_size": 5}


def models():
    return [small_model("a"), small_model("b", seed=1), small_model("encoder", classes=())]


def test_images_and_bytes_are_those_of_the_run(zoo_home):
    planned = plan(models(), **OPTIONS)
    assert not list(zoo_home.glob("outputs/*"))
    (group,) = planned.groups
    assert (list(group.models), group.images, group.sample) == (["a", "b", "encoder"], 50, 5)
    assert group.seconds > 0
    runs = runner.run(models(), progress=False, **OPTIONS)
    for name, outputs in runs.items():
        headers = 600 * 4  # of four files
        written = sum(path.stat().st_size for path in outputs.path.glob("*.safetensors"))
        assert written - 2 * headers < group.models[name] < written
    after = plan(models(), **OPTIONS)
    assert (after.groups, after.stored, after.bytes) == ([], ["a", "b", "encoder"], 0)


def test_only_what_is_missing_counts():
    path = runner.run(small_model("a"), progress=False, **OPTIONS)["a"].path
    whole = plan(small_model("a"), fresh=True, **OPTIONS)
    assert whole.groups[0].images == 50
    (path / "manifest.json").unlink()
    (path / "00001.safetensors").unlink()
    (group,) = plan(small_model("a"), **OPTIONS).groups
    assert group.images == 16
    assert group.models["a"] == pytest.approx(whole.groups[0].models["a"] * 16 / 50, rel=0.05)
    runner.run(small_model("a"), progress=False, **OPTIONS)
    (path / "manifest.json").unlink()
    (group,) = plan(small_model("a"), **OPTIONS).groups
    assert (group.images, group.models) == (0, {"a": 0})


def test_groups_are_those_of_the_run(monkeypatch):
    monkeypatch.setattr(memory, "needed", lambda job: 10)
    monkeypatch.setattr(memory, "available", lambda devices, copies: 25)
    assert [list(group.models) for group in plan(models(), **OPTIONS).groups] == [["a", "b"], ["encoder"]]


def test_weights_are_neither_downloaded_nor_trained():
    planned = plan(["timm:resnet18", "resnet8-sigmoid.digits", "clip-vit-b32", small_model("a")], **OPTIONS)
    assert planned.unavailable == {
        "timm:resnet18": "to download", "resnet8-sigmoid.digits": "to train", "clip-vit-b32": "to download"
    }  # fmt: skip
    assert [list(group.models) for group in planned.groups] == [["a"]]


def test_a_model_that_fails_on_the_sample_is_an_error():
    broken = small_model("broken")
    broken.body.mix.weight[:] = float("nan")
    with pytest.raises(ZooError, match="broken"):
        plan([small_model("a"), broken], **OPTIONS)
    assert not store.stored()


@pytest.mark.parametrize("workers", [0, 1])
def test_every_stage_of_a_run_is_timed(tmp_path, workers):
    save_images(tmp_path / "data", 8, suffix=".jpg", size=(300, 200))
    stages = Stages()
    options = {"data": f"folder:{tmp_path / 'data'}", "workers": workers, "progress": False, "stages": stages}
    runner.run(models(), **options)
    assert list(stages.seconds) == list(STAGES)
    assert all(seconds > 0 for seconds in stages.seconds.values())
    assert stages.workers == workers
    before = dict(stages.seconds)
    runner.run(models(), **options)
    assert stages.seconds == before  # nothing was computed


def test_the_slowest_stage_is_one_of_the_slowest_part():
    stages = Stages()
    stages.add({"read": 2, "decode": 3, "transform": 1, "copy": 1, "forward": 4})
    assert stages.slowest == "decode"  # 6 seconds of loading, 5 of computing
    stages.workers = 3
    assert stages.slowest == "forward"
    stages.add({"write": 6})
    assert stages.slowest == "write"
