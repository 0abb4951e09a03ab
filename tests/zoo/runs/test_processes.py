"""Processes that end when they should: with their parent, with an error that says why, or cleanly when told to."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoo.datasets import Dataset
from zoo.errors import ZooError
from zoo.outputs import store
from zoo.runs import runner
from zoo.training import train

PARENT = """
from zoo.training import train_each
if __name__ == "__main__":
    calls = [{"name": f"resnet8-{name}", "epochs": 500, "save_as": name[:3]} for name in ("cosine", "softmax")]
    list(train_each(calls, jobs=2))
"""


@pytest.fixture
def deadly_image(monkeypatch):
    """Whatever process other than this one decodes the fifth image is killed then, as one that runs out of memory is.

    Killed at another moment, it may hold a lock that torch's loader waits for.
    """
    decode, here = Dataset.__getitem__, os.getpid()

    def decode_or_die(dataset, number):
        if number == 5 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return decode(dataset, number)

    monkeypatch.setattr(Dataset, "__getitem__", decode_or_die)


@pytest.mark.slow  # what torch meets first when a worker is gone depends on the moment
def test_a_killed_loader_worker_of_a_run_is_a_sentence(zoo_home, deadly_image):
    with pytest.raises(ZooError, match="a process that decodes images was killed"):
        runner.run("timm:test_vit", data="digits", pretrained=False, workers=1, batch_size=1, progress=False)
    assert store.verify().clean


@pytest.mark.slow
def test_a_killed_loader_worker_of_a_training_is_a_sentence(zoo_home, monkeypatch, deadly_image):
    monkeypatch.setattr("zoo.training.batches.MEMORY", 0)  # so that workers decode
    with pytest.raises(ZooError, match="a process that decodes images was killed"):
        train("resnet8-cosine", data="digits[:600]", epochs=50, save_as="killed", progress=False)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are found through /proc")
def test_training_processes_end_with_a_killed_parent(tmp_path, zoo_home):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, script], start_new_session=True)
    while len(list(zoo_home.glob("weights/*/lock"))) < 2:  # both are at work
        assert parent.poll() is None
        time.sleep(0.1)
    workers = children(parent.pid)
    assert len(workers) >= 2
    parent.kill()
    parent.wait()
    until = time.monotonic() + 10
    while any(map(running, workers)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(running, workers))


@pytest.mark.slow
def test_a_run_that_is_told_to_end_does_so_cleanly(tmp_path):
    home = tmp_path / "home"
    command = [sys.executable, "-m", "zoo", "run", "timm:resnet18", "--random", "--data", "digits", "--batch-size", "1"]
    process = subprocess.Popen(
        [*command, "--workers", "1"], env={**os.environ, "ZOO_HOME": str(home)}, stderr=subprocess.PIPE, text=True
    )
    while not list(home.glob("outputs/*/*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert said.endswith("zoo: stopped; the same command continues where it stopped\n")
    assert not [path for path in home.rglob(".*") if path.name.endswith((".part", ".lock"))]
    assert store.verify(home).clean


def children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
