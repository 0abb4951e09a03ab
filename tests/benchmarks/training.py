"""Training speed, with shuffling, augmentation, metrics, log and checkpoints, compared with a bare training loop.

    python tests/benchmarks/training.py
    python tests/benchmarks/training.py --architecture resnet50 --epochs 1 --repeats 1
    python tests/benchmarks/training.py --architecture wrn-16-8 --side 32 --images 256 --epochs 1

Both loops train the same network on batches of the same shape with the same optimiser. The bare loop only runs forward,
backward and step, always on the same batch. They run alternately, and the median ratio is printed. Goal: 0.90.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional

from zoo import datasets, networks
from zoo.cards.published import recipe as published
from zoo.networks.network import Network
from zoo.training import Recipe, fit
from zoo.training.optimisation import optimiser


def network(architecture: str, recipe: Recipe) -> Network:
    torch.manual_seed(0)
    return networks.build(architecture, 10, "softmax", {}, recipe.transform.size)


def bare(architecture: str, recipe: Recipe, steps: int) -> float:
    """Images per second of forward, backward and optimiser step alone."""
    net = network(architecture, recipe).train()
    optimizer = optimiser(net, recipe)
    images = torch.randn(recipe.batch_size, *recipe.transform.size)
    labels = torch.randint(0, 10, (recipe.batch_size,))
    began = time.perf_counter()
    for _ in range(steps):
        functional.cross_entropy(net(images)[1], labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    return steps * recipe.batch_size / (time.perf_counter() - began)


def ours(architecture: str, recipe: Recipe, images: datasets.Dataset) -> float:
    """Images per second of our training loop, including checkpoints but not the first decoding of the images."""
    with tempfile.TemporaryDirectory() as folder:
        done = fit(network(architecture, recipe), images, recipe, folder=Path(folder), progress=False)
    return done.steps * recipe.batch_size / done.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", default="resnet8")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--images", type=int, default=0, help="number of training images; default: all")
    parser.add_argument("--side", type=int, default=0, help="side of the images in pixels; default: as in the recipe")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    recipe = published(options.architecture, "softmax", "digits").change(epochs=options.epochs, warmup_epochs=0.5)
    if options.side:
        size = (options.side, options.side)
        recipe = recipe.change(transform=type(recipe.transform)((3, *size), size, "bilinear", (0.3,) * 3, (0.4,) * 3))
    images = datasets.load("digits:train")
    images = images.select(slice(0, options.images or len(images)))
    steps = recipe.total_steps(len(images))
    bare(options.architecture, recipe, 3)
    speeds = [
        (bare(options.architecture, recipe, steps), ours(options.architecture, recipe, images))
        for _ in range(options.repeats)
    ]
    plain, whole = (statistics.median(column) for column in zip(*speeds, strict=True))
    ratios = sorted(second / first for first, second in speeds)
    print(f"{options.architecture}, batches of {recipe.batch_size} x {recipe.transform.size}, {options.threads} threads")
    print(f"bare loop {plain:8.0f} images/s")
    print(f"zoo       {whole:8.0f} images/s")
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} runs"
    print(f"ratio     {statistics.median(ratios):8.2f}  (goal: 0.90; {spread})")


if __name__ == "__main__":
    main()
