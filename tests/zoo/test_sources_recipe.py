"""Models trained here: found by name with the weights they got, built on first load where the data are embedded."""

import dataclasses
from pathlib import Path

import pytest
import torch

import zoo
from zoo import cards
from zoo.errors import CorruptFile, InputError, MissingWeights


@pytest.fixture
def pictures() -> torch.Tensor:
    return torch.randint(0, 256, (3, 3, 12, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_trained_then_loaded(zoo_home: Path, pictures: torch.Tensor) -> None:
    trained = zoo.train("resnet8-cosine", epochs=1, tau=0.2, progress=False)
    model = zoo.load("resnet8-cosine")
    assert model.card == trained.card
    assert model.weights_hash == trained.card.sha256
    assert model.head.objective.hyperparameters == {"tau": 0.2}
    assert model.classes == tuple("0123456789")
    dataset = zoo.datasets.load("digits:test")
    predicted = model.predict([dataset[i] for i in range(len(dataset))]).argmax(1).numpy()
    assert (predicted == dataset.labels).mean() == pytest.approx(trained.results["test_accuracy"], abs=1e-6)

    path = zoo_home / "weights" / "resnet8-cosine" / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptFile, match=r"resnet8-cosine: .* by the card"):
        zoo.load("resnet8-cosine")
    card_path = zoo_home / "cards" / "resnet8-cosine.md"
    card_path.write_text(card_path.read_text().replace("architecture: resnet8", "architecture: resnet20"))
    path.write_bytes(whole)
    with pytest.raises(InputError, match=r"does not fit the network: .* keys missing"):
        zoo.load("resnet8-cosine")


@pytest.mark.slow
def test_built_on_first_load_and_once(zoo_home: Path, pictures: torch.Tensor, capfd: pytest.CaptureFixture[str]) -> None:
    first = zoo.load("resnet8-softmax").predict(pictures)
    assert "building resnet8-softmax" in capfd.readouterr().err
    assert torch.equal(zoo.load("resnet8-softmax").predict(pictures), first)
    assert "building" not in capfd.readouterr().err
    assert zoo.card("resnet8-softmax").path == zoo_home / "cards" / "resnet8-softmax.md"


def test_a_model_saved_under_its_own_name_says_its_command(zoo_home: Path) -> None:
    card = dataclasses.replace(
        zoo.card("resnet8-cosine"), name="mine", details={"command": "zoo train resnet8-cosine --as mine"}
    )
    (zoo_home / "cards").mkdir()
    (zoo_home / "cards" / "mine.md").write_text(cards.write(card))
    with pytest.raises(
        MissingWeights, match=r"mine: there are no trained weights at .*`zoo train resnet8-cosine --as mine`"
    ):
        zoo.load("mine")


@pytest.mark.parametrize("objective", ["softmax", "cosine", "sigmoid+dropout", "squared-error"])
def test_random_weights_of_any_recipe(objective: str, pictures: torch.Tensor) -> None:
    model = zoo.load(f"resnet8-{objective}.cifar100", weights=False)
    assert model.predict(pictures).shape == (3, 100)
    assert torch.allclose(model.head(model.embed(pictures)), model.predict(pictures))
    assert model.transform.size == (3, 32, 32)


def test_a_dataset_of_the_users_own() -> None:
    with pytest.raises(InputError, match="flowers-of-mine"):
        zoo.load("resnet8-softmax.flowers-of-mine", weights=False)
