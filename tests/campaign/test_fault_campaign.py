"""A small part of the fault campaign, about one minute long; `make campaign` runs all of it."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import bombs
import bounded
import forgeries
import fuzzing
import numpy as np
import pytest
import samples
from state import State

from zoo.core.columns import Column
from zoo.errors import ZooError
from zoo.outputs.outputs import Outputs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform != "linux", reason="needs fork and Linux")
FILES = 20  # changed copies of each file

SLICE = """
import sys
from pathlib import Path
import killing, scenarios

names = ("run", "import of a bundle", "import --replace", "calibrate", "head")
scenarios.SCENARIOS[:] = [one for one in scenarios.SCENARIOS if one.name in names]
scenarios.warm_up()
for number, one in enumerate(scenarios.SCENARIOS):
    killed = killing.Killed(one, Path(sys.argv[1]) / str(number))
    points = killed.points()
    assert len(points) > 10, points
    for point in points[:: len(points) // 4]:
        print(one.name, point, killed.kill_at(point), sep="|")
    print(one.name, "random", killing.random_moment(killed, "1"), sep="|")
    print(one.name, "writers", killing.many_writers(killed, 3), sep="|", flush=True)
"""


def test_fuzzed_files_are_read_or_rejected(tmp_path, zoo_home):
    items = samples.make(tmp_path / "samples")
    assert len({sample.name for sample in items}) == len(items) > 35
    for sample in items:
        _ = sample.data
        sample.read(sample.path)
    by_name = {sample.name: sample for sample in items}
    cases = [case for sample in items for case in fuzzing.cases(sample, 7, FILES)]
    failed = bounded.attempt(
        cases, lambda case: fuzzing.trial(by_name[case.rsplit(" ", 2)[0]], case, items), tmp_path / "failures.tsv"
    )
    assert failed == {}


def test_forged_files_are_rejected_or_valid(tmp_path, zoo_home):
    by_name = {one.name: one for one in forgeries.make(tmp_path / "forgeries")}
    assert {name.removeprefix("forgery of ") for name in by_name} >= {"a bundle", "weights", "a snapshot", "a plan"}
    cases = [f"{name} 7 {number}" for name in by_name for number in range(3 * FILES)]
    failed = bounded.attempt(cases, lambda case: by_name[case.rsplit(" ", 2)[0]].trial(case), tmp_path / "failures.tsv")
    assert failed == {}


def test_check_outputs_rejects_invalid_outputs():
    valid = Outputs.from_arrays("a", probabilities=[[0.5, 0.5], [0.9, 0.1]], labels=[0, 1])
    forgeries.check_outputs({"a": valid})
    for field, values in {
        "values": Column([np.array([[0.5, 20.0], [0.9, 0.1]])]),
        "labels": np.array([[0], [1]]),
        "ids": np.array(["x", "x"]),
        "classes": ("a", "a"),
        "embeddings": Column([np.full((2, 3), np.nan)]),
    }.items():
        with pytest.raises(AssertionError):
            forgeries.check_outputs({"a": dataclasses.replace(valid, **{field: values})})


def test_outputs_are_replaced_under_load(tmp_path):
    script = "import sys, replacing; from pathlib import Path; print(replacing.under_load(Path(sys.argv[1]), '1'))"
    assert in_new_process(script, tmp_path / "home") == ["None"]


def test_malicious_files_are_rejected(tmp_path, zoo_home):
    by_name = {sample.name: sample for sample in bombs.make(tmp_path / "bombs")}
    failed = bounded.attempt(
        list(by_name), lambda name: fuzzing.check_read(by_name[name], refuse=True), tmp_path / "failures.tsv"
    )
    assert failed == {}


def in_new_process(script: str, folder: Path) -> list[str]:
    """Return the lines that a script prints in a new process, which may fork because it has no other threads."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, folder], capture_output=True, text=True, timeout=900, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_killed_commands_can_be_rerun(tmp_path):
    lines = in_new_process(SLICE, tmp_path)
    assert len(lines) > 20
    assert [line for line in lines if not line.endswith("|None")] == []


def misbehave(case: str) -> str | None:
    if case == "memory":
        return str(len(bytearray(3 * 2**30)))
    if case == "exit":
        os._exit(3)
    if case == "error":
        raise KeyError("x")
    if case == "wrong":
        return "was read"
    return None


def test_attempt_reports_errors_crashes_and_memory_use(tmp_path):
    failed = bounded.attempt(["good", "memory", "exit", "error", "wrong", "last"], misbehave, tmp_path / "log")
    assert {case: problem.partition(":")[0] for case, problem in failed.items()} == {
        "memory": "uncaught MemoryError",
        "exit": "terminated its process (status 3)",
        "error": "uncaught KeyError",
        "wrong": "was read",
    }


def test_fuzzing_reports_files_that_are_accepted_or_not_named(tmp_path):
    def refuse(path):
        raise ZooError("an error without details")

    path = tmp_path / "file"
    path.write_bytes(b"whole")
    careless = samples.Sample("careless", path, lambda path: None, sealed=True)
    vague = samples.Sample("vague", path, refuse)
    assert fuzzing.trial(careless, "1", [careless]) == "was changed, but read without an error"
    assert "names the file" in fuzzing.trial(vague, "1", [vague])
    assert path.read_bytes() == b"whole"


def test_an_interrupted_campaign_keeps_its_state(tmp_path):
    path = tmp_path / "state.jsonl"
    first = State(path)
    first.add("kill run", 3, {"2 before": "lost"})
    first.add("kill run", 2, {})
    path.write_text(path.read_text() + '["kill run", 1')  # cut off by a kill
    again = State(path)
    assert (again.tried("kill run"), again.failed) == (5, {"kill run": {"2 before": "lost"}})
    assert again.table().splitlines()[1].split() == ["kill", "run", "5", "4", "1"]
