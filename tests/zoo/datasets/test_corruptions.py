"""Corrupted datasets: specs, what is done to the images, and that it is always the same."""

import io
import itertools
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from zoo import datasets
from zoo.datasets import corruptions
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image, np.float64)


def made(side: tuple[int, int], count: int = 1) -> Dataset:
    """Images of smooth colours, each of its own."""

    def image(index: int) -> Image.Image:
        row, column = np.mgrid[: side[1], : side[0]]
        waves = [120 + 60 * np.sin(row / (3 + index)) + 50 * np.cos(column / (4 + k)) for k in range(3)]
        return Image.fromarray(np.stack(waves, -1).astype(np.uint8))

    return Dataset("made", "made", [f"image {i}" for i in range(count)], image, "abc")


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("digits~noise3", "digits:test~noise3"),
        ("digits:calibration~jpeg1[5:9]", "digits:calibration~jpeg1[5:9]"),
        ("digits:calibration[5:9]~jpeg1", "digits:calibration~jpeg1[5:9]"),
        ("cifar10:train[:50]~blur5[:5]", "cifar10:train~blur5[0:5]"),
        ("in-c/fog/3~contrast2", "in-c/fog/3:test~contrast2"),
        ("hf:me/cats:train~pixelate4", "hf:me/cats:train~pixelate4"),
    ],
)
def test_one_way_to_write_a_corrupted_dataset(given: str, canonical: str) -> None:
    assert datasets.canonical(given) == canonical
    assert datasets.canonical(canonical) == canonical


@pytest.mark.parametrize("word", ["fog3", "noise", "noise0", "noise6", "noise33", "3", "Noise1"])
def test_an_unknown_corruption_is_refused_with_the_list(word: str) -> None:
    with pytest.raises(
        InputError, match=f"no corruption '{word}'; expected noise, blur, contrast, pixelate, jpeg, each .*~n"
    ):
        datasets.canonical(f"digits~{word}")


def test_one_corruption_at_a_time() -> None:
    with pytest.raises(InputError, match="expected one corruption, found noise1 and blur2"):
        datasets.canonical("digits~noise1~blur2")


def test_a_path_that_is_there_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cats~noise3", "cats"):
        (tmp_path / name / "a").mkdir(parents=True)
        made((8, 8))[0].save(tmp_path / name / "a" / "1.png")
    assert datasets.canonical(f"folder:{tmp_path}/cats~noise3") == f"folder:{tmp_path}/cats~noise3"
    assert len(datasets.load(f"folder:{tmp_path}/cats~noise3~noise3")) == 1
    assert datasets.load(f"folder:{tmp_path}/cats~blur1").name == "cats-blur1"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.canonical("folder:~/cats") == f"folder:{tmp_path}/cats"
    assert datasets.canonical("folder:~") == f"folder:{tmp_path}"


def test_splits_beside_a_corrupted_one() -> None:
    assert datasets.calibration_split("digits~noise3") == "digits:calibration~noise3"
    assert datasets.training_split("digits~noise3") == "digits:train"
    assert datasets.training_split("cifar10~noise3[:5]") == "cifar10:train"


@pytest.mark.parametrize("word", corruptions.every())
def test_an_image_is_always_damaged_in_the_same_way(word: str) -> None:
    clean, whole = datasets.load("digits"), datasets.load(f"digits~{word}")
    some = datasets.load(f"digits~{word}[40:50]")
    assert whole.ids == clean.ids
    assert np.array_equal(whole.labels, clean.labels)
    assert whole.classes == clean.classes
    assert len({clean.fingerprint, whole.fingerprint, some.fingerprint}) == 3
    assert some.ids[3] == clean.ids[43]
    assert some[3] == whole[43] == whole.select([43])[0] == pickle.loads(pickle.dumps(whole))[43]
    assert datasets.load(f"digits[40:50]~{word}")[3] == some[3]
    if word != "pixelate1" or clean[43] != whole[43]:
        assert whole[43] != clean[43]
    assert whole[43].size == clean[43].size


def test_every_corruption_has_a_fingerprint_of_its_own() -> None:
    assert len({datasets.load(f"digits~{word}").fingerprint for word in corruptions.every()}) == 25


@pytest.mark.parametrize("name", corruptions.NAMES)
@pytest.mark.parametrize("side", [(32, 32), (40, 32), (224, 200)])
def test_a_greater_strength_does_more(name: str, side: tuple[int, int]) -> None:
    clean = made(side)
    off = [
        np.abs(pixels(corruptions.corrupted(clean, f"{name}{s}", "x")[0]) - pixels(clean[0])).mean()
        for s in corruptions.STRENGTHS
    ]
    assert off[-1] > off[0] > 0
    assert all(later > 0.95 * before for before, later in itertools.pairwise(off))


def test_noise_has_its_standard_deviation_and_every_image_its_own() -> None:
    grey = Dataset("grey", "grey", ["a", "b"], lambda i: Image.new("RGB", (32, 32), (128, 128, 128)), "abc")
    first, second = (pixels(image) - 128 for image in corruptions.corrupted(grey, "noise3", "x"))
    assert first.std() == pytest.approx(0.08 * 255, rel=0.05)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.06
    assert abs(first.mean()) < 1.5


def test_against_other_ways_to_compute_them() -> None:
    clean = made((32, 32))
    before = pixels(clean[0])

    def after(word: str) -> np.ndarray:
        return pixels(corruptions.corrupted(clean, word, "x")[0])

    weights = np.exp(-(np.arange(-4, 5) ** 2) / 2)
    padded = np.pad(before, ((4, 4), (4, 4), (0, 0)), mode="edge")
    around = sum(
        np.outer(weights, weights)[i, j] * padded[i : i + 32, j : j + 32] for i in range(9) for j in range(9)
    ) / np.outer(weights, weights).sum()  # fmt: skip
    assert np.abs(after("blur5") - around).max() <= 0.5001
    mean = before.reshape(-1, 3).mean(0)
    assert np.abs(after("contrast2") - (mean + before) / 2).max() <= 0.5001
    buffer = io.BytesIO()
    clean[0].save(buffer, "JPEG", quality=40)
    assert np.array_equal(after("jpeg5"), pixels(Image.open(buffer)))
    assert len(np.unique(after("pixelate5")[:, 0, 0])) <= 20 < len(np.unique(before[:, 0, 0]))


def test_large_images_are_brought_to_the_size_that_the_constants_are_for() -> None:
    assert corruptions.corrupted(made((1024, 512)), "noise1", "x")[0].size == (512, 256)
    assert corruptions.corrupted(made((300, 200)), "noise1", "x")[0].size == (300, 200)


def test_a_dataset_of_outputs_has_no_images_to_corrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zoo

    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    np.savez(tmp_path / "mine.npz", logits=np.random.default_rng(0).normal(size=(20, 3)), labels=np.arange(20) % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (outputs,) = zoo.import_outputs(tmp_path / "mine.npz", data="ours").values()
        zoo.store.save(outputs)
    with pytest.raises(InputError, match="outputs on ours and no images"):
        datasets.canonical("ours~noise1")
