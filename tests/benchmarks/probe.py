"""A path of 45 strengths of multinomial logistic regression, N = 10,000, D = 512, K = 100, against scikit-learn.

    python tests/benchmarks/probe.py

Objective: sum of log losses + strength ||W||^2. Three comparisons in one run:

- ours: the whole path, every strength within 1e-5 of the optimum by duality gap;
- scikit-learn at its default tolerance (float32, warm-started): how long, and how far from the optimum it stops;
- scikit-learn at equal objective: at every `--every`-th strength, started from our solution at the strength before (a
  better start than its own path would give), the loosest tolerance that comes within 1e-4 of our objective, or 1e-6 an
  example where that is more. The time of that run alone counts; the sum is extrapolated to 45 strengths in proportion. A
  strength where no tolerance gets there within `--limit` seconds counts as that long.
"""

import argparse
import resource
import statistics
import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch

STRENGTHS = np.logspace(5, -6, 45)
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


@dataclass(frozen=True)
class Point:
    coef: np.ndarray
    intercept: np.ndarray
    objective: float


def features(examples: int, dims: int, classes: int, separation: float = 0.165) -> tuple[np.ndarray, np.ndarray]:
    """Rectified class means plus noise with a power-law spectrum in a random basis; a good probe gets about 82%."""
    basis = np.random.default_rng(0)
    rotation = np.linalg.qr(basis.standard_normal((dims, dims)))[0].astype(np.float32)
    means = basis.standard_normal((classes, dims)).astype(np.float32)
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.arange(examples) % classes)
    scale = (np.arange(dims) + 1.0) ** -0.5
    scale *= np.sqrt(dims / np.sum(scale**2))
    noise = rng.standard_normal((examples, dims), dtype=np.float32) * scale.astype(np.float32)
    return np.maximum(means[labels] * separation + noise @ rotation, 0), labels


def objective(coef: np.ndarray, intercept: np.ndarray, x: np.ndarray, y: np.ndarray, strength: float) -> float:
    """In float64 for both sides."""
    z = x.astype(np.float64) @ coef.astype(np.float64).T + intercept
    margin = z - z[np.arange(len(y)), y][:, None]
    return float(np.logaddexp.reduce(margin, 1).sum() + strength * np.square(coef, dtype=np.float64).sum())


def time_ours(x: np.ndarray, y: np.ndarray, classes: int) -> tuple[float, list[Point], float, float]:
    """(seconds, the solutions, the largest gap relative to its objective, passes over the features)."""
    from probes.design import Design
    from probes.logistic import path
    from probes.losses import Softmax

    start = time.perf_counter()
    design = Design.of(torch.from_numpy(x))
    loss = Softmax(torch.from_numpy(y), classes)
    found = list(path(design.values, loss, design.ridge(STRENGTHS.tolist())[:, None], 1e-5))
    seconds = time.perf_counter() - start
    points = [Point(*(part.numpy() for part in design.leave(s.parameters)), float(s.objective)) for s in found]
    gap = max(float(s.gap / s.objective) for s in found)
    return seconds, points, gap, sum(s.products for s in found)


def time_sklearn(
    x: np.ndarray, y: np.ndarray, strength: float, start: Point | None, tolerance: float
) -> tuple[float, Point]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=1 / (2 * strength), tol=tolerance, max_iter=20_000 if tolerance < 1e-4 else 100, warm_start=True
    )
    if start is not None:
        model.coef_, model.intercept_ = start.coef.astype(x.dtype), start.intercept.astype(x.dtype)
    begin = time.perf_counter()
    model.fit(x, y)
    seconds = time.perf_counter() - begin
    return seconds, Point(model.coef_, model.intercept_, objective(model.coef_, model.intercept_, x, y, strength))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--dims", type=int, default=512)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--every", type=int, default=6, help="scikit-learn at equal objective: every how many strengths")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one strength of it")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")  # scikit-learn says that it did not converge, which is what is measured here
    x, y = features(options.rows, options.dims, options.classes)
    print(f"N {options.rows}, D {options.dims}, K {options.classes}, 45 strengths, {options.threads} threads")

    runs = [time_ours(x, y, options.classes) for _ in range(options.repeats)]
    ours = statistics.median(seconds for seconds, *_ in runs)
    _, points, gap, passes = runs[-1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'ours':42}{ours:9.1f} s   {passes:.0f} passes, gap at most {gap:.1e} of the objective, peak {memory:.0f} MB")

    total, last, off = 0.0, None, []
    for strength, point in zip(STRENGTHS, points, strict=True):
        seconds, last = time_sklearn(x, y, strength, last, 1e-4)
        total += seconds
        off.append(last.objective / point.objective)
    print(f"{'scikit-learn, default tolerance':42}{total:9.1f} s   stops at up to {max(off):.3g} times the optimum")
    print(f"{'  ratio':42}{total / ours:9.1f}")

    spent, measured, late = 0.0, 0, 0
    for index in range(options.every, len(STRENGTHS), options.every):
        strength, best = float(STRENGTHS[index]), points[index].objective
        bar = best + max(1e-4 * best, 1e-6 * options.rows)
        seconds = options.limit
        for tolerance in TOLERANCES:
            taken, reached = time_sklearn(x, y, strength, points[index - 1], tolerance)
            if reached.objective <= bar:
                seconds = taken
                break
            if taken > options.limit:
                late += 1
                break
        spent += seconds
        measured += 1
        print(
            f"    strength {strength:8.2g}: {seconds:6.1f} s at tolerance {tolerance:.0e}, {reached.objective / best - 1:.1e} off"
        )
    whole = spent * len(STRENGTHS) / measured
    said = f"{spent:.1f} s at {measured} strengths, extrapolated" + (f"; {late} not reached" if late else "")
    print(f"{'scikit-learn, equal objective':42}{whole:9.1f} s   {said}")
    print(f"{'  ratio':42}{whole / ours:9.1f}")


if __name__ == "__main__":
    main()
