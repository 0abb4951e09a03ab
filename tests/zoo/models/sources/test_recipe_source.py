"""Locally trained models: loaded by name with their weights; recipes of the embedded dataset are trained on first load."""

from pathlib import Path

import pytest
import torch
from raised import fields

import zoo
from zoo.cards import recipe_names
from zoo.errors import CorruptFile, InputError, MissingWeights, UnknownName, ZooError
from zoo.models import trained


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (3, 3, 12, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_a_trained_model_is_loaded_by_name(zoo_home: Path) -> None:
    made = zoo.train("resnet8-cosine", epochs=1, tau=0.2, progress=False, save_as="mine")
    model = zoo.load("mine")
    assert model.card == made.card == zoo.card("mine")
    assert model.head.objective.hyperparameters == {"tau": 0.2}
    assert model.classes == tuple("0123456789")
    dataset = zoo.datasets.load("digits:test")
    predicted = model.predict([dataset[i] for i in range(len(dataset))]).argmax(1).numpy()
    assert (predicted == dataset.labels).mean() == pytest.approx(made.results["test_accuracy"], abs=1e-6)


@pytest.fixture
def file(zoo_home: Path) -> Path:
    zoo.train("resnet8-cosine", data="digits[:64]", epochs=1, progress=False, save_as="mine")
    return trained.path("mine")


def test_a_file_with_one_changed_byte_is_refused_or_has_the_same_contents(file: Path) -> None:
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    expected, refused = trained.read(file), 0
    for place in [*range(0, header, 37), *range(header, len(whole), len(whole) // 200), len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1
        file.write_bytes(changed)
        try:
            found = trained.read(file)
        except ZooError:
            refused += 1
            continue
        assert found[0] == expected[0], place
        assert all((found[1][name] == values).all() for name, values in expected[1].items()), place
    assert refused > 200


@pytest.mark.parametrize("damage", [b"", b"\x00" * 100, b"\xff" * 100])
def test_a_damaged_file_is_skipped_by_the_list_with_a_warning(file: Path, damage: bytes) -> None:
    file.write_bytes(damage)
    with pytest.warns(zoo.errors.ZooWarning, match=r"mine/model\.safetensors"):
        assert "mine" not in zoo.list()
    assert "clip-vit-b32" in zoo.list()


def test_a_file_of_a_newer_version_is_refused(file: Path) -> None:
    import json

    from zoo.core import tensorfile

    found = tensorfile.read(file)
    note = json.loads(found.metadata["zoo"]) | {"schema": 99}
    file.write_bytes(tensorfile.encode({name: values.copy() for name, values in found.tensors.items()}, note))
    with pytest.raises(InputError, check=fields(where=str(file), problem="99", hint="Upgrade")):
        trained.describe(file)


def test_weights_without_a_training_record_are_refused(zoo_home: Path) -> None:
    from safetensors.torch import save_file

    path = trained.path("resnet8-cosine.digits")
    path.parent.mkdir(parents=True)
    save_file(zoo.load("resnet8-cosine", pretrained=False).network.state_dict(), path)
    with pytest.raises(CorruptFile, check=fields(where=str(path), hint="zoo train")):
        zoo.load("resnet8-cosine.digits")


@pytest.mark.slow
def test_a_recipe_of_the_embedded_dataset_is_trained_on_first_load(
    zoo_home: Path, images: torch.Tensor, capfd: pytest.CaptureFixture[str]
) -> None:
    first = zoo.load("resnet8-softmax").predict(images)
    assert "building resnet8-softmax.digits" in capfd.readouterr().err
    assert torch.equal(zoo.load("resnet8-softmax.digits").predict(images), first)
    assert "building" not in capfd.readouterr().err
    assert not (zoo_home / "cards").exists()


def test_missing_weights_are_an_error_that_names_the_command(zoo_home: Path) -> None:
    name = "resnet8-cosine.cifar10"
    with pytest.raises(MissingWeights, check=fields(where=name, problem=str(zoo_home), hint=f"zoo train {name}")):
        zoo.load("resnet8-cosine.cifar10")


@pytest.mark.parametrize("objective", ["softmax", "cosine", "sigmoid+dropout", "squared-error"])
def test_any_recipe_has_random_weights(objective: str, images: torch.Tensor) -> None:
    model = zoo.load(f"resnet8-{objective}.cifar100", pretrained=False)
    assert model.predict(images).shape == (3, 100)
    assert torch.allclose(model.head(model.embed(images)), model.predict(images))
    assert model.transform.size == (3, 32, 32)


def test_a_recipe_of_an_unknown_dataset_is_an_error() -> None:
    check = fields(where="resnet8-softmax.my-flowers", name="my-flowers", hint=["cifar10", "--data SPEC --name NAME"])
    with pytest.raises(UnknownName, check=check):
        zoo.load("resnet8-softmax.my-flowers", pretrained=False)


def test_a_registered_objective_makes_recipe_names(zoo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from zoo.objectives import catalogue

    monkeypatch.setattr(catalogue, "_OBJECTIVES", dict(catalogue._OBJECTIVES))
    monkeypatch.setattr(recipe_names, "_registered", [])
    with pytest.raises(UnknownName, check=fields(kind="model", name="resnet8-mine.digits")):
        zoo.card("resnet8-mine.digits")

    @zoo.objectives.register("mine")
    @dataclasses.dataclass(frozen=True)
    class Mine(zoo.objectives.Objective):
        sharpness: float = 2.0

        def logits(self, x, W, b):
            return self.sharpness * super().logits(x, W, b)

    card = zoo.card("resnet8-mine")
    assert (card.name, card.objective, card.hyperparameters["sharpness"]) == ("resnet8-mine.digits", "mine", 2.0)
    made = zoo.train("resnet8-mine-s1", progress=False)
    assert made.card == zoo.card("resnet8-mine-s1.digits") == zoo.load("resnet8-mine-s1").card
    assert zoo.load("resnet8-mine+dropout", pretrained=False).head.objective.name == "mine+dropout"
