"""The interface of a model: what it takes, what it gives, and that it cannot be left in the wrong mode."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import zoo
from zoo.cards.card import Card, Training, Transform
from zoo.core import devices
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, UnknownName
from zoo.models.model import Model, state_hash
from zoo.networks.network import Network

SPEC = Transform((3, 16, 16), (16, 16), "bilinear", (0.5,) * 3, (0.5,) * 3)
CARD = Card(name="m", source="local", family="f", architecture="a", labels="digits", link="softmax", head="trained",
            training=Training("digits", "supervised", "softmax"), transform=SPEC)  # fmt: skip


def moody() -> Model:
    """A network whose training mode shows: batch statistics and dropout."""
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


def test_train_mode_left_on_is_corrected(pixels: np.ndarray) -> None:
    model = moody()
    expected = model.predict(pixels)
    model.network.train()
    assert torch.equal(model.predict(pixels), expected)
    model.body[1].train()  # one layer of it only
    assert torch.equal(model.embed(pixels), moody().embed(pixels))
    model.network.train()
    assert torch.equal(model.layers(pixels)["relu"], moody().layers(pixels)["relu"])


@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
def test_alone_and_in_a_batch(pixels: np.ndarray, batch_size: int) -> None:
    model = moody()
    assert torch.allclose(model.predict(pixels, batch_size), model.predict(pixels, 3), atol=1e-6)
    assert torch.allclose(model.embed(pixels[4]), model.embed(pixels, batch_size)[4:5], atol=1e-6)
    hidden, one = model.layers(pixels, batch_size=batch_size), model.layers(pixels[2])
    assert torch.allclose(hidden["relu"][2:3], one["relu"], atol=1e-6)


def test_shapes_kinds_and_no_gradients(pixels: np.ndarray) -> None:
    model = moody()
    for values, width in ((model.embed(pixels), 8), (model.predict(pixels), 10)):
        assert values.shape == (7, width)
        assert values.dtype == torch.float32
        assert values.device.type == "cpu"
        assert not values.requires_grad
    assert model.layer_names == ["conv", "relu"]
    assert model.layers(pixels, ["relu"])["relu"].shape == (7, 8, 14, 14)


def test_every_form_of_images_gives_the_same(pixels: np.ndarray, tmp_path: Path) -> None:
    model = moody()
    expected = model.predict(pixels)
    paths = []
    for number, one in enumerate(pixels):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(one).save(paths[-1])
    tensor = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    for form in (tensor, [Image.fromarray(one) for one in pixels], paths, [str(path) for path in paths], iter(paths)):
        assert torch.equal(model.predict(form), expected)


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"broken\.jpg"):
        moody().predict(tmp_path / "broken.jpg")


def test_a_transformed_batch_and_raw_pixels(pixels: np.ndarray) -> None:
    model = moody()
    images = [Image.fromarray(one) for one in pixels]
    floats = torch.stack([model.transform(image) for image in images])
    bytes_ = torch.stack([model.transform.pixels(image) for image in images])
    for batch in (floats, bytes_):
        embeddings, logits = model.forward(batch)
        assert torch.equal(embeddings, model.embed(pixels))
        assert torch.equal(logits, model.predict(pixels))


def test_what_is_not_there(pixels: np.ndarray) -> None:
    model = moody()
    with pytest.raises(UnknownName, match=r"m: no layer 'rel'; did you mean relu\?; layers: conv, relu"):
        model.layers(pixels, ["rel"])
    with pytest.raises(InputError, match="expected at least one image"):
        model.predict([])
    with pytest.raises(InputError, match="batch_size: expected at least 1"):
        model.predict(pixels, 0)
    bare = Model(CARD, Network(model.body, None, {}), model.transform, [])
    assert bare.embed(pixels).shape == (7, 8)
    with pytest.raises(InputError, match="m: a bare encoder has no classes"):
        bare.predict(pixels)


def test_the_hash_is_of_every_number() -> None:
    model, same = moody(), moody()
    assert state_hash(model.network) == state_hash(same.network)
    same.body[1].running_mean[3] += 1e-6
    assert state_hash(model.network) != state_hash(same.network)
    assert Model(CARD, model.network, model.transform, model.classes, "given").weights_hash == "given"


def test_hooks_are_gone_afterwards(pixels: np.ndarray) -> None:
    model = moody()
    model.layers(pixels)
    with pytest.raises(RuntimeError):
        model.forward_layers(torch.zeros(1, 5, 16, 16))  # five channels do not go in
    assert not any(module._forward_hooks for module in model.network.modules())


def test_what_it_is_called() -> None:
    assert repr(moody()) == "<Model m: 10 classes, 0.0 M parameters, on cpu>"


class TestDevices:
    def test_the_one_asked_for_or_the_fastest(self) -> None:
        assert str(devices.choose("cpu")) == "cpu"
        assert str(devices.choose()) == devices.present()[0]

    @pytest.mark.parametrize("wish", ["cuda:7", "xpu", "mps:3", "quantum", "cuda:-1"])
    def test_absent_ones_are_refused_with_what_there_is(self, wish: str) -> None:
        with pytest.raises(InputError, match=r"this machine has .*cpu"):
            devices.choose(wish)
        with pytest.raises(InputError, match=r"this machine has .*cpu"):
            zoo.load("timm:test_resnet", pretrained=False, device=wish)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
    def test_cuda_without_any(self) -> None:
        with pytest.raises(InputError, match="device 'cuda' is not here; this machine has"):
            devices.choose("cuda")
