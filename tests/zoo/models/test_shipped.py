"""The weights in the box: they are what their cards say, they load with nothing else, and they score what is written."""

import os
from pathlib import Path

import pytest

import zoo
from zoo.cards import card_index
from zoo.core import files
from zoo.outputs import bundle

REAL = Path(os.environ.get("ZOO_TEST_DATA") or Path(__file__).resolve().parents[4] / "shared" / "data")
LARGEST = 60e6  # bytes of all weights together
FEWEST = 45  # models of CIFAR-10
LOWEST = 0.8  # of the test images, unless the features were learnt without the labels or from other data
SHIPPED = sorted(name for name, card in card_index.shipped().items() if card.sha256 and "results" in card.details)
NETWORKS = [name for name in SHIPPED if zoo.card(name).source == "recipe"]


def test_there_are_some_and_they_stay_small() -> None:
    paths = [path for path in card_index.shipped_folder().iterdir() if path.name.endswith(".safetensors")]
    weights = [path for path in paths if not path.name.endswith(".outputs.safetensors")]
    assert len(weights) == len(SHIPPED) > 0
    assert sum(path.stat().st_size for path in weights) < LARGEST


def test_the_cifar10_zoo_is_large_and_its_members_are_good() -> None:
    """Linear heads on features of other images, and pretext networks, have what accuracy they have."""
    cards = [zoo.card(name) for name in SHIPPED if name.endswith(".cifar10")]
    assert len(cards) >= FEWEST
    weak = [card for card in cards if card.details["results"]["test_accuracy"] < LOWEST]
    assert all(card.framework != "supervised" or card.dataset != "cifar10" for card in weak)
    assert len(weak) < len(cards) / 4


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_its_cards(name: str, zoo_home: Path) -> None:
    card = zoo.card(name)
    file = card_index.shipped_folder() / f"{name}.safetensors"
    assert files.sha256(file) == card.sha256
    model = zoo.load(name)
    assert (model.card, zoo.availability(name)) == (card, "shipped")
    assert card.details["command"] in card.body


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_right_on_as_many_images_as_its_card_says(name: str, zoo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last example, and the outputs that are shipped say the same of each."""
    if not REAL.is_dir():
        pytest.skip("needs the test images; ZOO_TEST_DATA names their folder")
    monkeypatch.setenv("ZOO_DATA", str(REAL))
    spec = f"{zoo.card(name).labels}:test"
    outputs = zoo.run(name, data=zoo.datasets.load(spec), embeddings=False, progress=False)[name]
    assert outputs.accuracy == zoo.card(name).details["results"]["test_accuracy"]
    kept = bundle.shipped(name, spec)
    if kept is not None:
        assert (kept.predictions == outputs.predictions).all()
