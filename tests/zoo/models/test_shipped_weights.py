"""Shipped weights: they match their cards, load offline, and have the accuracy that their cards state."""

import os
from pathlib import Path

import pytest

import zoo
from zoo.cards import card_index
from zoo.core import files
from zoo.outputs import bundle

REAL = os.environ.get("ZOO_TEST_DATA")  # a folder with the images of CIFAR-10 and Fashion-MNIST
MAX_BYTES = 60e6  # of all weights together
MIN_MODELS = 55  # of CIFAR-10
CHECKED = 1000  # shipped predictions of each model that are computed again
MIN_ACCURACY = 0.8  # unless the features were trained without the labels or on other data
SHIPPED = sorted(name for name, card in card_index.shipped().items() if card.sha256 and "results" in card.details)
NETWORKS = [name for name in SHIPPED if zoo.card(name).source == "recipe"]


def test_shipped_weights_exist_and_stay_small() -> None:
    paths = [path for path in card_index.shipped_folder().iterdir() if path.name.endswith(".safetensors")]
    weights = [path for path in paths if not path.name.endswith(".outputs.safetensors")]
    assert len(weights) == len(SHIPPED) > 0
    assert sum(path.stat().st_size for path in weights) < MAX_BYTES


def test_the_cifar10_models_are_many_and_the_supervised_ones_are_accurate() -> None:
    cards = [zoo.card(name) for name in SHIPPED if name.endswith(".cifar10")]
    assert len(cards) >= MIN_MODELS
    weak = [card for card in cards if card.details["results"]["test_accuracy"] < MIN_ACCURACY]
    assert all(card.framework != "supervised" or card.dataset != "cifar10" for card in weak)
    assert len(weak) < len(cards) / 4


@pytest.mark.parametrize("name", NETWORKS)
def test_a_shipped_network_matches_its_card(name: str, zoo_home: Path) -> None:
    card = zoo.card(name)
    file = card_index.shipped_folder() / f"{name}.safetensors"
    assert files.sha256(file) == card.sha256
    model = zoo.load(name)
    assert (model.card, zoo.availability(name)) == (card, "shipped")
    assert card.details["command"] in card.body


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model_has_the_accuracy_on_its_card(name: str, zoo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The accuracy is equal: that of the shipped outputs, of which some are computed again, else that of a run."""
    if REAL is None:
        pytest.skip("needs the test images; ZOO_TEST_DATA names their folder")
    monkeypatch.setenv("ZOO_DATA", REAL)
    spec = f"{zoo.card(name).labels}:test"
    shipped = bundle.shipped(name, spec)
    data = zoo.datasets.load(spec if shipped is None else f"{spec}[:{CHECKED}]")
    outputs = zoo.run(name, data=data, fresh=True, embeddings=False, progress=False)[name]
    whole = outputs if shipped is None else shipped
    assert whole.accuracy == zoo.card(name).details["results"]["test_accuracy"]
    assert (whole.predictions[: len(outputs)] == outputs.predictions).all()
    assert whole.ids[: len(outputs)].tolist() == outputs.ids.tolist()
