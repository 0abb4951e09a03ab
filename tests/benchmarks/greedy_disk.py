"""Greedy search on outputs that stay on disk because they do not fit in memory: time and memory.

    .venv/bin/python tests/benchmarks/greedy_disk.py                         # 82 x 50,000 x 1,000 float16: 8.2 GB of files
    .venv/bin/python tests/benchmarks/greedy_disk.py --examples 5000         # a tenth of the size
    .venv/bin/python tests/benchmarks/greedy_disk.py --kind logits           # calibrated logits, which need a softmax

The baseline is one pass over the same files that only finds each row's maximum, in float16 or float32, whichever is faster.
Goals: at most 3 times the baseline's time, and at most 3 GB of memory beyond the page cache. Everything runs on one thread
unless `--threads` is given. Files are generated once and kept.
"""

import argparse
import statistics
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import ensembles
from zoo.core.columns import Column
from zoo.outputs.outputs import Outputs, Runs


def make_files(folder: Path, models: int, examples: int, classes: int, kind: str, seed: int = 1) -> None:
    """Write labels and one .npy file per model; models have 70-78% accuracy and partly shared errors."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    difficulty = rng.normal(0, 1.5, examples).astype(np.float32)
    np.save(folder / "labels.npy", labels)
    missing = [m for m in range(models) if not (folder / f"{m:03d}.npy").exists()]
    for model in missing:
        model_rng = np.random.default_rng([seed, model])
        bonus, scale = 4.43 + model_rng.uniform(-0.22, 0.22), model_rng.uniform(2.0, 3.5)
        part = folder / f"{model:03d}.part.npy"
        out = np.lib.format.open_memmap(part, "w+", np.float16, (examples, classes))
        for start in range(0, examples, 1000):
            rows = slice(start, min(start + 1000, examples))
            count = rows.stop - start
            shared = np.random.default_rng([seed, 10**6 + start])  # the same noise for all models
            z = shared.standard_normal((count, classes), np.float32) * np.float32(0.45**0.5)
            z += model_rng.standard_normal((count, classes), np.float32) * np.float32(0.55**0.5)
            z[np.arange(count), labels[rows]] += difficulty[rows] + np.float32(bonus)
            z *= np.float32(scale)
            out[rows] = z if kind == "logits" else torch.softmax(torch.from_numpy(z), 1).numpy()
        out.flush()
        part.rename(folder / f"{model:03d}.npy")
        if model % 10 == 0:
            print(f"wrote file {model + 1} of {models}", flush=True)


def open_runs(folder: Path, models: int, classes: int, kind: str) -> Runs:
    labels = np.load(folder / "labels.npy")
    ids, names = np.arange(len(labels)).astype(str), tuple(str(k) for k in range(classes))
    return Runs(
        Outputs(
            name=f"{m:03d}", kind=kind, values=Column([np.load(folder / f"{m:03d}.npy", mmap_mode="r")]), ids=ids,
            classes=names, labels=labels, temperature=1.1 if kind == "logits" else None,
        )
        for m in range(models)
    )  # fmt: skip


def maxima(runs: Runs, widen: bool) -> float:
    """Seconds to find the row maxima of all files, in chunks of about a million numbers."""
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    start = time.perf_counter()
    for outputs in runs.values():
        for _, chunk in outputs.values.chunks(max(1, 2**20 // len(outputs.classes))):
            z = torch.from_numpy(np.asarray(chunk))
            (z.float() if widen else z).amax(1)
    return time.perf_counter() - start


class Memory(threading.Thread):
    """Track the peak of the resident memory that is not backed by files, in GB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.stop = 0.0, threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.02):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    self.peak = max(self.peak, int(line.split()[1]) / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=82)
    parser.add_argument("--examples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kind", choices=["probabilities", "logits"], default="probabilities")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "greedy-disk")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder = options.folder / f"{options.kind}-{options.examples}x{options.classes}"
    make_files(folder, options.models, options.examples, options.classes, options.kind)

    def runs() -> Runs:
        """Open the files again, so that every measurement pays for mapping their pages."""
        return open_runs(folder, options.models, options.classes, options.kind)

    size = sum((folder / f"{m:03d}.npy").stat().st_size for m in range(options.models)) / 1e9
    print(f"{options.models} x {options.examples} x {options.classes} {options.kind}, float16, {size:.1f} GB of files")

    memory = Memory()
    memory.start()
    passes, searches, whole = [], [], []
    for _ in range(options.repeats):
        passes.append(min(maxima(runs(), widen) for widen in (False, True)))
        opened, start = runs(), time.perf_counter()
        path = ensembles.greedy(opened, steps=options.steps - 1, replace=True, test_fraction=0)
        searches.append(time.perf_counter() - start)
        opened, start = runs(), time.perf_counter()
        ensembles.greedy(opened, steps=options.steps - 1, replace=True)
        whole.append(time.perf_counter() - start)
    memory.stop.set()
    baseline, search, split = map(statistics.median, (passes, searches, whole))
    print(f"row maxima            {baseline:8.2f} s")
    print(f"greedy, all examples  {search:8.2f} s   {search / baseline:5.2f} x   (goal: 3)")
    print(f"greedy, half held out {split:8.2f} s   {split / baseline:5.2f} x")
    print(f"peak memory beyond the page cache {memory.peak:.2f} GB   (goal: 3)")
    print(f"selection accuracy {path.score[0]:.4f} -> {path.best_score:.4f} in {path.best} picks")


if __name__ == "__main__":
    main()
