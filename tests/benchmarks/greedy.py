"""Greedy ensemble selection compared with AutoGluon's `EnsembleSelection` and a plain NumPy loop: picks and speed.

    .venv/bin/python tests/benchmarks/greedy.py --peer-python /tmp/peers/bin/python
    .venv/bin/python tests/benchmarks/greedy.py --workloads --plot greedy.html      # only a chart of time against size

Install AutoGluon in a separate environment (`python -m venv /tmp/peers && /tmp/peers/bin/pip install autogluon.core`).
Without `--peer-python`, or if that interpreter does not have AutoGluon, it is skipped with a message. Each search runs on
one thread unless `--threads` is given. Times are medians of wall-clock seconds.

Workloads (models x examples x classes, float32) for 20 picks by accuracy, with replacement: G1 is 82 x 5,000 x 1,000, G2 is
30 x 50,000 x 100. `weak` is 40 x 3,000 x 500, independent models of 8% accuracy, 10 picks. `-flat` is the same workload at
temperature 5. Goals: on G1 50 times as fast as AutoGluon and 8 times as fast as NumPy, with the same picks; on G2 20 times
as fast as AutoGluon.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ensembles

WORKLOADS = {
    "G1": {"models": 82, "examples": 5_000, "classes": 1_000, "bonus": 4.43, "seed": 1},
    "G2": {"models": 30, "examples": 50_000, "classes": 100, "bonus": 3.69, "seed": 2},
    "weak": {"models": 40, "examples": 3_000, "classes": 500, "bonus": 1.5, "seed": 4,
             "shared": 0.0, "difficulty": 0.0, "scales": (1.0, 1.0)},
}  # fmt: skip
STEPS = {"G1": 20, "G2": 20, "weak": 10}
GOALS = {("G1", "AutoGluon"): 50, ("G1", "NumPy"): 8, ("G2", "AutoGluon"): 20}

PEER = """
import json, sys, time
import numpy as np
from autogluon.core.metrics import accuracy
from autogluon.core.models.greedy_ensemble.ensemble_selection import EnsembleSelection
folder, steps, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
probs, labels = list(np.load(folder + "/probs.npy")), np.load(folder + "/labels.npy")
seconds = []
for _ in range(repeats):
    search = EnsembleSelection(steps, "multiclass", accuracy)
    search.use_best = False
    start = time.perf_counter()
    search.fit(probs, labels)
    seconds.append(time.perf_counter() - start)
picks, errors = [int(i) for i in search.indices_], [float(e) for e in search.trajectory_]
print(json.dumps({"seconds": seconds, "picks": picks, "errors": errors}))
"""


def workload(
    models: int, examples: int, classes: int, bonus: float, seed: int, temperature: float = 1.0,
    shared: float = 0.45, difficulty: float = 1.5, scales: tuple[float, float] = (2.0, 3.5),
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Probabilities [M, N, K] of models of about 70-78% accuracy with partly shared errors, and labels.

    Logits are the sum of Gaussian noise that all models share (45% of the variance), noise of each model, and a bonus for
    the true class. The bonus depends on the example's difficulty and a little on the model. Each model scales its logits.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    per_example = rng.normal(0, difficulty, examples).astype(np.float32)
    common = rng.standard_normal((examples, classes), dtype=np.float32) * np.float32(np.sqrt(shared))
    probs = np.empty((models, examples, classes), np.float32)
    for z in probs:
        rng.standard_normal(out=z, dtype=np.float32)
        z *= np.float32(np.sqrt(1 - shared))
        z += common
        z[np.arange(examples), labels] += per_example + np.float32(bonus + rng.uniform(-0.22, 0.22))
        z *= np.float32(rng.uniform(*scales) / temperature)
        z -= z.max(1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(1, keepdims=True)
    return probs, labels


def numpy_loop(probs: np.ndarray, labels: np.ndarray, steps: int) -> list[int]:
    """The plain search: float32 sums and the argmax of every candidate; the lower log loss breaks ties."""
    rows, total, picks = np.arange(len(labels)), np.zeros(probs.shape[1:], np.float32), []
    scratch = np.empty_like(total)
    for _ in range(steps):
        correct = [int((np.add(total, p, out=scratch).argmax(1) == labels).sum()) for p in probs]
        best = np.flatnonzero(np.array(correct) == max(correct))
        if len(best) > 1:
            true = total[rows, labels].astype(np.float64)
            best = best[np.argsort([-np.log(true + probs[m][rows, labels]).sum() for m in best], kind="stable")]
        picks.append(int(best[0]))
        total += probs[best[0]]
    return picks


def autogluon(python: str, probs: np.ndarray, labels: np.ndarray, steps: int, repeats: int) -> dict[str, Any] | None:
    """Run AutoGluon with another interpreter; return seconds and picks, or print why it failed and return None."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/probs.npy", probs)
        np.save(f"{folder}/labels.npy", labels)
        command = [python, "-c", PEER, folder, str(steps), str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONWARNINGS": "ignore"})
    if done.returncode:
        print(f"AutoGluon skipped: {(done.stderr.strip().splitlines() or ['it failed without a message'])[-1]}")
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def median_seconds(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def compare(name: str, options: argparse.Namespace) -> None:
    kind, _, flat = name.partition("-")
    probs, labels = workload(**WORKLOADS[kind], temperature=5.0 if flat else 1.0)
    steps = options.steps or STEPS[kind]
    ours, path = median_seconds(
        lambda: ensembles.greedy(probs, labels, steps=steps - 1, replace=True, test_fraction=0), options.repeats
    )
    plain, picks = median_seconds(lambda: numpy_loop(probs, labels, steps), options.numpy_repeats)
    print(
        f"\n{name}: {' x '.join(map(str, probs.shape))}, {steps} picks, accuracy {path.score[0]:.4f} -> {path.score[-1]:.4f}"
    )
    print(f"  ours      {ours:8.3f} s")
    same = "same picks" if picks == path.members else f"picks differ from step {_first_difference(picks, path.members)}"
    print(f"  NumPy     {plain:8.3f} s   {plain / ours:6.1f} x{_goal(name, 'NumPy')}   {same}")
    if not options.peer_python:
        return
    peer = autogluon(options.peer_python, probs, labels, steps, options.peer_repeats)
    if peer is None:
        return
    seconds = statistics.median(peer["seconds"])
    # AutoGluon breaks ties by models it has already picked, then at random, so its picks may differ from ours after a tie.
    step = _first_difference(peer["picks"], path.members)
    tie = step is not None and abs(1 - peer["errors"][step - 1] - path.score[step - 1]) < 1e-6
    same = (
        "same picks"
        if step is None
        else f"same picks up to {'a tie at ' * tie}step {step}, ends at {1 - peer['errors'][-1]:.4f}"
    )
    print(f"  AutoGluon {seconds:8.3f} s   {seconds / ours:6.1f} x{_goal(name, 'AutoGluon')}   {same}")


def _first_difference(a: list[int], b: list[int]) -> int | None:
    return next((i + 1 for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)


def _goal(name: str, peer: str) -> str:
    return f" (goal: {GOALS[name, peer]})" if (name, peer) in GOALS else ""


def plot(target: Path, repeats: int) -> None:
    """Plot the seconds of our search and of the NumPy loop against steps, models and examples, each varied alone."""
    import altair as alt
    import pandas as pd

    probs, labels = workload(40, 4_000, 300, 4.0, 3)
    sweeps = {
        "steps": [(40, 4_000, steps) for steps in (2, 5, 10, 20, 40, 80)],
        "models": [(models, 4_000, 20) for models in (5, 10, 20, 40)],
        "examples": [(40, examples, 20) for examples in (500, 1_000, 2_000, 4_000)],
    }
    rows = []
    for varied, sizes in sweeps.items():
        for models, examples, steps in sizes:
            p, y = probs[:models, :examples], labels[:examples]
            size = {"steps": steps, "models": models, "examples": examples}[varied]
            ours, _ = median_seconds(
                lambda p=p, y=y, s=steps: ensembles.greedy(p, y, steps=s - 1, replace=True, test_fraction=0), repeats
            )
            plain, _ = median_seconds(lambda p=p, y=y, s=steps: numpy_loop(p, y, s), 1)
            rows += [{"varied": varied, "size": size, "seconds": ours, "who": "ours"},
                     {"varied": varied, "size": size, "seconds": plain, "who": "NumPy"}]  # fmt: skip
            print(f"  {varied:>8} {size:6d}: ours {ours:7.3f} s, NumPy {plain:7.3f} s, {plain / ours:5.1f} x")
    frame = pd.DataFrame(rows)
    log = alt.Scale(type="log")
    panels = [
        alt.Chart(frame[frame["varied"] == varied])
        .mark_line(point=True)
        .encode(x=alt.X("size:Q", title=varied, scale=log), y=alt.Y("seconds:Q", scale=log), color="who:N")
        .properties(width=220, height=220)
        for varied in sweeps
    ]
    alt.hconcat(*panels, title="40 models x 4,000 examples x 300 classes, 20 steps; one of them varies").save(str(target))
    print(f"wrote {target}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choices = [name + suffix for name in WORKLOADS for suffix in ("", "-flat")]
    parser.add_argument("--workloads", nargs="*", choices=choices, default=choices)
    parser.add_argument("--steps", type=int, help="default: 20, or 10 for weak models")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--numpy-repeats", type=int, default=3)
    parser.add_argument("--peer-repeats", type=int, default=1)
    parser.add_argument("--peer-python", help="a Python interpreter with autogluon.core")
    parser.add_argument("--plot", type=Path, help="write a chart of time against size: .html, .svg or .png")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ |= {name: str(options.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    if not options.peer_python:
        print("AutoGluon skipped: --peer-python not given")
    for name in options.workloads:
        compare(name, options)
    if options.plot:
        plot(options.plot, options.repeats)


if __name__ == "__main__":
    main()
