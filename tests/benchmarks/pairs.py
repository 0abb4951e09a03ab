"""Pairwise matrices of 82 models on 50,000 examples, compared with DESlib, and bootstrap intervals of all pairs.

    python tests/benchmarks/pairs.py

Ours is one call that computes all matrices. DESlib computes one measure (double fault) per call, in a loop over examples, so
its time is measured on fewer examples and extrapolated in proportion; the table shows both. Our seconds for all matrices are
a median over runs.
Expected on two idle cores: DESlib / ours >= 100; 1,000 resamples of all pairs in <= 60 s.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import diversity
from diversity.measures import names


def predictions(models: int, rows: int, classes: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Models of 70-78% accuracy whose errors are partly shared."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    difficulty = rng.random(rows)
    confusion = rng.integers(0, classes, rows)
    accuracy = rng.uniform(0.70, 0.78, (models, 1))
    correct = 0.6 * difficulty + 0.4 * rng.random((models, rows)) < accuracy
    wrong = np.where(rng.random((models, rows)) < 0.5, confusion, rng.integers(0, classes, (models, rows)))
    return np.where(correct, labels, wrong), labels


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def all_matrices(p: np.ndarray, y: np.ndarray) -> None:
    m = diversity.pairwise(p, y)
    for measure in names("errors"):
        m.measure(measure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=82)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--peer-rows", type=int, default=2_000, help="examples for DESlib")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    p, y = predictions(options.models, options.rows)
    print(f"{options.models} models x {options.rows} examples, {options.threads} threads")
    all_matrices(p, y)
    count = len(names("errors"))
    ours = statistics.median(seconds(lambda: all_matrices(p, y)) for _ in range(options.repeats))
    print(f"{f'pairwise, all {count} matrices':44}{ours:10.3f} s")
    m = diversity.pairwise(p, y)
    for measure in ("inconsistency", "kappa"):
        taken = seconds(lambda measure=measure: m.interval(measure, options.resamples))
        print(f"{f'{options.resamples} resamples of all pairs, {measure}':44}{taken:10.3f} s")

    try:
        from deslib.util.diversity import compute_pairwise_diversity, double_fault
    except ImportError:
        print("DESlib skipped: not installed (pip install deslib)")
        return
    few = p[:, : options.peer_rows].T.copy(), y[: options.peer_rows]
    measured = seconds(lambda: compute_pairwise_diversity(few[1], few[0], double_fault))
    theirs = measured * options.rows / options.peer_rows
    title = f"DESlib, one matrix ({measured:.1f} s on {options.peer_rows}, x {options.rows / options.peer_rows:g})"
    print(f"{title:44}{theirs:10.3f} s   {theirs / ours:.0f} x ours")


if __name__ == "__main__":
    main()
