"""Accuracy without labels under distribution shift: availability and error of the estimates, coverage of their intervals.

    ZOO_DATA=data python tests/benchmarks/without_labels.py --shifts contrast1 contrast3 rotate1 rotate3
    ZOO_DATA=data python tests/benchmarks/without_labels.py --rows 0 --people data/cifar10h/cifar10h-probs.npy
    python tests/benchmarks/without_labels.py --rows 0 --decisions data/model-vs-human

Runs the models, or reads their stored outputs, on the first rows of a dataset under each shift, without labels. The second
half of the clean dataset is the labelled data. Shifts are the package's corruptions and additional ones in this file, whose
strengths were chosen by eye. `--decisions` reads the folder of per-image decisions of model-vs-human (Geirhos et al. 2021),
with its colour images as the labelled data. `--people` reads human label distributions of the dataset, and shifts to the
images on which people disagree most.

The last table has, over shifts, the number with an estimate, the mean absolute error over models in points, and the fraction
of models whose true accuracy is inside its 95% confidence interval. "All" includes the estimates that were refused because
their intervals are too wide. Goals: an error of at most 2 points, and intervals that cover at least 95%. The constants of
the estimate were fitted to the shifts in FITTED. These are excluded by default; `--fitted` uses only these.
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


def to_image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


def brighten(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    return to_image(np.asarray(image, float) + 255 * (0.1, 0.25, 0.4)[level])


def fog(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    cloud = gaussian_filter(rng.normal(size=image.size[::-1]), 4, mode="wrap")
    cloud = (cloud - cloud.min()) / (np.ptp(cloud) + 1e-9)
    amount = ((0.2, 0.4, 0.6)[level] * (0.5 + 0.5 * cloud))[..., None]
    return to_image((1 - amount) * np.asarray(image, float) + amount * 230)


def impulse(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    pixels, fraction = np.array(image), (0.01, 0.03, 0.08)[level]
    drawn = rng.random(pixels.shape)
    return to_image(np.where(drawn < fraction / 2, 0, np.where(drawn > 1 - fraction / 2, 255, pixels)))


def motion(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    axis = int(rng.integers(2))
    return to_image(uniform_filter1d(np.asarray(image, float), (2, 4, 6)[level], axis=axis, mode="nearest"))


def occlude(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    pixels, side = np.array(image), (6, 10, 15)[level]
    row, column = rng.integers(0, 33 - side, 2)
    pixels[row : row + side, column : column + side] = GREY
    return to_image(pixels)


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


def shifted_image(dataset: Dataset, kind: str, level: int, row: int) -> Image.Image:
    """Return an image under a shift; its random numbers depend on the shift and the image's id only."""
    seed = int.from_bytes(hashlib.sha256(f"{kind} {dataset.ids[row]}".encode()).digest()[:8], "little")
    return EXTRA[kind](dataset[row].convert("RGB"), level, np.random.default_rng(seed))


def shifted_dataset(spec: str, rows: int, word: str) -> Dataset:
    """Return the first rows of a dataset under a shift such as `rotate3`."""
    kind, level = word[:-1], int(word[-1])
    if kind not in EXTRA:
        return load(f"{spec}~{word}[:{rows}]")
    clean = load(f"{spec}[:{rows}]")
    return dataclasses.replace(
        clean,
        name=f"{clean.name}+{word}",
        spec=f"{clean.spec}+{word}",
        image=functools.partial(shifted_image, clean, kind, LEVELS.index(level)),
        fingerprint=files.digest([clean.fingerprint, "extra1", word]),
        rows=None,
    )


def decisions(folder: Path, condition: str) -> Runs:
    """Return the decisions of the networks in a folder of model-vs-human under one condition."""
    found = {}
    for path in sorted(folder.glob("*.csv")):
        if "subject" not in path.name:
            table = pd.DataFrame(row for row in csv.DictReader(path.open()) if row["condition"] == condition)
            found[path.name.split("_")[1]] = table.sort_values("imagename")
    classes = sorted(set().union(*(table["category"] for table in found.values())))
    number = {name: index for index, name in enumerate(classes)}
    return Runs(
        Outputs.from_arrays(
            name,
            predictions=np.array([number.get(word, -1) for word in table["object_response"]]),
            labels=table["category"].map(number).to_numpy(),
            classes=classes,
        )
        for name, table in found.items()
    )


def evaluate(name: str, new: Runs, known: Runs) -> list[dict[str, object]]:
    """Print the results of one shift, and return one row per estimator."""
    found = accuracy_without_labels(new, known)
    # Includes estimates that would be refused.
    frame = accuracy_without_labels(new, known, max_half_width=1).frame
    true = np.array([new[model].accuracy for model in frame["model"]])
    covered = float(((frame["low"] <= true) & (true <= frame["high"])).mean())
    errors = {title: 100 * float((frame[column] - true).abs().mean()) for column, title in ESTIMATES.items()}
    estimated = found.refusal is None
    cells = "".join(f"{value:>20.2f}" if value == value else f"{'–':>20}" for value in errors.values())
    bias = 100 * float((frame["accuracy"] - true).mean())
    text = f"{name:20}{100 * true.mean():6.1f}{100 * found.half_width:8.2f}  {'yes' if estimated else 'no':9}"
    print(f"{text}{cells}{bias:+8.2f}{covered:9.2f}", flush=True)
    return [
        {"shift": name, "estimate": title, "estimated": estimated, "error": value, "bias": bias, "covered": covered}
        for title, value in errors.items()
    ]


def summary(rows: list[dict[str, object]]) -> None:
    table = pd.DataFrame(rows)
    print(f"\n{'':20}{'shifts':>8}{'estimated':>11}{'error, estimated':>18}{'error, all':>12}{'coverage':>16}{'all':>8}")
    for title in ESTIMATES.values():
        every = table[table["estimate"] == title].dropna(subset="error")
        if every.empty:  # this estimator requires probabilities
            continue
        estimated = every[every["estimated"]]
        ours = title == "ours"
        text = f"{title:20}{len(every):8}{f'{len(estimated)}/{len(every)}' if ours else '':>11}"
        text += f"{estimated['error'].mean():18.2f}{every['error'].mean():12.2f}"
        print(text + (f"{estimated['covered'].mean():16.3f}{every['covered'].mean():8.3f}" if ours else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help="names or patterns")
    parser.add_argument("--data", default="cifar10:test")
    parser.add_argument("--rows", type=int, default=1000, help="unlabelled examples per shift; 0: no image shifts")
    parser.add_argument("--shifts", nargs="*", default=None, help="shifts such as rotate3; default: all")
    parser.add_argument("--fitted", action="store_true", help="only the shifts to which the constants were fitted")
    parser.add_argument("--decisions", type=Path, help="folder of model-vs-human")
    parser.add_argument("--people", type=Path, help="human label distributions [N, K] of the dataset, .npy")
    options = parser.parse_args()

    titles = "".join(f"{title:>20}" for title in ESTIMATES.values())
    print(f"{'':20}{'true':>6}{'+-':>8}  {'estimate':9}{titles}{'bias':>8}{'coverage':>9}")
    rows: list[dict[str, object]] = []
    if options.rows or options.people:
        clean = zoo.run(options.models, data=options.data, progress=False).aligned()
        half = len(clean.labels) // 2
        known = clean.select(slice(half, None))
        if options.rows:
            words = options.shifts or [word for word in EVERY if (word[:-1] in FITTED) == options.fitted]
            for word in words:
                data = shifted_dataset(options.data, options.rows, word)
                new = zoo.run(clean.names, data=data, embeddings=False, progress=False, batch_size=250)
                rows += evaluate(word, new.aligned(), known)
        if options.people:
            people = np.load(options.people)[:half]
            order = np.argsort(-(people * np.log(people + 1e-12)).sum(1), kind="stable")
            for part in (0.5, 0.3, 0.2, 0.1):
                rows += evaluate(f"hardest {part:.0%}", clean.select(np.sort(order[-round(part * half) :])), known)
    if options.decisions:
        known = decisions(options.decisions / "colour", "cr")
        for folder, conditions in CONDITIONS.items():
            for condition in conditions:
                rows += evaluate(f"{folder} {condition}", decisions(options.decisions / folder, condition), known)
    summary(rows)


if __name__ == "__main__":
    main()
