"""How many files a reader opens to follow `load`, `run`, `compare` and `greedy`.

A file counts when one of its functions runs in the call. Not counted is what a reader takes by its name: `__init__` files,
the checks of arrays (`_numbers`), reading and writing (`_storage`, the files of the store, images, the digits), settings,
names, labels, progress, pages of memory, single formulas (the bootstrap of a mean, NLL), and the data classes that are
passed along (cards, outputs, datasets). `run` is followed from the loaded model on, `load` on its own.

`python tests/test_call_paths.py` prints the files.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import diversity
import ensembles
import zoo

ROOT = Path(__file__).resolve().parents[1]
TAKEN_BY_NAME = (
    "zoo/_numbers/", "zoo/_storage/", "zoo/core/settings.py", "zoo/errors.py", "zoo/cards/labels.py", "zoo/cards/names.py",
    "zoo/cards/recipe_names.py", "zoo/core/progress.py", "zoo/core/pages.py", "zoo/cards/card.py", "zoo/outputs/outputs.py",
    "zoo/datasets/dataset.py", "zoo/outputs/store/layout.py", "zoo/outputs/store/shards.py", "zoo/datasets/images.py",
    "zoo/datasets/digits.py", "zoo/calibration/metrics.py", "diversity/bootstrap.py",
)  # fmt: skip
MOST = {"load": 15, "run": 12, "compare": 8, "greedy": 8}


def followed(call: Callable[[], Any]) -> set[str]:
    """The files of ours that count."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & 2:  # CO_NEWLOCALS: a function, not the body of a module or a class
            seen.add(code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    ours = {str(Path(file).relative_to(ROOT)) for file in seen if Path(file).is_relative_to(ROOT)}
    rooms = ("zoo/", "diversity/", "ensembles/", "probes/")
    return {f for f in ours if f.startswith(rooms) and not f.startswith(TAKEN_BY_NAME) and Path(f).name != "__init__.py"}


def paths() -> dict[str, set[str]]:
    """The files of the four calls, on a model whose weights are here and images that have not been run."""
    zoo.load("resnet8-softmax", device="cpu")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 100)
    logits = rng.normal(size=(4, 100, 3)) + np.eye(3)[y]
    runs = zoo.Runs(zoo.Outputs.from_arrays(name, logits=z, labels=y) for name, z in zip("abcd", logits, strict=True))
    load = followed(lambda: zoo.load("resnet8-softmax", device="cpu"))
    run = followed(lambda: zoo.run("resnet8-softmax", data="digits:test[:20]", progress=False, device="cpu"))
    return {
        "load": load,
        "run": run - load,
        "compare": followed(lambda: diversity.compare(runs["a"], runs["b"], resamples=10)),
        "greedy": followed(lambda: ensembles.greedy(runs, steps=2)),
    }


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # made-up models gain nothing
def test_files_to_follow() -> None:
    counted = {call: len(files) for call, files in paths().items()}
    assert {call: count for call, count in counted.items() if count > MOST[call]} == {}, counted


if __name__ == "__main__":
    for call, files in paths().items():
        print(f"{call}: {len(files)}", *sorted(files), sep="\n  ")
