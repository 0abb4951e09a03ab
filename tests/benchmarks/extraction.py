"""How near `zoo.run` comes to the bare forward pass: JPEG files on disk to stored outputs, resnet18 at 224 pixels.

    python tests/benchmarks/extraction.py [--images 512] [--rounds 3] [--model timm:resnet18] [--sizes 500x375 256x256]

Prints images per second and the ratio to the bare forward (the same network, precision, layout and batch size on pixels
that are in memory already), both measured in turn in one process; wanted: at least 0.90. Decoding and writing need CPU
time too, so on a CPU a ratio of 1 is out of reach: CPU milliseconds per image show where the difference goes.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from zoo import datasets
from zoo.models import registry
from zoo.runs import runner
from zoo.runs.engines.forward import Forward

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--images", type=int, default=512)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--model", default="timm:resnet18")
parser.add_argument("--workers", type=int, default=None)
parser.add_argument("--sizes", nargs="+", default=["500x375", "256x256"], help="width x height of the files")


def save_jpegs(folder: Path, count: int, width: int, height: int) -> None:
    """Images with about the detail of photographs: 500 x 375 take some 100 kB, as ImageNet's do."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for index in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
        noisy = smooth + rng.normal(0, 12, (height, width, 1)).astype(np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / f"{index:05d}.jpg", quality=90)


class Clock:
    """Wall and CPU seconds, children's included."""

    def __enter__(self) -> "Clock":
        self.wall, self.cpu = -time.perf_counter(), -sum(os.times()[:4])
        return self

    def __exit__(self, *rest: object) -> None:
        self.wall += time.perf_counter()
        self.cpu += sum(os.times()[:4])


def bare_forward(model, pixels: torch.Tensor, count: int) -> Clock:
    forward = Forward(model, "float32", True, None)
    ids = [str(row) for row in range(len(pixels))]
    forward(pixels, ids)
    with Clock() as clock:
        for start in range(0, count, len(pixels)):
            forward(pixels[: count - start], ids)
    return clock


def main() -> None:
    options = parser.parse_args()
    model = registry.load(options.model, pretrained=False)
    print(f"{options.model} on {model.device}, {torch.get_num_threads()} threads, {options.images} images, "
          f"median of {options.rounds} rounds")  # fmt: skip
    print(f"{'files':>10} {'kB each':>8} {'bare /s':>8} {'run /s':>8} {'ratio':>6} {'bare CPU ms':>12} {'run CPU ms':>11}")
    for size in options.sizes:
        width, height = map(int, size.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            save_jpegs(root / "jpegs", options.images, width, height)
            dataset = datasets.load(f"folder:{root / 'jpegs'}")
            kilobytes = statistics.mean(path.stat().st_size for path in (root / "jpegs").iterdir()) / 1000
            rows = range(min(options.batch_size, len(dataset)))
            pixels = torch.stack([model.transform.pixels(dataset[row]) for row in rows])
            rounds = []
            for number in range(options.rounds):
                bare = bare_forward(model, pixels, options.images)
                with Clock() as run:
                    runner.run(
                        model, data=dataset, home=root / f"home-{number}", batch_size=options.batch_size,
                        workers=options.workers, progress=False,
                    )  # fmt: skip
                rounds.append((bare, run))
            count = options.images
            bare_speed = statistics.median(count / bare.wall for bare, _ in rounds)
            run_speed = statistics.median(count / run.wall for _, run in rounds)
            ratio = statistics.median(bare.wall / run.wall for bare, run in rounds)
            bare_cpu = statistics.median(bare.cpu / count * 1000 for bare, _ in rounds)
            run_cpu = statistics.median(run.cpu / count * 1000 for _, run in rounds)
            speeds = f"{size:>10} {kilobytes:8.0f} {bare_speed:8.1f} {run_speed:8.1f} {ratio:6.3f}"
            print(f"{speeds} {bare_cpu:12.1f} {run_cpu:11.1f}")


if __name__ == "__main__":
    main()
