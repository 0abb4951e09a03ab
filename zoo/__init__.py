"""A zoo of image classifiers: models by name, their outputs on disk, calibration, objectives and training.

Every name loads its module on first use, so `import zoo` is fast and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zoo.core import hooks

if TYPE_CHECKING:
    import builtins

    from zoo import calibration as calibration
    from zoo import datasets as datasets
    from zoo import errors as errors
    from zoo import objectives as objectives
    from zoo.calibration import calibrate as calibrate
    from zoo.cards.card import Card as Card
    from zoo.models import heads as heads
    from zoo.models.model import Model as Model
    from zoo.models.registry import availability as availability
    from zoo.models.registry import card as card
    from zoo.models.registry import list as list
    from zoo.models.registry import load as load
    from zoo.models.registry import register as register
    from zoo.outputs.bundle import export_outputs as export_outputs
    from zoo.outputs.importing.collector import collect as collect
    from zoo.outputs.importing.importer import import_outputs as import_outputs
    from zoo.outputs.outputs import Outputs as Outputs
    from zoo.outputs.outputs import Runs as Runs
    from zoo.outputs.store import verify as verify
    from zoo.runs.hidden import layers as layers
    from zoo.runs.runner import run as run
    from zoo.training import train as train

    __version__: str

# The module of each public name, below `zoo`.
_MODULES = {
    "Card": "cards.card",
    "Model": "models.model",
    "Outputs": "outputs.outputs",
    "Runs": "outputs.outputs",
    "availability": "models.registry",
    "calibrate": "calibration",
    "card": "models.registry",
    "collect": "outputs.importing.collector",
    "export_outputs": "outputs.bundle",
    "import_outputs": "outputs.importing.importer",
    "layers": "runs.hidden",
    "list": "models.registry",
    "load": "models.registry",
    "register": "models.registry",
    "run": "runs.runner",
    "train": "training",
    "verify": "outputs.store",
}
# Public submodules by the name users type, and where they live.
_SUBMODULES = {
    "calibration": "calibration",
    "cards": "cards",
    "datasets": "datasets",
    "errors": "errors",
    "heads": "models.heads",
    "labels": "cards.labels",
    "objectives": "objectives",
    "store": "outputs.store",
    "training": "training",
}

__all__ = [
    "Card", "Model", "Outputs", "Runs", "availability", "calibrate", "calibration", "card", "collect", "datasets", "errors",
    "export_outputs", "heads", "import_outputs", "layers", "list", "load", "objectives", "register", "run", "train", 
    "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"zoo.{_MODULES[name]}"), name)
    if name in _SUBMODULES:
        return import_module(f"zoo.{_SUBMODULES[name]}")
    if name == "__version__":
        from importlib.metadata import version

        return version("model-zoo-diversity")
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> "builtins.list[str]":
    return sorted({*globals(), *_MODULES, *_SUBMODULES, "__version__"})


def _train_missing(name: str) -> None:
    from zoo.training.trainer import build

    build(name)


hooks.train_missing = _train_missing
