"""A zoo of image classifiers: models by name, their outputs on disk, calibration, objectives and training.

Everything named here loads when it is first used, so that `import zoo` takes no time and no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import builtins

    from zoo import calibration as calibration
    from zoo import datasets as datasets
    from zoo import objectives as objectives
    from zoo._importing.collecting import collect as collect
    from zoo._importing.importing import import_outputs as import_outputs
    from zoo._registry.registry import availability as availability
    from zoo._registry.registry import card as card
    from zoo._registry.registry import list as list
    from zoo._registry.registry import load as load
    from zoo._registry.registry import register as register
    from zoo._running.hidden import layers as layers
    from zoo._running.runner import run as run
    from zoo.bundle import export_outputs as export_outputs
    from zoo.calibration import calibrate as calibrate
    from zoo.cards import Card as Card
    from zoo.model import Model as Model
    from zoo.outputs import Outputs as Outputs
    from zoo.outputs import Runs as Runs
    from zoo.store import verify as verify
    from zoo.training import train as train

    __version__: str

_HOMES = {
    "Card": "cards",
    "Model": "model",
    "Outputs": "outputs",
    "Runs": "outputs",
    "availability": "_registry.registry",
    "calibrate": "calibration",
    "card": "_registry.registry",
    "collect": "_importing.collecting",
    "export_outputs": "bundle",
    "import_outputs": "_importing.importing",
    "layers": "_running.hidden",
    "list": "_registry.registry",
    "load": "_registry.registry",
    "register": "_registry.registry",
    "run": "_running.runner",
    "train": "training",
    "verify": "store",
}
_SUBPACKAGES = ("calibration", "cards", "datasets", "errors", "heads", "labels", "objectives", "store", "training")

__all__ = [
    "Card", "Model", "Outputs", "Runs", "availability", "calibrate", "calibration", "card", "collect", "datasets",
    "export_outputs", "import_outputs", "layers", "list", "load", "objectives", "register", "run", "train", "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"zoo.{_HOMES[name]}"), name)
    if name in _SUBPACKAGES:
        return import_module(f"zoo.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("model-zoo-diversity")
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> "builtins.list[str]":
    return sorted({*globals(), *_HOMES, *_SUBPACKAGES, "__version__"})
