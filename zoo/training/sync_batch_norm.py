"""Batch normalisation with the statistics of the whole batch, when several processes share it.

torch normalises each process's part of the batch by the statistics of that part, so that two processes train a different
network than one. torch's SyncBatchNorm needs CUDA. Here statistics are exchanged by a differentiable all-reduce, on any
device and in any layer that calls `batch_norm`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class _SumOverProcesses(torch.autograd.Function):
    """Sum of a tensor over the processes. Every process's loss depends on it, so the gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        torch.distributed.all_reduce(total)
        return total


class SharedBatchNorm(TorchFunctionMode):
    """A context in which `batch_norm` in training mode uses the statistics of the examples of all processes."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        return (batch_norm if func is functional.batch_norm else func)(*args, **kwargs)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return torch's `batch_norm` of an input [N, C, ...] with the mean and variance over the examples of all processes."""
    if not training:
        return functional.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    x = input.float()
    others = [axis for axis in range(x.ndim) if axis != 1]
    count = x.numel() // x.shape[1]
    world = torch.distributed.get_world_size()
    # From deviations, not from sums of squares: with a mean far from zero, the difference of squares would cancel.
    mean = _sum(x.sum(others)) / (count * world)
    shape = [1, -1] + [1] * (x.ndim - 2)
    centred = x - mean.view(shape)
    var = _sum(centred.square().sum(others)) / (count * world)
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean), momentum)
            running_var.lerp_(var.to(running_var) * (count * world / max(count * world - 1, 1)), momentum)
    y = centred * torch.rsqrt(var + eps).view(shape)
    if weight is not None:
        y = y * weight.view(shape)
    if bias is not None:
        y = y + bias.view(shape)
    return y.to(input.dtype)


def _sum(value: Tensor) -> Tensor:
    return _SumOverProcesses.apply(value)
