"""The optimiser of a recipe, the average of the weights, and both as tensors that a checkpoint can hold."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from zoo.training.recipes import Recipe


def optimiser(network: nn.Module, recipe: Recipe) -> torch.optim.SGD:
    """SGD with momentum. Scales and biases, the tensors of one dimension, have no weight decay unless the recipe says so."""
    vectors = [p for p in network.parameters() if p.requires_grad and p.ndim <= 1]
    matrices = [p for p in network.parameters() if p.requires_grad and p.ndim > 1]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": recipe.weight_decay if recipe.decay_norms else 0.0},
    ]
    nesterov = recipe.nesterov and recipe.momentum > 0
    return torch.optim.SGD(
        [group for group in groups if group["params"]], lr=recipe.learning_rate, momentum=recipe.momentum, nesterov=nesterov
    )


def average(network: nn.Module, recipe: Recipe) -> AveragedModel | None:
    """The running average of the weights and of the statistics that go with them, if the recipe has one."""
    if not recipe.ema:
        return None
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema), use_buffers=True)


def momenta(network: nn.Module, optimiser: torch.optim.SGD) -> dict[str, Tensor]:
    """The momentum of each parameter by its name; none before the first step."""
    state = optimiser.state
    return {
        name: state[parameter]["momentum_buffer"]
        for name, parameter in network.named_parameters()
        if state.get(parameter, {}).get("momentum_buffer") is not None
    }


def set_momenta(network: nn.Module, optimiser: torch.optim.SGD, values: Mapping[str, Tensor]) -> None:
    """Give each parameter the momentum that `momenta` gave."""
    for name, parameter in network.named_parameters():
        if name in values:
            optimiser.state[parameter] = {"momentum_buffer": values[name].to(parameter)}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under names that begin with `prefix.`."""
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix.`, without it.

    >>> sorted(under("a", prefixed("a", {"x": torch.ones(1)}) | prefixed("b", {"y": torch.ones(1)})))
    ['x']
    """
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
