"""Checkpoints on this machine: described by a card or a configuration, read without unpickling."""

import dataclasses
import json
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

import zoo
from zoo.cards import card as cards
from zoo.cards.card import Card, Training, Transform
from zoo.errors import CorruptFile, InputError, UnknownName

SPEC = Transform((3, 32, 32), (32, 32), "bilinear", (0.5,) * 3, (0.5,) * 3)


def card(name: str, architecture: str, labels: str = "cifar10", **details: object) -> Card:
    return Card(
        name=name, source="local", family="resnet", architecture=architecture, labels=labels, link="softmax", head="trained",
        training=Training("cifar10", "supervised", "softmax"), transform=SPEC, details=details,
    )  # fmt: skip


def network(classes: int = 10) -> torch.nn.Module:
    torch.manual_seed(0)
    return timm.create_model("test_resnet", num_classes=classes).eval()


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (3, 3, 40, 50), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("ending", ["safetensors", "pth"])
def test_a_file_with_a_card_beside_it(tmp_path: Path, images: torch.Tensor, ending: str) -> None:
    path, model = tmp_path / f"mine.{ending}", network()
    (save_file if ending == "safetensors" else torch.save)(model.state_dict(), path)
    (tmp_path / "mine.md").write_text(cards.write(card("mine", "test_resnet")))
    loaded = zoo.load(f"file:{path}")
    with torch.inference_mode():
        expected = model(torch.stack([loaded.transform(image) for image in zoo_images(images)]))
    assert torch.allclose(loaded.predict(images), expected, atol=1e-5)
    assert loaded.classes == zoo.labels.classes("cifar10")
    assert loaded.name == f"file:{path}"


def zoo_images(images: torch.Tensor) -> list[object]:
    from zoo.datasets.images import decoded as as_images

    return list(as_images(images))


def test_a_folder_with_a_card_and_classes_of_its_own(tmp_path: Path, images: torch.Tensor) -> None:
    save_file(network(3).state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "card.md").write_text(cards.write(card("mine", "test_resnet", "ours", classes=["x", "y", "z"])))
    assert zoo.load(f"file:{tmp_path}").classes == ("x", "y", "z")


def test_one_of_our_own_architectures(tmp_path: Path, images: torch.Tensor) -> None:
    recipe = zoo.load("resnet8-cosine", pretrained=False)
    save_file(recipe.network.state_dict(), tmp_path / "model.safetensors")
    described = dataclasses.replace(recipe.card, source="local", reference=[], path=None)
    (tmp_path / "card.md").write_text(cards.write(described))
    assert torch.equal(zoo.load(f"file:{tmp_path}").predict(images), recipe.predict(images))


def test_a_folder_in_timms_form(tmp_path: Path, images: torch.Tensor) -> None:
    from timm.models import save_for_hf

    model = network(3)
    save_for_hf(model, tmp_path, model_config={"num_classes": 3, "label_names": ["x", "y", "z"]})
    loaded = zoo.load(f"file:{tmp_path}")
    assert loaded.classes == ("x", "y", "z")
    with torch.inference_mode():
        expected = model(torch.stack([loaded.transform(image) for image in zoo_images(images)]))
    assert torch.allclose(loaded.predict(images), expected, atol=1e-5)


def test_timms_form_without_class_names(tmp_path: Path) -> None:
    from timm.models import save_for_hf

    save_for_hf(network(3), tmp_path, model_config={"num_classes": 3})
    with pytest.raises(InputError, match="has 3 classes and no label_names"):
        zoo.load(f"file:{tmp_path}")


@pytest.mark.parametrize("where", ["absent.pth", "a\0b"])
def test_nothing_there(tmp_path: Path, where: str) -> None:
    with pytest.raises(InputError, match="there is no such file or folder"):
        zoo.load(f"file:{tmp_path / where if where == 'absent.pth' else where}")
    with pytest.raises(InputError, match="expected a model after file:"):
        zoo.load("file:")


def test_nothing_says_what_it_is(tmp_path: Path) -> None:
    save_file(network().state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=rf"say it with --arch .*, or by a card at {tmp_path}/w\.md"):
        zoo.load(f"file:{tmp_path / 'w.safetensors'}")
    with pytest.raises(InputError, match="has none of"):
        zoo.load(f"file:{tmp_path}")
    (tmp_path / "w.pkl").write_bytes(b"")
    with pytest.raises(InputError, match=r"expected a file that ends in"):
        zoo.load(f"file:{tmp_path / 'w.pkl'}")


def test_what_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(network(11).state_dict(), path)
    (tmp_path / "w.md").write_text(cards.write(card("w", "test_resnet")))
    with pytest.raises(InputError, match=r"'fc\.bias' has shape \[11\], expected \[10\]"):
        zoo.load(f"file:{path}")
    (tmp_path / "w.md").write_text(cards.write(card("w", "test_resnot")))
    with pytest.raises(UnknownName, match="no architecture 'test_resnot'; did you mean test_resnet"):
        zoo.load(f"file:{path}")


def test_replaced_weights_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    (tmp_path / "w.md").write_text(cards.write(card("w", "test_resnet")))
    save_file(network().state_dict(), path)
    zoo.load(f"file:{path}")
    state = network().state_dict()
    state["fc.bias"] += 1
    save_file(state, path)
    with pytest.raises(CorruptFile, match="expected"):
        zoo.load(f"file:{path}")


def test_configuration_that_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "no_such_network"}))
    with pytest.raises(UnknownName, match="no_such_network"):
        zoo.load(f"file:{tmp_path}")
