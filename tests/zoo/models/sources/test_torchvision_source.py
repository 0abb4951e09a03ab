"""torchvision: cards from its registry, weights from its cache, the same logits as its own networks."""

import dataclasses
import hashlib
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from fake_hub import FakeHub
from PIL import Image
from raised import fields

import zoo
from zoo.errors import CorruptFile, InputError, MissingWeights, UnknownName


def image() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8))


def test_a_card_has_the_facts_of_the_registry() -> None:
    card = zoo.card("torchvision:resnet50")
    assert card.id == "resnet50.IMAGENET1K_V2"
    assert (card.accuracy, card.labels, card.architecture, card.family) == (80.858, "imagenet-1k", "resnet50", "resnet")
    assert zoo.card("torchvision:resnet50.IMAGENET1K_V1").accuracy == 76.13
    assert zoo.card("torchvision:vit_h_14").license == "cc-by-nc-4.0"


@pytest.mark.parametrize(
    "weights", ["ResNet50_Weights.IMAGENET1K_V2", "Inception_V3_Weights.IMAGENET1K_V1", "Swin_V2_T_Weights.DEFAULT"]
)
def test_the_transform_equals_torchvisions(weights: str) -> None:
    theirs = torchvision.models.get_weight(weights).transforms()
    architecture = weights.partition("_Weights")[0].lower()
    card = zoo.card(f"torchvision:{architecture}")
    card = card if weights.endswith("DEFAULT") else zoo.card(f"torchvision:{architecture}.{weights.partition('.')[2]}")
    from zoo.datasets.preprocessing import Pipeline

    assert torch.allclose(Pipeline(card.transform)(image()), theirs(image()), atol=1e-6)


ALL = torchvision.models.list_models(module=torchvision.models)
SOME = ["alexnet", "googlenet", "inception_v3", "regnet_y_400mf", "shufflenet_v2_x0_5", "vgg11", "vit_b_16", "swin_t"]


@pytest.mark.parametrize(
    "architecture", [pytest.param(name, marks=[] if name in SOME else pytest.mark.slow) for name in ALL]
)
def test_every_classifier_gives_embeddings_and_logits(architecture: str) -> None:
    device = "cpu" if "regnet" in architecture else "meta"  # RegNets compute their widths with tensors
    model = zoo.load(f"torchvision:{architecture}", pretrained=False, device=device)
    embeddings, logits = model.forward(torch.empty(2, *model.transform.size, device=device))
    assert logits.shape == (2, 1000)
    assert embeddings.ndim == 2


@pytest.mark.parametrize(
    ("architecture", "embeds"), [("squeezenet1_1", False), ("mobilenet_v3_small", True), ("mnasnet0_5", True)]
)
def test_cached_weights_give_torchvisions_logits(hub: FakeHub, tmp_path: Path, architecture: str, embeds: bool) -> None:
    theirs = torchvision.models.get_model(architecture, weights=None).eval()
    card = put_into_cache(theirs, architecture, tmp_path)
    assert zoo.availability("mine") == "local"
    model = zoo.load("mine", device="cpu")
    with torch.inference_mode():
        expected = theirs(model.transform(image())[None])
    assert torch.allclose(model.predict(image()), expected, atol=1e-4)
    assert model.embeds == embeds
    (tmp_path / "torch/hub/checkpoints" / Path(card.details["url"]).name).write_bytes(b"no weights")
    with pytest.raises(CorruptFile, check=fields(where="mine")):
        zoo.load("mine")


def put_into_cache(network: torch.nn.Module, architecture: str, folder: Path) -> zoo.Card:
    cache = folder / "torch/hub/checkpoints"
    cache.mkdir(parents=True)
    state = {key: value for key, value in network.state_dict().items() if "num_batches" not in key}  # as in old checkpoints
    torch.save(state, cache / "new")
    digest = hashlib.sha256((cache / "new").read_bytes()).hexdigest()
    (cache / "new").rename(cache / f"{architecture}-{digest[:8]}.pth")
    card = zoo.card(f"torchvision:{architecture}")
    url = f"https://download.pytorch.org/models/{architecture}-{digest[:8]}.pth"
    return zoo.register(dataclasses.replace(card, name="mine", details={"url": url}))


@pytest.fixture(autouse=True)
def _forget() -> None:
    from zoo.models import registry

    registry._registered.pop("mine", None)


def test_old_keys_of_densenets_are_renamed() -> None:
    from zoo.models.sources.torchvision import fill, untrained

    network, other = (untrained("densenet121", 10, "mine") for _ in range(2))
    old = {
        re.sub(r"(denselayer\d+\.)(norm|conv)(\d)", r"\1\2.\3", key): value for key, value in network.state_dict().items()
    }
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    fill("mine", other, old, "here")
    assert all(torch.equal(a, b) for a, b in zip(network.state_dict().values(), other.state_dict().values(), strict=True))


def test_a_file_with_another_hash_than_its_name_announces_is_refused(hub: FakeHub, tmp_path: Path) -> None:
    cache = tmp_path / "torch/hub/checkpoints"
    cache.mkdir(parents=True)
    card = zoo.card("torchvision:squeezenet1_1")
    torch.save(torchvision.models.squeezenet1_1(weights=None).state_dict(), cache / Path(card.details["url"]).name)
    with pytest.raises(CorruptFile, check=fields(problem="b8a52dc0")):
        zoo.load("torchvision:squeezenet1_1")


def test_missing_weights_are_an_error_without_delay(hub: FakeHub) -> None:
    zoo.card("torchvision:resnet18")  # imports the library
    began = time.monotonic()
    check = fields(where="torchvision:resnet18", problem="resnet18-f37072fd.pth", hint="https://download.pytorch.org")
    with pytest.raises(MissingWeights, check=check):
        zoo.load("torchvision:resnet18")
    assert time.monotonic() - began < 2  # the probe itself takes at most 0.8 seconds


def test_a_network_without_embeddings_is_run() -> None:
    runs = zoo.run("torchvision:squeezenet1_1", data="digits:test[:4]", pretrained=False, progress=False)
    outputs = runs["torchvision:squeezenet1_1"]
    assert outputs.logits.shape == (4, 1000)
    assert outputs.embeddings is None


@pytest.mark.parametrize(
    ("name", "unknown", "suggestion"),
    [("resnet51", "resnet51", "resnet50"), ("resnet50.IMAGENET1K_V3", "IMAGENET1K_V3", "IMAGENET1K_V2")],
)
def test_an_unknown_name_suggests_similar_ones(name: str, unknown: str, suggestion: str) -> None:
    with pytest.raises(UnknownName, check=fields(where=f"torchvision:{name}", name=unknown)) as caught:
        zoo.card(f"torchvision:{name}")
    assert suggestion in caught.value.suggestions


def test_a_name_without_a_model_is_an_error() -> None:
    with pytest.raises(InputError, check=fields(argument="name", found="torchvision:")):
        zoo.card("torchvision:")
