"""Heads: linear against scikit-learn and the optimum's own equations, class mapping against sums of probabilities."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_hub import FakeHub
from hypothesis import given
from hypothesis import strategies as st

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
    scales = np.logspace(-2, 2, width)  # dimensions of very different size
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

    def test_it_predicts_what_it_learnt(self, encoder: zoo.Model, images: torch.Tensor) -> None:
        x = encoder.embed(images)
        fitted = heads.fit_linear(encoder, x, np.arange(4), ["a", "b", "c", "d"])
        assert fitted.predict(images).argmax(1).tolist() == [0, 1, 2, 3]
        assert fitted.classes == ("a", "b", "c", "d")
        assert (fitted.card.head, fitted.name) == ("linear", "timm:test_vit+linear")
        assert fitted.weights_hash != encoder.weights_hash
        assert len(encoder.classes) == 1000  # the model it was made from is as it was

    def test_kept_and_found_by_name(self, hub: FakeHub, encoder: zoo.Model, images: torch.Tensor) -> None:
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
        with pytest.raises(InputError, match=r"has shape \[4, \d+\] and 4 classes, expected \[4, 5\]"):
            linear.stored(zoo.card("mine"), 5, loaded.classes, True)

    def test_on_a_model_trained_here(self, images: torch.Tensor) -> None:
        zoo.train("resnet8-softmax", epochs=1, progress=False, save_as="body")
        body = zoo.load("body")
        x = body.embed(images.repeat(10, 1, 1, 1))
        fitted = heads.fit_linear(body, x, np.arange(40) % 4, ["a", "b", "c", "d"], name="mine")
        heads.save_linear(fitted)
        assert torch.equal(zoo.load("mine").predict(images), fitted.predict(images))
        assert zoo.load("mine", pretrained=False).predict(images).shape == (4, 4)

    def test_a_random_head_depends_on_the_name_alone(self, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_registered", {})
        card = dataclasses.replace(zoo.card("timm:test_vit"), name="random-head", head="linear", labels="digits")
        zoo.register(card)
        first, again = (zoo.load("random-head", pretrained=False) for _ in range(2))
        assert torch.equal(first.predict(images), again.predict(images))

    def test_a_head_nobody_fitted(self, zoo_home: Path) -> None:
        with pytest.raises(MissingWeights, match=rf"no linear head was published, and none is in {zoo_home}.*fit_linear"):
            linear.stored(zoo.card("clip-vit-b32-linear"), 512, zoo.labels.classes("imagenet-1k"), True)

    @pytest.mark.parametrize(
        ("x", "y", "strength", "message"),
        [
            (np.ones((4, 3, 2)), [0, 1, 0, 1], 1.0, r"shape \[N, D\]"),
            (np.full((4, 3), np.nan), [0, 1, 0, 1], 1.0, "finite numbers"),
            (np.ones((4, 3)), [0, 0, 0, 0], 1.0, "no example of class 'b'"),
            (np.ones((4, 3)), [0, 1, 0, 2], 1.0, "class indices in 0..1"),
            (np.ones((4, 3)), [0, 1, 0], 1.0, "expected 4 entries"),
            (np.ones((4, 3)), [0, 1, 0, 1], 0.0, "strength: expected a positive number"),
        ],
    )
    def test_bad_input(self, encoder: zoo.Model, x: np.ndarray, y: list[int], strength: float, message: str) -> None:
        with pytest.raises(InputError, match=message):
            heads.fit_linear(encoder, x, np.array(y), ["a", "b"], strength)

    def test_only_a_fitted_head_is_kept(self, encoder: zoo.Model) -> None:
        with pytest.raises(InputError, match="has no fitted linear head to save"):
            heads.save_linear(encoder)


class TestClassMapping:
    @given(st.integers(0, 2**32 - 1), st.integers(1, 5))
    def test_pooled_probabilities_are_sums(self, seed: int, targets: int) -> None:
        rng = np.random.default_rng(seed)
        groups = [rng.choice(12, rng.integers(1, 6), replace=False).tolist() for _ in range(targets)]
        z = torch.from_numpy(rng.normal(0, 5, (4, 12)))
        pooled = heads.ClassMappingHead(torch.nn.Identity(), groups)(z)
        p = z.softmax(1)
        sums = torch.stack([p[:, group].sum(1) for group in groups], 1)
        assert torch.allclose(pooled.softmax(1), sums / sums.sum(1, keepdim=True))
        best = heads.ClassMappingHead(torch.nn.Identity(), groups, "max")(z)
        assert torch.allclose(best, torch.stack([z[:, group].amax(1) for group in groups], 1))

    def test_a_model_mapped(self, encoder: zoo.Model, images: torch.Tensor) -> None:
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
        ("mapping", "message"),
        [({}, "at least one target"), ({"a": []}, "'a' needs a list"), ({"a": "n01440764"}, "'a' needs a list"),
         ({"a": ["unicorn"]}, "1 of 1 classes are not among the 1000")],
    )  # fmt: skip
    def test_bad_maps(self, encoder: zoo.Model, mapping: dict[str, list[str]], message: str) -> None:
        with pytest.raises(InputError, match=message):
            heads.map_classes(encoder, mapping)

    def test_a_bare_encoder_has_nothing_to_map(self) -> None:
        with pytest.raises(InputError, match="bare encoder"):
            heads.map_classes(zoo.load("dino-vit-s16", pretrained=False, device="meta"), {"a": ["b"]})

    def card(self, **details: object) -> Card:
        base = zoo.card("timm:test_vit")
        return dataclasses.replace(base, name="mapped", head="class-mapping", labels="cifar10", details=details)

    def test_from_a_card(self, monkeypatch: pytest.MonkeyPatch, images: torch.Tensor) -> None:
        monkeypatch.setattr(registry, "_registered", {})
        source = zoo.labels.classes("imagenet-1k")
        mapping = {name: [source[3 * k], source[3 * k + 1]] for k, name in enumerate(zoo.labels.classes("cifar10"))}
        backwards = dict(reversed(mapping.items()))  # the order of the label set decides, not the card's
        zoo.register(self.card(source_labels="imagenet-1k", classes=backwards))
        model = zoo.load("mapped", pretrained=False)
        assert model.classes == zoo.labels.classes("cifar10")
        inner = model.head.head(model.embed(images))
        assert torch.allclose(model.predict(images)[:, 1], inner[:, [3, 4]].logsumexp(1), atol=1e-5)

    def test_cards_that_do_not_map(self) -> None:
        names = zoo.labels.classes("cifar10")
        head = torch.nn.Linear(3, 1000)
        with pytest.raises(InputError, match="needs a trained one, details"):
            class_mapping.from_card(self.card(), head, names)
        with pytest.raises(InputError, match="maps to 1 classes, expected the 10 of cifar10"):
            class_mapping.from_card(self.card(source_labels="imagenet-1k", classes={"ship": ["n01440764"]}), head, names)
        whole = {name: ["n01440764"] for name in names}
        with pytest.raises(InputError, match=r"details\.pooling is 'mean'"):
            class_mapping.from_card(self.card(source_labels="imagenet-1k", classes=whole, pooling="mean"), head, names)
