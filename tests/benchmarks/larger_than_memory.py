"""Probes and class separation on embeddings that exceed the memory limit: time and peak resident memory.

    python tests/benchmarks/larger_than_memory.py                    # 1,280,000 x 2,048 float16: 5.2 GB in a file
    python tests/benchmarks/larger_than_memory.py --rows 128000      # a tenth, compared with everything in memory

Goal: at most 3 GB resident, including the pages of the mapped file. Each measure runs in a separate process. The linear
probe is fitted with one regularisation strength to `--tolerance`; a path of 45 strengths takes about 45 times as long.
Concatenation fits another probe, on half of the dimensions of each of two models (the same file twice). The nearest
neighbours of `--queries` rows are searched among all rows, with k = 20; choosing k by leave-one-out would need 1.28 million
queries more. At a tenth of the size or less, each measure also runs in memory, and the results are printed for comparison.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FULL, LIMIT = 1_280_000, 3.0
MEASURES = ("separation", "linear", "concatenation", "neighbours")


def make(path: Path, rows: int, dims: int, classes: int) -> None:
    """Write class means plus noise, ordered by class as in a folder of images."""
    if path.exists():
        return
    rng = np.random.default_rng(0)
    means = rng.standard_normal((classes, dims), np.float32) * np.float32(0.15)
    noise = rng.standard_normal((8192 + dims, dims), np.float32)
    labels = labels_of(rows, classes)
    part = path.with_suffix(".part.npy")
    out = np.lib.format.open_memmap(part, "w+", np.float16, (rows, dims))
    for start in range(0, rows, 8192):
        y = labels[start : start + 8192]
        shift = int(rng.integers(dims))  # reuse the noise in other rows and columns; new noise would take minutes
        rolled = np.roll(noise[shift : shift + len(y)], shift, axis=1)
        out[start : start + len(y)] = np.maximum(means[y] + rolled, 0)
    out.flush()
    part.rename(path)


def labels_of(rows: int, classes: int) -> np.ndarray:
    return np.arange(rows) * classes // rows


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Return the seconds, the peak memory in GB and the result of one measure."""
    import torch

    import diversity
    import probes

    torch.set_num_threads(options.threads)
    x = np.load(options.file, mmap_mode=None if options.in_memory else "r")
    memory = 1e3 if options.in_memory else 2.0 * min(1, len(x) / FULL)
    y = labels_of(len(x), options.classes)
    one = {"strengths": [len(x) / 10], "tolerance": options.tolerance, "memory": memory}
    few = np.random.default_rng(1).choice(len(x), options.queries, replace=False)
    start = time.perf_counter()
    if options.measure == "separation":
        found = diversity.class_separation(x.astype(np.float32) if options.in_memory else x, y)
    elif options.measure == "linear":
        found = probes.LinearProbe(validation=0, **one).fit(x, y).objective_
    elif options.measure == "concatenation":
        test = {name: x[np.sort(few)] for name in "ab"}, y[np.sort(few)]
        found = probes.concatenate({"a": x, "b": x}, y, "a", [0.5], 1, test, validation=0, **one).accuracy[0]
    else:
        found = probes.KNNProbe(k=20, memory=memory).fit(x, y).score(x[np.sort(few)], y[np.sort(few)])
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak": peak(), "found": float(found)}


def peak() -> float:
    """Peak resident memory of this process in GB; `getrusage` may report the peak of the parent process instead."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=FULL)
    parser.add_argument("--dims", type=int, default=2048)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--tolerance", type=float, default=1e-2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), choices=MEASURES)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "larger-than-memory")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--in-memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file:
        print(json.dumps(measure(options)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / f"{options.rows}-{options.dims}-{options.classes}.npy"
    make(file, options.rows, options.dims, options.classes)
    size = f"{options.rows:,} x {options.dims:,} float16, {file.stat().st_size / 1e9:.2f} GB, {options.classes} classes"
    print(f"{size}, {options.threads} threads, tolerance {options.tolerance:g}")
    print(f"{'':16}{'':14}{'seconds':>9}{'peak GB':>9}{'result':>14}")
    for name in options.measures:
        for inside in (False, True) if options.rows <= FULL // 10 else (False,):
            command = [sys.executable, *sys.argv, "--file", str(file), "--measure", name, *["--in-memory"] * inside]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            got = json.loads(done.stdout.splitlines()[-1])
            verdict = "" if inside or got["peak"] <= LIMIT else f"   above {LIMIT:g} GB"
            where = "in memory" if inside else "in blocks"
            row = f"{name:16}{where:14}{got['seconds']:9.1f}{got['peak']:9.2f}{got['found']:14.7g}{verdict}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
