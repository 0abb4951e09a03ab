"""Errors of networks compared with errors of people, whose labels are imported like the outputs of a model.

    python tests/benchmarks/people.py --labels cifar10h-probs.npy --decisions model-vs-human/

--labels: distributions [10000, 10] of human labels of the CIFAR-10 test images (https://github.com/jcpeterson/cifar-10h).
--decisions: a folder with one folder per test set, each with one .csv file per observer, either a network or a person
(https://github.com/bethgelab/model-vs-human, raw-data).

For CIFAR-10, prints on how many images most networks and most people disagree, and how the accuracy of networks falls with
human uncertainty. For each test set, prints the mean error consistency (Cohen's kappa of correctness) of networks with
people, of people with each other, and of networks with each other. Kappa is computed in each condition and averaged.
Intervals are 95% confidence intervals from a bootstrap over images within each condition.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

import zoo
from zoo.outputs.outputs import Runs

# Matches the part of a file name after the trial and the observer, which identifies the image.
ID_PATTERN = r"(?:.*_(?:dnn|s\d\d)_(?:0_.*_00_)?)?(.+)"
RESAMPLES = 500


def show_labels(file: Path, models: list[str]) -> None:
    people = zoo.import_outputs(file, name="people", data="cifar10:test")["people"]
    runs = Runs([*zoo.run(models, data="cifar10:test").values(), people]).aligned()
    labels = runs.labels
    networks = [name for name in runs if name != "people"]
    correct = np.stack([runs[name].predictions == labels for name in networks])
    human = runs["people"].predictions == labels
    fraction = correct.mean(0)
    print(f"CIFAR-10, {len(networks)} networks, {len(labels):,} images")
    print(f"  accuracy: majority of people {human.mean():.2%}, best network {correct.mean(1).max():.2%}")
    print(f"  most people correct, all networks wrong: {(human & (fraction == 0)).sum()}")
    print(f"  most people correct, most networks wrong: {(human & (fraction < 0.5)).sum()}")
    print(f"  most people wrong, most networks correct: {(~human & (fraction > 0.5)).sum()} of {(~human).sum()}")
    p = np.asarray(runs["people"].probabilities, np.float64)
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(1)
    found = spearmanr(entropy, 1 - fraction)
    draws = []
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = rng.integers(0, len(labels), len(labels))
        draws.append(spearmanr(entropy[rows], fraction[rows]).statistic)
    low, high = -np.percentile(draws, [97.5, 2.5])
    interval = f"{found.statistic:.3f} ({low:.3f} to {high:.3f})"
    print(f"  rank correlation of the entropy of human labels and the error rate of networks {interval}")
    agreement = p.max(1)
    for lowest, highest in ((1, 1), (0.9, 1), (0.7, 0.9), (0, 0.7)):
        rows = (agreement >= lowest) & ((agreement < highest) | (lowest == highest))
        name = "all people agree" if lowest == highest else f"{lowest:.0%} to {highest:.0%} agree"
        accuracy = f"networks {fraction[rows].mean():.1%}, people {human[rows].mean():.1%}"
        print(f"  {name:18}{rows.sum():6,} images, accuracy: {accuracy}")
    classes = runs["people"].classes
    confusion = np.mean([np.histogram2d(labels, runs[name].predictions, bins=len(classes))[0] for name in networks], 0)
    confusion -= np.histogram2d(labels, runs["people"].predictions, bins=len(classes))[0]
    np.fill_diagonal(confusion, 0)
    pairs = np.dstack(np.unravel_index(np.argsort(-confusion, axis=None)[:4], confusion.shape))[0]
    confused = ", ".join(f"{classes[a]} as {classes[b]} {confusion[a, b]:.0f}" for a, b in pairs)
    print(f"  classes that networks confuse more often than people, additional images per network: {confused}")


def kappa(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return Cohen's kappa [R, A, B] of correctness [A, N] and [B, N] for weights [R, N] of the examples."""
    total = weights.sum(1)[:, None, None]
    both = np.einsum("rn,an,bn->rab", weights, first, second, optimize=True) / total
    a, b = ((weights @ one.T / total[:, :, 0]) for one in (first, second))
    agree = 1 - a[:, :, None] - b[:, None, :] + 2 * both
    chance = a[:, :, None] * b[:, None, :] + (1 - a[:, :, None]) * (1 - b[:, None, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        return (agree - chance) / (1 - chance)


def show_decisions(folder: Path) -> None:
    for test_set in sorted(path for path in folder.iterdir() if path.is_dir()):
        runs = zoo.import_outputs(
            test_set, data=f"people-{test_set.name}", columns={"labels": "category"}, id_pattern=ID_PATTERN
        ).aligned()
        correct = {name: (outputs.predictions == runs.labels).astype(np.float64) for name, outputs in runs.items()}
        subjects = [name for name in correct if name.startswith("subject")]
        groups = [name for name in correct if name not in subjects], subjects
        networks, people = (np.stack([correct[name] for name in group]) for group in groups)
        table = pd.read_csv(sorted(test_set.glob("*subject*.csv"))[0])
        conditions = dict(zip(table["imagename"].str.extract(f"^{ID_PATTERN}$")[0], table["condition"], strict=True))
        condition = np.array([str(conditions[row_id]) for row_id in next(iter(runs.values())).ids])
        rng, parts = np.random.default_rng(0), []
        for one in np.unique(condition):
            rows = condition == one
            count = int(rows.sum())
            weights = np.vstack([np.ones(count), rng.multinomial(count, np.full(count, 1 / count), RESAMPLES)])
            parts.append([kappa(a[:, rows], b[:, rows], weights) for a, b in
                          ((networks, people), (people, people), (networks, networks))])  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # no kappa where two observers make no error
            cross, human, alike = (np.nanmean([part[number] for part in parts], 0) for number in range(3))
        upper = [np.triu_indices(matrix.shape[1], 1) for matrix in (human, alike)]
        print(f"{test_set.name}: {len(condition):,} images, {len(parts)} conditions, {len(people)} people")
        rows = {
            "people with each other": np.nanmean(human[:, upper[0][0], upper[0][1]], 1),
            "networks with each other": np.nanmean(alike[:, upper[1][0], upper[1][1]], 1),
            "networks with people": np.nanmean(cross, (1, 2)),
        } | {f"  {name}": np.nanmean(cross[:, number], 1) for number, name in enumerate(groups[0])}
        accuracy = {"people with each other": people.mean(), "networks with people": networks.mean()}
        accuracy |= {f"  {name}": networks[number].mean() for number, name in enumerate(groups[0])}
        for name, values in rows.items():
            low, high = np.percentile(values[1:], [2.5, 97.5])
            accuracy_text = f"   accuracy {accuracy[name]:.1%}" if name in accuracy else ""
            print(f"  {name:28}{values[0]:6.3f} ({low:.3f} to {high:.3f}){accuracy_text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=Path, help="cifar10h-probs.npy")
    parser.add_argument("--decisions", type=Path, help="folder with one folder of .csv files per test set")
    parser.add_argument("--models", nargs="+", default=["@cifar10"])
    options = parser.parse_args()
    if not (options.labels or options.decisions):
        parser.error("at least one of --labels and --decisions is required")
    warnings.simplefilter("ignore", zoo.errors.ZooWarning)
    if options.labels:
        show_labels(options.labels, options.models)
    if options.decisions:
        show_decisions(options.decisions)


if __name__ == "__main__":
    main()
