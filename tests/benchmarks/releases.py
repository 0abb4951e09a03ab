"""Compare the speed of this checkout with another one, such as the last release.

    git worktree add ../before v0.1.0
    python tests/benchmarks/releases.py ../before [--rounds 6] [--only greedy knn]

Each round runs both checkouts at the same time, in processes with one thread each, so that other load slows both. They swap
cores between rounds. The time of a job is the minimum of the CPU seconds of its repeats. A ratio is this checkout's time
divided by the other's, in the same round. Prints the median and the quartiles of the ratios. Only public functions are
timed, on workloads of the other scripts. Goal: no median above 1.05.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
MIN_REPEATS, MIN_SECONDS = 3, 2.0


def temperature() -> Callable[[], object]:
    import numpy as np
    import torch

    import zoo

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 1000, 20_000)
    logits = rng.standard_normal((20_000, 1000), dtype=np.float32)
    logits[np.arange(20_000), labels] += 4
    z, y = torch.from_numpy(3 * logits), torch.from_numpy(labels)
    return lambda: zoo.calibration.fit_temperature(z, y)


def separation() -> Callable[[], object]:
    import torch
    from probe import features

    import diversity

    x, y = (torch.from_numpy(part) for part in features(20_000, 1024, 500))
    return lambda: diversity.class_separation(x, y)


def pairs() -> Callable[[], object]:
    import diversity

    p, y = import_module("pairs").predictions(82, 20_000)
    measures = ("inconsistency", "kappa", "agreement")

    def work() -> None:
        table = diversity.pairwise(p, y)
        for measure in measures:
            table.measure(measure)

    return work


def greedy() -> Callable[[], object]:
    import ensembles

    probabilities, labels = import_module("greedy").workload(40, 5_000, 500, 4.0, 1)

    def search(steps: int) -> int:
        found = ensembles.greedy(probabilities, labels, steps=steps, replace=True, test_fraction=0)
        return len(found.picks if hasattr(found, "picks") else found.members)

    steps = 20 - (search(2) - 2)  # the first release counts the base as a step
    return lambda: search(steps)


def cka() -> Callable[[], object]:
    from diversity.similarity import MinibatchCKA

    batch = import_module("cka").batch(0, 1500, 16)

    def work() -> object:
        meter = MinibatchCKA()
        meter.update(*batch)
        return meter.result()

    return work


def knn() -> Callable[[], object]:
    from probe import features

    import probes

    x, y = features(10_000, 512, 100)
    return lambda: probes.KNNProbe(most=200).fit(x[:8_000], y[:8_000]).predict(x[8_000:])


def linear() -> Callable[[], object]:
    from probe import features

    import probes

    x, y = features(5_000, 512, 50)
    return lambda: probes.LinearProbe().fit(x, y)


def running() -> Callable[[], object]:
    import zoo

    model = zoo.load("resnet20-softmax", pretrained=False)

    def work() -> object:
        with tempfile.TemporaryDirectory() as home:
            return zoo.run(model, data="digits:train", home=home, progress=False, workers=0)

    return work


def training() -> Callable[[], object]:
    script = import_module("training")
    recipe = script.published("resnet8", "softmax", "digits").change(epochs=1, warmup_epochs=0.5)
    images = script.datasets.load("digits:train")
    return lambda: script.ours("resnet8", recipe, images)


JOBS = {job.__name__: job for job in (temperature, separation, pairs, greedy, cka, knn, linear, running, training)}


def measure(names: list[str]) -> dict[str, float]:
    """CPU seconds by job: the minimum of the repeats after a warm-up."""
    import torch

    torch.set_num_threads(1)
    found = {}
    for name in names:
        work = JOBS[name]()
        spent = []
        while len(spent) <= MIN_REPEATS or sum(spent) < MIN_SECONDS:
            began = time.process_time()
            work()
            spent.append(time.process_time() - began)
        found[name] = min(spent[1:])
    return found


def start(checkout: Path, names: list[str], core: int) -> subprocess.Popen:
    """Start a process that runs the checkout's code on a core and prints the result of `measure`."""
    folders = os.pathsep.join([str(checkout), str(checkout / "tests" / "benchmarks")])
    environment = {**os.environ, "PYTHONPATH": folders, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", __file__, str(checkout), "--child", str(core), "--only", *names]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", nargs="*", choices=JOBS, default=list(JOBS))
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[options.child % len(cores)]})
        print(json.dumps(measure(options.only)))
        return
    ratios: dict[str, list[float]] = {name: [] for name in options.only}
    seconds: dict[str, list[float]] = {name: [] for name in options.only}
    for number in range(options.rounds):
        pair = [start(HERE, options.only, number), start(options.other.resolve(), options.only, number + 1)]
        this, other = (json.loads(process.communicate()[0].splitlines()[-1]) for process in pair)
        for name in options.only:
            ratios[name].append(this[name] / other[name])
            seconds[name].append(this[name])
    print(f"{'':14}{'CPU s':>8}{'this / other':>14}{'quartiles':>16}   {options.rounds} rounds")
    for name, values in ratios.items():
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        print(f"{name:14}{statistics.median(seconds[name]):8.3f}{middle:14.3f}{low:9.3f} – {high:.3f}")


if __name__ == "__main__":
    main()
