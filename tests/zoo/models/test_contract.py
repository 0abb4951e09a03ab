"""The contract of `Model`, checked for every card.

Every card is built with random weights on the meta device, where networks have shapes but no numbers. Representatives of
each source, family and kind of head also run on the CPU. `make test-all` runs every card on the CPU, except those of more
than 200 million parameters: smaller ones of the same architectures run there.
"""

import numpy as np
import pytest
import torch
from PIL import Image
from raised import fields

import zoo
from zoo.cards import labels
from zoo.errors import MissingWeights
from zoo.models.model import Model

MAX_PARAMETERS = 200e6

CARDS = [name for name in zoo.list() if zoo.card(name).source not in ("reference", "ensemble")]
RECIPES = [name for name in CARDS if zoo.card(name).source == "recipe"]
# Small models that cover every source, every kind of head and most families.
REPRESENTATIVES = [
    "clip-vit-b32", "deit-tiny-distilled", "densenet121", "dino-vit-s16", "dpn68", "efficientnet-lite0", "mobileclip2-s0",
    "mobilenetv4-conv-small", "resnet18-a1", "vit-ti16-augreg",
    *(name for name in RECIPES if zoo.card(name).architecture in ("resnet8", "resnet20", "all-cnn-c")),
    "wrn-16-8-cosine.cifar100", "resnet50-cosine.in1k", "inception_v3-squared-error.in1k",
]  # fmt: skip


def images_of_different_shapes() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    sizes = ((60, 40, 3), (37, 91, 3), (48, 48, 3))
    return [Image.fromarray(rng.integers(0, 256, size, np.uint8)) for size in sizes]


def check_attributes(model: Model, name: str) -> None:
    """Check what holds without running the network."""
    card = zoo.card(name)
    assert model.name == name
    assert model.card == card
    assert not any(module.training for module in model.network.modules())
    assert not any(parameter.requires_grad for parameter in model.network.parameters())
    assert (model.head is None) == (card.head == "none") == (not model.classes)
    assert len(set(model.classes)) == len(model.classes)
    if card.labels != "none":
        assert model.classes == (tuple(card.details["classes"]) if card.labels == "own" else labels.classes(card.labels))
    assert model.transform.size == card.transform.size
    assert model.layer_names
    assert model.num_parameters > 0


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether two results are equal up to the order of summation, which depends on the batch size."""
    scale = float(expected.abs().max())
    return torch.allclose(found, expected, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("name", [name for name in CARDS if name not in RECIPES or name not in REPRESENTATIVES])
def test_a_card_builds_a_network_with_the_shapes_it_states(name: str) -> None:
    model = zoo.load(name, pretrained=False, device="meta")
    check_attributes(model, name)
    batch = torch.empty(2, *model.transform.size, device="meta")
    if name in RECIPES:  # their heads turn off autocast, which the meta device does not have
        assert model.body(batch).shape == (2, model.head.in_features)
        assert model.head.out_features == len(model.classes)
        return
    embeddings, logits = model.forward(batch)
    assert embeddings.ndim == 2
    assert len(embeddings) == 2
    assert (None if logits is None else tuple(logits.shape)) == ((2, len(model.classes)) if model.classes else None)


def check_behaviour(name: str) -> None:
    model = zoo.load(name, pretrained=False, device="cpu")
    check_attributes(model, name)
    images = images_of_different_shapes()

    for image in images:  # the transform is deterministic and does not change its input
        before = image.tobytes()
        batch = model.transform(image)
        assert tuple(batch.shape) == tuple(model.transform.size)
        assert batch.dtype == torch.float32
        assert torch.equal(batch, model.transform(image))
        assert image.tobytes() == before

    images = images[:2]
    embeddings = model.embed(images)
    assert embeddings.shape[0] == len(images)
    assert torch.isfinite(embeddings).all()
    assert not torch.equal(embeddings[0], embeddings[1])  # it depends on the image
    model.network.train()
    assert torch.equal(model.embed(images), embeddings)  # whatever mode the network was in
    assert close(model.embed(images[1]), embeddings[1:2])  # whatever else is in the batch
    if model.classes:
        logits = model.predict(images)
        assert logits.shape == (len(images), len(model.classes))
        assert close(model.head(embeddings), logits)
    last = model.layer_names[-1]
    hidden = model.layers(images[1], [last])[last]
    assert len(hidden) == 1
    assert torch.isfinite(hidden).all()


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_a_representative_behaves_as_a_model_must(name: str) -> None:
    check_behaviour(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CARDS if name not in REPRESENTATIVES])
def test_every_other_card_behaves_as_a_model_must(name: str) -> None:
    size = zoo.load(name, pretrained=False, device="meta").num_parameters
    if size > MAX_PARAMETERS:
        pytest.skip(f"{size / 1e6:.0f} million parameters take minutes and gigabytes")
    check_behaviour(name)


def test_loading_a_model_that_was_never_published_is_an_error() -> None:
    for name in zoo.list(source="reference"):
        with pytest.raises(MissingWeights, check=fields(where=name, problem="never published")):
            zoo.load(name, pretrained=False)


@pytest.mark.parametrize(
    "name", ["resnet18-a1", "vit-ti16-augreg", "deit-tiny-distilled", "dpn68", "mobilenetv4-conv-small"]
)
def test_splitting_a_network_into_body_and_head_keeps_the_librarys_logits(name: str) -> None:
    import timm

    card = zoo.card(name)
    torch.manual_seed(0)
    whole = timm.create_model(card.id).eval()
    model = zoo.load(name, pretrained=False, device="cpu")
    final = whole.pretrained_cfg["classifier"]
    paths = (final,) if isinstance(final, str) else final
    body = {key: value for key, value in whole.state_dict().items() if not any(key.startswith(f"{path}.") for path in paths)}
    model.body.load_state_dict(body)
    for target, path in zip(final_layers(model, len(paths)), paths, strict=True):
        target.load_state_dict(whole.get_submodule(path).state_dict())
    batch = torch.stack([model.transform(image) for image in images_of_different_shapes()])
    with torch.inference_mode():
        assert close(model.forward(batch)[1], whole(batch))


def final_layers(model: Model, count: int) -> list[torch.nn.Module]:
    """Return the layers inside a model's head that the library keeps inside its network."""
    layers = [module for module in model.head.modules() if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d))]
    assert len(layers) == count
    return layers
