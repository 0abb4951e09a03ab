"""Corrupted datasets: their specs, their images, and that these are reproducible."""

import io
import itertools
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raised import fields

from zoo import datasets
from zoo.datasets import corruptions
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError, UnknownName


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image, np.float64)


def made(side: tuple[int, int], count: int = 1) -> Dataset:
    """Return a dataset of different images with smooth colours."""

    def image(index: int) -> Image.Image:
        row, column = np.mgrid[: side[1], : side[0]]
        waves = [120 + 60 * np.sin(row / (3 + index)) + 50 * np.cos(column / (4 + k)) for k in range(3)]
        return Image.fromarray(np.stack(waves, -1).astype(np.uint8))

    return Dataset("made", "made", [f"image {i}" for i in range(count)], image, "abc")


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("digits~noise3", "digits:test~noise3"),
        ("digits:calibration~jpeg1[5:9]", "digits:calibration~jpeg1[5:9]"),
        ("digits:calibration[5:9]~jpeg1", "digits:calibration~jpeg1[5:9]"),
        ("cifar10:train[:50]~blur5[:5]", "cifar10:train~blur5[0:5]"),
        ("in-c/fog/3~contrast2", "in-c/fog/3:test~contrast2"),
        ("hf:me/cats:train~pixelate4", "hf:me/cats:train~pixelate4"),
    ],
)
def test_a_corrupted_dataset_has_one_canonical_spec(spec: str, canonical: str) -> None:
    assert datasets.canonical(spec) == canonical
    assert datasets.canonical(canonical) == canonical


@pytest.mark.parametrize("word", ["fog3", "noise", "noise0", "noise6", "noise33", "3", "Noise1"])
def test_an_unknown_corruption_is_refused_with_the_list(word: str) -> None:
    known = "noise, blur, contrast, pixelate, jpeg"
    with pytest.raises(UnknownName, check=fields(name=word, where=f"digits~{word}", expected=known)):
        datasets.canonical(f"digits~{word}")


def test_one_corruption_at_a_time() -> None:
    with pytest.raises(InputError, check=fields(expected="one corruption", found="noise1 and blur2")):
        datasets.canonical("digits~noise1~blur2")


def test_an_existing_path_with_a_tilde_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cats~noise3", "cats"):
        (tmp_path / name / "a").mkdir(parents=True)
        made((8, 8))[0].save(tmp_path / name / "a" / "1.png")
    assert datasets.canonical(f"folder:{tmp_path}/cats~noise3") == f"folder:{tmp_path}/cats~noise3"
    assert len(datasets.load(f"folder:{tmp_path}/cats~noise3~noise3")) == 1
    assert datasets.load(f"folder:{tmp_path}/cats~blur1").name == "cats-blur1"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.canonical("folder:~/cats") == f"folder:{tmp_path}/cats"
    assert datasets.canonical("folder:~") == f"folder:{tmp_path}"


def test_the_calibration_split_is_corrupted_and_the_training_set_is_not() -> None:
    assert datasets.calibration_split("digits~noise3") == "digits:calibration~noise3"
    assert datasets.training_split("digits~noise3") == "digits:train"
    assert datasets.training_split("cifar10~noise3[:5]") == "cifar10:train"


@pytest.mark.parametrize("word", corruptions.every())
def test_the_corruption_of_an_image_does_not_depend_on_the_selected_rows(word: str) -> None:
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


def test_every_corruption_has_another_fingerprint() -> None:
    assert len({datasets.load(f"digits~{word}").fingerprint for word in corruptions.every()}) == 25


@pytest.mark.parametrize("name", corruptions.NAMES)
@pytest.mark.parametrize("side", [(32, 32), (40, 32), (224, 200)])
def test_a_greater_strength_changes_more(name: str, side: tuple[int, int]) -> None:
    clean = made(side)
    off = [
        np.abs(pixels(corruptions.corrupted(clean, f"{name}{s}", "x")[0]) - pixels(clean[0])).mean()
        for s in corruptions.STRENGTHS
    ]
    assert off[-1] > off[0] > 0
    assert all(later > 0.95 * before for before, later in itertools.pairwise(off))


def test_noise_has_the_documented_standard_deviation_and_differs_between_images() -> None:
    grey = Dataset("grey", "grey", ["a", "b"], lambda i: Image.new("RGB", (32, 32), (128, 128, 128)), "abc")
    first, second = (pixels(image) - 128 for image in corruptions.corrupted(grey, "noise3", "x"))
    assert first.std() == pytest.approx(0.08 * 255, rel=0.05)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.06
    assert abs(first.mean()) < 1.5


def test_corruptions_equal_independent_implementations() -> None:
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


def test_large_images_are_resized_first() -> None:
    assert corruptions.corrupted(made((1024, 512)), "noise1", "x")[0].size == (512, 256)
    assert corruptions.corrupted(made((300, 200)), "noise1", "x")[0].size == (300, 200)


def test_a_dataset_without_images_cannot_be_corrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zoo

    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    np.savez(tmp_path / "mine.npz", logits=np.random.default_rng(0).normal(size=(20, 3)), labels=np.arange(20) % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (outputs,) = zoo.import_outputs(tmp_path / "mine.npz", data="ours").values()
        zoo.store.save(outputs)
    with pytest.raises(InputError, check=fields(where="ours~noise1", problem="no images")):
        datasets.canonical("ours~noise1")
