"""Class separation of 50,000 x 2048 activations in 1,000 classes, against a pass that only computes the row norms.

    python tests/benchmarks/separation.py

Prints seconds (median), the ratio to the pass over the norms, and the most memory needed beyond the activations.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import torch

from diversity.separation import METRICS, class_separation


def seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def peak() -> float:
    """The most memory this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dims", type=int, default=2048)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(options.rows, options.dims, generator=generator).relu_()
    y = torch.randint(options.classes, (options.rows,), generator=generator)
    shape = f"{options.rows} x {options.dims} float32 ({x.nbytes / 2**20:.0f} MB)"
    print(f"{shape}, {options.classes} classes, {options.threads} threads")
    floor = seconds(lambda: torch.linalg.vector_norm(x, dim=1), options.repeats)
    print(f"{'row norms only':24}{floor:8.3f} s{1:8.2f} x")
    before = peak()
    for metric in METRICS:
        taken = seconds(lambda metric=metric: class_separation(x, y, metric), options.repeats)
        print(f"{metric:24}{taken:8.3f} s{taken / floor:8.2f} x")
    print(f"peak memory beyond the activations: {peak() - before:.0f} MB")


if __name__ == "__main__":
    main()
