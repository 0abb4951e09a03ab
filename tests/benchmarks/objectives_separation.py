"""Class separation by objective: do small networks reproduce the order of Kornblith et al. (2021)?

    python tests/benchmarks/objectives_separation.py
    python tests/benchmarks/objectives_separation.py --architecture resnet20 --seeds 5
    ZOO_DATA=data python tests/benchmarks/objectives_separation.py --data 'fashion-mnist[:10000]' --epochs 10

Trains networks with each of the nine objectives and several seeds. Prints the class separation R^2 of the embeddings of the
training images, the test accuracy, and R^2 in the paper (Table 3, ResNet-50 on ImageNet). In the paper, R^2 is lowest for
softmax and highest for squared error. Models that are already in ZOO_HOME are not trained again.
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from zoo.cards.recipe_names import OBJECTIVES
from zoo.training import train

PAPER = {
    "softmax": 0.349, "label-smoothing": 0.420, "dropout": 0.461, "extra-l2": 0.572, "logit-penalty": 0.601,
    "logit-norm": 0.517, "cosine": 0.641, "sigmoid": 0.427, "squared-error": 0.845,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", default="resnet8")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="default: as in the recipe")
    options = parser.parse_args()

    print(f"{options.architecture} on {options.data}, {options.seeds} seeds")
    print(f"{'objective':16}{'R2':>8}{'+-':>8}{'test acc.':>11}{'CPU s':>8}{'  R2 on ImageNet':>17}")
    means = {}
    for objective in OBJECTIVES:
        began = time.process_time()
        results = []
        for seed in range(options.seeds):
            name = f"{options.architecture}-{objective}-{options.epochs}-epochs-{seed}"
            changes: dict[str, Any] = {} if options.epochs is None else {"epochs": options.epochs, "save_as": name}
            trained = train(f"{options.architecture}-{objective}", options.data, seed, progress=False, **changes)
            results.append(trained.results)
        values = np.array([result["train_class_separation"] for result in results])
        accuracy = np.mean([result["test_accuracy"] for result in results])
        means[objective] = values.mean()
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        seconds = (time.process_time() - began) / len(results)
        print(
            f"{objective:16}{values.mean():8.4f}{error:8.4f}{accuracy:11.4f}{seconds:8.1f}{PAPER[objective]:17.3f}",
            flush=True,
        )
    order = sorted(means, key=means.__getitem__)
    rank = spearmanr(list(means.values()), [PAPER[objective] for objective in means]).statistic
    print(f"lowest {order[0]}, highest {order[-1]}; Spearman's rho with the paper's values {rank:.2f}")


if __name__ == "__main__":
    main()
