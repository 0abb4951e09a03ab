"""Recommendations of the next model from 256 labelled examples of each candidate: predicted and true gains.

    .venv/bin/python tests/benchmarks/recommend.py                            # the shipped outputs on CIFAR-10
    .venv/bin/python tests/benchmarks/recommend.py --leave-out-categories     # categories that no known model has
    .venv/bin/python tests/benchmarks/recommend.py --leave-out-data           # training data that no known model has
    .venv/bin/python tests/benchmarks/recommend.py 'resnet*.cifar10' 'vit-mini-*.cifar10' --data cifar10:test
    .venv/bin/python tests/benchmarks/recommend.py --npz outputs.npz          # probabilities [M, N, K], labels, names

The bases are `--bases` single models, then as many greedy ensembles of three models. For each base, every other model is
the candidate once. A candidate is known on `--examples` rows only, which are drawn anew for each base; the outputs of all
other models are known on all rows.

Prints means over bases with 95% confidence intervals:

- Spearman's rho of predicted and true gain, and of rankings by accuracy, by disagreement with the base, and by the gain on
  the examples alone;
- the difference between the rho of predictions and of accuracy, paired by base;
- "chosen": the true gain of the recommended candidate as a fraction of the largest true gain;
- "inside": the fraction of true gains inside the predicted intervals.

Goals: rho 0.85, and at least 0.1 above accuracy and disagreement; chosen at least 0.9; inside 0.90 to 0.97.

With `--leave-out-categories`, all models of the candidate's category are removed from the known models. With
`--leave-out-data`, all models with the candidate's training data are removed, if the base has other training data. Both
print the fraction of true gains inside the intervals, by card and by examples. Goal: at least 0.90.
"""

import argparse
import warnings
from typing import Any

import numpy as np

import ensembles
import zoo
from diversity.categories import CATEGORIES, category
from zoo.errors import ZooWarning
from zoo.outputs import bundle
from zoo.outputs.outputs import Outputs, Runs


def read_runs(options: argparse.Namespace) -> Runs:
    """Return the calibrated probabilities of all models, in memory."""
    if options.npz:
        stored = np.load(options.npz)
        names = stored["names"] if "names" in stored else range(len(stored["probabilities"]))
        return Runs(
            Outputs.from_arrays(str(name), probabilities=p, labels=stored["labels"])
            for name, p in zip(names, stored["probabilities"], strict=True)
        )
    if options.models:
        found = zoo.calibrate(zoo.run(options.models, data=options.data), options.temperatures_from).aligned()
    else:
        found = zoo.calibrate(bundle.study("cifar10:test"), options.temperatures_from or 0.5).aligned()
    return Runs(
        Outputs.from_arrays(
            one.name, probabilities=np.asarray(one.probabilities), labels=found.labels, ids=one.ids, classes=one.classes,
            card=one.card, dataset=one.dataset,
        )
        for one in found.values()
    )  # fmt: skip


def rank_correlation(a: Any, b: Any) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)


def true_gains(p: dict[str, np.ndarray], base: list[str], labels: np.ndarray) -> dict[str, float]:
    """Return the gain of each model that is not in the base, on all examples."""
    total = sum(p[name] for name in base)
    alone = (total.argmax(1) == labels).mean()
    return {name: float(((total + one).argmax(1) == labels).mean() - alone) for name, one in p.items() if name not in base}


def evaluate(runs: Runs, p: dict[str, np.ndarray], base: list[str], examples: int, seed: int) -> dict[str, float]:
    """Return the measures of one base, with every other model left out once."""
    labels, rng = runs.labels, np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(labels), min(examples, len(labels)), replace=False))
    total = sum(p[name] for name in base)
    base_predictions = total.argmax(1)
    gains = true_gains(p, base, labels)
    candidates, true = list(gains), np.array(list(gains.values()))
    predictions = np.stack([p[name].argmax(1) for name in candidates])
    joint_correct = np.stack([(total + p[name])[rows].argmax(1) == labels[rows] for name in candidates])
    few = runs.select(rows)
    predicted = [ensembles.recommend(runs, few[name], base=base, use_shipped=False).table.iloc[0] for name in candidates]
    gain = np.array([row["gain"] for row in predicted])
    inside = [row["low"] <= t <= row["high"] for row, t in zip(predicted, true, strict=True)]
    accuracy = (predictions == labels)[:, rows].mean(1)
    ours, by_accuracy = rank_correlation(gain, true), rank_correlation(accuracy, true)
    return {
        "ours": ours,
        "accuracy": by_accuracy,
        "ours minus accuracy": ours - by_accuracy,
        "disagreement": rank_correlation((predictions != base_predictions)[:, rows].mean(1), true),
        "gain on the examples": rank_correlation(joint_correct.mean(1), true),
        "accuracy, all rows": rank_correlation((predictions == labels).mean(1), true),
        "disagreement, all rows": rank_correlation((predictions != base_predictions).mean(1), true),
        "chosen": float(true[gain.argmax()] / true.max()) if true.max() > 0 else float("nan"),
        "chosen by accuracy": float(true[accuracy.argmax()] / true.max()) if true.max() > 0 else float("nan"),
        "inside": float(np.mean(inside)),
    }


def leave_out_data(runs: Runs, p: dict[str, np.ndarray], base: list[str], examples: int, seed: int) -> dict[str, float]:
    """Return the fraction of true gains inside the intervals when no known model has the candidates' training data."""
    of_base = {runs[name].card.dataset for name in base}
    data = {name: one.card.dataset for name, one in runs.items() if name not in base}
    return leave_out(runs, p, base, examples, seed, {name: None if one in of_base else one for name, one in data.items()})


def leave_out_categories(
    runs: Runs, p: dict[str, np.ndarray], base: list[str], examples: int, seed: int
) -> dict[str, float]:
    """Return the fraction of true gains inside the intervals when no known model is of the candidates' category."""
    found = {name: [category(runs[member].card, runs[name].card) for member in base] for name in runs if name not in base}
    kinds = {name: min((one for one in each if one), key=CATEGORIES.index, default=None) for name, each in found.items()}
    return leave_out(runs, p, base, examples, seed, kinds)


def leave_out(
    runs: Runs, p: dict[str, np.ndarray], base: list[str], examples: int, seed: int, kinds: dict[str, str | None]
) -> dict[str, float]:
    """Return the fraction of true gains inside the intervals, leaving out one kind of model at a time."""
    gains = true_gains(p, base, runs.labels)
    rng = np.random.default_rng(seed)
    few = runs.select(np.sort(rng.choice(len(runs.labels), min(examples, len(runs.labels)), replace=False)))
    inside: dict[str, list[bool]] = {"inside, by card": [], "inside, by examples": []}
    for left_out in set(kinds.values()) - {None}:
        known = runs.subset([*base, *(name for name, kind in kinds.items() if kind != left_out)])
        names = [name for name, kind in kinds.items() if kind == left_out]
        evidence = [runs[name].card for name in names], [few[name] for name in names]
        for title, candidates in zip(inside, evidence, strict=True):
            table = ensembles.recommend(known, candidates, base=base, use_shipped=False).table
            inside[title] += [row["low"] <= gains[row["model"]] <= row["high"] for _, row in table.iterrows()]
    return {title: float(np.mean(each)) for title, each in inside.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: the models whose outputs on CIFAR-10 are shipped")
    parser.add_argument("--data")
    parser.add_argument("--temperatures-from", help="as in zoo.calibrate")
    parser.add_argument("--npz")
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--bases", type=int, default=10)
    parser.add_argument("--leave-out-categories", action="store_true")
    parser.add_argument("--leave-out-data", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ZooWarning)
    runs = read_runs(options)
    p = {name: np.asarray(one.probabilities, np.float64) for name, one in runs.items()}
    rng = np.random.default_rng(options.seed)
    starts = rng.choice(runs.names, min(options.bases, len(runs)), replace=False).tolist()
    threes = [list(map(str, ensembles.greedy(runs, base=name, steps=2, test_fraction=0).members)) for name in starts]
    print(f"{len(runs)} models, {len(runs.labels)} examples, {options.examples} of each candidate")
    measure = (
        leave_out_categories if options.leave_out_categories else leave_out_data if options.leave_out_data else evaluate
    )
    for title, bases in {"one model": [[name] for name in starts], "greedy ensembles of three": threes}.items():
        found = [measure(runs, p, base, options.examples, options.seed + number) for number, base in enumerate(bases)]
        print(f"base: {title}, {len(bases)} bases")
        report(found)


def report(found: list[dict[str, float]]) -> None:
    """Print means over bases, their confidence intervals, and the goals."""
    for name in found[0]:
        values = np.array([one[name] for one in found])
        values = values[~np.isnan(values)]
        half = 1.96 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        print(f"  {name:26} {values.mean():6.3f}  [{values.mean() - half:6.3f}, {values.mean() + half:6.3f}]")
    mean = {name: np.nanmean([one[name] for one in found]) for name in found[0]}
    goals = {f"{name} {each:.3f}, goal 0.90": each >= 0.9 for name, each in mean.items() if name.startswith("inside, by")}
    if "ours" in mean:
        lead = mean["ours"] - max(mean["accuracy"], mean["disagreement"])
        goals = {
            f"rho {mean['ours']:.3f}, goal 0.85": mean["ours"] >= 0.85,
            f"lead {lead:+.3f}, goal +0.1": lead >= 0.1,
            f"chosen {mean['chosen']:.3f}, goal 0.9": mean["chosen"] >= 0.9,
            f"inside {mean['inside']:.3f}, goal 0.90 to 0.97": 0.90 <= mean["inside"] <= 0.97,
        }
    for goal, met in goals.items():
        print(f"  {'met   ' if met else 'MISSED'} {goal}")


if __name__ == "__main__":
    main()
