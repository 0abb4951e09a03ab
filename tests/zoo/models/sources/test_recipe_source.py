"""Models trained here: found by name with the weights they got, built on first load where the data are embedded."""

from pathlib import Path

import pytest
import torch

import zoo
from zoo.cards import recipe_names
from zoo.errors import CorruptFile, InputError, MissingWeights, ZooError
from zoo.models import trained


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (3, 3, 12, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_trained_then_loaded(zoo_home: Path) -> None:
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


def test_a_changed_byte_is_noticed_wherever_it_is(file: Path) -> None:
    """Tensors, names, shapes, description, digest: a file with one byte changed is refused, or says just the same."""
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
def test_a_damaged_file_is_left_out_of_the_list_and_named(file: Path, damage: bytes) -> None:
    file.write_bytes(damage)
    with pytest.warns(zoo.errors.ZooWarning, match=r"mine/model\.safetensors is left out"):
        assert "mine" not in zoo.list()
    assert "clip-vit-b32" in zoo.list()


def test_a_newer_file_is_refused(file: Path) -> None:
    import json

    from zoo.core import tensorfile

    found = tensorfile.read(file)
    note = json.loads(found.metadata["zoo"]) | {"schema": 99}
    file.write_bytes(tensorfile.encode({name: values.copy() for name, values in found.tensors.items()}, note))
    with pytest.raises(InputError, match="upgrade"):
        trained.describe(file)


def test_weights_of_another_origin_are_refused(zoo_home: Path) -> None:
    from safetensors.torch import save_file

    path = trained.path("resnet8-cosine.digits")
    path.parent.mkdir(parents=True)
    save_file(zoo.load("resnet8-cosine", pretrained=False).network.state_dict(), path)
    with pytest.raises(CorruptFile, match=r"carries no description of itself, .*; train the model again"):
        zoo.load("resnet8-cosine.digits")


@pytest.mark.slow
def test_built_on_first_load_and_once(zoo_home: Path, images: torch.Tensor, capfd: pytest.CaptureFixture[str]) -> None:
    first = zoo.load("resnet8-softmax").predict(images)
    assert "building resnet8-softmax.digits" in capfd.readouterr().err
    assert torch.equal(zoo.load("resnet8-softmax.digits").predict(images), first)
    assert "building" not in capfd.readouterr().err
    assert not (zoo_home / "cards").exists()


def test_weights_that_are_gone_name_the_command(zoo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        MissingWeights, match=r"resnet8-cosine\.cifar10: there are no trained weights at .*`zoo train resnet8"
    ):
        zoo.load("resnet8-cosine.cifar10")


@pytest.mark.parametrize("objective", ["softmax", "cosine", "sigmoid+dropout", "squared-error"])
def test_random_weights_of_any_recipe(objective: str, images: torch.Tensor) -> None:
    model = zoo.load(f"resnet8-{objective}.cifar100", pretrained=False)
    assert model.predict(images).shape == (3, 100)
    assert torch.allclose(model.head(model.embed(images)), model.predict(images))
    assert model.transform.size == (3, 32, 32)


def test_a_dataset_of_the_users_own() -> None:
    with pytest.raises(InputError, match=r"flowers-of-mine.*--data SPEC --as NAME"):
        zoo.load("resnet8-softmax.flowers-of-mine", pretrained=False)


def test_an_objective_of_the_users_own_is_a_recipe_at_once(zoo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from zoo.objectives import catalogue

    monkeypatch.setattr(catalogue, "_KINDS", dict(catalogue._KINDS))
    monkeypatch.setattr(recipe_names, "_registered", [])
    with pytest.raises(InputError, match="unknown model"):
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
