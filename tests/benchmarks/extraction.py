"""`zoo.run` compared with the bare forward pass: from JPEG files to stored outputs, resnet18 at 224 pixels.

    python tests/benchmarks/extraction.py [--images 512] [--rounds 3] [--model timm:resnet18] [--sizes 500x375 256x256]
    python tests/benchmarks/extraction.py --models 10 [--images 1000]

Prints images per second and the ratio to the bare forward pass: the same network, precision, memory layout and batch size,
on pixels that are already in memory. Both run alternately in one process. Goal: a ratio of at least 0.90. On a CPU a ratio
of 1 is impossible, because decoding and writing take CPU time too; CPU milliseconds per image show how much.

With `--models`, that many small networks run over one folder. The CPU time of the run is compared with the sum of one pass
that reads, decodes and resizes each image, and the bare forward passes of all networks. Goal: a ratio of at most 1.10.
`separate` is the sum if each network decoded the images again.

With `--fold`, batch normalisation is folded into the convolutions. The run is also compared, in CPU time, with a plain loop
of Pillow, torchvision's transforms and the unchanged network, in batches of the same size. Goal: 1.25 times as fast.
"""

import argparse
import copy
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from torchvision import transforms

from zoo import datasets
from zoo.cards.card import Transform
from zoo.core.pages import kept_pages
from zoo.models import registry
from zoo.runs import runner
from zoo.runs.engines.forward import Forward

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--images", type=int, default=512)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--model", default="timm:resnet18")
parser.add_argument("--workers", type=int, default=None)
parser.add_argument("--models", type=int, help="run this many small networks together, instead of --model")
parser.add_argument("--fold", action="store_true", help="fold batch normalisation into the convolutions")
parser.add_argument("--sizes", nargs="+", default=["500x375", "256x256"], help="WIDTHxHEIGHT of the files")


def save_jpegs(folder: Path, count: int, width: int, height: int) -> None:
    """Save images about as detailed as photographs: 500 x 375 pixels take about 100 kB, as in ImageNet."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for index in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
        noisy = smooth + rng.normal(0, 12, (height, width, 1)).astype(np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / f"{index:05d}.jpg", quality=90)


class Clock:
    """Wall-clock seconds, and CPU seconds including child processes."""

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


def decode_pass(dataset: datasets.Dataset, kinds: list, batch_size: int) -> Clock:
    with Clock() as clock:
        for start in range(0, len(dataset), batch_size):
            images = [dataset[row] for row in range(start, min(start + batch_size, len(dataset)))]
            for transform in kinds:
                torch.stack([transform.pixels(image) for image in images])
    return clock


def plain_loop(network: torch.nn.Module, spec: Transform, paths: list[Path], batch_size: int) -> Clock:
    """The usual loop: Pillow, torchvision's transforms and the unchanged network."""
    transform = transforms.Compose(
        [transforms.Resize(spec.resize[0], transforms.InterpolationMode(spec.interpolation)),
         transforms.CenterCrop(spec.size[1:]), transforms.ToTensor(), transforms.Normalize(spec.mean, spec.std)]
    )  # fmt: skip
    results = []
    with Clock() as clock, torch.no_grad():
        for start in range(0, len(paths), batch_size):
            images = [transform(Image.open(path).convert("RGB")) for path in paths[start : start + batch_size]]
            results.append(network(torch.stack(images))[1])
        torch.cat(results).numpy()
    return clock


def many_models(options: argparse.Namespace) -> None:
    names = timm.list_models("test_*")[: options.models]
    models = [registry.load(f"timm:{name}", pretrained=False) for name in names]
    kinds = {model.transform.pixels_key: model.transform for model in models}
    print(f"{len(models)} networks with {len(kinds)} different transforms, {torch.get_num_threads()} threads, "
          f"{options.images} images, CPU seconds, median of {options.rounds} rounds")  # fmt: skip
    print(f"{'files':>10} {'decode':>8} {'forward':>8} {'sum':>8} {'run':>8} {'ratio':>6} {'separate':>8}")
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            save_jpegs(root / "jpegs", options.images, *map(int, size.split("x")))
            dataset = datasets.load(f"folder:{root / 'jpegs'}")
            rows = range(min(options.batch_size, len(dataset)))
            pixels = {key: torch.stack([one.pixels(dataset[row]) for row in rows]) for key, one in kinds.items()}
            rounds = []
            for number in range(options.rounds):
                shared = {"data": dataset, "batch_size": options.batch_size, "workers": options.workers, "progress": False}
                decode = decode_pass(dataset, list(kinds.values()), options.batch_size).cpu
                with kept_pages():
                    forward = sum(bare_forward(one, pixels[one.transform.pixels_key], options.images).cpu for one in models)
                with Clock() as together:
                    runner.run(models, home=root / f"together-{number}", **shared)
                rounds.append((decode, forward, decode + forward, together.cpu, together.cpu / (decode + forward)))
            decode, forward, limit, run, ratio = (statistics.median(column) for column in zip(*rounds, strict=True))
            separate = limit + (len(models) - 1) * decode
            print(
                f"{size:>10} {decode:8.2f} {forward:8.2f} {limit:8.2f} {run:8.2f} {ratio:6.3f} {separate:8.2f}", flush=True
            )


def main() -> None:
    options = parser.parse_args()
    if options.models:
        many_models(options)
        return
    model = registry.load(options.model, pretrained=False)
    plain = copy.deepcopy(model.network).eval()  # the forward pass of a run changes the memory format
    print(f"{options.model} on {model.device}, {torch.get_num_threads()} threads, {options.images} images, "
          f"median of {options.rounds} rounds")  # fmt: skip
    print(f"{'files':>10} {'kB each':>8} {'bare /s':>8} {'run /s':>8} {'ratio':>6} {'bare CPU ms':>12} {'run CPU ms':>11} "
          f"{'plain loop':>11} {'times faster':>13}")  # fmt: skip
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
                        workers=options.workers, progress=False, fold=options.fold,
                    )  # fmt: skip
                paths = sorted((root / "jpegs").iterdir())
                rounds.append((bare, run, plain_loop(plain, model.transform.spec, paths, options.batch_size)))
            count = options.images
            bare_speed = statistics.median(count / bare.wall for bare, _, _ in rounds)
            run_speed = statistics.median(count / run.wall for _, run, _ in rounds)
            ratio = statistics.median(bare.wall / run.wall for bare, run, _ in rounds)
            bare_cpu = statistics.median(bare.cpu / count * 1000 for bare, _, _ in rounds)
            run_cpu = statistics.median(run.cpu / count * 1000 for _, run, _ in rounds)
            speeds = f"{size:>10} {kilobytes:8.0f} {bare_speed:8.1f} {run_speed:8.1f} {ratio:6.3f}"
            plain_cpu = statistics.median(loop.cpu / count * 1000 for _, _, loop in rounds)
            faster = statistics.median(loop.cpu / run.cpu for _, run, loop in rounds)
            print(f"{speeds} {bare_cpu:12.1f} {run_cpu:11.1f} {plain_cpu:11.1f} {faster:13.3f}", flush=True)


if __name__ == "__main__":
    main()
