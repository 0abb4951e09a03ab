"""A stand-in for an accelerator, for machines that have none: tensors that refuse what a real device would refuse.

`upload(array)` gives a tensor on the device, which computes through the CPU. While `with Accelerator():` is entered,
`WrongDevice` is raised when

- a tensor of the device meets a CPU tensor in one operator (0-dimensional CPU numbers may, as on a real device);
- a tensor of the device is copied to the CPU or turned into NumPy, other than number by number (`float(x)`, `x.item()`) or
  through `zoo.core.arrays.to_numpy`, the one gateway that code must take on purpose.

Uploading by `.to(device)` or by a factory's `device=` is what code should do, and works. `download(tensor)` is for the
assertions of a test:

    from accelerator import Accelerator, download, upload

    def test_on_the_device():
        with Accelerator():
            result = diversity.pairwise(upload(predictions), upload(labels)).kappa
        assert_allclose(download(result), expected)

The mode counts what an accelerator would spend time on: `synchronisations` (numbers or arrays read by the host),
`uploaded_bytes`, and `launches` of operators.

`DEVICES` are those a test can run on for real: `cpu`, and `cuda` or `mps` where there is one.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from zoo.core import arrays

# torch answers for no other absent device without its backend; nothing here uses real meta tensors, which hold no numbers.
DEVICE = torch.device("meta")
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available() + ["mps"] * torch.backends.mps.is_available()


# Operators that wait for the device: one number, or a shape that depends on values.
_READS = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.equal.default,
    torch.ops.aten.is_nonzero.default,
}


class WrongDevice(AssertionError):
    """Something that would fail, or copy behind one's back, on a real accelerator."""


class Remote(torch.Tensor):
    """A tensor on the stand-in device; its numbers are in `local`."""

    local: torch.Tensor

    @staticmethod
    def __new__(cls, local: torch.Tensor) -> Remote:
        layout = {"strides": local.stride(), "storage_offset": local.storage_offset(), "dtype": local.dtype}
        remote = torch.Tensor._make_wrapper_subclass(cls, local.shape, device=DEVICE, **layout)
        remote.local = local
        return remote

    def __repr__(self, **_: Any) -> str:
        return f"Remote({self.local!r})"

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise WrongDevice("a tensor of the device was turned into NumPy or a list; go through zoo.core.arrays.to_numpy")

    __array__ = numpy = tolist = _refuse

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operator, args, kwargs or {})


class Accelerator(TorchDispatchMode):
    """Watches every operator, so that uploads and factories find the device, and lets `zoo.core.arrays.to_numpy` through."""

    def __init__(self) -> None:
        super().__init__()
        self.synchronisations = self.uploaded_bytes = self.launches = 0

    def __enter__(self) -> Accelerator:
        self.gateway = mock.patch.object(arrays, "to_numpy", self._to_numpy)
        self.gateway.start()
        return super().__enter__()

    def __exit__(self, *details: Any) -> None:
        super().__exit__(*details)
        self.gateway.stop()

    def _to_numpy(self, values: Any) -> np.ndarray:
        self.synchronisations += isinstance(values, Remote)
        return np.asarray(download(values))

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        remote = any(isinstance(value, Remote) for value in tensors)
        self.launches += remote
        if remote and operator in _READS:
            self.synchronisations += 1
        if not remote and kwargs.get("device") is not None and torch.device(kwargs["device"]) == DEVICE:
            self.uploaded_bytes += sum(value.nbytes for value in tensors)
        return _run(operator, args, kwargs)


def upload(values: Any) -> Remote:
    """An array on the stand-in device."""
    return Remote(torch.as_tensor(np.asarray(values)).clone())


def download(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a tensor of either kind, on the CPU."""
    return tensor.local if isinstance(tensor, Remote) else tensor


def _run(operator: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    remote = any(isinstance(value, Remote) for value in tensors)
    target = kwargs.get("device")
    if remote and target is not None and torch.device(target).type == "cpu":
        raise WrongDevice(f"{operator}: a tensor of the device was copied to the CPU; go through zoo.core.arrays.to_numpy")
    if remote:
        for value in tensors:
            if not isinstance(value, Remote) and value.ndim:
                raise WrongDevice(f"{operator}: a CPU tensor of shape {list(value.shape)} met a tensor of the device")
    if target is not None and torch.device(target) == DEVICE:
        remote, kwargs = True, kwargs | {"device": "cpu"}
    args, kwargs = tree_map(_local, (args, kwargs))
    result = operator(*args, **kwargs)
    return tree_map(lambda value: Remote(value) if isinstance(value, torch.Tensor) else value, result) if remote else result


def _local(value: Any) -> Any:
    return value.local if isinstance(value, Remote) else value
