"""Ensembles as models: their softmax is the weighted mean of the members' calibrated probabilities."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from raised import fields
from tiny_models import transformed

import ensembles
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
        ((EnsembleMember("timm:test_vit", 1e308), EnsembleMember("timm:test_resnet", 1e308)), fields(argument="weight")),
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


def register_linear_classifier(name: str, rows: slice, path: Path) -> None:
    """Register an ONNX file with a linear classifier of digits, fitted by least squares on some of the training images."""
    data = zoo.datasets.load("digits:train")
    x = np.stack([np.moveaxis(np.asarray(data[row]), 2, 0).ravel() / 255 for row in range(*rows.indices(len(data)))])
    targets = 5 * np.eye(10)[data.labels[rows]]
    weight = np.linalg.solve(x.T @ x + np.eye(192), x.T @ targets).astype(np.float32)
    nodes = [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("MatMul", ["flat", "weight"], ["out"])]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 8, 8])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, name, [image], [out], [numpy_helper.from_array(weight, "weight")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    zoo.register(f"onnx:{path}", name, classes=list("0123456789"), mean=0, std=1)


@pytest.mark.filterwarnings("ignore:the gain in:zoo.errors.ZooWarning")  # few examples have small gains
def test_a_saved_ensemble_is_calibrated_by_its_own_temperature(tmp_path: Path) -> None:
    for name, rows in (("first", slice(0, 60)), ("second", slice(60, 120)), ("third", slice(120, 180))):
        register_linear_classifier(name, rows, tmp_path / f"{name}.onnx")
    runs = zoo.calibrate(zoo.run(["first", "second", "third"], data="digits:test", progress=False), 0.5)
    path = ensembles.greedy(runs, steps=3)
    card = path.to_model("found")
    temperature = card.details["temperature"]
    assert len(card.members) > 1
    assert temperature == path.temperature
    assert abs(temperature - 1) > 0.01
    members = zoo.Runs([runs[member.name] for member in card.members])
    mean = np.asarray(ensembles.average(members, [member.weight for member in card.members]), np.float64)
    expected = mean ** (1 / temperature)
    expected /= expected.sum(1, keepdims=True)
    outputs = zoo.run("found", data="digits:test", progress=False)["found"]
    held_out = np.isin(outputs.ids, runs["first"].ids)  # the other half fitted the members' temperatures
    np.testing.assert_allclose(outputs.probabilities[held_out], expected, atol=1e-5)
    assert np.abs(expected - mean).max() > 1e-3

    zoo.register(dataclasses.replace(card, name="untempered", details={}))
    tempered, untempered = (zoo.load(name) for name in ("found", "untempered"))
    assert tempered.weights_hash != untempered.weights_hash
    batch = torch.randn(3, 3, 8, 8)
    assert torch.allclose(tempered.forward(batch)[1], untempered.forward(batch)[1] / temperature, atol=1e-5)


def test_the_temperature_of_a_cascade_changes_its_confidence_but_not_where_it_stops(images: torch.Tensor) -> None:
    members = [EnsembleMember(name, 1.0) for name in NAMES[:2]]
    rule = {"cascade": {"rule": "margin", "thresholds": [0.0005]}}
    for name, details in (("plain", rule), ("sharp", rule | {"temperature": 0.5})):
        zoo.register(dataclasses.replace(ensemble(*members, name=f"{name}-average"), name=name, details=details))
    plain, sharp = (zoo.load(name, pretrained=False) for name in ("plain", "sharp"))
    assert torch.allclose(sharp.predict(images), plain.predict(images) / 0.5, atol=1e-4)
    assert plain.weights_hash != sharp.weights_hash


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf"), "warm", None])
def test_an_invalid_temperature_of_an_ensemble_is_an_error(temperature: object) -> None:
    card = ensemble(EnsembleMember(NAMES[0], 1.0))
    zoo.register(dataclasses.replace(card, name="odd", details={"temperature": temperature}))
    with pytest.raises(InputError, check=fields(where=["odd", "temperature"], argument="temperature")):
        zoo.load("odd", pretrained=False)
