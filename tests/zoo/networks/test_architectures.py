"""Architectures of recipes: published sizes, shapes, blocks and initialisation."""

import pytest
import torch
from raised import fields
from torch import nn
from torch.nn import functional

from zoo.cards.recipe_names import OBJECTIVES, SMALL_ARCHITECTURES
from zoo.errors import InputError, UnknownName
from zoo.networks import build
from zoo.networks.small import AllConvolutional, Decorrelation, WideResNet


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameter_counts_are_the_published_ones():
    assert count(build("resnet20", 10)) == 269_722  # He et al. 2016 with parameter-free shortcuts, "0.27 M"
    assert count(WideResNet(28, 10)) + 640 * 10 + 10 == 36_479_194  # "36.5 M" of Zagoruyko & Komodakis 2016
    weights = [module.weight.numel() for module in AllConvolutional().modules() if isinstance(module, nn.Conv2d)]
    assert sum(weights) + 192 * 10 == 1_369_738 - (3 * 96 + 5 * 192 + 10)  # All-CNN-C without its biases
    assert build("wrn-16-8", 100).body.num_features == 512
    assert count(build("wrn-22-2", 10)) == count(WideResNet(22, 2)) + 128 * 10 + 10  # any depth 6n + 4 and any factor


@pytest.mark.parametrize("architecture", SMALL_ARCHITECTURES)
def test_the_logits_of_small_networks_depend_on_every_pixel(architecture):
    torch.manual_seed(0)
    network = build(architecture, 7, input_size=(3, 32, 32)).eval()
    images = torch.randn(2, 3, 32, 32, requires_grad=True)
    features, logits = network(images)
    assert logits.shape == (2, 7)
    assert features.shape == (2, network.body.num_features)
    logits.sum().backward()
    assert (images.grad.abs().sum((0, 1)) > 0).float().mean() > 0.9
    alone = network(images[:1])[1]
    torch.testing.assert_close(alone, logits[:1])


@pytest.mark.parametrize("architecture", [*SMALL_ARCHITECTURES, "resnet18"])
def test_blocks_are_called_in_the_order_of_their_names(architecture):
    network, seen = build(architecture, 5, input_size=(3, 32, 32)).eval(), []
    for name, block in network.blocks.items():
        block.register_forward_hook(lambda module, inputs, output, name=name: seen.append(name))
    network(torch.zeros(1, 3, 32, 32))
    assert seen == list(network.blocks)
    assert len(seen) >= 4


def test_the_blocks_of_a_resnet50_are_initialised_as_their_shortcut():
    network = build("resnet50", 10)
    scales = [module.weight for name, module in network.body.named_modules() if name.endswith("bn3")]
    assert len(scales) == 16
    assert all((scale == 0).all() for scale in scales)


@pytest.mark.parametrize("architecture", SMALL_ARCHITECTURES)
def test_no_feature_of_a_small_network_is_constant_at_initialisation(architecture):
    torch.manual_seed(0)
    network = build(architecture, 7, input_size=(3, 32, 32)).train()
    features = network.body(torch.randn(8, 3, 32, 32))
    assert (features.std(0) > 1e-3).all()


@pytest.mark.parametrize(
    ("architecture", "side"), [("efficientnet_b0", 32), ("vit_tiny_patch16_224", 64), ("mobilenetv3_small_100", 32)]
)
def test_architectures_of_timm_are_built_for_any_input_size(architecture, side):
    network = build(architecture, 11, "cosine", {"tau": 0.1}, (3, side, side)).eval()
    with torch.inference_mode():
        features, logits = network(torch.rand(2, 3, side, side))
    assert logits.shape == (2, 11)
    assert features.shape == (2, network.head.weight.shape[1])
    assert network.head.objective.hyperparameters == {"tau": 0.1}


@pytest.mark.slow
def test_inception_v3_is_built_for_small_images():
    network = build("inception_v3", 10, input_size=(3, 96, 96))
    assert network(torch.rand(2, 3, 96, 96))[1].shape == (2, 10)


@pytest.mark.parametrize("objective", [*OBJECTIVES, "sigmoid+dropout"])
def test_a_network_is_trained_with_any_objective(objective):
    network = build("resnet8", 10, objective, {"epochs": 3, "batch_size": 8}, (3, 8, 8))
    assert network.head.objective.name == objective
    loss = network.head.loss(network.body(torch.rand(4, 3, 8, 8)), torch.eye(10)[:4])
    loss.backward()
    assert all(parameter.grad is not None for parameter in network.body.parameters())


@pytest.mark.parametrize("architecture", [name for name in SMALL_ARCHITECTURES if name.endswith("-mini")])
def test_mini_networks_are_small_and_accept_other_input_sizes(architecture):
    assert 150_000 < count(build(architecture, 10, input_size=(3, 32, 32))) < 1_500_000
    assert build(architecture, 10, input_size=(3, 16, 16)).eval()(torch.rand(2, 3, 16, 16))[1].shape == (2, 10)


def test_transformer_and_mixer_depend_on_positions_and_mix_all_tokens():
    torch.manual_seed(0)
    for architecture in ("vit-mini", "mixer-mini"):
        body = build(architecture, 10, input_size=(3, 32, 32)).eval().body
        tokens = torch.randn(1, 64, body.num_features)
        moved = body.stages(tokens.roll(1, 1) + body.positions).roll(-1, 1)
        assert not torch.allclose(moved, body.stages(tokens + body.positions), atol=1e-3)
        changed = tokens.clone()
        changed[:, 5] += 1
        difference = (body.stages(changed) - body.stages(tokens)).abs().amax(2)[0]
        assert (difference > 0).all()  # one token reaches every other


@pytest.mark.parametrize(
    ("architecture", "similar"),
    [("wrn-15-8", "wrn-16-8"), ("resnet-8", "resnet8"), ("eficientnet_b0", "efficientnet_b0")],  # a depth must be 6n + 4
)
def test_an_unknown_architecture_suggests_similar_ones(architecture, similar):
    with pytest.raises(UnknownName, check=fields(kind="architecture", name=architecture)) as caught:
        build(architecture, 10)
    assert similar in caught.value.suggestions


def test_an_invalid_hyperparameter_is_an_error():
    with pytest.raises(InputError, check=fields(argument="tau", found=-1)):
        build("resnet8", 10, "cosine", {"tau": -1})


def test_the_stem_of_resnet7_decorrelates_natural_images() -> None:
    from sklearn.datasets import load_sample_images

    stem = Decorrelation()
    transform = stem.squares.flatten(1)
    torch.testing.assert_close(transform @ transform.T, torch.eye(12))
    photos = [torch.tensor(image).permute(2, 0, 1)[:, :416] / 255 for image in load_sample_images().images]
    squares = torch.cat([functional.pixel_unshuffle(photo[None], 2).movedim(1, 0).flatten(1) for photo in photos], 1)
    off_diagonal = ~torch.eye(12, dtype=torch.bool)
    raw, turned = torch.corrcoef(squares)[off_diagonal].abs(), torch.corrcoef(transform @ squares)[off_diagonal].abs()
    assert raw.mean() > 0.7
    assert turned.mean() < 0.15
    out = stem.train()(torch.stack([photo[:, :128, :128] for photo in photos]))
    positive, negative = out.split(12, 1)
    assert not (positive * negative).any()  # one of the two signs, and nothing is lost
    spread = (positive - negative).var((0, 2, 3), correction=0)
    assert (spread <= 1 + 1e-4).all()
    assert spread[:3].min() > 0.9  # brightness and colours themselves are far above the noise
