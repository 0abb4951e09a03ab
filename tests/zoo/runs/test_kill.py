"""SIGKILL at random moments of a run, and two processes at the same one: what is on disk is always whole.

A helper process imports torch once and forks a child for each run, so that moments of the run itself are hit and not the
seconds of importing. The child of a fork does all the work a fresh process would: it loads the model, resumes, writes.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HELPER = """
import json, os, random, shutil, signal, sys, time
from pathlib import Path
from zoo import datasets, store
from zoo.models import registry
from zoo.runs import runner

datasets.load("digits:test")
for name in ("timm:test_vit", "timm:test_resnet"):
    registry.load(name, pretrained=False, device="cpu")  # whatever these import is imported now
root, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
SHARDS = 24

MODELS = ["timm:test_vit", "timm:test_resnet"]

def run(home, workers, *groups):
    options = dict(data=f"digits:test[:{4 * SHARDS}]", pretrained=False, shard_rows=4, batch_size=3, progress=False)
    for models in groups or [MODELS]:
        runner.run(models, home=home, workers=workers, **options)

def start(home, workers=0, *groups):
    child = os.fork()
    if child == 0:
        try:
            run(home, workers, *groups)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return child

def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def shards(home):
    return len(list(home.glob("outputs/*/*/*.safetensors")))

def contents(home):
    return {str(p.relative_to(home)): p.read_bytes() for p in sorted(home.rglob("*")) if p.is_file()}

def compare(home):
    found = contents(home)
    report["different"] += [name for name in {**found, **expected} if found.get(name) != expected.get(name)]

whole = root / "whole"
begin = time.monotonic()
assert wait(start(whole, 0, *MODELS)) == 0  # one after the other; all that follows must give the same bytes
seconds = time.monotonic() - begin
expected = contents(whole)

rng = random.Random(seed)
attempt, report = 0, {"kills": [], "different": [], "clean": True, "finished": 0}
home = root / "killed-0"
while len(report["kills"]) < kills:
    child = start(home, workers=rng.choice([0, 0, 2]))
    time.sleep(rng.uniform(0, seconds * 0.7))
    os.kill(child, signal.SIGKILL)
    killed = wait(child) == -signal.SIGKILL
    report["clean"] &= store.verify(home).clean
    if killed:
        report["kills"].append(shards(home))
    else:
        report["finished"] += 1
        compare(home)
        attempt += 1
        home = root / f"killed-{attempt}"
assert wait(start(home)) == 0
report["clean"] &= store.verify(home).clean
compare(home)

shared = root / "shared"
children = [start(shared), start(shared, workers=1)]
report["both"] = [wait(child) for child in children]
report["shared"] = contents(shared) == expected and store.verify(shared).clean

# a file lock that does nothing, as on some network file systems
import fcntl
fcntl.flock = lambda *args: None
unlocked = root / "unlocked"
children = [start(unlocked), start(unlocked)]
report["both"] += [wait(child) for child in children]
report["unlocked"] = contents(unlocked) == expected and store.verify(unlocked).clean
print(json.dumps(report))
"""


def kill_often(folder: Path, kills: int, seed: int) -> dict:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", HELPER, str(folder), str(kills), str(seed)],
        env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(report: dict, kills: int) -> None:
    assert len(report["kills"]) == kills
    assert report["clean"], "zoo verify found something wrong after a kill"
    assert report["different"] == [], "a resumed run ended with other bytes than an undisturbed one"
    assert report["both"] == [0, 0, 0, 0]
    assert report["shared"], "two processes at the same run"
    assert report["unlocked"], "two processes at the same run, with a lock that does nothing"


def test_three_kills_and_two_processes_at_once(tmp_path):
    check(kill_often(tmp_path, kills=3, seed=1), kills=3)


@pytest.mark.slow
def test_twenty_kills(tmp_path):
    report = kill_often(tmp_path, kills=20, seed=2)
    check(report, kills=20)
    assert len(set(report["kills"])) > 5, "the kills should meet the run in different places"


@pytest.mark.slow
def test_the_command_line_resumes_after_a_kill(tmp_path):
    command = [sys.executable, "-m", "zoo", "run", "timm:test_vit", "--random", "--data", "digits:test"]
    verify = [sys.executable, "-m", "zoo", "verify", "--json"]

    def environment(name):
        return {**os.environ, "OMP_NUM_THREADS": "1", "ZOO_HOME": str(tmp_path / name)}

    subprocess.run(command, env=environment("whole"), check=True, capture_output=True)
    process = subprocess.Popen(command, env=environment("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "killed").glob("outputs/*/*")):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert json.loads(subprocess.run(verify, env=environment("killed"), check=True, capture_output=True).stdout)["clean"]
    subprocess.run(command, env=environment("killed"), check=True, capture_output=True)
    for folder in ("outputs", "models"):
        assert contents(tmp_path / "killed" / folder) == contents(tmp_path / "whole" / folder) != {}


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
