"""Seeds and objectives of the CIFAR-10 networks: whose errors are most alike, and what the cards say.

    python tests/benchmarks/study.py                       # from the shipped outputs, without images
    python tests/benchmarks/study.py 'resnet7-*.cifar10'   # other networks that are named ARCHITECTURE-OBJECTIVE[-sSEED]

Printed first: the mean error inconsistency of pairs with the same objective, with the same seed, and with neither in common,
and how many networks share objective or seed with their nearest neighbour, the network with the most similar errors. If
initial weights depend on the whole name, sharing a seed must make no difference. `expected` is the count if all neighbours
were equally near. Intervals are 95%, by a bootstrap over images. Then one row per objective: accuracy and class separation
over seeds, as on the cards.
"""

import argparse
from collections import defaultdict

import numpy as np

import zoo
from zoo.cards.names import RecipeName, parse_recipe
from zoo.models.registry import card

NINE = [
    "softmax", "label-smoothing", "dropout", "extra-l2", "logit-penalty", "logit-norm", "cosine", "sigmoid",
    "squared-error",
]  # fmt: skip
RESAMPLES = 1000


def recipe(name: str) -> RecipeName:
    parts = parse_recipe(name)
    assert parts is not None, f"{name} is not named ARCHITECTURE-OBJECTIVE[-sSEED]"
    return parts


def neighbours(names: list[str]) -> None:
    runs = zoo.run(names, data="cifar10:test")
    recipes = [recipe(name) for name in runs]
    objectives, seeds = (np.array([getattr(one, field) for one in recipes]) for field in ("objective", "seed"))
    same_objective, same_seed = (values[:, None] == values for values in (objectives, seeds))
    others = ~np.eye(len(recipes), dtype=bool)
    relations = {
        "same objective, other seed": same_objective & ~same_seed,
        "other objective, same seed": ~same_objective & same_seed,
        "other objective, other seed": ~same_objective & ~same_seed,
    }
    correct = np.stack([one.correct for one in runs.values()])
    rng = np.random.default_rng(0)
    draws = defaultdict(list)
    for _ in range(RESAMPLES):
        sample = correct[:, rng.integers(0, correct.shape[1], correct.shape[1])]
        table = inconsistency(sample)
        for name, pairs in relations.items():
            draws[name].append(table[pairs].mean())
    table = inconsistency(correct)
    print(f"{len(recipes)} networks, {correct.shape[1]:,} images: mean error inconsistency (95% CI)")
    for name, pairs in relations.items():
        low, high = np.percentile(draws[name], [2.5, 97.5])
        print(f"  {name:30}{pairs.sum() // 2:5} pairs  {table[pairs].mean():.2%} ({low:.2%} to {high:.2%})")
    nearest = np.where(others, table, np.inf).argmin(1)
    rows = np.arange(len(recipes))
    print("nearest neighbours, and how many if all were equally near")
    for name, pairs in relations.items():
        print(
            f"  {name:30}{pairs[rows, nearest].sum():5} of {len(recipes)}  expected {pairs.sum() / (len(recipes) - 1):.1f}"
        )


def inconsistency(correct: np.ndarray) -> np.ndarray:
    """Return [M, M] the fraction of examples on which exactly one of two models is correct, for correctness [M, N]."""
    right = correct.astype(np.float32)
    both = right @ right.T
    each = right.sum(1)
    return (each[:, None] + each - 2 * both) / right.shape[1]


def objectives(names: list[str]) -> None:
    rows = defaultdict(list)
    for name in names:
        results = card(name).details["results"]
        rows[recipe(name).objective].append((results["test_accuracy"], results["train_class_separation"]))
    print("objective: accuracy and class separation of the training images by seed, and their means")
    for objective, values in rows.items():
        accuracy, separation = zip(*values, strict=True)
        told = ", ".join(f"{each:.2%}" for each in accuracy), ", ".join(f"{each:.3f}" for each in separation)
        print(f"  {objective:18}{np.mean(accuracy):.2%} ({told[0]})  {np.mean(separation):.3f} ({told[1]})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: the nine objectives of resnet7, all seeds that ship")
    options = parser.parse_args()
    shipped = [name for name in zoo.list("@cifar10") if name.startswith("resnet7-") and not name.endswith("linear.cifar10")]
    names = list(zoo.list(options.models)) if options.models else [n for n in shipped if recipe(n).objective in NINE]
    names.sort(key=lambda name: (NINE.index(recipe(name).objective), recipe(name).seed))
    neighbours(names)
    objectives(names)


if __name__ == "__main__":
    main()
