"""Cascades compared with the greedy ensembles of the same members: accuracy, mean cost and the time of `predict`.

    .venv/bin/python tests/benchmarks/cascade.py                      # the shipped outputs on CIFAR-10
    .venv/bin/python tests/benchmarks/cascade.py 'resnet*.cifar10' 'vit-mini-*.cifar10' --data cifar10:test --predict 2000
    .venv/bin/python tests/benchmarks/cascade.py --npz outputs.npz    # probabilities [M, N, K], labels [N], costs [M]
    .venv/bin/python tests/benchmarks/cascade.py --frontier           # synthetic, 82 x 50,000 x 1,000: 8 GB in float16

Models are names or patterns. Their outputs on --data are read if they are stored, and computed otherwise. Import a file of
`zoo export` with `zoo import` first.

Each of `--seeds` seeds splits the examples into selection and test. The table shows the cascade's test accuracy minus the
greedy ensemble's, and its mean FLOPs as a fraction of the ensemble's. For comparison it shows the best single model and the
best ensemble that cost no more than the cascade, both chosen on the selection split. Figures are means over seeds with 95%
confidence intervals. All seeds split the same examples, so the intervals show the variation between splits only.

`--predict N` saves the last cascade and its ensemble in a temporary home, and times both on N images. `--frontier` times
the search for the Pareto front. Goals: accuracy at most 0.002 below the ensemble's at no more than 0.5 of its FLOPs; the
front in 60 s; a `predict` that is faster in proportion to the cost.
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ensembles
import zoo
from zoo.errors import ZooWarning


def compare(runs: Any, labels: Any, cost: Any, options: argparse.Namespace) -> ensembles.Cascade:
    """Print accuracy and cost over several splits of the examples, and return the last cascade."""
    rows, seconds = [], []
    for seed in range(options.seeds):
        search = ensembles.Search(runs, labels, seed=seed)
        start = time.perf_counter()
        found = search.cascade(options.steps, cost=cost, loss=options.loss)
        seconds.append(time.perf_counter() - start)
        limit = found.cost_fraction * found.full_ensemble.cost
        one, several = (search.best_within(limit, cost, max_size=size).test_score for size in (1, options.steps))
        full = found.full_ensemble.test_score
        rows.append([full, found.gain, found.cost_fraction, one - full, several - full, len(found.full_ensemble.members)])
        print(f"seed {seed}: {found.rule}, evaluated {', '.join(f'{fraction:.0%}' for fraction in found.evaluated)}")
    values = np.array(rows)
    half = 1.96 * values.std(0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.full(values.shape[1], np.nan)
    titles = ["accuracy of the ensemble", "cascade minus ensemble", "fraction of its cost", "best single model at that cost",
              "best ensemble at that cost", "members"]  # fmt: skip
    for title, mean, half_width in zip(titles, values.mean(0), half, strict=True):
        print(f"  {title:32} {mean:8.4f}  [{mean - half_width:8.4f}, {mean + half_width:8.4f}]")
    _, gain, fraction = values.mean(0)[:3]
    print(f"  {'met   ' if gain >= -0.002 else 'MISSED'} loss of accuracy {-gain:.4f}, goal: at most 0.002")
    print(f"  {'met   ' if fraction <= 0.5 else 'MISSED'} fraction of the cost {fraction:.3f}, goal: at most 0.5")
    print(f"  the search took {np.median(seconds):.2f} s")
    return found


def time_predict(found: ensembles.Cascade, runs: Any, data: str, images: int) -> None:
    """Print the median seconds of `predict` for the saved cascade and the saved ensemble, each run three times."""
    dataset = zoo.datasets.load(data)
    chosen = [dataset[row] for row in range(min(images, len(dataset)))]
    members = [str(member) for member in found.full_ensemble.members]
    ensemble = ensembles.greedy(zoo.Runs([runs[member] for member in members]), base=members, steps=1)
    home = Path(tempfile.mkdtemp())
    here = Path(os.environ.get("ZOO_HOME", Path.home() / ".cache" / "zoo"))
    if (here / "weights").exists():
        (home / "weights").symlink_to(here / "weights")
    os.environ["ZOO_HOME"] = str(home)
    found.to_model("timed-cascade")
    ensemble.to_model("timed-ensemble")
    models = {name: zoo.load(name) for name in ("timed-ensemble", "timed-cascade")}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(3):
        for name, model in models.items():
            start = time.perf_counter()
            model.predict(chosen, batch_size=256)
            seconds[name].append(time.perf_counter() - start)
    whole, part = (float(np.median(one)) for one in seconds.values())
    print(f"  predict on {len(chosen)} images: ensemble {whole:.2f} s, cascade {part:.2f} s, ratio {part / whole:.2f};"
          f" fraction of the cost {found.cost_fraction:.2f}")  # fmt: skip


def frontier(models: int, examples: int, classes: int) -> None:
    """Print the seconds that the Pareto front of all models takes, on a tenth of the examples repeated ten times."""
    from greedy import workload

    tenth, labels = workload(models, max(1, examples // 10), classes, 4.43, 1)
    probabilities = np.empty((models, 10 * len(labels), classes), np.float16)
    for model, p in enumerate(tenth):
        probabilities[model] = np.tile(p, (10, 1))
    del tenth
    costs = np.random.default_rng(0).lognormal(0, 1, models)
    start = time.perf_counter()
    search = ensembles.Search(probabilities, np.tile(labels, 10))
    read = time.perf_counter() - start
    start = time.perf_counter()
    found = search.cascade(members=range(models), cost=costs)
    seconds = time.perf_counter() - start
    print(f"{models} x {examples} x {classes}: models read in {read:.1f} s, front of {len(found.front)} points"
          f" in {seconds:.1f} s on {torch.get_num_threads()} threads (goal: 60 s)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: @cifar10 on cifar10:test")
    parser.add_argument("--data")
    parser.add_argument("--temperatures-from", help="as in zoo.calibrate")
    parser.add_argument("--npz")
    parser.add_argument("--cost", default="flops")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--loss", type=float, default=0.001)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--predict", type=int, default=0, metavar="N", help="time predict on N images")
    parser.add_argument("--frontier", nargs="*", type=int, help="models, examples, classes; default 82 50000 1000")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ZooWarning)
    if options.frontier is not None:
        frontier(*(options.frontier or (82, 50_000, 1_000)))
    if options.npz:
        stored = np.load(options.npz)
        costs = stored["costs"] if "costs" in stored else np.ones(len(stored["probabilities"]))
        compare(stored["probabilities"], stored["labels"], costs, options)
    if options.frontier is None and not options.npz and not options.models:
        options.models, options.data = ["@cifar10"], options.data or "cifar10:test"
    if options.models:
        runs = zoo.calibrate(zoo.run(options.models, data=options.data), options.temperatures_from)
        found = compare(runs, None, options.cost, options)
        if options.predict:
            time_predict(found, runs, options.data, options.predict)


if __name__ == "__main__":
    main()
