"""Heads: the linear fit against the equations of its optimum, class mapping against sums of probabilities."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_hub import FakeHub
from hypothesis import given
from hypothesis import strategies as st
from raised import fields

import zoo
from zoo.cards.card import Card
from zoo.errors import InputError, MissingWeights
from zoo.models import heads, registry
from zoo.models.heads import class_mapping, linear


@pytest.fixture(scope="module")
def encoder() -> zoo.Model:
    return zoo.load("timm:test_vit", pretrained=False)


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (4, 3, 40, 50), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def blobs(width: int, classes: int = 3, rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(rows) % classes
    scales = np.logspace(-2, 2, width)  # dimensions of very different scale
    return (rng.normal(size=(classes, width))[y] + rng.normal(size=(rows, width)) + 3) * scales, y


class TestLinear:
    def width(self, model: zoo.Model) -> int:
        return model.embed(np.zeros((4, 4, 3), np.uint8)).shape[1]

    @pytest.mark.parametrize("classes", [2, 3])
    def test_the_gradient_vanishes_at_the_fit(self, encoder: zoo.Model, classes: int) -> None:
        """At the optimum of sum of losses + strength ||W||^2 in scaled dimensions, X'(P - Y) + 2 strength W = 0."""
        x, y = blobs(self.width(encoder), classes)
        strength = 0.3
        fitted = heads.fit_linear(encoder, x, y, [str(k) for k in range(classes)], strength)
        weight, bias = fitted.head.weight.double().numpy(), fitted.head.bias.double().numpy()
        logits = x @ weight.T + bias
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        scaled = (x - x.mean(0)) / x.std(0)
        gradient = scaled.T @ (p - np.eye(classes)[y]) + 2 * strength * (weight * x.std(0)).T
        if classes == 2:  # the two rows are one free vector w with W = (-w, w) / 2, penalised as ||w||^2
            w = (weight[1] - weight[0]) * x.std(0)
            gradient = scaled.T @ (p[:, 1] - y) + 2 * strength * w
        assert np.abs(gradient).max() < 2e-2
        assert np.abs((p - np.eye(classes)[y]).sum(0)).max() < 2e-2

    def test_the_fitted_model_predicts_its_training_labels(self, encoder: zoo.Model, images: torch.Tensor) -> None:
        x = encoder.embed(images)
        fitted = heads.fit_linear(encoder, x, np.arange(4), ["a", "b", "c", "d"])
        assert fitted.predict(images).argmax(1).tolist() == [0, 1, 2, 3]
        assert fitted.classes == ("a", "b", "c", "d")
        assert (fitted.card.head, fitted.name) == ("linear", "timm:test_vit+linear")
        assert fitted.weights_hash != encoder.weights_hash
        assert len(encoder.classes) == 1000  # the original model is unchanged

    def test_a_saved_head_is_loaded_by_name(self, hub: FakeHub, encoder: zoo.Model, images: torch.Tensor) -> None:
        import timm

        torch.manual_seed(0)
        state = timm.create_model(encoder.card.id).state_dict()
        hub.put(f"timm/{encoder.card.id}", "model.safetensors", state)
        body = zoo.load("timm:test_vit")
        x = body.embed(images.repeat(10, 1, 1, 1))
        fitted = heads.fit_linear(body, x, np.arange(40) % 4, ["a", "b", "c", "d"], name="mine")
        path = heads.save_linear(fitted)
        assert path.name == "mine.md"
        loaded = zoo.load("mine")
        assert loaded.classes == ("a", "b", "c", "d")
        assert torch.equal(loaded.predict(images), fitted.predict(images))
        with pytest.raises(InputError, check=fields(where="mine", problem=["4 classes", "[4, 5]"])):
            linear.stored(zoo.card("mine"), 5, loaded.classes, True)

    def test_a_head_is_fitted_on_a_locally_trained_model(self, images: torch.Tensor) -> None:
        zoo.train("resnet8-softmax", epochs=1, progress=False, save_as="body")
        body = zoo.load("body")
        x = body.embed(images.repeat(10, 1, 1, 1))
        fitted = heads.fit_linear(body, x, np.arange(40) % 4, ["a", "b", "c", "d"], name="mine")
        heads.save_linear(fitted)
        assert torch.equal(zoo.load("mine").predict(images), fitted.predict(images))
        assert zoo.load("mine", pretrained=False).predict(images).shape == (4, 4)

    def test_a_random_head_depends_only_on_the_name(self, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_registered", {})
        card = dataclasses.replace(zoo.card("timm:test_vit"), name="random-head", head="linear", labels="digits")
        zoo.register(card)
        first, again = (zoo.load("random-head", pretrained=False) for _ in range(2))
        assert torch.equal(first.predict(images), again.predict(images))

    def test_a_missing_head_is_an_error(self, zoo_home: Path) -> None:
        check = fields(where="clip-vit-b32-linear", problem=str(zoo_home), hint="fit_linear")
        with pytest.raises(MissingWeights, check=check):
            linear.stored(zoo.card("clip-vit-b32-linear"), 512, zoo.labels.classes("imagenet-1k"), True)

    @pytest.mark.parametrize(
        ("change", "check"),
        [
            ({"embeddings": np.ones((4, 3, 2))}, fields(argument="embeddings", found=[4, 3, 2])),
            ({"embeddings": np.full((4, 3), np.nan)}, fields(argument="embeddings", expected="finite")),
            ({"labels": [0, 0, 0, 0]}, fields(argument="labels", problem="'b'")),
            ({"strength": 0.0}, fields(argument="strength", found=0.0)),
        ],
    )
    def test_invalid_arguments_are_errors(self, encoder: zoo.Model, change: dict, check: Callable) -> None:
        arguments = {"embeddings": np.ones((4, 3)), "labels": [0, 1, 0, 1], "classes": ["a", "b"]} | change
        with pytest.raises(InputError, check=check):
            heads.fit_linear(encoder, **arguments)

    @pytest.mark.parametrize("labels", [[0, 1, 0, 2], [0, 1, 0]])
    def test_labels_out_of_range_or_of_another_number_are_errors(self, encoder: zoo.Model, labels: list[int]) -> None:
        with pytest.raises(InputError, match="labels"):
            heads.fit_linear(encoder, np.ones((4, 3)), labels, ["a", "b"])

    def test_saving_a_model_without_a_fitted_head_is_an_error(self, encoder: zoo.Model) -> None:
        with pytest.raises(InputError, check=fields(where=encoder.name, hint="fit_linear")):
            heads.save_linear(encoder)


class TestClassMapping:
    @given(st.integers(0, 2**32 - 1), st.integers(1, 5))
    def test_pooled_probabilities_are_sums_of_source_probabilities(self, seed: int, targets: int) -> None:
        rng = np.random.default_rng(seed)
        groups = [rng.choice(12, rng.integers(1, 6), replace=False).tolist() for _ in range(targets)]
        z = torch.from_numpy(rng.normal(0, 5, (4, 12)))
        pooled = heads.ClassMappingHead(torch.nn.Identity(), groups)(z)
        p = z.softmax(1)
        sums = torch.stack([p[:, group].sum(1) for group in groups], 1)
        assert torch.allclose(pooled.softmax(1), sums / sums.sum(1, keepdim=True))
        best = heads.ClassMappingHead(torch.nn.Identity(), groups, "max")(z)
        assert torch.allclose(best, torch.stack([z[:, group].amax(1) for group in groups], 1))

    def test_a_mapped_model_pools_the_logits_of_its_source_classes(self, encoder: zoo.Model, images: torch.Tensor) -> None:
        names = encoder.classes
        mapping = {"fish": names[:3], "bird": [names[10], names[7]], "dog": [names[200]]}
        mapped = heads.map_classes(encoder, mapping)
        z = encoder.predict(images)
        assert mapped.classes == ("fish", "bird", "dog")
        assert torch.allclose(mapped.predict(images)[:, 2], z[:, 200])
        assert torch.allclose(mapped.predict(images)[:, 1], z[:, [7, 10]].logsumexp(1), atol=1e-5)
        assert torch.allclose(mapped.head(mapped.embed(images)), mapped.predict(images))
        assert mapped.weights_hash != heads.map_classes(encoder, mapping, "max").weights_hash

    @pytest.mark.parametrize(
        ("mapping", "check"),
        [
            ({}, fields(argument="mapping", expected="at least one", found=0)),
            ({"a": []}, fields(where="class 'a'", argument="mapping", found=[])),
            ({"a": "n01440764"}, fields(where="class 'a'", argument="mapping", found="n01440764")),
            ({"a": ["unicorn"]}, fields(where="timm:test_vit", problem="unicorn")),
        ],
    )
    def test_invalid_mappings_are_errors(self, encoder: zoo.Model, mapping: dict, check: Callable) -> None:
        with pytest.raises(InputError, check=check):
            heads.map_classes(encoder, mapping)

    def test_mapping_an_encoder_without_classes_is_an_error(self) -> None:
        with pytest.raises(InputError, check=fields(where="dino-vit-s16")):
            heads.map_classes(zoo.load("dino-vit-s16", pretrained=False, device="meta"), {"a": ["b"]})

    def card(self, **details: object) -> Card:
        base = zoo.card("timm:test_vit")
        return dataclasses.replace(base, name="mapped", head="class-mapping", labels="cifar10", details=details)

    def test_a_card_describes_a_mapping(self, monkeypatch: pytest.MonkeyPatch, images: torch.Tensor) -> None:
        monkeypatch.setattr(registry, "_registered", {})
        source = zoo.labels.classes("imagenet-1k")
        mapping = {name: [source[3 * k], source[3 * k + 1]] for k, name in enumerate(zoo.labels.classes("cifar10"))}
        backwards = dict(reversed(mapping.items()))  # the order is that of the label set, not of the card
        zoo.register(self.card(source_labels="imagenet-1k", classes=backwards))
        model = zoo.load("mapped", pretrained=False)
        assert model.classes == zoo.labels.classes("cifar10")
        inner = model.head.head(model.embed(images))
        assert torch.allclose(model.predict(images)[:, 1], inner[:, [3, 4]].logsumexp(1), atol=1e-5)

    def test_cards_with_an_incomplete_mapping_are_errors(self) -> None:
        names = zoo.labels.classes("cifar10")
        head = torch.nn.Linear(3, 1000)
        with pytest.raises(InputError, check=fields(where="mapped", problem="details.source_labels")):
            class_mapping.from_card(self.card(), head, names)
        with pytest.raises(InputError, check=fields(problem=["1 classes", "10", "cifar10"])):
            class_mapping.from_card(self.card(source_labels="imagenet-1k", classes={"ship": ["n01440764"]}), head, names)
        every = {name: ["n01440764"] for name in names}
        with pytest.raises(InputError, check=fields(where="details.pooling", found="mean")):
            class_mapping.from_card(self.card(source_labels="imagenet-1k", classes=every, pooling="mean"), head, names)
