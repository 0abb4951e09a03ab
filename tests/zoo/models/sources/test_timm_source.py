"""timm: the same logits as timm's own forward pass, and an error for weights that do not fit."""

import dataclasses
import warnings

import pytest
import timm
import torch
from fake_hub import FakeHub
from raised import fields
from tiny_models import pil_images

import zoo
from zoo.errors import CorruptFile, InputError, MissingWeights, ZooError
from zoo.models import registry
from zoo.models.sources.head_split import split
from zoo.models.sources.timm import final_layers
from zoo.networks import blocks

TINY = "timm:test_resnet"


def tiny_id() -> str:
    return zoo.card(TINY).id


def trained(id: str, seed: int = 0) -> torch.nn.Module:
    """Return a network with random weights that differ from those of `pretrained=False`."""
    torch.manual_seed(seed)
    model = timm.create_model(id).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model


# One for each way in which timm builds heads: linear, 1 x 1 convolution, several heads, heads that share their input, heads
# for training only, several layers in the head.
HEADS = ["test_resnet", "test_vit", "dpn48b", "deit_tiny_distilled_patch16_224", "crossvit_tiny_240", "levit_128s",
         "repvit_m0_9", "efficientformerv2_s0", "mobilenetv3_small_050", "pit_ti_distilled_224", "dla46x_c",
         "swiftformer_xs", "levit_384_s8"]  # fmt: skip


def compare(architecture: str) -> None:
    torch.manual_seed(1)
    model = timm.create_model(architecture).eval()
    size = model.pretrained_cfg["input_size"]
    x = torch.randn(2, *size)
    with torch.inference_mode():
        expected = model(x)
        head = split(model, final_layers(model), torch.randn(1, *size), architecture).eval()
        embeddings = model(x)
        assert embeddings.ndim == 2
        found = head(embeddings)
    # Splitting changes nothing except the order of summation in wide sums.
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("architecture", HEADS)
def test_splitting_before_the_final_layer_keeps_the_logits(architecture: str) -> None:
    compare(architecture)


def smallest_of_each_family() -> list[str]:
    """Return one architecture of each of timm's modules, the smallest one by its name."""
    small = ["test", "femto", "atto", "pico", "nano", "xxtiny", "xxs", "_ti", "tiny", "xs", "s0", "_s", "small", "18", "b0"]
    families: dict[str, tuple[int, str]] = {}
    for name in timm.list_models():
        module = timm.models.model_entrypoint(name).__module__
        rank = next((place for place, mark in enumerate(small) if mark in name), len(small))
        families[module] = min(families.get(module, (rank, name)), (rank, name))
    return sorted(name for _, name in families.values())


PATCHES = "naflexvit"
# Adds the maximum over all patches to the logits, which a final layer on one vector cannot express.
REFUSED = "volo"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", smallest_of_each_family())
def test_splitting_works_in_every_family_of_timm(architecture: str) -> None:
    if architecture.startswith(PATCHES):
        pytest.skip("takes patches, not images")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # timm warns about its old models
        with torch.device("meta"):
            model = timm.create_model(architecture)
        if not model.num_classes:
            pytest.skip("has no classifier")
        if sum(p.numel() for p in model.parameters()) > 60e6 or max(model.pretrained_cfg["input_size"]) > 400:
            pytest.skip("too large for a test")
        assert blocks.find(model)
        if architecture.startswith(REFUSED):
            with pytest.raises(ZooError, check=fields(problem="final layers")):
                compare(architecture)
            return
        compare(architecture)


def test_final_layers_that_are_not_averaged_are_refused() -> None:
    """EfficientViM weights its heads by parameters; only if these are equal is the result the mean."""
    model = timm.create_model("efficientvim_m1").eval()
    model.weights.data = torch.tensor([3.0, 0.0, 0.0, 0.0])
    for path in model.pretrained_cfg["classifier"]:
        model.get_submodule(path).bias.data.normal_()
    example = torch.randn(1, 3, 224, 224)
    with pytest.raises(ZooError, check=fields(where="m", problem="4 final layers")):
        split(model, model.pretrained_cfg["classifier"], example, "m")


def test_random_weights_depend_only_on_the_name(images: torch.Tensor) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again = (zoo.load(TINY, pretrained=False) for _ in range(2))
    other = zoo.load("timm:test_resnet.r160_in1k", pretrained=False)
    assert torch.equal(torch.random.get_rng_state(), before)  # the caller's random state is unchanged
    assert torch.equal(first.predict(images), again.predict(images))
    assert first.weights_hash == again.weights_hash
    assert other.weights_hash != first.weights_hash


def test_cached_weights_are_loaded(hub: FakeHub, images: torch.Tensor, zoo_home: object) -> None:
    reference = trained(tiny_id())
    hub.put(f"timm/{tiny_id()}", "model.safetensors", reference.state_dict())
    model = zoo.load(TINY)
    with torch.inference_mode():
        batch = model.transform.normalise(torch.stack([model.transform.pixels(p) for p in pil_images(images)]))
        assert torch.allclose(model.predict(images), reference(batch), atol=1e-5)
    assert model.classes == zoo.labels.classes("imagenet-1k")
    assert "state_dict" not in model.body.pretrained_cfg
    assert not any(parameter.requires_grad for parameter in model.network.parameters())


def test_changed_weights_are_an_error(hub: FakeHub) -> None:
    hub.put(f"timm/{tiny_id()}", "model.safetensors", trained(tiny_id()).state_dict())
    zoo.load(TINY)
    path = hub.put(f"timm/{tiny_id()}", "model.safetensors", trained(tiny_id(), seed=1).state_dict())
    with pytest.raises(CorruptFile, check=fields(where=str(path))):
        zoo.load(TINY)


@pytest.mark.parametrize("change", ["missing key", "extra key", "1001 classes", "body shape"])
def test_weights_that_do_not_fit_are_refused(hub: FakeHub, change: str) -> None:
    """timm itself would silently drop a head of another size."""
    state = trained(tiny_id()).state_dict()
    if change == "missing key":
        del state["layer1.0.conv1.weight"]
    elif change == "extra key":
        state["layer9.weight"] = torch.zeros(3)
    elif change == "1001 classes":
        state["fc.weight"], state["fc.bias"] = torch.zeros(1001, state["fc.weight"].shape[1]), torch.zeros(1001)
    else:
        state["layer1.0.conv1.weight"] = torch.zeros(1, 2, 3, 3)
    hub.put(f"timm/{tiny_id()}", "model.safetensors", state)
    with pytest.raises(InputError, check=fields(where=[TINY, "model.safetensors"], problem="does not fit the network")):
        zoo.load(TINY)


def test_missing_keys_are_an_error_for_a_family_that_timm_does_not_load_strictly(hub: FakeHub) -> None:
    id = zoo.card("timm:dla46_c").id
    state = trained(id).state_dict()
    hub.put(f"timm/{id}", "model.safetensors", {key: value for key, value in state.items() if "level5" not in key})
    with pytest.raises(InputError, check=fields(problem=["keys are missing", "level5"])):
        zoo.load("timm:dla46_c")


def test_a_card_with_another_number_of_classes_is_refused(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    zoo.register(dataclasses.replace(zoo.card(TINY), name="wrong", labels="cifar100"))
    with pytest.raises(InputError, check=fields(where="wrong", problem=["1000 outputs", "100 classes"])):
        zoo.load("wrong", pretrained=False)


def test_missing_weights_are_an_error(hub: FakeHub) -> None:
    with pytest.raises(MissingWeights, check=fields(where=TINY, problem=f"timm/{tiny_id()}")):
        zoo.load(TINY)


def test_a_pickle_is_refused(hub: FakeHub) -> None:
    hub.put(f"timm/{tiny_id()}", "pytorch_model.bin", {"weight": torch.nn.Linear(2, 2)})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"pytorch_model\.bin|pickle"):
        zoo.load(TINY)


def test_layers_are_the_outputs_of_blocks(images: torch.Tensor) -> None:
    model = zoo.load("timm:resnet18", pretrained=False)
    assert model.layer_names == [f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1)]
    layers = model.layers(images, ["layer4.1", "layer2.0"])
    assert list(layers) == ["layer4.1", "layer2.0"]
    # The embedding of a ResNet is the mean over the image of its last block.
    assert torch.allclose(layers["layer4.1"].mean((2, 3)), model.embed(images), atol=1e-5)
    assert zoo.load("timm:test_vit", pretrained=False).layer_names[0] == "blocks.0"
