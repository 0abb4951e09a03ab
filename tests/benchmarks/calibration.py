"""Temperature of 50,000 x 1,000 logits, against scikit-learn and against one pass of logsumexp; ten models in one call.

    python tests/benchmarks/calibration.py

Our fit and the logsumexp pass run alternately in one process; seconds are medians. The logsumexp pass is a lower bound for
any method. It reads the logits in chunks of rows, with the chunk size that is fastest on this machine. "NLL" is the loss at
the fitted temperature, in float64. "memory" is the increase of the process's peak memory during the fit.
Expected on two idle cores: fit / logsumexp <= 5, scikit-learn / fit >= 8, ten models / one <= 10.5, memory <= 100 MB.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from zoo.calibration import fit_temperature, fit_temperatures


def logits_and_labels(rows: int, classes: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident logits of a model with about 75% accuracy, on examples of varying difficulty, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    z = rng.standard_normal((rows, classes), dtype=np.float32)
    z[np.arange(rows), labels] += (4.4 + rng.normal(0, 1.5, rows)).astype(np.float32)
    z *= np.float32(2.8)
    return z, labels


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def logsumexp_pass(z: torch.Tensor, rows: int) -> float:
    return sum(float(torch.logsumexp(z[i : i + rows], 1).sum()) for i in range(0, len(z), rows))


def loss(z: np.ndarray, y: np.ndarray, temperature: float) -> float:
    total = 0.0
    for i in range(0, len(z), 2000):
        log_p = torch.log_softmax(torch.from_numpy(z[i : i + 2000]).double() / temperature, 1)
        total -= float(log_p.gather(1, torch.from_numpy(y[i : i + 2000, None])).sum())
    return total / len(z)


def peak() -> float:
    """The peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--peer-repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    z, y = logits_and_labels(options.rows, options.classes)
    tensor = torch.from_numpy(z)
    print(f"{options.rows} x {options.classes} float32 ({z.nbytes / 2**20:.0f} MB), {options.threads} threads")

    before = peak()
    fit = fit_temperature(z, y)
    memory = peak() - before
    chunk = min(
        (64, 128, 256, 512, 1024), key=lambda rows: min(seconds(lambda: logsumexp_pass(tensor, rows)) for _ in "123")
    )
    pairs = [
        (seconds(lambda: logsumexp_pass(tensor, chunk)), seconds(lambda: fit_temperature(z, y)))
        for _ in range(options.repeats)
    ]
    floor, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{'':34}{'seconds':>9}{'ratio':>8}  result")
    print(f"{f'logsumexp, {chunk} rows at a time':34}{floor:9.3f}{1:8.2f}")
    best = loss(z, y, fit.temperature)
    result = f"T {fit.temperature:.6f}, NLL {best:.9f}, {fit.passes} passes, memory {memory:.0f} MB"
    print(f"{'fit_temperature':34}{ours:9.3f}{ours / floor:8.2f}  {result}")

    models = [z] + [z * np.float32(1 + i / 10) for i in range(1, options.models)]
    each = [
        (seconds(lambda: [fit_temperature(z, y) for _ in "123"]) / 3, seconds(lambda: fit_temperatures(models, y)))
        for _ in range(options.repeats)
    ]
    many = statistics.median(several for _, several in each)
    times = statistics.median(several / one for one, several in each)
    print(f"{f'fit_temperatures, {options.models} models':34}{many:9.3f}{many / floor:8.2f}  {times:.2f} x one model")

    try:
        from sklearn.calibration import _TemperatureScaling
    except ImportError:
        print("scikit-learn skipped: temperature scaling requires version 1.8 or later")
        return
    theirs = statistics.median(seconds(lambda: _TemperatureScaling().fit(z, y)) for _ in range(options.peer_repeats))
    peer = 1 / float(_TemperatureScaling().fit(z, y).beta_)
    result = f"T {peer:.6f}, NLL {loss(z, y, peer):.9f}, {theirs / ours:.1f} x fit_temperature"
    print(f"{'scikit-learn _TemperatureScaling':34}{theirs:9.3f}{theirs / floor:8.2f}  {result}")
    print(f"our NLL minus scikit-learn's: {best - loss(z, y, peer):+.1e}")


if __name__ == "__main__":
    main()
