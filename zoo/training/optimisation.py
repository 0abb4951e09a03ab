"""The optimiser of a recipe, the average of the weights, and both as tensors that a checkpoint can hold."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from zoo.cards.recipes import Recipe

SECOND_MOMENT = 0.999  # of AdamW: how much of the mean square of the gradients stays from step to step


def optimiser(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD with momentum, or AdamW, whose first moment has that momentum.

    Scales and biases, the tensors of one dimension, have no weight decay unless the recipe says so.
    """
    vectors = [p for p in network.parameters() if p.requires_grad and p.ndim <= 1]
    matrices = [p for p in network.parameters() if p.requires_grad and p.ndim > 1]
    parts = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": recipe.weight_decay if recipe.decay_norms else 0.0},
    ]
    groups, rate = [part for part in parts if part["params"]], recipe.learning_rate
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(groups, lr=rate, betas=(recipe.momentum, SECOND_MOMENT))
    nesterov = recipe.nesterov and recipe.momentum > 0
    return torch.optim.SGD(groups, lr=rate, momentum=recipe.momentum, nesterov=nesterov)


def average(network: nn.Module, recipe: Recipe) -> AveragedModel | None:
    """The running average of the weights and of the statistics that go with them, if the recipe has one."""
    if not recipe.ema:
        return None
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema), use_buffers=True)


def state(network: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers of each parameter, as `KIND/PARAMETER`; nothing before the first step."""
    return {
        f"{kind}/{name}": value
        for name, parameter in network.named_parameters()
        for kind, value in optimiser.state.get(parameter, {}).items()
        if value is not None
    }


def set_state(network: nn.Module, optimiser: torch.optim.Optimizer, values: Mapping[str, Tensor]) -> None:
    """Give the optimiser what `state` gave."""
    parameters = dict(network.named_parameters())
    for key, value in values.items():
        kind, _, name = key.partition("/")
        # AdamW counts its steps, and does so on the CPU.
        optimiser.state[parameters[name]][kind] = value if kind == "step" else value.to(parameters[name])


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
