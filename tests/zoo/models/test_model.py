"""The interface of `Model`: forms of images, results, errors and devices."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from raised import fields
from torch import nn

import zoo
from zoo.cards.card import Card, Training, Transform
from zoo.core import devices
from zoo.core.types import Link
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, UnknownName
from zoo.models.model import Model, state_hash
from zoo.networks.network import Network

SPEC = Transform((3, 16, 16), (16, 16), "bilinear", (0.5,) * 3, (0.5,) * 3)
CARD = Card(name="m", source="local", family="f", architecture="a", labels="digits", link="softmax", head="trained",
            training=Training("digits", "supervised", "softmax"), transform=SPEC)  # fmt: skip


def mode_dependent() -> Model:
    """Return a model whose results depend on the training mode: it has batch normalisation and dropout."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5)
    )
    return Model(
        CARD, Network(body, nn.Linear(8, 10), {"conv": body[0], "relu": body[2]}), Pipeline(SPEC), list("0123456789")
    )


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (7, 20, 24, 3), np.uint8)


def test_results_do_not_depend_on_the_mode_of_the_network(pixels: np.ndarray) -> None:
    model = mode_dependent()
    expected = model.predict(pixels)
    model.network.train()
    assert torch.equal(model.predict(pixels), expected)
    model.body[1].train()
    assert torch.equal(model.embed(pixels), mode_dependent().embed(pixels))
    model.network.train()
    assert torch.equal(model.layers(pixels)["relu"], mode_dependent().layers(pixels)["relu"])


@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
def test_results_do_not_depend_on_the_batch_size(pixels: np.ndarray, batch_size: int) -> None:
    model = mode_dependent()
    assert torch.allclose(model.predict(pixels, batch_size), model.predict(pixels, 3), atol=1e-6)
    assert torch.allclose(model.embed(pixels[4]), model.embed(pixels, batch_size)[4:5], atol=1e-6)
    hidden, one = model.layers(pixels, batch_size=batch_size), model.layers(pixels[2])
    assert torch.allclose(hidden["relu"][2:3], one["relu"], atol=1e-6)


def test_results_are_float32_on_the_cpu_without_gradients(pixels: np.ndarray) -> None:
    model = mode_dependent()
    for values, width in ((model.embed(pixels), 8), (model.predict(pixels), 10)):
        assert values.shape == (7, width)
        assert values.dtype == torch.float32
        assert values.device.type == "cpu"
        assert not values.requires_grad
    assert model.layer_names == ["conv", "relu"]
    assert model.layers(pixels, ["relu"])["relu"].shape == (7, 8, 14, 14)


def test_all_forms_of_images_give_the_same_logits(pixels: np.ndarray, tmp_path: Path) -> None:
    model = mode_dependent()
    expected = model.predict(pixels)
    paths = []
    for number, one in enumerate(pixels):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(one).save(paths[-1])
    tensor = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    for form in (tensor, [Image.fromarray(one) for one in pixels], paths, [str(path) for path in paths], iter(paths)):
        assert torch.equal(model.predict(form), expected)


def test_an_undecodable_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"broken\.jpg"):
        mode_dependent().predict(tmp_path / "broken.jpg")


def test_forward_takes_transformed_batches_and_uint8_pixels(pixels: np.ndarray) -> None:
    model = mode_dependent()
    images = [Image.fromarray(one) for one in pixels]
    floats = torch.stack([model.transform(image) for image in images])
    bytes_ = torch.stack([model.transform.pixels(image) for image in images])
    for batch in (floats, bytes_):
        embeddings, logits = model.forward(batch)
        assert torch.equal(embeddings, model.embed(pixels))
        assert torch.equal(logits, model.predict(pixels))


def test_invalid_arguments_are_errors(pixels: np.ndarray) -> None:
    model = mode_dependent()
    check = fields(where="m", kind="layer", name="rel", suggestions=("relu",), hint=["conv", "relu"])
    with pytest.raises(UnknownName, check=check):
        model.layers(pixels, ["rel"])
    with pytest.raises(InputError, check=fields(argument="images", found=0)):
        model.predict([])
    with pytest.raises(InputError, check=fields(argument="batch_size", found=0)):
        model.predict(pixels, 0)
    with pytest.raises(InputError, check=fields(argument="top", found=0)):
        model.classify(pixels, top=0)


def test_an_encoder_embeds_but_does_not_predict(pixels: np.ndarray) -> None:
    model = mode_dependent()
    encoder = Model(CARD, Network(model.body, None, {}), model.transform, [])
    assert encoder.embed(pixels).shape == (7, 8)
    for function in (encoder.predict, encoder.classify):
        with pytest.raises(InputError, check=fields(where="m", hint="fit_linear")):
            function(pixels)


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
def test_classify_returns_the_most_probable_classes_of_the_cards_link(pixels: np.ndarray, link: Link) -> None:
    model = mode_dependent()
    model.card = dataclasses.replace(CARD, link=link)
    logits = model.predict(pixels).double().numpy()
    scores = np.exp(logits) if link == "softmax" else 1 / (1 + np.exp(-logits))
    probabilities = scores / scores.sum(1, keepdims=True)
    found = model.classify(pixels, top=3, batch_size=2)
    for row, expected in zip(found, probabilities, strict=True):
        order = np.argsort(-expected)[:3]
        assert [name for name, _ in row] == [model.classes[k] for k in order]
        assert [p for _, p in row] == pytest.approx(expected[order], abs=1e-5)
    assert model.classify(pixels[0]) == [found[0][:1]]
    assert [len(row) for row in model.classify(pixels[:1], top=99)] == [10]


def test_classify_shows_wordnet_ids_in_words(pixels: np.ndarray) -> None:
    model = mode_dependent()
    model.classes = ("n02123045", *model.classes[1:])
    names = [name for name, _ in model.classify(pixels[:1], top=10)[0]]
    assert {*names} == {"tabby, tabby cat", *"123456789"}


def test_the_hash_depends_on_every_number() -> None:
    model, same = mode_dependent(), mode_dependent()
    assert state_hash(model.network) == state_hash(same.network)
    same.body[1].running_mean[3] += 1e-6
    assert state_hash(model.network) != state_hash(same.network)
    assert Model(CARD, model.network, model.transform, model.classes, "given").weights_hash == "given"


def test_hooks_are_removed_after_an_error(pixels: np.ndarray) -> None:
    model = mode_dependent()
    model.layers(pixels)
    with pytest.raises(RuntimeError):
        model.forward_layers(torch.zeros(1, 5, 16, 16))  # the network takes three channels
    assert not any(module._forward_hooks for module in model.network.modules())


def test_the_repr_names_classes_parameters_and_device() -> None:
    assert repr(mode_dependent()) == "<Model m: 10 classes, 0.0 M parameters, on cpu>"


class TestDevices:
    def test_the_default_is_the_fastest_device(self) -> None:
        assert str(devices.choose("cpu")) == "cpu"
        assert str(devices.choose()) == devices.present()[0]

    @pytest.mark.parametrize("device", ["cuda:7", "xpu", "mps:3", "quantum", "cuda:-1"])
    def test_a_missing_device_is_an_error_that_lists_the_others(self, device: str) -> None:
        with pytest.raises(InputError, match="cpu"):
            devices.choose(device)
        with pytest.raises(InputError, match="cpu"):
            zoo.load("timm:test_resnet", pretrained=False, device=device)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
    def test_cuda_is_an_error_on_a_machine_without_it(self) -> None:
        with pytest.raises(InputError, check=fields(argument="device", found="cuda")):
            devices.choose("cuda")
