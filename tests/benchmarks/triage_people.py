"""Rankings of labels by how likely they are wrong, evaluated with human labels: CIFAR-10H (Peterson et al. 2019).

    python tests/benchmarks/triage_people.py cifar10h-counts.npy

The file has the counts [10000, 10] of about 50 human labels per test image of CIFAR-10
(https://github.com/jcpeterson/cifar-10h). A label counts as wrong if most people chose another class. Models are names or
patterns whose outputs on --data are shipped, stored or can be computed.

Prints for each ranking its average precision, the number of wrong labels among the first 100, the differences in average
precision from 1 - mean p and from `ours`, and the rank correlation with the entropy of the human labels. Differences have
95% confidence intervals from a bootstrap over images, with the same resamples for all rankings.

Rankings: the log-odds of `diversity.triage` (`ours`); its `margin`; the margin of the mean of all models, which is
cleanlab's normalized margin; 1 - mean p of all models and of the accurate ones, which is cleanlab's self-confidence; the
fraction of models that predict another class; and 1 - p of the most accurate single model. --flips adds the average
precision on labels that were flipped.

Also prints how `triage` classifies the images whose label people contradict, and how often the confidence interval from a
random sample of --checks checked labels covers the number of wrong labels, over 2,000 samples.
"""

import argparse
import warnings

import numpy as np
from scipy.stats import rankdata

import zoo
from diversity import triage
from diversity.label_checks import count_wrong_labels
from diversity.label_triage import MARGIN_BAND, margins
from zoo.outputs.outputs import Runs

FIRST = 100
ACCURATE = "1 - mean p, accurate models"
SAMPLES = 2000


def rankings(runs: Runs, labels: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the scores [N] of each ranking, higher if more suspicious, and the kinds [N] that triage assigns."""
    rows = np.arange(len(labels))
    probs = np.stack([np.asarray(outputs.probabilities, np.float64) for outputs in runs.values()])
    predicted = probs.argmax(2)
    accuracy = (predicted == labels).mean(1)
    accurate = accuracy >= accuracy.max() - MARGIN_BAND
    best = int(accuracy.argmax())
    frame = triage(runs, labels).frame.set_index("id").loc[next(iter(runs.values())).ids]
    scores = {
        "1 - mean p": 1 - probs.mean(0)[rows, labels],
        "ours": frame["log_odds"].to_numpy(),
        "margin": frame["margin"].to_numpy(),
        "margin, all models": margins(probs.mean(0), labels),
        ACCURATE: 1 - probs[accurate].mean(0)[rows, labels],
        "votes against": (predicted != labels).mean(0),
        f"1 - p, {runs.names[best]}": 1 - probs[best, rows, labels],
    }
    return scores, frame["kind"].to_numpy()


def average_precision(score: np.ndarray, wrong: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the average precision of a ranking for each row of weights [R, N]; tied scores share one threshold."""
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    seen = weights[:, order].cumsum(1)[:, last]
    hits = (weights * wrong)[:, order].cumsum(1)[:, last]
    precision = hits / np.maximum(seen, 1)
    return (np.diff(hits, axis=1, prepend=0) * precision).sum(1) / hits[:, -1]


def resampled_precision(scores: dict[str, np.ndarray], wrong: np.ndarray, resamples: int) -> dict[str, np.ndarray]:
    """Return average precisions [1 + resamples] of each ranking: on all examples, then on resamples shared by all."""
    rng = np.random.default_rng(0)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in scores}
    for start in range(0, resamples + 1, 50):
        drawn = [
            rng.multinomial(len(wrong), np.full(len(wrong), 1 / len(wrong))) for _ in range(min(50, resamples + 1 - start))
        ]
        weights = np.array(drawn, np.float64)
        if start == 0:
            weights[0] = 1
        for name, score in scores.items():
            parts[name].append(average_precision(score, wrong, weights))
    return {name: np.concatenate(values) for name, values in parts.items()}


def interval_text(values: np.ndarray) -> str:
    low, high = np.quantile(values, [0.025, 0.975])
    return f"{low:+.4f} to {high:+.4f}"


def show(scores: dict[str, np.ndarray], wrong: np.ndarray, entropy: np.ndarray | None, resamples: int) -> None:
    found = resampled_precision(scores, wrong, resamples)
    plain, ours = found["1 - mean p"], found["ours"]
    print(f"  {'':34}{'AP':>8}{'first 100':>11}  {'minus 1 - mean p':>28}  {'minus ours':>28}{'entropy':>9}")
    for name, values in found.items():
        first = int(wrong[np.argsort(-scores[name], kind="stable")[:FIRST]].sum())
        leads = [f"{values[0] - base[0]:+.4f} ({interval_text(values[1:] - base[1:])})" for base in (plain, ours)]
        correlation = "" if entropy is None else f"{np.corrcoef(rankdata(scores[name]), rankdata(entropy))[0, 1]:9.3f}"
        print(f"  {name[:33]:34}{values[0]:8.4f}{first:11}  {leads[0]:>28}  {leads[1]:>28}{correlation}", flush=True)
    margin, same = found["margin"], found[ACCURATE]
    print(
        f"  margin minus 1 - mean p of the same models: {margin[0] - same[0]:+.4f} ({interval_text(margin[1:] - same[1:])})",
        flush=True,
    )


def flip_labels(labels: np.ndarray, mean: np.ndarray, kind: str) -> np.ndarray:
    """Return the labels with 5% flipped, to a random other class or the class most often confused with the true one."""
    rng = np.random.default_rng(0)
    classes = mean.shape[1]
    rows = rng.choice(len(labels), len(labels) // 20, replace=False)
    noisy = labels.copy()
    if kind == "uniform":
        noisy[rows] = (labels[rows] + rng.integers(1, classes, len(rows))) % classes
        return noisy
    confusion = np.zeros((classes, classes))
    np.add.at(confusion, (labels, mean.argmax(1)), 1)
    np.fill_diagonal(confusion, -1)
    noisy[rows] = confusion.argmax(1)[labels[rows]]
    return noisy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("people", help="cifar10h-counts.npy")
    parser.add_argument("models", nargs="*", default=["@cifar10"], help="names, patterns or named sets")
    parser.add_argument("--data", default="cifar10:test")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--checks", type=int, default=400)
    parser.add_argument("--flips", action="store_true", help="also evaluate on flipped labels")
    options = parser.parse_args()
    counts = np.load(options.people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.errors.ZooWarning)
        runs = zoo.run(options.models, data=options.data).aligned()
    labels = runs.labels
    if counts.shape != (len(labels), len(next(iter(runs.values())).classes)):
        raise SystemExit(
            f"{options.people} has shape {counts.shape}, which does not match the {len(labels)} examples of {options.data}"
        )
    rows = np.array(next(iter(runs.values())).ids, int)  # ids are the indices of the test images
    fractions = counts[rows] / counts[rows].sum(1, keepdims=True)
    wrong = fractions.argmax(1) != labels
    entropy = -(fractions * np.log(np.where(fractions > 0, fractions, 1))).sum(1)
    print(f"{len(runs)} models; most people contradict {wrong.sum()} of {len(labels):,} labels")
    scores, kinds = rankings(runs, labels)
    show(scores, wrong, entropy, options.resamples)
    counts_by_kind = {name: int((kinds[wrong] == name).sum()) for name in dict.fromkeys(kinds)}
    print(f"  kinds of the {wrong.sum()} images: {', '.join(f'{number} {name}' for name, number in counts_by_kind.items())}")
    rng = np.random.default_rng(0)
    total, covered = int(wrong.sum()), 0
    by_count = {
        k: count_wrong_labels(k, options.checks, len(labels)).interval for k in range(min(total, options.checks, 40) + 1)
    }
    for _ in range(SAMPLES):
        low, high = by_count[int(wrong[rng.choice(len(labels), options.checks, replace=False)].sum())]
        covered += low <= total <= high
    coverage = f"{covered / SAMPLES:.1%} of {SAMPLES:,} samples"
    print(f"  intervals from {options.checks} checked labels cover the true number, {total}, in {coverage}")
    if options.flips:
        mean = np.mean([np.asarray(outputs.probabilities, np.float64) for outputs in runs.values()], 0)
        for kind in ("uniform", "confused"):
            noisy = flip_labels(labels, mean, kind)
            print(f"\n5% of the labels flipped, {kind}")
            show(rankings(runs, noisy)[0], noisy != labels, None, options.resamples)


if __name__ == "__main__":
    main()
