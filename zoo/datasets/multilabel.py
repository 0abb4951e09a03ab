"""Two multi-label datasets in the layout that their authors publish: Pascal VOC 2007 and CheXpert."""

import csv
import functools
from pathlib import Path

import numpy as np
from PIL import Image

from zoo.datasets import fingerprints, image_files
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError

PATHOLOGIES = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion")  # on which results are reported


def voc(folder: Path, split: str, spec: str) -> Dataset | None:
    """Return VOC 2007 from `ImageSets/Main/CLASS_SPLIT.txt`; None if the folder does not contain it.

    The files mark a class as present (1), absent (-1) or difficult (0). Difficult classes are ignored, as in the devkit:
    their target is -1. The training split is `trainval`, training and validation together (Kornblith et al. 2021, Table
    A.2).
    """
    split = "trainval" if split == "train" else split
    roots = (folder, folder / "VOC2007", folder / "VOCdevkit" / "VOC2007")
    root = next((root for root in roots if (root / "ImageSets/Main").is_dir()), None)
    if root is None:
        return None
    lists = {path.stem.removesuffix(f"_{split}"): path for path in sorted((root / "ImageSets/Main").glob(f"*_{split}.txt"))}
    if not lists:
        raise InputError(f"no class lists *_{split}.txt in {root / 'ImageSets/Main'}", where=spec)
    marks = {name: dict(line.split() for line in path.read_text().splitlines()) for name, path in lists.items()}
    ids = sorted(next(iter(marks.values())))
    meaning = {"1": 1, "0": -1}  # anything else is absent
    targets = np.array([[meaning.get(marks[name].get(row_id, ""), 0) for name in marks] for row_id in ids], np.int8)
    return _dataset("voc2007", spec, root, [f"JPEGImages/{row_id}.jpg" for row_id in ids], tuple(marks), targets)


def chexpert(folder: Path, split: str, spec: str) -> Dataset | None:
    """Return CheXpert from `SPLIT.csv`; None if the folder does not contain it.

    Uncertain and unmentioned observations count as negative (Kornblith et al. 2021, D.3).
    """
    table = folder / f"{split}.csv"
    if not table.is_file():
        return None
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    missing = [name for name in ("Path", *PATHOLOGIES) if not rows or name not in rows[0]]
    if missing:
        raise InputError(f"{table} has no column {missing[0]!r}", where=spec)
    # Paths in the table begin with the name of the archive's top folder.
    ids = [row["Path"].partition("/")[2] for row in rows]
    targets = np.array([[row[name] in ("1", "1.0") for name in PATHOLOGIES] for row in rows], np.uint8)
    return _dataset("chexpert", spec, folder, ids, PATHOLOGIES, targets)


def _dataset(name: str, spec: str, root: Path, ids: list[str], classes: tuple[str, ...], targets: np.ndarray) -> Dataset:
    return Dataset(
        name=name,
        spec=spec,
        ids=ids,
        image=functools.partial(_image, root, ids),
        fingerprint=fingerprints.of_files(root, ids, extra=[*classes, targets.tobytes().hex()]),
        classes=classes,
        targets=targets,
    )


def _image(root: Path, ids: list[str], index: int) -> Image.Image:
    return image_files.read(root / ids[index])
