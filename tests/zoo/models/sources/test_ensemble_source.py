"""Ensembles as models: their softmax is the weighted mean of the members' calibrated probabilities."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from raised import fields
from tiny_models import transformed

import zoo
from zoo.cards.card import Card, EnsembleMember, Training
from zoo.errors import InputError
from zoo.models import registry

NAMES = ("timm:test_resnet", "timm:test_vit", "siglip-like")


@pytest.fixture(autouse=True)
def sigmoid_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a model with the link sigmoid and another transform."""
    monkeypatch.setattr(registry, "_registered", {})
    base = zoo.card("timm:test_efficientnet")
    transform = dataclasses.replace(base.transform, size=(3, 64, 64), resize=(70,))
    zoo.register(dataclasses.replace(base, name="siglip-like", link="sigmoid", transform=transform))


def ensemble(*members: EnsembleMember, name: str = "together") -> Card:
    return zoo.register(
        Card(name=name, source="ensemble", family="ensemble", architecture="ensemble", labels="imagenet-1k", link="softmax",
             head="trained", training=Training("imagenet-1k", "supervised", "ensemble"), members=list(members))
    )  # fmt: skip


def test_the_softmax_of_an_ensemble_is_the_weighted_mean(images: torch.Tensor) -> None:
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


def test_an_ensemble_of_one_member_is_that_member(images: torch.Tensor) -> None:
    ensemble(EnsembleMember(NAMES[0], 1.0))
    alone, member = zoo.load("together", pretrained=False), zoo.load(NAMES[0], pretrained=False)
    assert torch.allclose(alone.predict(images).softmax(1), member.predict(images).softmax(1), atol=1e-6)
    assert alone.transform.fingerprint == member.transform.fingerprint


def test_an_ensemble_may_contain_ensembles(images: torch.Tensor) -> None:
    ensemble(EnsembleMember(NAMES[0], 1.0), EnsembleMember(NAMES[2], 1.0), name="inner")
    ensemble(EnsembleMember("inner", 1.0), EnsembleMember(NAMES[1], 1.0), name="outer")
    inner, other, outer = (zoo.load(name, pretrained=False) for name in ("inner", NAMES[1], "outer"))
    expected = (inner.predict(images).softmax(1) + other.predict(images).softmax(1)) / 2
    assert torch.allclose(outer.predict(images).softmax(1), expected, atol=1e-6)


def test_a_transformed_batch_gives_the_same_logits(images: torch.Tensor) -> None:
    ensemble(EnsembleMember(NAMES[0], 1.0), EnsembleMember(NAMES[2], 1.0))
    model = zoo.load("together", pretrained=False)
    _, logits = model.forward(transformed(model, images).to(memory_format=torch.channels_last))
    assert torch.allclose(logits, model.predict(images), atol=1e-5)


def test_the_hash_depends_on_members_weights_and_temperatures() -> None:
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


def member_check(argument: str, found: float) -> Callable[[BaseException], bool]:
    return fields(where=["together", "timm:test_vit"], argument=argument, found=found)


@pytest.mark.parametrize(
    ("members", "check"),
    [
        ((), fields(where="together", argument="members", found=0)),
        ((EnsembleMember("timm:test_vit", -1.0),), member_check("weight", -1.0)),
        ((EnsembleMember("timm:test_vit", 0.0),), member_check("weight", 0.0)),
        ((EnsembleMember("timm:test_vit", float("inf")),), member_check("weight", float("inf"))),
        ((EnsembleMember("timm:test_vit", 1.0, 0.0),), member_check("temperature", 0.0)),
        ((EnsembleMember("together", 1.0),), fields(where="together", problem="together > together")),
        (
            (EnsembleMember("timm:test_vit", 1.0), EnsembleMember("resnet8-softmax", 1.0)),
            fields(problem=["resnet8-softmax", "1000", "10"]),
        ),
        (
            (EnsembleMember("timm:test_vit", 1.0), EnsembleMember("dino-vit-s16", 1.0)),
            fields(problem=["dino-vit-s16", "1000", "0"]),
        ),
    ],
)
def test_invalid_members_are_errors(members: tuple[EnsembleMember, ...], check: Callable) -> None:
    ensemble(*members)
    with pytest.raises(InputError, check=check):
        zoo.load("together", pretrained=False)


def test_a_weight_that_is_not_a_number_is_an_error() -> None:
    ensemble(EnsembleMember("timm:test_vit", float("nan")))
    with pytest.raises(InputError, check=fields(argument="weight")):
        zoo.load("together", pretrained=False)


def test_a_cascade_needs_one_threshold_between_each_two_members() -> None:
    members = [EnsembleMember(name, 1.0) for name in NAMES[:2]]
    card = dataclasses.replace(ensemble(*members), name="cascade", details={"cascade": {"rule": "margin", "thresholds": []}})
    zoo.register(card)
    with pytest.raises(InputError, check=fields(where="cascade", argument="thresholds", found=0)):
        zoo.load("cascade", pretrained=False)


def test_an_ensemble_takes_no_other_classes() -> None:
    ensemble(EnsembleMember(NAMES[0], 1.0))
    with pytest.raises(InputError, check=fields(argument="classes")):
        zoo.load("together", pretrained=False, classes=["cat"])
