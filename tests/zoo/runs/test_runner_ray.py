"""The Ray engine writes the same bytes as the local one."""

import pytest
import torch
from raised import fields

from zoo.cards.card import Transform
from zoo.errors import ZooError
from zoo.models.model import Model
from zoo.outputs import store
from zoo.runs import runner

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
# ray warns of its own deprecations and leaves files of its processes open when it shuts down
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def cluster():
    yield
    ray.shutdown()


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def linear(name, weight):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))
    torch.nn.init.constant_(network[1].weight, weight)
    spec = Transform((3, 8, 8), (8,), "bilinear", (0.5,) * 3, (0.25,) * 3)
    return Model.of(network, spec, [str(k) for k in range(10)], name=name)


def test_a_group_of_models_and_one_that_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    options = {"data": "digits:test[:40]", "pretrained": False, "shard_rows": 16, "batch_size": 8, "progress": False}
    models = ["timm:test_vit", "timm:test_resnet"]
    for model in models:
        runner.run(model, home=tmp_path / "local", **options)
    runner.run(models, home=tmp_path / "ray", engine="ray", **options)
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")
    mine = [linear("broken", torch.nan), linear("whole", 0.5)]
    with pytest.raises(ZooError, check=fields(where="broken", problem="finite")):
        runner.run(mine, home=tmp_path / "ray", engine="ray", **options | {"pretrained": True})
    assert "whole" in {run.identity.name for run in store.stored(tmp_path / "ray")}


def test_the_same_bytes_as_the_local_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    options = {"data": "digits:test[:40]", "pretrained": False, "shard_rows": 16, "batch_size": 8, "progress": False}
    local = runner.run("timm:test_vit", home=tmp_path / "local", **options)
    spread = runner.run("timm:test_vit", home=tmp_path / "ray", engine="ray", **options)
    assert local.names == spread.names
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")
    # what is missing is all that is given to the cluster
    folder = spread["timm:test_vit"].path
    (folder / "00001.safetensors").unlink()
    runner.run("timm:test_vit", home=tmp_path / "ray", engine="ray", **options)
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")
