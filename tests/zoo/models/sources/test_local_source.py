"""Local checkpoints, described by a card or a configuration."""

import dataclasses
import json
from pathlib import Path

import pytest
import timm
import torch
from raised import fields
from safetensors.torch import save_file
from tiny_models import transformed

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


@pytest.mark.parametrize("ending", ["safetensors", "pth"])
def test_a_file_with_a_card_next_to_it_is_loaded(tmp_path: Path, images: torch.Tensor, ending: str) -> None:
    path, model = tmp_path / f"mine.{ending}", network()
    (save_file if ending == "safetensors" else torch.save)(model.state_dict(), path)
    (tmp_path / "mine.md").write_text(cards.write(card("mine", "test_resnet")))
    loaded = zoo.load(f"file:{path}")
    with torch.inference_mode():
        expected = model(transformed(loaded, images))
    assert torch.allclose(loaded.predict(images), expected, atol=1e-5)
    assert loaded.classes == zoo.labels.classes("cifar10")
    assert loaded.name == f"file:{path}"


def test_a_card_in_a_folder_lists_its_classes(tmp_path: Path, images: torch.Tensor) -> None:
    save_file(network(3).state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "card.md").write_text(cards.write(card("mine", "test_resnet", "ours", classes=["x", "y", "z"])))
    assert zoo.load(f"file:{tmp_path}").classes == ("x", "y", "z")


def test_a_checkpoint_of_a_small_architecture_is_loaded(tmp_path: Path, images: torch.Tensor) -> None:
    recipe = zoo.load("resnet8-cosine", pretrained=False)
    save_file(recipe.network.state_dict(), tmp_path / "model.safetensors")
    described = dataclasses.replace(recipe.card, source="local", reference=[], path=None)
    (tmp_path / "card.md").write_text(cards.write(described))
    assert torch.equal(zoo.load(f"file:{tmp_path}").predict(images), recipe.predict(images))


def test_a_folder_in_timms_format_is_loaded(tmp_path: Path, images: torch.Tensor) -> None:
    from timm.models import save_for_hf

    model = network(3)
    save_for_hf(model, tmp_path, model_config={"num_classes": 3, "label_names": ["x", "y", "z"]})
    loaded = zoo.load(f"file:{tmp_path}")
    assert loaded.classes == ("x", "y", "z")
    with torch.inference_mode():
        expected = model(transformed(loaded, images))
    assert torch.allclose(loaded.predict(images), expected, atol=1e-5)


def test_timms_format_without_class_names_is_an_error(tmp_path: Path) -> None:
    from timm.models import save_for_hf

    save_for_hf(network(3), tmp_path, model_config={"num_classes": 3})
    with pytest.raises(InputError, check=fields(where=str(tmp_path), problem=["3 classes", "label_names"])):
        zoo.load(f"file:{tmp_path}")


@pytest.mark.parametrize("path", ["/absent/absent.pth", "a\0b"])
def test_a_missing_file_is_an_error(path: str) -> None:
    with pytest.raises(InputError, check=fields(where=f"file:{path}")):
        zoo.load(f"file:{path}")


def test_a_name_without_a_path_is_an_error() -> None:
    with pytest.raises(InputError, check=fields(argument="name", found="file:")):
        zoo.load("file:")


def test_a_file_without_a_description_is_an_error(tmp_path: Path) -> None:
    save_file(network().state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(InputError, check=fields(argument="architecture", hint=["zoo card new", f"{tmp_path}/w.md"])):
        zoo.load(f"file:{tmp_path / 'w.safetensors'}")
    with pytest.raises(InputError, check=fields(where=str(tmp_path), problem="model.safetensors")):
        zoo.load(f"file:{tmp_path}")
    (tmp_path / "w.pkl").write_bytes(b"")
    with pytest.raises(InputError, check=fields(expected=".safetensors", found=".pkl")):
        zoo.load(f"file:{tmp_path / 'w.pkl'}")


def test_weights_that_do_not_fit_and_unknown_architectures_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(network(11).state_dict(), path)
    (tmp_path / "w.md").write_text(cards.write(card("w", "test_resnet")))
    with pytest.raises(InputError, check=fields(where=str(path), problem=["fc.bias", "[11]", "[10]"])):
        zoo.load(f"file:{path}")
    (tmp_path / "w.md").write_text(cards.write(card("w", "test_resnot")))
    with pytest.raises(UnknownName, check=fields(name="test_resnot", suggestions=("test_resnet",))):
        zoo.load(f"file:{path}")


def test_an_unknown_library_on_a_card_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(network().state_dict(), path)
    (tmp_path / "w.md").write_text(cards.write(card("w", "test_resnet", library="keras")))
    with pytest.raises(InputError, check=fields(where="zoo.details.library", found="keras")):
        zoo.load(f"file:{path}")


def test_replaced_weights_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    (tmp_path / "w.md").write_text(cards.write(card("w", "test_resnet")))
    save_file(network().state_dict(), path)
    zoo.load(f"file:{path}")
    state = network().state_dict()
    state["fc.bias"] += 1
    save_file(state, path)
    with pytest.raises(CorruptFile, check=fields(where=str(path))):
        zoo.load(f"file:{path}")


def test_a_configuration_with_an_unknown_architecture_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "no_such_network"}))
    with pytest.raises(UnknownName, check=fields(where=str(tmp_path), name="no_such_network")):
        zoo.load(f"file:{tmp_path}")
