"""Training categories, against the column that the paper prints for every row of its tables."""

import dataclasses
import itertools
from pathlib import Path

import pytest
from raised import fields

from diversity.categories import CATEGORIES, category, share_initialisation
from zoo.cards.card import Card, Training, read
from zoo.errors import InputError

FOLDER = Path(__file__).parents[2] / "model_cards"
MODELS = {model.name: model for path in sorted(FOLDER.glob("[!R]*.md")) for model in read(path).expand()}
BASE = MODELS["resnet50-ra"]
ROWS = [(model, row) for model in MODELS.values() for row in model.reference if row.category]


def make(**changes: object) -> Card:
    training = Training("imagenet-1k", "supervised", "softmax", {"tau": 1.0}, seed=0)
    card = Card("a", "recipe", "resnet", "resnet50", "imagenet-1k", "softmax", "trained", training)
    own = ("family", "architecture", "head", "name", "source", "sweep")
    of_card = {key: changes.pop(key) for key in [*changes] if key in own}
    return dataclasses.replace(card, training=dataclasses.replace(training, **changes), **of_card)


def test_the_paper_has_84_rows() -> None:
    assert len(ROWS) == 84
    assert {row.category for _, row in ROWS} == set(CATEGORIES)


@pytest.mark.parametrize(("model", "row"), ROWS, ids=[f"{row.table}: {model.name}" for model, row in ROWS])
def test_the_category_of_every_row_equals_the_papers(model: Card, row: object) -> None:
    assert category(BASE, model) == row.category  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({}, "reinit"),
        ({"seed": 1}, "reinit"),
        ({"name": "b"}, "reinit"),
        ({"seed": 1, "hyperparameters": {"tau": 1.0, "precision": "bfloat16"}}, "reinit"),
        ({"hyperparameters": {"tau": 2.0}}, "hparam"),
        ({"objective": "cosine"}, "hparam"),
        ({"architecture": "resnet101"}, "hparam"),
        ({"head": "linear"}, "hparam"),
        ({"family": "vgg", "architecture": "vgg19", "objective": "cosine"}, "arch"),
        ({"family": "vgg", "framework": "distilled"}, "fwork"),
        ({"family": "vgg", "framework": "contrastive", "dataset": "wit-400m"}, "dataset"),
        ({"dataset": "wit-400m"}, "dataset"),
        ({"dataset": "wit-400m", "framework": "unknown"}, "dataset"),
        ({"dataset": "unknown", "family": "vgg"}, None),
        ({"framework": "unknown", "family": "vgg"}, None),
    ],
)
def test_the_outermost_difference_decides(other: dict[str, object], expected: str | None) -> None:
    assert category(make(), make(**other)) == expected
    assert category(make(**other), make()) == expected


def test_the_order_does_not_matter_and_a_model_is_a_reinit_of_itself() -> None:
    models = list(MODELS.values())[::7]
    for a, b in itertools.combinations(models, 2):
        assert category(a, b) == category(b, a)
    for model in models:
        assert category(model, model) == "reinit"


def test_a_sweep_has_no_category() -> None:
    sweep = read(FOLDER / "resnet50-ra-dropout-rates.md")
    with pytest.raises(InputError, check=fields(where="resnet50-ra-dropout-rates", problem="9 models")):
        category(BASE, sweep)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"objective": "cosine"}, True),
        ({"dataset": "cifar10", "hyperparameters": {}}, True),
        ({"seed": 1}, False),
        ({"architecture": "resnet101"}, False),
        ({"source": "timm"}, False),
        ({"initialisation": "name and seed"}, False),
    ],
)
def test_recipes_of_one_architecture_and_seed_share_their_initialisation(changes: dict[str, object], expected: bool) -> None:
    assert share_initialisation(make(), make(**changes)) is expected
    assert share_initialisation(make(**changes), make()) is expected


def test_recipes_with_an_unknown_seed_do_not_count_as_sharing_their_initialisation() -> None:
    assert not share_initialisation(make(seed=None), make(seed=None, objective="cosine"))
