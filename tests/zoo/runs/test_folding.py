"""Batch normalisation folded into convolutions: the same function, and nothing is folded where it would not be."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import zoo
from zoo.cards.card import Transform
from zoo.models.model import Model
from zoo.runs import runner
from zoo.runs.engines.folding import fold
from zoo.runs.engines.forward import Forward


def randomise(network):
    """Give batch normalisations statistics and weights that a mistake would show in."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.3)
            if module.running_var is not None:
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 2)
    return network.eval()


def normalisations(network):
    return sum(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules())


def assert_agree(folded, original):
    """Relative to the largest output 1e-4, and the same class for 99.99% of the examples."""
    folded, original = np.asarray(folded), np.asarray(original)
    assert np.abs(folded - original).max() <= 1e-4 * np.abs(original).max()
    assert np.mean(folded.argmax(1) == original.argmax(1)) >= 0.9999


def test_torchvisions_resnet18():
    from torchvision.models import resnet18

    network = randomise(resnet18())
    inputs = torch.randn(64, 3, 64, 64)
    folded, count = fold(network, inputs[:1])
    assert (count, normalisations(folded), normalisations(network)) == (20, 0, 20)
    with torch.inference_mode():
        assert_agree(folded(inputs), network(inputs))


@pytest.mark.parametrize("name", ["test_efficientnet", "test_byobnet", "test_resnet"])
def test_timm_networks_with_an_activation_inside_the_normalisation(name):
    import timm

    network = randomise(timm.create_model(name))
    inputs = torch.randn(16, 3, 64, 64)
    folded, count = fold(network, inputs[:1])
    assert count == normalisations(network) > 0
    with torch.inference_mode():
        assert_agree(folded(inputs), network(inputs))


@pytest.mark.parametrize(
    "name", [name for name in zoo.list("*.cifar10", available="shipped") if "efficientnet-lite" not in name]
)
def test_shipped_networks(name):
    model = zoo.load(name, device="cpu")
    rng = np.random.default_rng(0)
    coarse = torch.from_numpy(rng.uniform(0, 255, (100, 3, 4, 4)))
    pixels = nn.functional.interpolate(coarse, model.transform.size[1:], mode="bicubic").clamp(0, 255).to(torch.uint8)
    if model.transform.size[0] == 1:
        pixels = pixels[:, :1]
    ids = [str(row) for row in range(100)]
    plain = Forward(model, "float32", True, None)(pixels, ids)
    folded = Forward(model, "float32", True, None, fold=True)(pixels, ids)
    assert_agree(folded["logits"], plain["logits"])
    assert_agree(folded["embeddings"], plain["embeddings"])


class Custom(nn.Conv2d):
    """A convolution that uses its weights in another way."""

    def forward(self, batch):
        return super().forward(batch) * 2


class Net(nn.Module):
    def __init__(self, use):
        super().__init__()
        self.first = Custom(3, 3, 3, padding=1) if use == "custom" else nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3, track_running_stats=use != "no statistics")
        self.use = use

    def forward(self, batch):
        if self.use == "before":
            return self.first(self.norm(batch))
        result = self.first(batch)
        if self.use == "normalised twice":
            return self.norm(self.norm(result))
        if self.use == "convolved twice":
            return self.norm(self.first(result))
        if self.use == "something between":
            return self.norm(result.relu())
        if self.use == "added":
            return self.norm(result) + result
        if self.use == "changed in place":
            normalised = self.norm(result)
            return normalised * result.mul_(2).mean()
        if self.use == "seen as a view":
            return self.norm(result) + result.flatten(2).mean()
        if self.use == "returned":
            return torch.stack([self.norm(result), result])
        return self.norm(result)


@pytest.mark.parametrize(
    "use",
    ["before", "normalised twice", "convolved twice", "something between", "added", "changed in place", "seen as a view",
     "returned", "custom", "no statistics", "hooked"],
)  # fmt: skip
def test_what_is_not_safe_is_not_folded(use):
    network = randomise(Net(use))
    if use == "hooked":
        network.first.register_forward_hook(lambda module, inputs, result: result + 1)
    inputs = torch.randn(2, 3, 8, 8)
    folded, count = fold(network, inputs)
    assert (count, normalisations(folded)) == (0, 1)
    assert torch.equal(folded(inputs), network(inputs))


def test_a_result_that_the_network_returns_is_kept():
    class Both(Net):
        def forward(self, batch):
            result = self.first(batch)
            return self.norm(result), {"hidden": result}

    network = randomise(Both("both"))
    assert fold(network, torch.randn(2, 3, 8, 8))[1] == 0


def test_the_copy_is_folded_and_the_original_is_not():
    network = randomise(Net("plain"))
    before = copy.deepcopy(network.state_dict())
    folded, count = fold(network, torch.randn(2, 3, 8, 8))
    assert (count, normalisations(folded), normalisations(network)) == (1, 0, 1)
    assert all(torch.equal(values, before[name]) for name, values in network.state_dict().items())
    linear = nn.Linear(3, 3)
    assert fold(linear, torch.zeros(1, 3)) == (linear, 0)


def test_a_network_of_a_transform_that_keeps_the_size_is_folded_at_the_size_of_the_images():
    torch.manual_seed(0)
    network = randomise(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 6 * 6, 10)))

    def keep(image):
        return torch.from_numpy(np.moveaxis(np.asarray(image, np.float32) / 255, 2, 0))

    model = Model.of(network, keep, [str(k) for k in range(10)], name="mine", final_layer="3")
    options = {"data": "digits:test[:20]", "progress": False}
    plain, folded = (runner.run(model, fold=fold, **options)["mine"].logits for fold in (False, True))
    assert not np.array_equal(folded, plain)
    assert_agree(folded, plain)


def test_folded_outputs_are_stored_separately_and_others_stay_as_they_are():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network = randomise(nn.Sequential(*body, nn.Linear(8, 10)))
    spec = Transform((3, 16, 16), (16,), "bilinear", (0.5,) * 3, (0.25,) * 3)
    model = Model.of(network, spec, [str(k) for k in range(10)], name="mine")
    options = {"data": "digits:test[:50]", "progress": False}
    plain = runner.run(model, **options)["mine"]
    folded = runner.run(model, fold=True, **options)["mine"]
    assert (plain.details["precision"], folded.details["precision"]) == ("float32", "float32-folded")
    assert plain.path != folded.path
    assert not np.array_equal(plain.logits, folded.logits)
    assert_agree(folded.logits, plain.logits)
    assert_agree(folded.embeddings, plain.embeddings)
    assert normalisations(model.network) == 1
    assert runner.run(model, **options)["mine"].path == plain.path
    assert runner.run(model, fold=True, **options)["mine"].path == folded.path
    half = runner.run(model, fold=True, precision="bfloat16", **options)["mine"]
    assert half.details["precision"] == "bfloat16-folded"
