"""Accuracy without labels on corrupted images: how far off are agreement, average confidence and ATC?

    ZOO_DATA=data python tests/benchmarks/without_labels.py '*.cifar10' --data cifar10:test
    python tests/benchmarks/without_labels.py 'resnet8-*' --data digits:test --corruptions noise1 blur1 jpeg5

Runs the models (or reads their stored outputs) on the dataset and on it under each corruption. A split draws half of the
examples, with labels and clean; the other half are corrupted and without labels. The mean absolute error over models is
printed in points with its standard error over splits, for ALine-D (ours), ALine-S, average confidence at a temperature
fitted on the labelled half, ATC, and the accuracy on the labelled half taken as it is. `covers` is the share of models whose
true accuracy lies in its 95% interval. Bars, over the cases where an answer is given: ours <= 2 points, and below average
confidence's in every one.
"""

import argparse

import numpy as np

import zoo
from diversity import UnlabelledAccuracy, accuracy_without_labels
from zoo.datasets import corruptions

BAR = 2.0
ESTIMATES = {
    "accuracy": "ours", "on_line": "ALine-S", "average_confidence": "confidence", "atc": "ATC",
    "source_accuracy": "unchanged",
}  # fmt: skip


def splits(rows: int, count: int) -> list[np.ndarray]:
    """Masks of the labelled half."""
    found = []
    for seed in range(count):
        mask = np.zeros(rows, bool)
        mask[np.random.default_rng(seed).permutation(rows)[: rows // 2]] = True
        found.append(mask)
    return found


def errors(found: UnlabelledAccuracy, truth: zoo.Runs) -> tuple[dict[str, float], float]:
    """Mean absolute errors in points by estimate, and the share of intervals that hold the truth."""
    true = np.array([truth[name].accuracy for name in found.frame["model"]])
    off = {name: 100 * float((found.frame[name] - true).abs().mean()) for name in ESTIMATES}
    return off, float(((found.frame["low"] <= true) & (true <= found.frame["high"])).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names or patterns")
    parser.add_argument("--data", default="cifar10:test")
    parser.add_argument("--corruptions", nargs="*", default=corruptions.every())
    parser.add_argument("--shifts", nargs="*", default=[], help="other datasets of the same classes and labels")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--min-r2", type=float, default=None)
    options = parser.parse_args()
    strict = {} if options.min_r2 is None else {"min_r2": options.min_r2}

    clean = zoo.run(options.models, data=options.data).aligned()
    accuracies = [outputs.accuracy for outputs in clean.values()]
    rows = len(clean.labels)
    print(f"{len(clean)} models, {min(accuracies):.3f} to {max(accuracies):.3f} on {rows:,} examples of {options.data}")
    print(
        f"{'':28}{'true':>7}{'R^2':>7}{'answers':>9}" + "".join(f"{title:>16}" for title in ESTIMATES.values()) + "  covers"
    )
    answered, covered, worse = [], [], []
    for spec in [*(f"{options.data}~{word}" for word in options.corruptions), *options.shifts]:
        new = zoo.run(options.models, data=spec).aligned()
        cases = []
        for mask in splits(rows, options.splits):
            # A shift of other examples is split by itself.
            other = ~mask if np.array_equal(new[new.names[0]].ids, clean[clean.names[0]].ids) else slice(None)
            unlabelled = new.select(other)
            found = accuracy_without_labels(unlabelled, clean.select(mask), **strict)
            cases.append((found, *errors(found, unlabelled)))
        given = [case for case in cases if case[0].refusal is None]
        true = np.mean([outputs.accuracy for outputs in new.values()])
        line = f"{spec:28}{true:7.3f}{np.mean([case[0].r2 for case in cases]):7.3f}{len(given):6}/{len(cases)}"
        for name in ESTIMATES:
            values = np.array([case[1][name] for case in (given or cases)])
            error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
            line += f"{'–' if np.isnan(values).all() else f'{values.mean():.2f} +- {error:.2f}':>16}"
        print(line + (f"{np.mean([case[2] for case in given]):8.2f}" if given else "       –"), flush=True)
        if given:
            means = {name: np.mean([case[1][name] for case in given]) for name in ESTIMATES}
            answered.append(means)
            covered.append(np.mean([case[2] for case in given]))
            worse += [spec] * bool(means["accuracy"] >= means["average_confidence"])
    if not answered:
        print("no answer was given anywhere: no agreements lie on a line")
        return
    total = {title: np.mean([means[name] for means in answered]) for name, title in ESTIMATES.items()}
    spread = (
        np.std([means["accuracy"] for means in answered], ddof=1) / len(answered) ** 0.5 if len(answered) > 1 else np.nan
    )
    print(f"\nover the {len(answered)} datasets with an answer: " + ", ".join(f"{k} {v:.2f}" for k, v in total.items()))
    print(
        f"ours {total['ours']:.2f} +- {spread:.2f} points (bar: {BAR}), intervals cover {np.mean(covered):.2f} (asked: 0.95)"
    )
    print(f"not below average confidence: {', '.join(worse) or 'nowhere'} (bar: nowhere)")


if __name__ == "__main__":
    main()
