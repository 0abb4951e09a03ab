"""Which model next, from 256 labelled examples of each: predicted against true gains, one model left out at a time.

    .venv/bin/python tests/benchmarks/recommend.py 'resnet*.cifar10' 'vit-mini-*.cifar10' --data cifar10:test
    .venv/bin/python tests/benchmarks/recommend.py --npz outputs.npz         # probabilities [M, N, K], labels [N], names [M]

Models are given by name or pattern (run, or already stored or imported: a file of `zoo export` goes through `zoo import`
first). Each of `--bases` models in turn is the base, then each of as many greedy ensembles of three; every other model
is the candidate once, known on `--examples` rows that are drawn anew for each base, while all others are known in full.
Means over bases with their 95% intervals: Spearman's rho of predicted and true gain, beside those of the candidate's
accuracy and of its disagreement with the base, on the same examples and on all, and of the gain on the examples alone; the
true gain of the pick over that of the best; and the share of true gains inside the intervals. Bars: rho 0.85 as the goal,
and at least 0.1 above "most accurate" and "most different"; the pick 0.9; intervals 0.90 to 0.97.
"""

import argparse
import warnings
from typing import Any

import numpy as np

import ensembles
import zoo
from zoo.errors import ZooWarning
from zoo.outputs.outputs import Outputs, Runs


def given_runs(options: argparse.Namespace) -> Runs:
    """Calibrated probabilities of all models on the rows reported, in memory."""
    if options.npz:
        stored = np.load(options.npz)
        names = stored["names"] if "names" in stored else range(len(stored["probabilities"]))
        return Runs(
            Outputs.from_arrays(str(name), probabilities=p, labels=stored["labels"])
            for name, p in zip(names, stored["probabilities"], strict=True)
        )
    found = zoo.calibrate(zoo.run(options.names, data=options.data), options.split).aligned()
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


def judge(runs: Runs, base: list[str], examples: int, seed: int) -> dict[str, float]:
    """One base: every other model left out once."""
    labels, rng = runs.labels, np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(labels), min(examples, len(labels)), replace=False))
    p = {name: np.asarray(one.probabilities, np.float64) for name, one in runs.items()}
    together = sum(p[name] for name in base)
    answers, alone = together.argmax(1), together.argmax(1) == labels
    candidates = [name for name in runs if name not in base]
    after = np.stack([(together + p[name]).argmax(1) == labels for name in candidates])
    theirs = np.stack([p[name].argmax(1) for name in candidates])
    true = after.mean(1) - alone.mean()
    few = runs.select(rows)
    predicted = [ensembles.recommend(runs, few[name], base=base).table.iloc[0] for name in candidates]
    gain = np.array([row["gain"] for row in predicted])
    inside = [row["low"] <= t <= row["high"] for row, t in zip(predicted, true, strict=True)]
    return {
        "ours": rank_correlation(gain, true),
        "most accurate": rank_correlation((theirs == labels)[:, rows].mean(1), true),
        "most different": rank_correlation((theirs != answers)[:, rows].mean(1), true),
        "gain on them": rank_correlation(after[:, rows].mean(1), true),
        "most accurate, all rows": rank_correlation((theirs == labels).mean(1), true),
        "most different, all rows": rank_correlation((theirs != answers).mean(1), true),
        "pick": float(true[gain.argmax()] / true.max()) if true.max() > 0 else float("nan"),
        "pick of most accurate": float(true[(theirs == labels)[:, rows].mean(1).argmax()] / max(true.max(), 1e-9)),
        "inside": float(np.mean(inside)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--data")
    parser.add_argument("--split", help="where temperatures come from, as in zoo.calibrate")
    parser.add_argument("--npz")
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--bases", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ZooWarning)
    runs = given_runs(options)
    rng = np.random.default_rng(options.seed)
    starts = rng.choice(runs.names, min(options.bases, len(runs)), replace=False).tolist()
    threes = [list(map(str, ensembles.greedy(runs, base=name, steps=2, test_fraction=0).members)) for name in starts]
    print(f"{len(runs)} models, {len(runs.labels)} examples, {options.examples} of each candidate")
    for title, bases in {"one model": [[name] for name in starts], "greedy ensembles of three": threes}.items():
        found = [judge(runs, base, options.examples, options.seed + number) for number, base in enumerate(bases)]
        print(f"base: {title}, {len(bases)} of them")
        report(found)


def report(found: list[dict[str, float]]) -> None:
    """Means over bases, their intervals, and the bars."""
    for name in found[0]:
        values = np.array([one[name] for one in found])
        values = values[~np.isnan(values)]
        half = 1.96 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        print(f"  {name:26} {values.mean():6.3f}  [{values.mean() - half:6.3f}, {values.mean() + half:6.3f}]")
    mean = {name: np.nanmean([one[name] for one in found]) for name in found[0]}
    lead = mean["ours"] - max(mean["most accurate"], mean["most different"])
    for bar, met in {
        f"rho {mean['ours']:.3f}, goal 0.85": mean["ours"] >= 0.85,
        f"lead {lead:+.3f}, required +0.1": lead >= 0.1,
        f"pick {mean['pick']:.3f}, required 0.9": mean["pick"] >= 0.9,
        f"inside {mean['inside']:.3f}, required 0.90 to 0.97": 0.90 <= mean["inside"] <= 0.97,
    }.items():
        print(f"  {'met   ' if met else 'MISSED'} {bar}")


if __name__ == "__main__":
    main()
