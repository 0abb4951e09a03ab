"""Several processes that train one model: the same batches, statistics and weights as one process."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from zoo.training.sync_batch_norm import SharedBatchNorm

TWO_PROCESSES = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture
def group():
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("shape", [(6, 4), (5, 4, 3), (3, 4, 5, 2)])
def test_shared_batch_norm_of_one_process_equals_torchs(group, shape):
    layer = torch.nn.BatchNorm1d(4) if len(shape) < 4 else torch.nn.BatchNorm2d(4)
    other = type(layer)(4)
    torch.nn.init.normal_(layer.weight)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(shape, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    weights = torch.randn(shape)
    with SharedBatchNorm():
        shared = layer(x)
    plain = other(y)
    (shared * weights).sum().backward()
    (plain * weights).sum().backward()
    torch.testing.assert_close(shared, plain)
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(layer.weight.grad, other.weight.grad)
    torch.testing.assert_close(layer.running_var, other.running_var)
    torch.testing.assert_close(layer.running_mean, other.running_mean)
    layer.eval()
    with SharedBatchNorm():
        assert layer(x).equal(functional.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias))


def zoo(home: Path, *arguments: str, launcher: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"ZOO_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [*(launcher or [sys.executable]), "-m", "zoo", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


def log_of(home: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (home / "weights" / name / "log.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(tmp_path):
    """The losses of the first epoch agree within 1e-4 at the same global batch size, and only one process prints."""
    arguments = ["train", "resnet8-sigmoid", "--epochs", "4", "--name", "short"]  # the recipe warms up for three
    one, two = zoo(tmp_path / "one", *arguments), zoo(tmp_path / "two", *arguments, launcher=TWO_PROCESSES)
    assert one.returncode == 0, one.stderr
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("short") == 1
    alone, together = log_of(tmp_path / "one", "short"), log_of(tmp_path / "two", "short")
    assert together[0]["loss"] == pytest.approx(alone[0]["loss"], abs=1e-4)
    assert together[0]["accuracy"] == pytest.approx(alone[0]["accuracy"], abs=5e-3)
    assert together[0]["loss"] != alone[0]["loss"]  # sums in another order, so there were two processes


@pytest.mark.slow
def test_two_processes_resume_to_the_same_bytes(tmp_path):
    arguments = ["train", "resnet8-softmax", "--data", "digits[:200]", "--epochs", "4", "--name", "short"]
    whole = zoo(tmp_path / "whole", *arguments, launcher=TWO_PROCESSES)
    assert whole.returncode == 0, whole.stderr
    _kill_when(tmp_path / "cut", arguments, TWO_PROCESSES, lambda folder: (folder / "checkpoint.safetensors").exists())
    resumed = zoo(tmp_path / "cut", *arguments, launcher=TWO_PROCESSES)
    assert resumed.returncode == 0, resumed.stderr
    weights = "weights/short/model.safetensors"
    assert (tmp_path / "cut" / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_bytes_of_an_uninterrupted_one(tmp_path):
    arguments = ["train", "resnet8-dropout", "--data", "digits[:300]", "--epochs", "6", "--name", "short"]
    assert zoo(tmp_path / "whole", *arguments).returncode == 0
    chance, kills = random.Random(0), 0
    for _ in range(5):
        moment = chance.uniform(0.0, 3.0)
        kills += _kill_when(tmp_path / "cut", arguments, [sys.executable], _after(moment))
    finished = zoo(tmp_path / "cut", *arguments)
    assert finished.returncode == 0, finished.stderr
    assert kills > 0
    weights = "weights/short/model.safetensors"
    assert (tmp_path / "cut" / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()


def _after(seconds: float):
    """Return a condition that is true this long after the run's folder appears, just before training starts."""
    started: list[float] = []

    def ready(folder: Path) -> bool:
        if folder.exists() and not started:
            started.append(time.monotonic())
        return bool(started) and time.monotonic() - started[0] > seconds

    return ready


def _kill_when(home: Path, arguments: list[str], launcher: list[str], ready) -> bool:
    """Start training in a process group and kill all of it once `ready`; return whether it was still running."""
    environment = os.environ | {"ZOO_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [*launcher, "-m", "zoo", *arguments]
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    folder = home / "weights" / arguments[-1]
    while process.poll() is None and not ready(folder):
        time.sleep(0.01)
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return running
