"""The Ray engine writes the same bytes as the local one."""

import pytest

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
