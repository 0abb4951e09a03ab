"""The device a model runs on."""

from typing import TYPE_CHECKING

from zoo.errors import InputError

if TYPE_CHECKING:
    import torch


def present() -> list[str]:
    """Return the devices of this machine, fastest first.

    >>> present()[-1]
    'cpu'
    """
    import torch

    cuda = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*cuda, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def choose(device: "str | torch.device | None" = None) -> "torch.device":
    """Return the requested device after checking that this machine has it; by default its fastest device.

    `meta` is always available: networks on it have shapes but no values.

    >>> choose("cpu")
    device(type='cpu')
    """
    import torch

    available = present()
    if device is None:
        return torch.device(available[0])
    refused = InputError(argument="device", expected=f"one of {', '.join(available)} on this machine", found=str(device))
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise refused from error
    types = {torch.device(name).type for name in available}
    indexed = chosen.type == "cuda" and chosen.index is not None
    if chosen.type != "meta" and (chosen.type not in types or (indexed and str(chosen) not in available)):
        raise refused
    return chosen
