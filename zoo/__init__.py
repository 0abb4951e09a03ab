"""A zoo of image classifiers: models by name, and their outputs on any dataset.

Which models are there?
    list, card, availability, register, Card
How do I use one?
    load, Model, heads
How do I get outputs?
    run                                  run models on a dataset, or read their stored or shipped outputs
    collect, import_outputs              outputs of your own models, from Python or from files
    open, export_outputs, verify         stored outputs
    Outputs, Runs                        outputs of one model, of several models
How do I calibrate, train, look inside and report?
    calibrate, calibration, train, objectives, layers, report, datasets, errors

Names load their modules on first use, so `import zoo` is fast and does not import torch. What models' outputs say about each
other is in the packages `diversity`, `ensembles` and `probes`.
"""

from typing import TYPE_CHECKING, Any

from zoo.core import hooks
from zoo.core.lazy import lazy_exports

if TYPE_CHECKING:
    from zoo import calibration as calibration
    from zoo import datasets as datasets
    from zoo import errors as errors
    from zoo import objectives as objectives
    from zoo.app.report import report as report
    from zoo.calibration import calibrate as calibrate
    from zoo.cards.card import Card as Card
    from zoo.models import heads as heads
    from zoo.models.model import Model as Model
    from zoo.models.registry import availability as availability
    from zoo.models.registry import card as card
    from zoo.models.registry import load as load
    from zoo.models.registry import register as register
    from zoo.outputs.bundle import export_outputs as export_outputs
    from zoo.outputs.importing.collector import collect as collect
    from zoo.outputs.importing.importer import import_outputs as import_outputs
    from zoo.outputs.outputs import Outputs as Outputs
    from zoo.outputs.outputs import Runs as Runs
    from zoo.outputs.store import open_runs as open
    from zoo.outputs.store import verify as verify
    from zoo.runs.hidden import layers as layers
    from zoo.runs.model_list import list as list
    from zoo.runs.runner import run as run
    from zoo.training import train as train

    __version__: str

__all__ = [
    "Card", "Model", "Outputs", "Runs", "availability", "calibrate", "calibration", "card", "collect", "datasets", "errors",
    "export_outputs", "heads", "import_outputs", "layers", "list", "load", "objectives", "open", "register", "report", "run",
    "train", "verify",
]  # fmt: skip

_MODULES = {
    "Card": "zoo.cards.card",
    "Model": "zoo.models.model",
    "Outputs": "zoo.outputs.outputs",
    "Runs": "zoo.outputs.outputs",
    "availability": "zoo.models.registry",
    "calibrate": "zoo.calibration",
    "calibration": "zoo.calibration.*",
    "card": "zoo.models.registry",
    "cards": "zoo.cards.*",
    "collect": "zoo.outputs.importing.collector",
    "datasets": "zoo.datasets.*",
    "errors": "zoo.errors.*",
    "export_outputs": "zoo.outputs.bundle",
    "heads": "zoo.models.heads.*",
    "import_outputs": "zoo.outputs.importing.importer",
    "labels": "zoo.cards.labels.*",
    "layers": "zoo.runs.hidden",
    "list": "zoo.runs.model_list",
    "load": "zoo.models.registry",
    "objectives": "zoo.objectives.*",
    "open": "zoo.outputs.store:open_runs",
    "register": "zoo.models.registry",
    "report": "zoo.app.report",
    "run": "zoo.runs.runner",
    "store": "zoo.outputs.store.*",
    "train": "zoo.training",
    "training": "zoo.training.*",
    "verify": "zoo.outputs.store",
}
_get, __dir__ = lazy_exports(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("model-zoo-diversity")
    return _get(name)


def _train_missing(name: str) -> None:
    from zoo.training.trainer import build

    build(name)


def _save_outputs(outputs: "Outputs", **options: Any) -> "Outputs":
    from zoo.outputs.store import save

    return save(outputs, **options)


hooks.train_missing, hooks.save_outputs = _train_missing, _save_outputs
