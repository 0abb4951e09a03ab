"""How time and memory grow with models, examples and classes: run, calibrate, pairs, greedy and report.

    python tests/benchmarks/growth.py                                  # three tables and the fitted exponents
    python tests/benchmarks/growth.py --stages pairs greedy            # some of the stages
    python tests/benchmarks/growth.py --at 82x50000x1000               # one size: 82 models on ImageNet's validation images
    python tests/benchmarks/growth.py --at 820x5000x1000               # ten times as many models

Each measurement runs in a separate process on one thread, which prints CPU seconds and peak memory beyond the page cache.
Outputs are synthetic float16 logits on disk, with partly shared errors. At most `--files` files are written; further models
read the same files under other names. `run` starts from images of 32 × 32 pixels in memory and small networks with random
weights, and stores their outputs. Each stage starts from the stored outputs, so times do not add up to the time of a
pipeline, which calibrates once. An exponent is the slope of log seconds against log size between the middle and the largest
size: 1 is linear growth. Use otherwise idle cores.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from greedy_disk import Memory, make_files, open_runs
from PIL import Image
from torchvision import transforms

import diversity
import ensembles
import zoo
from zoo.core.pages import kept_pages
from zoo.datasets.dataset import Dataset
from zoo.models.model import Model
from zoo.outputs.outputs import Runs

MIDDLE = (10, 10_000, 100)  # models, examples, classes
AXES = {
    "models": [(count, *MIDDLE[1:]) for count in (2, 10, 50)],
    "examples": [(MIDDLE[0], count, MIDDLE[2]) for count in (1_000, 10_000, 50_000)],
    "classes": [(*MIDDLE[:2], count) for count in (10, 100, 1_000)],
}


def stored_runs(folder: Path, models: int, examples: int, classes: int, files: int) -> Runs:
    """Return the logits of all models, stored in at most `files` files."""
    count = min(models, files)
    make_files(folder, count, examples, classes, "logits")
    runs = list(open_runs(folder, count, classes, "logits").values())
    return Runs(dataclasses.replace(runs[model % count], name=f"{model:03d}", temperature=None) for model in range(models))


def small_models(count: int, classes: int) -> list[Model]:
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
            torch.nn.Linear(512, classes),
        )  # fmt: skip
        names = [f"class-{number}" for number in range(classes)]
        models.append(Model.of(network, transforms.ToTensor(), names, name=f"small-{seed}"))
    return models


def run(models: int, examples: int, classes: int, folder: Path, files: int) -> Callable[[], object]:
    pixels = np.random.default_rng(0).integers(0, 256, (examples, 32, 32, 3), dtype=np.uint8)
    dataset = Dataset(
        name="synthetic", spec="synthetic", fingerprint=f"synthetic-{examples}",
        ids=[str(row) for row in range(examples)], image=lambda row: Image.fromarray(pixels[row]),
        classes=tuple(f"class-{number}" for number in range(classes)), labels=np.arange(examples) % classes,
    )  # fmt: skip
    networks = small_models(models, classes)
    return lambda: zoo.run(networks, data=dataset, home=folder / "home", progress=False, workers=0)


def stage(work: Callable[[Runs], object]) -> Callable[..., Callable[[], object]]:
    """Return a function that opens the outputs and returns the work to be timed."""

    def prepare(models: int, examples: int, classes: int, folder: Path, files: int) -> Callable[[], object]:
        runs = stored_runs(folder, models, examples, classes, files)
        return lambda: work(runs)

    return prepare


STAGES: dict[str, Callable[..., Callable[[], object]]] = {
    "run": run,
    "calibrate": stage(zoo.calibrate),
    "pairs": stage(diversity.pairwise),
    "greedy": stage(lambda runs: ensembles.greedy(runs, steps=10)),
    "report": stage(lambda runs: zoo.report(runs, Path(tempfile.mkdtemp()) / "report.html")),
}


def measure(name: str, size: tuple[int, int, int], folder: Path, files: int) -> dict[str, float]:
    """Return the CPU seconds of a stage and its peak memory beyond the page cache, in GB."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    work = STAGES[name](*size, folder=folder, files=files)
    memory = Memory()
    memory.start()
    start = time.process_time()
    with kept_pages():
        work()
    return {"seconds": time.process_time() - start, "memory": memory.peak}


def measure_in_process(name: str, size: tuple[int, int, int], folder: Path, files: int) -> dict[str, float]:
    words = ["--measure", name, "--at", "x".join(map(str, size)), "--folder", str(folder), "--files", str(files)]
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} at {size}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log seconds against log size, from the middle size to the largest one."""
    return float(np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2]))


def print_tables(options: argparse.Namespace, folder: Path) -> None:
    """Print CPU seconds and memory of each stage by models, examples and classes."""
    for number, (axis, sizes) in enumerate(AXES.items()):
        along = [size[number] for size in sizes]
        print(f"\nby {axis}, others as in {' x '.join(f'{n:,}' for n in MIDDLE)} models x examples x classes: CPU s (GB)")
        print(f"{'':10}" + "".join(f"{count:>16,}" for count in along) + f"{'exponent':>10}")
        for name in options.stages:
            found = [measure_in_process(name, size, folder / "x".join(map(str, size[1:])), options.files) for size in sizes]
            cells = "".join(f"{one['seconds']:9.2f} ({one['memory']:.2f})" for one in found)
            print(f"{name:10}{cells}{exponent(along, [one['seconds'] for one in found]):10.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=list(STAGES))
    parser.add_argument("--at", metavar="MODELSxEXAMPLESxCLASSES", help="measure one size instead of the tables")
    parser.add_argument("--files", type=int, default=82, help="maximum number of files; further models share them")
    parser.add_argument("--folder", type=Path, help="keep the files here; default: a temporary folder")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    models, examples, classes = map(int, options.at.split("x")) if options.at else MIDDLE
    if options.measure:
        print(json.dumps(measure(options.measure, (models, examples, classes), options.folder, options.files)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not options.at:
            print_tables(options, folder)
            return
        for name in options.stages:
            found = measure_in_process(name, (models, examples, classes), folder, options.files)
            print(f"{name:10}{found['seconds']:9.2f} CPU s{found['memory']:8.2f} GB", flush=True)


if __name__ == "__main__":
    main()
