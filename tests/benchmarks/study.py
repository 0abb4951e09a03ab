"""Effect of objective and seed on the errors of the CIFAR-10 networks: error inconsistency and nearest neighbours.

    python tests/benchmarks/study.py                       # from the shipped outputs, without images
    python tests/benchmarks/study.py 'resnet7-*.cifar10'   # other networks named ARCHITECTURE-OBJECTIVE[-sSEED]

The first table has the mean error inconsistency of pairs with the same objective, with the same seed, and with neither in
common. If initial weights depend on the whole name of a model, the same seed should make no difference. Intervals are 95%
confidence intervals from a bootstrap over networks and images, because pairs share both.

The second table counts the networks that share their objective or seed with their nearest neighbour, the network with the
lowest error inconsistency. `expected` is the count for a random neighbour. The third table has the accuracy and class
separation of each objective over seeds, from the model cards.
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
    if parts is None:
        raise SystemExit(f"the name '{name}' does not have the form ARCHITECTURE-OBJECTIVE[-sSEED]")
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
    networks, images = correct.shape
    rng = np.random.default_rng(0)
    draws = defaultdict(list)
    for _ in range(RESAMPLES):
        drawn = rng.multinomial(networks, np.full(networks, 1 / networks))
        means = by_relation(correct[:, rng.integers(0, images, images)], relations, np.outer(drawn, drawn))
        for name, mean in means.items():
            draws[name].append(mean)
    table = inconsistency(correct)
    print(f"{networks} networks, {images:,} images: mean error inconsistency (95% CI)")
    for name, mean in by_relation(correct, relations, np.ones((networks, networks))).items():
        low, high = np.nanpercentile(draws[name], [2.5, 97.5])
        pairs = f"{relations[name].sum() // 2:5} pairs" if name in relations else " " * 11
        print(f"  {name:35}{pairs}  {mean:.2%} ({low:.2%} to {high:.2%})")
    nearest = np.where(others, table, np.inf).argmin(1)
    rows = np.arange(len(recipes))
    print("nearest neighbours, and the expected number for random neighbours")
    for name, pairs in relations.items():
        print(
            f"  {name:35}{pairs[rows, nearest].sum():5} of {len(recipes)}  expected {pairs.sum() / (len(recipes) - 1):.1f}"
        )


def by_relation(correct: np.ndarray, relations: dict[str, np.ndarray], weights: np.ndarray) -> dict[str, float]:
    """Return the weighted mean error inconsistency of each kind of pair, and the difference by seed."""
    table = inconsistency(correct)
    means = {
        name: (weights * pairs * table).sum() / ((weights * pairs).sum() or np.nan) for name, pairs in relations.items()
    }
    _, same_seed, other_seed = means.values()
    return means | {"other objective, same - other seed": same_seed - other_seed}


def inconsistency(correct: np.ndarray) -> np.ndarray:
    """Return [M, M] the fraction of examples on which exactly one of two models is correct, for correctness [M, N]."""
    values = correct.astype(np.float32)
    both = values @ values.T
    each = values.sum(1)
    return (each[:, None] + each - 2 * both) / values.shape[1]


def objectives(names: list[str]) -> None:
    rows = defaultdict(list)
    for name in names:
        results = card(name).details["results"]
        rows[recipe(name).objective].append((results["test_accuracy"], results["train_class_separation"]))
    print("objective: mean accuracy and mean class separation of the training images (values by seed)")
    for objective, values in rows.items():
        accuracy, separation = zip(*values, strict=True)
        accuracies = ", ".join(f"{each:.2%}" for each in accuracy)
        separations = ", ".join(f"{each:.3f}" for each in separation)
        print(f"  {objective:18}{np.mean(accuracy):.2%} ({accuracies})  {np.mean(separation):.3f} ({separations})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: the shipped resnet7 networks of the nine objectives, all seeds")
    options = parser.parse_args()
    shipped = [name for name in zoo.list("@cifar10") if name.startswith("resnet7-") and not name.endswith("linear.cifar10")]
    names = list(zoo.list(options.models)) if options.models else [n for n in shipped if recipe(n).objective in NINE]
    names.sort(key=lambda name: (NINE.index(recipe(name).objective), recipe(name).seed))
    neighbours(names)
    objectives(names)


if __name__ == "__main__":
    main()
