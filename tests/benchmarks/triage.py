"""Wrong labels found: ours against cleanlab's confident learning, on the same probabilities.

    ZOO_DATA=data python tests/benchmarks/triage.py '*.cifar10' --data cifar10:test --peer-python /tmp/peers/bin/python
    python tests/benchmarks/triage.py outputs.npz --peer-python /tmp/peers/bin/python

Models are names or patterns, run on --data or read from the store, or a file or folder that `zoo import` takes. Of the
labels a share is flipped, to any other class (uniform) or to the class that the models' mean most often takes it for
(confused); the examples must not have been trained on. Printed with standard errors over seeds: precision among the first
K, with K = 500 or the number of flips, and average precision, of ours, of cleanlab with the models' mean, as they are and
at temperatures, and with the most accurate single model. Of cleanlab the best of its scores counts in every case:
self-confidence, normalized margin, confidence-weighted entropy, its scores for several models, and its list of issues
first. cleanlab lives in an environment of its own (`python -m venv /tmp/peers && /tmp/peers/bin/pip install cleanlab`);
without it, its self-confidence, which is 1 - p(label), stands in. Bars: both figures above cleanlab's on the mean, and at
most half of the false alarms among the first K of cleanlab's with the best single model. Labels that were wrong before
count as false alarms.
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
answers = []
with np.load(sys.argv[1]) as given:
    for case in range(len(given.files) // 2):
        probs, labels = given[f"probs{case}"].astype(float), given[f"labels{case}"]
        probs /= probs.sum(-1, keepdims=True)
        if probs.ndim == 3:
            found = {"ensemble scores": get_label_quality_ensemble_scores(labels, list(probs), verbose=False)}
        else:
            found = {method: get_label_quality_scores(labels, probs, method=method) for method in METHODS}
            found["issues first"] = found["self_confidence"] - 2 * find_label_issues(labels, probs, n_jobs=1)
        answers.append({name: (-np.asarray(scores)).tolist() for name, scores in found.items()})
print(json.dumps(answers))
"""


def flipped(labels: np.ndarray, mean: np.ndarray, kind: str, share: float, seed: int) -> np.ndarray:
    """The labels with a share of them wrong."""
    rng = np.random.default_rng(seed)
    classes = mean.shape[1]
    rows = rng.choice(len(labels), round(share * len(labels)), replace=False)
    given = labels.copy()
    if kind == "uniform":
        given[rows] = (labels[rows] + rng.integers(1, classes, len(rows))) % classes
    else:
        taken_for = np.zeros((classes, classes))
        np.add.at(taken_for, (labels, mean.argmax(1)), 1)
        taken_for[np.diag_indices(classes)] = -1
        given[rows] = taken_for.argmax(1)[labels[rows]]
    return given


def peer(python: str | None, cases: list[tuple[np.ndarray, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """For each case of probabilities [N, K] or [M, N, K] and labels [N] the peer's scores [N] by method, higher if wrong."""
    if python is None:
        return [{} if p.ndim == 3 else {"1 - p(label)": -p[np.arange(len(y)), y]} for p, y in cases]
    with tempfile.TemporaryDirectory() as folder:
        named = {f"{what}{i}": array for i, pair in enumerate(cases) for what, array in zip(PARTS, pair, strict=True)}
        np.savez(f"{folder}/cases.npz", **named)
        command = [python, "-W", "ignore", "-c", PEER, f"{folder}/cases.npz"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cleanlab failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    answers = json.loads(done.stdout.strip().splitlines()[-1])
    return [{name: np.array(scores) for name, scores in answer.items()} for answer in answers]


def judged(scores: np.ndarray, wrong: np.ndarray, first: int) -> tuple[float, float]:
    """Precision among the first, and average precision."""
    order = np.argsort(-scores, kind="stable")
    return float(wrong[order[:first]].mean()), float(average_precision_score(wrong, scores))


def shown(name: str, values: list[tuple[float, float]], note: str = "") -> None:
    table = np.array(values)
    error = table.std(0, ddof=1) / len(table) ** 0.5 if len(table) > 1 else np.full(2, np.nan)
    mean = table.mean(0)
    print(f"  {name:38}{mean[0]:8.4f} +- {error[0]:.4f}{mean[1]:10.4f} +- {error[1]:.4f}   {note}", flush=True)


def best(values: dict[str, list[tuple[float, float]]]) -> tuple[str, list[tuple[float, float]]]:
    """The best of the peer's methods, by average precision plus precision."""
    name = max(values, key=lambda method: float(np.mean(values[method])))
    return name, values[name]


def compare(runs: Runs, kind: str, options: argparse.Namespace) -> None:
    labels = runs.labels
    probs = np.stack([np.asarray(outputs.probabilities, np.float64) for outputs in runs.values()])
    mean = probs.mean(0)
    single = int(np.argmax([outputs.accuracy for outputs in runs.values()]))
    found: dict[str, dict[str, list[tuple[float, float]]]] = {"mean": {}, "calibrated mean": {}, "single": {}}
    ours, cases, about = [], [], []
    for seed in range(options.seeds):
        given = flipped(labels, mean, kind, options.share, seed)
        wrong = given != labels
        first = min(500, int(wrong.sum()))
        result = triage(runs, given)
        frame = result.frame.set_index("id").loc[runs[runs.names[0]].ids]
        ours.append(judged(frame["log_odds"].to_numpy(), wrong, first))
        hot = [np.maximum(p, 1e-6) ** fit_inverse_temperature(p, given) for p in probs]
        calibrated = np.mean([p / p.sum(1, keepdims=True) for p in hot], 0)
        cases += [(values, given) for values in (mean, probs, calibrated, probs[single])]
        about += [(name, wrong) for name in ("mean", "mean", "calibrated mean", "single")]
    for (name, wrong), answer in zip(about, peer(options.peer_python, cases), strict=True):
        for method, scores in answer.items():
            found[name].setdefault(method, []).append(judged(scores, wrong, first))
    print(f"\n{kind}: {first} of {len(labels):,} labels flipped, {options.seeds} seeds")
    print(f"  {'':38}{f'precision@{first}':>18}{'average precision':>20}")
    shown("ours", ours)
    lines = {}
    for name, methods in found.items():
        method, values = best(methods)
        who = f"cleanlab, {runs.names[single] if name == 'single' else name}"
        shown(who[:37], values, method)
        lines[name] = np.mean(values, 0)
    mine = np.mean(ours, 0)
    above = all(mine[i] > lines[name][i] for i in (0, 1) for name in ("mean", "calibrated mean"))
    alarms = (1 - mine[0]) * first, (1 - lines["single"][0]) * first
    print(f"  above cleanlab on the mean in both: {'yes' if above else 'no'} (bar: yes)")
    print(f"  false alarms among the first {first}: {alarms[0]:.1f} against {alarms[1]:.1f} of the best single model: "
          f"{alarms[0] / max(alarms[1], 1e-9):.2f} (bar: 0.5)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names, patterns, or one file or folder of outputs")
    parser.add_argument("--data", default="cifar10:test")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer-python", help="an interpreter that has cleanlab")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.errors.ZooWarning)
        is_file = len(options.models) == 1 and Path(options.models[0]).exists()
        runs = zoo.import_outputs(options.models[0]) if is_file else zoo.run(options.models, data=options.data)
    runs = runs.aligned()
    accuracies = [outputs.accuracy for outputs in runs.values()]
    print(f"{len(runs)} models, {min(accuracies):.3f} to {max(accuracies):.3f} on {len(runs.labels):,} examples")
    if not options.peer_python:
        print("cleanlab is left out: --peer-python was not given; 1 - p(label) stands in")
    for kind in ("uniform", "confused"):
        compare(runs, kind, options)


if __name__ == "__main__":
    main()
