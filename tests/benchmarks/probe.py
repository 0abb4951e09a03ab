"""A path of 45 strengths of multinomial logistic regression, N = 10,000, D = 512, K = 100, against scikit-learn.

    python tests/benchmarks/probe.py

The objective is the sum of log losses + strength ||W||^2. One run measures:

- ours at the default tolerance, where the duality gap at each strength is at most 1e-5 of the objective, and at 1e-4;
- scikit-learn at its default tolerance (float32, warm-started): its time, and its distance from the optimum;
- scikit-learn at equal objective, on its own warm-started path. At each strength it uses its loosest tolerance that comes
  within 1e-4 of our objective, or within 1e-6 per example, whichever is looser. Only the run at that tolerance is timed. If
  no tolerance suffices, the tightest one is timed. `--first N` uses only the N strongest strengths; the time is extrapolated
  in proportion, which favours scikit-learn.
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
    """Rectified class means plus noise with a power-law spectrum in a random basis; a good probe has about 82% accuracy."""
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
    """The objective in float64, for our solutions and scikit-learn's."""
    z = x.astype(np.float64) @ coef.astype(np.float64).T + intercept
    margin = z - z[np.arange(len(y)), y][:, None]
    return float(np.logaddexp.reduce(margin, 1).sum() + strength * np.square(coef, dtype=np.float64).sum())


def time_ours(x: np.ndarray, y: np.ndarray, classes: int, tolerance: float) -> tuple[float, list[Point], float, float]:
    """Return the seconds, the solutions, the largest relative duality gap and the passes over the features."""
    from probes._design import Design
    from probes._logistic import path
    from probes._losses import Softmax

    start = time.perf_counter()
    design = Design.of(torch.from_numpy(x))
    loss = Softmax(torch.from_numpy(y), classes)
    found = list(path(design.values, loss, design.ridge(STRENGTHS.tolist())[:, None], tolerance))
    seconds = time.perf_counter() - start
    points = [Point(*(part.numpy() for part in design.from_design(s.parameters)), float(s.objective)) for s in found]
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
    parser.add_argument("--first", type=int, default=len(STRENGTHS), help="strengths at equal objective; default: all")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")  # scikit-learn warns that it did not converge; the output shows by how much
    x, y = features(options.rows, options.dims, options.classes)
    print(f"N {options.rows}, D {options.dims}, K {options.classes}, 45 strengths, {options.threads} threads")

    ours = {}
    for tolerance in (1e-4, 1e-5):
        runs = [time_ours(x, y, options.classes, tolerance) for _ in range(options.repeats)]
        ours[tolerance] = statistics.median(seconds for seconds, *_ in runs)
        _, points, gap, passes = runs[-1]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        note = f"{passes:.0f} passes, gap at most {gap:.1e} of the objective, peak {memory:.0f} MB"
        print(f"{f'ours, tolerance {tolerance:.0e}':36}{ours[tolerance]:9.1f} s   {note}", flush=True)

    total, last, excess = 0.0, None, []
    for strength, point in zip(STRENGTHS, points, strict=True):
        seconds, last = time_sklearn(x, y, strength, last, TOLERANCES[0])
        total += seconds
        excess.append(last.objective / point.objective)
    note = f"objective up to {max(excess):.3g} times the optimum; ratios {_ratios(total, ours)}"
    print(f"{'scikit-learn, default tolerance':36}{total:9.1f} s   {note}", flush=True)

    total, last, missed = 0.0, None, 0
    for strength, point in list(zip(STRENGTHS, points, strict=True))[: options.first]:
        required = point.objective + max(1e-4 * point.objective, 1e-6 * options.rows)
        for tolerance in TOLERANCES:
            seconds, reached = time_sklearn(x, y, strength, last, tolerance)
            if reached.objective <= required:
                break
        missed += reached.objective > required
        last, total = reached, total + seconds
        print(f"    strength {strength:8.2g}: {seconds:6.1f} s at tolerance {tolerance:.0e}", flush=True)
    total *= len(STRENGTHS) / options.first
    note = f"{missed} of {options.first} strengths missed the objective; ratios {_ratios(total, ours)}"
    print(f"{'scikit-learn, equal objective':36}{total:9.1f} s   {note}")


def _ratios(seconds: float, ours: dict[float, float]) -> str:
    return ", ".join(f"{seconds / our_seconds:.1f} ({tolerance:.0e})" for tolerance, our_seconds in ours.items())


if __name__ == "__main__":
    main()
