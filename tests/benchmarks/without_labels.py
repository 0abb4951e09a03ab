"""Accuracy without labels under shifts: how often is there an estimate, how far off is it, does its interval hold?

    ZOO_DATA=data python tests/benchmarks/without_labels.py --shifts contrast1 contrast3 rotate1 rotate3
    ZOO_DATA=data python tests/benchmarks/without_labels.py --rows 0 --people data/cifar10h/cifar10h-probs.npy
    python tests/benchmarks/without_labels.py --rows 0 --decisions data/model-vs-human

Runs the models (or reads their stored outputs) on the first rows of a dataset under each shift, without labels. The second
half of the clean dataset is the labelled data. Shifts are the package's corruptions and those of this file, whose constants
were chosen by eye. `--decisions` takes the folder of per-image decisions of model-vs-human (Geirhos et al. 2021), whose
colour images are the labelled data. `--people` takes human label distributions of the dataset: a shift to images that people
disagree on.

The last table has, over shifts, the fraction with an estimate, the mean absolute error over models in points, and the
fraction of models whose true accuracy is in its 95% interval. Bars: an error of at most 2 points, and at least 95%. The
constants of the estimate were fitted to the kinds in FITTED. These are left out, or with `--fitted` used alone.
"""

import argparse
import csv
import dataclasses
import functools
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageEnhance
from scipy.ndimage import gaussian_filter, uniform_filter1d

import zoo
from diversity import accuracy_without_labels
from zoo.core import files
from zoo.datasets import Dataset, corruptions, load
from zoo.outputs.outputs import Outputs, Runs

FITTED = ("blur", "jpeg", "pixelate", "brighten", "impulse", "occlude", "saturate")
MODELS = [
    "convnext-mini-softmax.cifar10", "densenet-mini-softmax.cifar10", "mixer-mini-softmax.cifar10",
    "mobilenet-mini-softmax.cifar10", "r7-autoaugment.cifar10", "r7-distilled.cifar10", "r7-mixup.cifar10",
    "r7-plain.cifar10", "r7x2.cifar10", "resnet20-softmax.cifar10", "resnet7-cifar10-grey-linear.cifar10",
    "resnet7-cosine-half-linear.cifar10", "resnet7-cosine.cifar10", "resnet7-label-smoothing.cifar10",
    "resnet7-logit-norm.cifar10", "resnet7-simclr.cifar10", "resnet7-squared-error.cifar10",
    "resnet7-supcon.cifar10", "vit-mini-softmax.cifar10", "wrn-10-2-softmax.cifar10",
]  # fmt: skip
ESTIMATES = {
    "accuracy": "ours", "by_agreement": "agreement", "by_confidence": "ATC, confidence", "atc": "ATC, entropy",
    "average_confidence": "average confidence", "on_line": "ALine-S", "source_accuracy": "unchanged",
}  # fmt: skip
CONDITIONS = {
    "colour": ["bw"], "contrast": ["c100", "c50", "c30", "c15", "c10", "c05", "c03", "c01"], "sketch": ["0"],
    "stylized": ["0"], "edge": ["NaN"], "silhouette": ["NaN"], "cue-conflict": ["NaN"],
}  # fmt: skip
GREY = (127, 127, 127)


def image_of(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


def brighten(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    return image_of(np.asarray(image, float) + 255 * (0.1, 0.25, 0.4)[level])


def fog(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    cloud = gaussian_filter(rng.normal(size=image.size[::-1]), 4, mode="wrap")
    cloud = (cloud - cloud.min()) / (np.ptp(cloud) + 1e-9)
    amount = ((0.2, 0.4, 0.6)[level] * (0.5 + 0.5 * cloud))[..., None]
    return image_of((1 - amount) * np.asarray(image, float) + amount * 230)


def impulse(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    pixels, fraction = np.array(image), (0.01, 0.03, 0.08)[level]
    drawn = rng.random(pixels.shape)
    return image_of(np.where(drawn < fraction / 2, 0, np.where(drawn > 1 - fraction / 2, 255, pixels)))


def motion(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    axis = int(rng.integers(2))
    return image_of(uniform_filter1d(np.asarray(image, float), (2, 4, 6)[level], axis=axis, mode="nearest"))


def occlude(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    pixels, side = np.array(image), (6, 10, 15)[level]
    row, column = rng.integers(0, 33 - side, 2)
    pixels[row : row + side, column : column + side] = GREY
    return image_of(pixels)


def rotate(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    angle = float(rng.choice([-1, 1])) * (8, 18, 32)[level]
    return image.rotate(angle, Image.Resampling.BILINEAR, fillcolor=GREY)


def saturate(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    return ImageEnhance.Color(image).enhance((0.4, 0.0, 3.0)[level])


def zoom(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    side = (28, 24, 19)[level]
    top, left = (int(value) for value in rng.integers(0, image.size[0] - side + 1, 2))
    return image.crop((left, top, left + side, top + side)).resize(image.size, Image.Resampling.BICUBIC)


LEVELS = (1, 3, 5)
EXTRA = {kind.__name__: kind for kind in (brighten, fog, impulse, motion, occlude, rotate, saturate, zoom)}
EVERY = [*corruptions.every(), *(f"{kind}{level}" for kind in EXTRA for level in LEVELS)]


def extra_image(dataset: Dataset, kind: str, level: int, row: int) -> Image.Image:
    seed = int.from_bytes(hashlib.sha256(f"{kind} {dataset.ids[row]}".encode()).digest()[:8], "little")
    return EXTRA[kind](dataset[row].convert("RGB"), level, np.random.default_rng(seed))


def shifted(spec: str, rows: int, word: str) -> Dataset:
    """Return the first rows of a dataset under a shift such as `rotate3`."""
    kind, level = word[:-1], int(word[-1])
    if kind not in EXTRA:
        return load(f"{spec}~{word}[:{rows}]")
    clean = load(f"{spec}[:{rows}]")
    return dataclasses.replace(
        clean,
        name=f"{clean.name}+{word}",
        spec=f"{clean.spec}+{word}",
        image=functools.partial(extra_image, clean, kind, LEVELS.index(level)),
        fingerprint=files.digest([clean.fingerprint, "extra1", word]),
        rows=None,
    )


def decisions(folder: Path, condition: str) -> Runs:
    """Return the decisions of the networks in a folder of model-vs-human under a condition."""
    found = {}
    for path in sorted(folder.glob("*.csv")):
        if "subject" not in path.name:
            table = pd.DataFrame(row for row in csv.DictReader(path.open()) if row["condition"] == condition)
            found[path.name.split("_")[1]] = table.sort_values("imagename")
    classes = sorted(set().union(*(table["category"] for table in found.values())))
    number = {name: place for place, name in enumerate(classes)}
    return Runs(
        Outputs.from_arrays(
            name,
            predictions=np.array([number.get(word, -1) for word in table["object_response"]]),
            labels=table["category"].map(number).to_numpy(),
            classes=classes,
        )
        for name, table in found.items()
    )


def judged(name: str, new: Runs, known: Runs) -> list[dict[str, object]]:
    """Print a line on one shift, and return one row per estimate."""
    found = accuracy_without_labels(new, known)
    # Also what a refused estimate would have been.
    frame = accuracy_without_labels(new, known, max_half_width=1).frame
    true = np.array([new[model].accuracy for model in frame["model"]])
    holds = float(((frame["low"] <= true) & (true <= frame["high"])).mean())
    off = {title: 100 * float((frame[column] - true).abs().mean()) for column, title in ESTIMATES.items()}
    answer = found.refusal is None
    cells = "".join(f"{value:>20.2f}" if value == value else f"{'–':>20}" for value in off.values())
    bias = 100 * float((frame["accuracy"] - true).mean())
    text = f"{name:20}{100 * true.mean():6.1f}{100 * found.half_width:8.2f}  {'yes' if answer else 'no':8}"
    print(f"{text}{cells}{bias:+8.2f}{holds:8.2f}", flush=True)
    return [
        {"shift": name, "estimate": title, "answered": answer, "error": value, "bias": bias, "holds": holds}
        for title, value in off.items()
    ]


def summary(rows: list[dict[str, object]]) -> None:
    table = pd.DataFrame(rows)
    print(
        f"\n{'':20}{'shifts':>8}{'answered':>10}{'error, answered':>18}{'error, all':>12}{'intervals hold':>16}{'of all':>8}"
    )
    for title in ESTIMATES.values():
        own = table[table["estimate"] == title].dropna(subset="error")
        if own.empty:  # needs probabilities
            continue
        given = own[own["answered"]]
        ours = title == "ours"
        text = f"{title:20}{len(own):8}{f'{len(given)}/{len(own)}' if ours else '':>10}"
        text += f"{given['error'].mean():18.2f}{own['error'].mean():12.2f}"
        print(text + (f"{given['holds'].mean():16.3f}{own['holds'].mean():8.3f}" if ours else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help="names or patterns")
    parser.add_argument("--data", default="cifar10:test")
    parser.add_argument("--rows", type=int, default=1000, help="unlabelled examples of each shift; 0: no shifts of images")
    parser.add_argument("--shifts", nargs="*", default=None, help="such as rotate3")
    parser.add_argument("--fitted", action="store_true", help="use the kinds that the constants were fitted to")
    parser.add_argument("--decisions", type=Path, help="folder of model-vs-human")
    parser.add_argument("--people", type=Path, help="human label distributions [N, K] of the dataset, .npy")
    options = parser.parse_args()

    titles = "".join(f"{title:>20}" for title in ESTIMATES.values())
    print(f"{'':20}{'true':>6}{'+-':>8}  {'answer':8}{titles}{'bias':>8}{'holds':>8}")
    rows: list[dict[str, object]] = []
    if options.rows or options.people:
        clean = zoo.run(options.models, data=options.data, progress=False).aligned()
        half = len(clean.labels) // 2
        known = clean.select(slice(half, None))
        if options.rows:
            words = options.shifts or [word for word in EVERY if (word[:-1] in FITTED) == options.fitted]
            for word in words:
                data = shifted(options.data, options.rows, word)
                new = zoo.run(clean.names, data=data, embeddings=False, progress=False, batch_size=250)
                rows += judged(word, new.aligned(), known)
        if options.people:
            people = np.load(options.people)[:half]
            order = np.argsort(-(people * np.log(people + 1e-12)).sum(1), kind="stable")
            for part in (0.5, 0.3, 0.2, 0.1):
                rows += judged(f"hardest {part:.0%}", clean.select(np.sort(order[-round(part * half) :])), known)
    if options.decisions:
        known = decisions(options.decisions / "colour", "cr")
        for folder, conditions in CONDITIONS.items():
            for condition in conditions:
                rows += judged(f"{folder} {condition}", decisions(options.decisions / folder, condition), known)
    summary(rows)


if __name__ == "__main__":
    main()
