"""An ensemble as a model: its softmax is the weighted mean of its members' calibrated probabilities."""

import dataclasses

import pytest
import torch

import zoo
from zoo.cards.card import Card, EnsembleMember, Training
from zoo.errors import InputError
from zoo.models import registry

NAMES = ("timm:test_resnet", "timm:test_vit", "siglip-like")


@pytest.fixture(autouse=True)
def sigmoid_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member with another link than softmax, and another transform."""
    monkeypatch.setattr(registry, "_registered", {})
    base = zoo.card("timm:test_efficientnet")
    transform = dataclasses.replace(base.transform, size=(3, 64, 64), resize=(70,))
    zoo.register(dataclasses.replace(base, name="siglip-like", link="sigmoid", transform=transform))


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (3, 3, 40, 50), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def ensemble(*members: EnsembleMember, name: str = "together") -> Card:
    return zoo.register(
        Card(name=name, source="ensemble", family="ensemble", architecture="ensemble", labels="imagenet-1k", link="softmax",
             head="trained", training=Training("imagenet-1k", "supervised", "ensemble"), members=list(members))
    )  # fmt: skip


def test_the_softmax_is_the_weighted_mean(images: torch.Tensor) -> None:
    ensemble(EnsembleMember(NAMES[0], 1.0, 2.0), EnsembleMember(NAMES[1], 2.0, 0.5), EnsembleMember(NAMES[2], 1.0, 1.5))
    model = zoo.load("together", pretrained=False)
    members = [zoo.load(name, pretrained=False) for name in NAMES]
    logits = [member.predict(images).double() for member in members]
    first, second = (logits[0] / 2.0).softmax(1), (logits[1] / 0.5).softmax(1)
    third = (logits[2] / 1.5).sigmoid()
    third = third / third.sum(1, keepdim=True)
    expected = (first + 2 * second + third) / 4
    assert torch.allclose(model.predict(images).double().softmax(1), expected, atol=1e-6)
    assert torch.allclose(model.embed(images), torch.cat([member.embed(images) for member in members], 1), atol=1e-5)
    assert torch.allclose(model.head(model.embed(images)), model.predict(images), atol=1e-5)


def test_one_member_is_that_member(images: torch.Tensor) -> None:
    ensemble(EnsembleMember(NAMES[0], 1.0))
    alone, member = zoo.load("together", pretrained=False), zoo.load(NAMES[0], pretrained=False)
    assert torch.allclose(alone.predict(images).softmax(1), member.predict(images).softmax(1), atol=1e-6)
    assert alone.transform.fingerprint == member.transform.fingerprint


def test_an_ensemble_of_ensembles(images: torch.Tensor) -> None:
    ensemble(EnsembleMember(NAMES[0], 1.0), EnsembleMember(NAMES[2], 1.0), name="inner")
    ensemble(EnsembleMember("inner", 1.0), EnsembleMember(NAMES[1], 1.0), name="outer")
    inner, other, outer = (zoo.load(name, pretrained=False) for name in ("inner", NAMES[1], "outer"))
    expected = (inner.predict(images).softmax(1) + other.predict(images).softmax(1)) / 2
    assert torch.allclose(outer.predict(images).softmax(1), expected, atol=1e-6)


def test_an_already_transformed_batch(images: torch.Tensor) -> None:
    ensemble(EnsembleMember(NAMES[0], 1.0), EnsembleMember(NAMES[2], 1.0))
    model = zoo.load("together", pretrained=False)
    from zoo.datasets.images import decoded as as_images

    batch = torch.stack([model.transform(image) for image in as_images(images)])
    _, logits = model.forward(batch.to(memory_format=torch.channels_last))
    assert torch.allclose(logits, model.predict(images), atol=1e-5)


def test_the_hash_knows_members_weights_and_temperatures() -> None:
    variants = [
        (EnsembleMember(NAMES[0], 1.0), EnsembleMember(NAMES[1], 1.0)),
        (EnsembleMember(NAMES[0], 2.0), EnsembleMember(NAMES[1], 1.0)),
        (EnsembleMember(NAMES[0], 1.0, 2.0), EnsembleMember(NAMES[1], 1.0)),
        (EnsembleMember(NAMES[1], 1.0), EnsembleMember(NAMES[0], 1.0)),
    ]
    hashes = set()
    for number, members in enumerate(variants):
        ensemble(*members, name=f"variant{number}")
        hashes.add(zoo.load(f"variant{number}", pretrained=False).weights_hash)
    assert len(hashes) == len(variants)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ((), "needs at least one member"),
        ((EnsembleMember("timm:test_vit", -1.0),), "weight -1.0, expected a positive number"),
        ((EnsembleMember("timm:test_vit", 0.0),), "weight 0.0"),
        ((EnsembleMember("timm:test_vit", float("nan")),), "weight nan"),
        ((EnsembleMember("timm:test_vit", 1.0, 0.0),), "temperature 0.0, expected above zero"),
        ((EnsembleMember("together", 1.0),), "cannot be its own member"),
        ((EnsembleMember("timm:test_vit", 1.0), EnsembleMember("resnet8-softmax", 1.0)), "have different classes"),
        ((EnsembleMember("timm:test_vit", 1.0), EnsembleMember("dino-vit-s16", 1.0)), "have different classes"),
    ],
)
def test_what_cannot_be_averaged(members: tuple[EnsembleMember, ...], message: str) -> None:
    ensemble(*members)
    with pytest.raises(InputError, match=message):
        zoo.load("together", pretrained=False)
