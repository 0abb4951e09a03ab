"""One table of all timed jobs: our time, a peer or a plain loop, a lower bound for any method (the floor), and the goal.

    python tests/benchmarks/all.py                                     # about a quarter of an hour on idle cores
    python tests/benchmarks/all.py --jobs greedy --repeats 3
    python tests/benchmarks/all.py --peer-python /path/to/venv/bin/python

Competing implementations run alternately. The table shows medians of wall-clock seconds, or of CPU seconds with `--cpu`.
Each job has a second workload, marked *, with other sizes and statistics, on which nothing was tuned. Peers are installed
in a separate environment (pip install faiss-cpu pytorch-cka) and are skipped without `--peer-python`. Use otherwise idle
cores.
"""

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import calibration
import cka
import greedy
import greedy_disk
import knn
import numpy as np
import pairs
import probe
import separation
import torch

import diversity
import ensembles
from diversity.similarity import MinibatchCKA
from probes.knn import KNNProbe
from zoo.calibration import fit_temperature, fit_temperatures


@dataclass(frozen=True)
class Result:
    """Seconds of one job; NaN for times that were not measured."""

    job: str
    ours: float
    goals: dict[str, float]  # "peer": least peer / ours; "floor": greatest ours / floor; "seconds": greatest ours
    peer: float = math.nan
    peer_name: str = ""
    floor: float = math.nan
    floor_name: str = ""

    def line(self) -> str:
        values = {"peer": self.peer / self.ours, "floor": self.ours / self.floor, "seconds": self.ours}
        signs = {"peer": "peer/ours >=", "floor": "ours/floor <=", "seconds": "seconds <="}
        goal = ", ".join(f"{signs[kind]} {limit:g}" for kind, limit in self.goals.items())
        measured = {kind: limit for kind, limit in self.goals.items() if not math.isnan(values[kind])}
        met = all(values[kind] >= limit if kind == "peer" else values[kind] <= limit for kind, limit in measured.items())
        verdict = "–" if not measured else "met" if met else "not met"
        cells = [self.job, _number(self.ours), _number_of(self.peer, self.peer_name), _number(values["peer"]),
                 _number_of(self.floor, self.floor_name), _number(values["floor"]), goal or "–", verdict]  # fmt: skip
        return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


def _number_of(value: float, name: str) -> str:
    return "–" if math.isnan(value) else f"{value:.3g} ({name})"


class Clock:
    """Runs functions alternately and returns their median seconds."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.repeats, self.now = options.repeats, time.process_time if options.cpu else time.perf_counter

    def seconds(self, work: Callable[[], object]) -> float:
        start = self.now()
        work()
        return self.now() - start

    def medians(self, *works: Callable[[], object]) -> list[float]:
        rounds = [[self.seconds(work) for work in works] for _ in range(self.repeats + 1)]
        return [statistics.median(column) for column in zip(*rounds[1:], strict=True)]  # the first round warms up


def greedy_jobs(options: argparse.Namespace, clock: Clock) -> Iterator[Result]:
    other = {"shared": 0.2, "difficulty": 0.7, "scales": (1.0, 2.0)}
    weak = greedy.WORKLOADS["weak"] | {"models": 25, "examples": 6_000, "classes": 200, "bonus": 1.2, "seed": 9}
    workloads = {
        "greedy G1 82 x 5,000 x 1,000": (greedy.WORKLOADS["G1"], 20, {"floor": 2.0}),
        "greedy G1, flat": (greedy.WORKLOADS["G1"] | {"temperature": 5.0}, 20, {"floor": 2.0}),
        "greedy G2 30 x 50,000 x 100": (greedy.WORKLOADS["G2"], 20, {"peer": 8.0, "floor": 3.0}),
        "greedy G2, flat": (greedy.WORKLOADS["G2"] | {"temperature": 5.0}, 20, {"peer": 8.0, "floor": 3.0}),
        "greedy* 50 x 8,000 x 300": (
            {"models": 50, "examples": 8_000, "classes": 300, "bonus": 2.5, "seed": 5} | other, 15, {"peer": 8.0}
        ),
        "greedy, weak models 40 x 3,000 x 500": (greedy.WORKLOADS["weak"], 10, {"peer": 6.0}),
        "greedy*, weak models 25 x 6,000 x 200": (weak | {"scales": (2.0, 2.0)}, 15, {"peer": 6.0}),
    }  # fmt: skip
    for job, (settings, steps, goals) in workloads.items():
        p, y = greedy.workload(**settings)
        ours, plain, floor = clock.medians(
            lambda p=p, y=y, steps=steps: ensembles.greedy(p, y, steps=steps - 1, replace=True, test_fraction=0),
            lambda p=p, y=y, steps=steps: greedy.numpy_loop(p, y, steps),
            lambda p=p: [torch.from_numpy(each).amax(1) for each in p],
        )
        yield Result(job, ours, goals, plain, "NumPy loop", floor, "row maxima")


def disk_jobs(options: argparse.Namespace, clock: Clock) -> Iterator[Result]:
    sizes = {"": (82, 5_000, 1_000), "*": (30, 8_000, 300)}
    for star, (models, examples, classes) in sizes.items():
        for kind, goal in (("probabilities", 2.0), ("logits", 3.0)):
            folder = Path(tempfile.gettempdir()) / "greedy-disk" / f"{kind}-{examples}x{classes}"
            greedy_disk.make_files(folder, models, examples, classes, kind)

            def runs(folder=folder, models=models, classes=classes, kind=kind) -> greedy_disk.Runs:
                return greedy_disk.open_runs(folder, models, classes, kind)

            ours, plain, wide = clock.medians(
                lambda runs=runs: ensembles.greedy(runs(), steps=19, replace=True, test_fraction=0),
                lambda runs=runs: greedy_disk.maxima(runs(), widen=False),
                lambda runs=runs: greedy_disk.maxima(runs(), widen=True),
            )
            job = f"greedy{star} from disk, {kind} {models} x {examples:,} x {classes:,}"
            yield Result(job, ours, {"floor": goal}, floor=min(plain, wide), floor_name="row maxima")


def pair_jobs(options: argparse.Namespace, clock: Clock) -> Iterator[Result]:
    for star, models, examples, goals in (("", 82, 50_000, {"seconds": 0.5}), ("*", 40, 10_000, {})):
        table = diversity.pairwise(*pairs.predictions(models, examples))
        (ours,) = clock.medians(lambda table=table: table.interval("kappa", 1000))
        yield Result(f"kappa{star}, 1,000 resamples of all pairs, {models} x {examples:,}", ours, goals)


def separation_jobs(options: argparse.Namespace, clock: Clock) -> Iterator[Result]:
    for star, rows, dims, classes, goal in (("", 50_000, 2048, 1000, 3.5), ("*", 30_000, 768, 100, 3.5)):
        x, y = separation.activations(rows, dims, classes)
        ours, floor = clock.medians(
            lambda x=x, y=y: separation.class_separation(x, y, "centered-cosine"),
            lambda x=x: torch.linalg.vector_norm(x, dim=1),
        )
        job = f"class separation{star}, centred cosine {rows:,} x {dims:,}"
        yield Result(job, ours, {"floor": goal}, floor=floor, floor_name="row norms")


def temperature_jobs(options: argparse.Namespace, clock: Clock) -> Iterator[Result]:
    sizes = (("", 50_000, 1_000, 10, {"floor": 3.0}, {"floor": 8.0}), ("*", 20_000, 100, 5, {}, {}))
    for star, rows, classes, models, goal, goal_of_many in sizes:
        z, y = calibration.logits_and_labels(rows, classes)
        tensor, many = torch.from_numpy(z), [z * np.float32(1 + i / 10) for i in range(models)]
        one, floor, several = clock.medians(
            lambda z=z, y=y: fit_temperature(z, y),
            lambda tensor=tensor: calibration.logsumexp_pass(tensor, 256),
            lambda many=many, y=y: fit_temperatures(many, y),
        )
        job = f"temperature{star} {rows:,} x {classes:,}"
        yield Result(job, one, goal, floor=floor, floor_name="logsumexp")
        yield Result(f"{job}, {models} models", several, goal_of_many, floor=one, floor_name="one model")


def knn_jobs(options: argparse.Namespace, clock: Clock) -> Iterator[Result]:
    for star, train, test, dims, classes in (("", 20_000, 5_000, 512, 100), ("*", 12_000, 3_000, 768, 10)):
        x, y = probe.features(train + test, dims, classes)

        def work(x=x, y=y, train=train) -> None:
            KNNProbe(most=knn.MOST).fit(x[:train], y[:train]).predict(x[train:])

        with tempfile.TemporaryDirectory() as name:
            np.save(f"{name}/train.npy", x[:train])
            np.save(f"{name}/test.npy", x[train:])
            ours, theirs = [], []
            for _ in range(options.repeats + 1):  # alternately; the first round warms up
                ours.append(clock.seconds(work))
                if options.peer_python and not options.cpu:
                    theirs.append(knn.search_by_peer(options.peer_python, Path(name), options.threads)[0])
        peer = statistics.median(theirs[1:]) if theirs else math.nan
        job = f"kNN{star} {train:,} / {test:,} x {dims}"
        yield Result(job, statistics.median(ours[1:]), {"peer": 1.3}, peer, "faiss")


def cka_jobs(options: argparse.Namespace, clock: Clock) -> Iterator[Result]:
    for star, rows, layers in (("", 1_500, 16), ("*", 600, 10)):
        batch = cka.batch(0, rows, layers)
        ours, theirs = [], []
        for _ in range(options.repeats + 1):  # alternately; the first round warms up
            ours.append(clock.seconds(lambda batch=batch: MinibatchCKA().update(*batch)))
            if options.peer_python and not options.cpu:
                peer, _ = cka.time_by_peer("pytorch-cka", options.peer_python, [rows], layers, options.threads)
                theirs.append(peer["seconds"] if peer else math.nan)
        peer_seconds = statistics.median(theirs[1:]) if theirs else math.nan
        job = f"CKA{star} {layers} x {layers} layers, {rows:,} rows"
        yield Result(job, statistics.median(ours[1:]), {"peer": 1.0}, peer_seconds, "pytorch-cka")


JOBS = {"greedy": greedy_jobs, "disk": disk_jobs, "pairs": pair_jobs, "separation": separation_jobs,
        "temperature": temperature_jobs, "knn": knn_jobs, "cka": cka_jobs}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="*", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="CPU seconds instead of wall-clock seconds; skips the peers")
    parser.add_argument("--peer-python", help="a Python interpreter with faiss-cpu and pytorch-cka")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    kind = "CPU" if options.cpu else "wall-clock"
    print(f"{kind} seconds, medians of {options.repeats}, {options.threads} threads, load {os.getloadavg()[0]:.1f}")
    print(
        "| job | ours | peer | peer/ours | floor | ours/floor | goal | |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for name in options.jobs:
        for result in JOBS[name](options, Clock(options)):
            print(result.line(), flush=True)


if __name__ == "__main__":
    main()
