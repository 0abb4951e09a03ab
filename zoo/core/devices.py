"""Which device a model runs on: the fastest one here, or the one asked for, or an error that says what there is."""

import torch

from zoo.errors import InputError


def present() -> list[str]:
    """The devices of this machine, fastest first.

    >>> present()[-1]
    'cpu'
    """
    found = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*found, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def choose(device: str | torch.device | None = None) -> torch.device:
    """The device asked for if it is here, else an error; without a wish the fastest one.

    `meta` is allowed: networks there have shapes and no numbers.

    >>> choose("cpu")
    device(type='cpu')
    """
    here = present()
    if device is None:
        return torch.device(here[0])
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device {device!r} is no device; this machine has {', '.join(here)}") from error
    kinds = {torch.device(name).type for name in here}
    indexed = wanted.type == "cuda" and wanted.index is not None
    if wanted.type != "meta" and (wanted.type not in kinds or (indexed and str(wanted) not in here)):
        raise InputError(
            f"device {str(wanted)!r} is not here; this machine has {', '.join(here)}: pass one of these or none"
        )
    return wanted
