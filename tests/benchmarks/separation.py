"""Class separation of 50,000 x 2,048 activations in 1,000 classes, compared with a pass that computes the row norms.

    python tests/benchmarks/separation.py

Both run alternately. Prints the median seconds and ratio, and the peak memory beyond the activations.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import torch

from diversity.separation import METRICS, class_separation


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak() -> float:
    """The peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def activations(rows: int, dims: int, classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Rectified normal activations [N, D] and independent labels."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, dims, generator=generator).relu_()
    return x, torch.randint(classes, (rows,), generator=generator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dims", type=int, default=2048)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    x, y = activations(options.rows, options.dims, options.classes)
    shape = f"{options.rows} x {options.dims} float32 ({x.nbytes / 2**20:.0f} MB)"
    print(f"{shape}, {options.classes} classes, {options.threads} threads")
    before = peak()
    print(f"{'':24}{'seconds':>9}{'norms only':>12}{'ratio':>8}")
    for metric in METRICS:
        pairs = [
            (seconds(lambda: torch.linalg.vector_norm(x, dim=1)), seconds(lambda m=metric: class_separation(x, y, m)))
            for _ in range(options.repeats + 1)
        ][1:]  # the first round warms up
        floor, taken = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(ours / norms for norms, ours in pairs)
        print(f"{metric:24}{taken:9.3f}{floor:12.3f}{ratio:8.2f}")
    print(f"peak memory beyond the activations: {peak() - before:.0f} MB")


if __name__ == "__main__":
    main()
