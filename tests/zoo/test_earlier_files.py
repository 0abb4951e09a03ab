"""Files written by an earlier version, at commit 165aa99, are read, with the numbers that version read from them.

`earlier_files/home` has a trained network (`zoo train`), a linear head, cards of an ensemble and a cascade, stored and
imported outputs, and temperatures (`zoo calibrate`). The bundle is from `zoo export`.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import zoo

FILES = Path(__file__).parent / "earlier_files"
DIGITS = "digits:test[:40]"
# Model: accuracy, and the first three probabilities of the first example.
READ = {
    "small.digits": (0.1, [0.10865, 0.10093, 0.09732]),
    "head.digits": (1.0, [0.99927, 0.0, 0.00007]),
    "both": (1.0, [0.55396, 0.05047, 0.04869]),
    "cascade": (1.0, [0.55396, 0.05047, 0.04869]),
}
IMPORTED = {"left": (0.875, [0.10222, 0.45585, 0.44193]), "right": (0.925, [0.10299, 0.11202, 0.78499])}


@pytest.fixture(autouse=True)
def home(zoo_home: Path) -> Path:
    return Path(shutil.copytree(FILES / "home", zoo_home, dirs_exist_ok=True))


def check(run: zoo.Outputs, accuracy: float, first: list[float], tolerance: float = 1e-5) -> None:
    assert run.accuracy == pytest.approx(accuracy)
    np.testing.assert_allclose(np.asarray(run.probabilities)[0, :3], first, atol=tolerance)


@pytest.mark.parametrize("name", ["small.digits", "head.digits"])
def test_stored_outputs(name: str) -> None:
    run = zoo.open(name, data=DIGITS)[name]
    check(run, *READ[name])
    assert run.embeddings.shape == (40, 64)


@pytest.mark.parametrize("name", IMPORTED)
def test_imported_outputs(name: str) -> None:
    check(zoo.open(name, data="my-set")[name], *IMPORTED[name])


def test_a_bundle() -> None:
    runs = zoo.import_outputs(FILES / "my-set.bundle.safetensors")
    for run in runs.values():
        check(run, *IMPORTED[run.name], tolerance=1e-4)


@pytest.mark.parametrize("name", READ)
def test_models_with_their_weights_and_cards(name: str) -> None:
    check(zoo.run(name, data=DIGITS, fresh=True)[name], *READ[name])


def test_stored_temperatures() -> None:
    run = zoo.calibrate(zoo.open("small.digits", data=DIGITS), "stored")["small.digits"]
    assert run.temperature == pytest.approx(0.16758884)


def test_every_checksum_holds() -> None:
    assert [run.state for run in zoo.verify().runs] == ["ok"] * 4
