"""Detection of flipped labels: ours compared with cleanlab's confident learning, on the same probabilities.

    ZOO_DATA=data python tests/benchmarks/triage.py '*.cifar10' --data cifar10:test --peer-python /tmp/peers/bin/python
    python tests/benchmarks/triage.py outputs.npz --peer-python /tmp/peers/bin/python

Models are names or patterns, which are run on --data unless their outputs are stored, or one file or folder that
`zoo import` reads. They must not have been trained on these examples. A fraction of the labels (--share) is flipped: to a
random other class ("uniform"), or to the class with which the mean of the models most often confuses the true class
("confused"). Labels that were wrong before the flips count as false alarms.

Prints two metrics with standard errors over seeds: precision among the first K suspects, where K is 500 or the number of
flips if that is smaller, and average precision. Cleanlab is evaluated on the mean of the models, on the mean of the
calibrated models, and on the most accurate single model. In each case only its best score counts: self-confidence,
normalized margin, confidence-weighted entropy, its score for ensembles, or its list of label issues.

Install cleanlab in a separate environment (`python -m venv /tmp/peers && /tmp/peers/bin/pip install cleanlab`). Without
`--peer-python`, its self-confidence, 1 - p(label), is computed here instead. Goals: both metrics above cleanlab's on the
mean, and at most half as many false alarms among the first K as cleanlab with the best single model.
"""

import argparse
import json
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

import zoo
from diversity import triage
from diversity.label_noise import fit_inverse_temperature
from zoo.outputs.outputs import Runs

PARTS = ("probs", "labels")
PEER = """
import json, sys
import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_ensemble_scores, get_label_quality_scores
METHODS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
results = []
with np.load(sys.argv[1]) as arrays:
    for case in range(len(arrays.files) // 2):
        probs, labels = arrays[f"probs{case}"].astype(float), arrays[f"labels{case}"]
        probs /= probs.sum(-1, keepdims=True)
        if probs.ndim == 3:
            found = {"ensemble scores": get_label_quality_ensemble_scores(labels, list(probs), verbose=False)}
        else:
            found = {method: get_label_quality_scores(labels, probs, method=method) for method in METHODS}
            found["issues first"] = found["self_confidence"] - 2 * find_label_issues(labels, probs, n_jobs=1)
        results.append({name: (-np.asarray(scores)).tolist() for name, scores in found.items()})
print(json.dumps(results))
"""


def flip_labels(labels: np.ndarray, mean: np.ndarray, kind: str, fraction: float, seed: int) -> np.ndarray:
    """Return the labels with a fraction of them flipped, in one of the two ways described above."""
    rng = np.random.default_rng(seed)
    classes = mean.shape[1]
    rows = rng.choice(len(labels), round(fraction * len(labels)), replace=False)
    noisy = labels.copy()
    if kind == "uniform":
        noisy[rows] = (labels[rows] + rng.integers(1, classes, len(rows))) % classes
    else:
        confusion = np.zeros((classes, classes))
        np.add.at(confusion, (labels, mean.argmax(1)), 1)
        np.fill_diagonal(confusion, -1)
        noisy[rows] = confusion.argmax(1)[labels[rows]]
    return noisy


def peer(python: str | None, cases: list[tuple[np.ndarray, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Return cleanlab's suspicion scores [N] by method for each pair of probabilities [N, K] or [M, N, K] and labels [N]."""
    if python is None:
        return [{} if p.ndim == 3 else {"1 - p(label)": -p[np.arange(len(y)), y]} for p, y in cases]
    with tempfile.TemporaryDirectory() as folder:
        named = {f"{what}{i}": array for i, pair in enumerate(cases) for what, array in zip(PARTS, pair, strict=True)}
        np.savez(f"{folder}/cases.npz", **named)
        command = [python, "-W", "ignore", "-c", PEER, f"{folder}/cases.npz"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cleanlab failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    results = json.loads(done.stdout.strip().splitlines()[-1])
    return [{name: np.array(scores) for name, scores in result.items()} for result in results]


def evaluate(scores: np.ndarray, wrong: np.ndarray, first: int) -> tuple[float, float]:
    """Return the precision among the first examples, and the average precision."""
    order = np.argsort(-scores, kind="stable")
    return float(wrong[order[:first]].mean()), float(average_precision_score(wrong, scores))


def print_row(name: str, values: list[tuple[float, float]], note: str = "") -> None:
    table = np.array(values)
    error = table.std(0, ddof=1) / len(table) ** 0.5 if len(table) > 1 else np.full(2, np.nan)
    mean = table.mean(0)
    print(f"  {name:38}{mean[0]:8.4f} +- {error[0]:.4f}{mean[1]:10.4f} +- {error[1]:.4f}   {note}", flush=True)


def best(values: dict[str, list[tuple[float, float]]]) -> tuple[str, list[tuple[float, float]]]:
    """Return cleanlab's best method, by the sum of precision and average precision."""
    name = max(values, key=lambda method: float(np.mean(values[method])))
    return name, values[name]


def compare(runs: Runs, kind: str, options: argparse.Namespace) -> None:
    labels = runs.labels
    probs = np.stack([np.asarray(outputs.probabilities, np.float64) for outputs in runs.values()])
    mean = probs.mean(0)
    single = int(np.argmax([outputs.accuracy for outputs in runs.values()]))
    found: dict[str, dict[str, list[tuple[float, float]]]] = {"mean": {}, "calibrated mean": {}, "single": {}}
    ours, cases, case_labels = [], [], []
    for seed in range(options.seeds):
        noisy = flip_labels(labels, mean, kind, options.share, seed)
        wrong = noisy != labels
        first = min(500, int(wrong.sum()))
        result = triage(runs, noisy)
        frame = result.frame.set_index("id").loc[runs[runs.names[0]].ids]
        ours.append(evaluate(frame["log_odds"].to_numpy(), wrong, first))
        scaled = [np.maximum(p, 1e-6) ** fit_inverse_temperature(p, noisy) for p in probs]
        calibrated = np.mean([p / p.sum(1, keepdims=True) for p in scaled], 0)
        cases += [(values, noisy) for values in (mean, probs, calibrated, probs[single])]
        case_labels += [(name, wrong) for name in ("mean", "mean", "calibrated mean", "single")]
    for (name, wrong), by_method in zip(case_labels, peer(options.peer_python, cases), strict=True):
        for method, scores in by_method.items():
            found[name].setdefault(method, []).append(evaluate(scores, wrong, first))
    print(f"\n{kind}: {first} of {len(labels):,} labels flipped, {options.seeds} seeds")
    print(f"  {'':38}{f'precision@{first}':>18}{'average precision':>20}")
    print_row("ours", ours)
    lines = {}
    for name, methods in found.items():
        method, values = best(methods)
        title = f"cleanlab, {runs.names[single] if name == 'single' else name}"
        print_row(title[:37], values, method)
        lines[name] = np.mean(values, 0)
    mine = np.mean(ours, 0)
    above = all(mine[i] > lines[name][i] for i in (0, 1) for name in ("mean", "calibrated mean"))
    alarms = (1 - mine[0]) * first, (1 - lines["single"][0]) * first
    print(f"  both metrics above cleanlab on the mean: {'yes' if above else 'no'} (goal: yes)")
    print(f"  false alarms among the first {first}: {alarms[0]:.1f}, cleanlab with the best single model {alarms[1]:.1f}, "
          f"ratio {alarms[0] / max(alarms[1], 1e-9):.2f} (goal: 0.5)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names, patterns, or one file or folder of outputs")
    parser.add_argument("--data", default="cifar10:test")
    parser.add_argument("--share", type=float, default=0.05, help="fraction of the labels to flip")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer-python", help="a Python interpreter with cleanlab")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.errors.ZooWarning)
        is_file = len(options.models) == 1 and Path(options.models[0]).exists()
        runs = zoo.import_outputs(options.models[0]) if is_file else zoo.run(options.models, data=options.data)
    runs = runs.aligned()
    accuracies = [outputs.accuracy for outputs in runs.values()]
    print(f"{len(runs)} models, accuracy {min(accuracies):.3f} to {max(accuracies):.3f} on {len(runs.labels):,} examples")
    if not options.peer_python:
        print("cleanlab skipped: --peer-python not given; using 1 - p(label) instead")
    for kind in ("uniform", "confused"):
        compare(runs, kind, options)


if __name__ == "__main__":
    main()
