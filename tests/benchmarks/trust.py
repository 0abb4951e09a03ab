"""Significance, risk-coverage curves, prediction sets and groups of many models: time, memory, and coverage of the sets.

    python tests/benchmarks/trust.py                              # 82 x 6,250 x 1,000 float16: 1 GB of files
    python tests/benchmarks/trust.py --examples 50000             # 8.2 GB of files
    python tests/benchmarks/trust.py --splits 100                 # prediction sets of the CIFAR-10 models instead

Each measure reads the files once, in a separate process. Goals at 50,000 examples: at most 60 s of CPU time on one thread,
and 3 GB of memory beyond the page cache. The baseline is one pass that finds each row's maximum. Files are written to
--folder and deleted at the end unless --keep is given.

--splits N splits the CIFAR-10 test images at random N times. A greedy ensemble is selected and temperatures are fitted on
4,000 images, the thresholds of prediction sets on 3,000, and the sets are evaluated on the other 3,000. Goals: mean coverage
within 1 point of 1 - alpha, and sets no larger than those of the best member, the most accurate one on the selection split.
"""

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from greedy_disk import Memory, make_files, maxima, open_runs

import diversity
import ensembles
import zoo
from zoo.calibration.conformal import fit_and_evaluate, fit_conformal
from zoo.calibration.selective import certainty, risk_coverage
from zoo.core.pages import kept_pages
from zoo.core.splits import stratified_split
from zoo.outputs.outputs import Runs

METHODS = ("lac", "aps", "raps")
ALPHA = 0.1


def significance(runs: Runs) -> str:
    found = diversity.significance(runs)
    return f"{len(found.indistinguishable_from_best)} models not significantly worse than the best"


def curves(runs: Runs) -> str:
    found = []
    for outputs in runs.values():
        found.append(risk_coverage(certainty(outputs.probabilities), outputs.correct))
    return f"AURC {np.mean([curve.aurc for curve in found]):.4f}"


def sets(runs: Runs) -> str:
    fitted = stratified_split(runs.labels, 0.5)
    found: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    for outputs in runs.values():
        for method, report in fit_and_evaluate(outputs.probabilities, runs.labels, fitted, ALPHA).items():
            found[method].append((report.coverage, report.mean_size))
    means = {method: np.mean(values, 0) for method, values in found.items()}
    return ", ".join(f"{method} {coverage:.1%} of size {size:.1f}" for method, (coverage, size) in means.items())


def groups(runs: Runs) -> str:
    found = diversity.groups(runs, runs.labels % 10)
    return f"worst group {found.worst}"


MEASURES = {"significance": significance, "curves": curves, "sets": sets, "groups": groups}


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Return the CPU seconds of a measure and of the baseline, and the peak memory beyond the page cache."""
    torch.set_num_threads(options.threads)
    runs = open_runs(options.folder, options.models, options.classes, "probabilities")
    maxima(runs, widen=True)  # reads the files into the page cache
    start = time.process_time()
    maxima(runs, widen=True)
    baseline = time.process_time() - start
    memory = Memory()
    memory.start()
    start = time.process_time()
    with kept_pages():  # as `zoo trust` does
        found = MEASURES[options.measure](runs)
    return {"seconds": time.process_time() - start, "baseline": baseline, "memory": memory.peak, "found": found}


def time_all(options: argparse.Namespace) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    size = options.models * options.examples * options.classes * 2
    if shutil.disk_usage(options.folder).free < 1.5 * size:
        sys.exit(f"not enough disk space in {options.folder}: {1.5 * size / 1e9:.1f} GB required")
    folder = Path(tempfile.mkdtemp(dir=options.folder, prefix="trust-"))
    try:
        make_files(folder, options.models, options.examples, options.classes, "probabilities")
        print(f"{options.models} x {options.examples:,} x {options.classes:,} float16: {size / 1e9:.1f} GB")
        print(f"{'':14}{'CPU s':>8}{'passes':>8}{'GB':>7}")
        for name in options.measures:
            words = ["--measure", name, "--folder", str(folder)]
            command = [sys.executable, __file__, *sys.argv[1:], *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            got = json.loads(done.stdout.splitlines()[-1])
            passes = got["seconds"] / got["baseline"]
            print(f"{name:14}{got['seconds']:8.1f}{passes:8.1f}{got['memory']:7.2f}  {got['found']}", flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(folder)


def evaluate_sets(options: argparse.Namespace) -> None:
    """Print coverage and size of the prediction sets of greedy ensembles and of their best members, over random splits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.errors.ZooWarning)
        runs = zoo.run(["@cifar10"], data="cifar10:test").aligned()
        labels, names = runs.labels, runs.names
        coverage: dict[str, list[list[float]]] = {method: [] for method in METHODS}
        size: dict[str, list[list[float]]] = {method: [] for method in METHODS}
        for split in range(options.splits):
            order = np.random.default_rng(split).permutation(len(labels))
            selection, calibration, test = np.split(order, [4000, 7000])
            fits = zoo.calibrate(runs.select(order[4000:]), runs.select(selection)).fits
            calibrated = Runs(dataclasses.replace(runs[name], temperature=fits[name].temperature) for name in names)
            path = ensembles.greedy(calibrated, split=(selection, order[4000:]), steps=options.steps, resamples=2)
            ids = next(iter(runs.values())).ids[calibration]
            accuracy = {m: (calibrated[m].predictions[selection] == labels[selection]).mean() for m in path.weights}
            best = calibrated[max(accuracy, key=accuracy.__getitem__)].probabilities
            for method in METHODS:
                report = path.prediction_sets(options.alpha, method, calibration=ids).report
                alone = fit_conformal(best[calibration], labels[calibration], options.alpha, method, seed=split)
                single = alone.evaluate(best[test], labels[test], seed=split)
                coverage[method].append([report.coverage, single.coverage])
                size[method].append([report.mean_size, single.mean_size])
    print(f"{options.splits} splits of {len(labels):,} examples, {len(names)} models, {options.steps} greedy steps")
    print(f"{'':6}{'coverage':>10}{'sd':>7}{'best member':>13}{'size':>8}{'best member':>13}{'smaller in':>12}")
    for method in METHODS:
        cover, sizes = np.array(coverage[method]), np.array(size[method])
        smaller = (sizes[:, 0] <= sizes[:, 1]).mean()
        print(
            f"{method:6}{cover[:, 0].mean():10.2%}{cover[:, 0].std():7.2%}{cover[:, 1].mean():13.2%}"
            f"{sizes[:, 0].mean():8.3f}{sizes[:, 1].mean():13.3f}{smaller:12.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=82)
    parser.add_argument("--examples", type=int, default=6_250)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--keep", action="store_true", help="do not delete the files")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--splits", type=int, default=0, metavar="N", help="evaluate prediction sets on N random splits")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--alpha", type=float, default=ALPHA)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options)))
    elif options.splits:
        evaluate_sets(options)
    else:
        time_all(options)


if __name__ == "__main__":
    main()
