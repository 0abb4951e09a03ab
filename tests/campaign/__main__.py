"""Run the fault campaign: kills, fuzzed, forged and malicious files, concurrent writers and a full disk.

Print a table at the end; exit with code 1 if any case failed.

    python tests/campaign --kills 1000 --files 200000 --seed 1

Progress is stored in a state file (`--state`), so an interrupted campaign continues where it stopped.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["ZOO_HOME"] = tempfile.mkdtemp(prefix="zoo-campaign-home-")

import bombs
import bounded
import forgeries
import fuzzing
import killing
import replacing
import samples
import scenarios
from full_disk import fill, mounted
from state import State

CHUNK = 500  # cases per entry in the state file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kills", type=int, default=1000, help="number of kills, spread evenly over the events of all commands"
    )
    parser.add_argument("--files", type=int, default=200_000, help="number of fuzzed and forged files, over all kinds")
    parser.add_argument("--writers", type=int, default=8, help="number of processes that run the same command concurrently")
    parser.add_argument("--replacements", type=int, default=20, help="number of 5-second rounds of --replace under load")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="run one kind only: kill, random, writers, replace, disk, ray, fuzz, forgery, bomb"
    )
    parser.add_argument("--state", type=Path, default=None)
    options = parser.parse_args()
    path = options.state or Path(tempfile.gettempdir()) / f"zoo-campaign-{options.seed}.jsonl"
    state = State(path)
    print(f"campaign: seed {options.seed}, state in {path}", flush=True)
    with tempfile.TemporaryDirectory(prefix="zoo-campaign-") as folder:
        for kind, tried, failed in campaign(options, Path(folder), state):
            state.add(kind, tried, failed)
            for case, problem in failed.items():
                print(f"{kind}: {case}: {problem}", flush=True)
    print(state.table())
    return 1 if state.failed else 0


def campaign(options: argparse.Namespace, folder: Path, state: State) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Yield (kind, number of cases tried, problem by failed case), skipping the cases that `state` has recorded."""

    def wanted(kind: str) -> bool:
        return kind.startswith(options.only)

    if wanted("bomb"):
        yield from _bombs(folder, state)
    if wanted("fuzz") or wanted("forgery"):
        fuzzed, forged = samples.make(folder / "samples"), forgeries.make(folder / "forgeries")
        share = -(-options.files // (len(fuzzed) + len(forged)))  # of each kind
        if wanted("fuzz"):
            yield from _fuzz(fuzzed, share, options.seed, folder, state)
        if wanted("forgery"):
            yield from _forge(forged, share, options.seed, folder, state)
    if wanted("replace"):
        for number in range(state.tried("replace"), options.replacements):
            seed = f"{options.seed} {number}"
            yield "replace", 1, _named(seed, replacing.under_load(folder / "replaced", seed))
    if any(wanted(kind) for kind in ("kill", "random", "writers", "disk", "ray")):
        scenarios.warm_up()
        ready = [killing.Killed(one, folder / f"scenario-{number}") for number, one in enumerate(scenarios.SCENARIOS)]
        points = _spread({one.scenario.name: one.points() for one in ready}, options.kills)
        if wanted("kill"):
            for one in ready:
                name = f"kill {one.scenario.name}"
                for point in points[one.scenario.name][state.tried(name) :]:
                    yield name, 1, _named(point, one.kill_at(point))
        if wanted("writers"):
            for one in ready:
                name = f"writers {one.scenario.name}"
                if not state.tried(name):
                    yield name, 1, _named(f"{options.writers} concurrent", killing.many_writers(one, options.writers))
        if wanted("disk"):
            yield from _disk(ready, folder, state)
        if wanted("ray") and not state.tried("ray node killed"):
            yield "ray node killed", 1, _named("one of two nodes", _ray(folder / "ray"))
        if wanted("random"):
            rest = max(0, options.kills - sum(map(len, points.values())))
            for one in ready:
                name = f"random {one.scenario.name}"
                for number in range(state.tried(name), -(-rest // len(ready))):
                    seed = f"{options.seed} {number}"
                    yield name, 1, _named(seed, killing.random_moment(one, seed))


def _bombs(folder: Path, state: State) -> Iterator[tuple[str, int, dict[str, str]]]:
    if state.tried("bomb"):
        return
    by_name = {sample.name: sample for sample in bombs.make(folder / "bombs")}
    failed = bounded.attempt(
        list(by_name), lambda name: fuzzing.check_read(by_name[name], refuse=True), folder / "failures.tsv"
    )
    yield "bomb", len(by_name), failed


def _fuzz(
    items: list[samples.Sample], share: int, seed: int, folder: Path, state: State
) -> Iterator[tuple[str, int, dict[str, str]]]:
    for sample in items:
        _ = sample.data
        sample.read(sample.path)  # the unchanged file is valid; also imports modules before the forks
    for sample in items:
        kind = f"fuzz {sample.name}"
        cases = fuzzing.cases(sample, seed, share)
        for start in range(state.tried(kind), share, CHUNK):
            chunk = cases[start : start + CHUNK]
            failed = bounded.attempt(
                chunk, lambda case, one=sample: fuzzing.trial(one, case, items), folder / "failures.tsv"
            )
            yield kind, len(chunk), failed


def _forge(
    items: list[forgeries.Forgery], share: int, seed: int, folder: Path, state: State
) -> Iterator[tuple[str, int, dict[str, str]]]:
    for forged in items:
        cases = [f"{forged.name} {seed} {number}" for number in range(share)]
        for start in range(state.tried(forged.name), share, CHUNK):
            chunk = cases[start : start + CHUNK]
            yield forged.name, len(chunk), bounded.attempt(chunk, forged.trial, folder / "failures.tsv")


def _spread(points: dict[str, list[str]], kills: int) -> dict[str, list[str]]:
    """Return evenly spaced points of each scenario, so that their total is about `kills`."""
    step = max(1, -(-sum(map(len, points.values())) // max(1, kills)))
    return {name: found[:: min(step, len(found) or 1)] for name, found in points.items()}


def _ray(folder: Path) -> str | None:
    """Kill a Ray node in a separate process and return the problem, ignoring Ray's own output."""
    folder.mkdir()
    script = Path(__file__).with_name("ray_nodes.py")
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, timeout=900)
    problem = next((line for line in done.stdout.splitlines() if line.startswith("problem:")), None)
    return problem or (f"ended with {done.returncode}: {done.stderr[-300:]}" if done.returncode else None)


def _disk(ready: list[killing.Killed], folder: Path, state: State) -> Iterator[tuple[str, int, dict[str, str]]]:
    with mounted(folder / "disk") as disk:
        if disk is None:
            print("campaign: cannot mount a disk, so the full-disk cases are skipped", flush=True)
            return
        for one in ready:
            name = f"disk {one.scenario.name}"
            for blocks in (1, 2, 4, 8, 16, 32)[state.tried(name) :]:
                yield name, 1, _named(f"{4 * blocks} KiB left", fill(one, disk, blocks))


def _named(case: str, problem: str | None) -> dict[str, str]:
    return {case: problem} if problem else {}


if __name__ == "__main__":
    sys.exit(main())
