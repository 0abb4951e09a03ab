"""Processes that end when they should: with their parent, with an error that says why, or cleanly when told to."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from zoo import store
from zoo._running import runner
from zoo.errors import ZooError
from zoo.training import train

PARENT = """
from zoo.training import train_each
if __name__ == "__main__":
    calls = [{"name": f"resnet8-{name}", "epochs": 500, "save_as": name[:3]} for name in ("cosine", "softmax")]
    list(train_each(calls, jobs=2))
"""


def kill_the_first_child() -> threading.Thread:
    others = set(multiprocessing.active_children())  # what other tests have left running

    def kill() -> None:
        for _ in range(600):
            for child in set(multiprocessing.active_children()) - others:
                child.kill()
                return
            time.sleep(0.05)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def test_a_killed_loader_worker_of_a_run_is_a_sentence(zoo_home):
    killer = kill_the_first_child()
    with pytest.raises(ZooError, match="a process that decodes images was killed, maybe for want of memory"):
        runner.run("timm:test_vit", data="digits", weights=False, workers=1, batch_size=1, progress=False)
    killer.join()
    assert store.verify().clean


def test_a_killed_loader_worker_of_a_training_is_a_sentence(zoo_home, monkeypatch):
    monkeypatch.setattr("zoo.training.loading.MEMORY", 0)  # so that workers decode
    killer = kill_the_first_child()
    with pytest.raises(ZooError, match="a process that decodes images was killed"):
        train("resnet8-cosine", data="digits[:600]", epochs=50, save_as="killed", progress=False)
    killer.join()


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
    command = [sys.executable, "-m", "zoo", "run", "timm:test_vit", "--random", "--data", "digits", "--batch-size", "1"]
    process = subprocess.Popen(
        [*command, "--workers", "1"], env={**os.environ, "ZOO_HOME": str(home)}, stderr=subprocess.PIPE, text=True
    )
    while not list(home.glob("outputs/*/*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert said.endswith("zoo: stopped; the same command goes on where it left off\n")
    assert not [path for path in home.rglob(".*") if path.name.endswith((".part", ".lock"))]
    assert store.verify(home).clean


def children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
