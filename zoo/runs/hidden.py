"""`zoo.layers`: hidden layers of several models on the same images, batch by batch; they are too large to keep."""

import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from zoo.cards.names import default_dataset
from zoo.core import devices
from zoo.core.pages import kept_pages
from zoo.datasets import Dataset
from zoo.datasets import load as load_dataset
from zoo.errors import InputError, ZooWarning
from zoo.models import registry
from zoo.models.model import Model
from zoo.runs.engines.loader import killed_worker_told, load_batches, useful_workers
from zoo.runs.runner import resolve


class LayerBatch(dict[str, dict[str, Tensor]]):
    """One batch: `batch[model][layer]` is [N, ...], float32 on the model's device; `ids` and `labels` [N] of its rows."""

    def __init__(self, layers: Mapping[str, dict[str, Tensor]], ids: list[str], labels: np.ndarray | None) -> None:
        super().__init__(layers)
        self.ids = ids
        self.labels = labels


def layers(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    batch_size: int = 64,
    pretrained: bool = True,
    device: str | None = None,
    workers: int | None = None,
) -> Iterator[LayerBatch]:
    """Stream the hidden layers of models on a dataset; each image is decoded once and goes through all of them.

    `names` are the layers wanted, of every model or by model; all by default. An image that does not decode is left out
    for all models alike, and a warning names it at the end.

    >>> batch = next(layers("timm:test_resnet", data="digits:test[:4]", pretrained=False))
    >>> [(name, tuple(values.shape)[:2]) for name, values in batch["timm:test_resnet"].items()][:2]
    [('layer1.0', (4, 32)), ('layer2.0', (4, 48))]
    """
    if batch_size < 1:
        raise InputError(f"batch_size: expected at least 1, found {batch_size}")
    dataset = load_dataset(data if data is not None else default_dataset())
    place = str(devices.choose(device))
    loaded = [m if isinstance(m, Model) else registry.load(m, pretrained=pretrained, device=place) for m in resolve(models)]
    loaded = [model.with_resize_mode(dataset.resize_mode) for model in loaded]
    wanted = {model.name: names.get(model.name) if isinstance(names, Mapping) else names for model in loaded}
    lost: list[str] = []
    spans = [range(start, min(start + batch_size, len(dataset))) for start in range(0, len(dataset), batch_size)]
    transforms = {model.transform.fingerprint: model.transform for model in loaded}
    workers = useful_workers(workers, len(dataset), 1)
    with killed_worker_told(), kept_pages():
        batches = load_batches(dataset, list(transforms.values()), map(list, spans), workers, torch.device(place))
        for span, batch in zip(spans, batches, strict=True):
            good = [row for row, reason in zip(span, batch.reasons, strict=True) if reason is None]
            lost += [dataset.ids[row] for row in span if row not in good]
            if not good:
                continue
            kept = torch.tensor(good) - span.start
            pixels = {key: values[kept] for key, values in zip(transforms, batch.pixels, strict=True)}
            found = {m.name: _of_model(m, pixels[m.transform.fingerprint], wanted[m.name]) for m in loaded}
            labels = None if dataset.labels is None else dataset.labels[good]
            yield LayerBatch(found, [dataset.ids[row] for row in good], labels)
    if lost:
        named = ", ".join(lost[:3]) + (", ..." if len(lost) > 3 else "")
        warnings.warn(
            f"{dataset.spec}: {len(lost)} images cannot be decoded and are left out: {named}", ZooWarning, stacklevel=2
        )


def _of_model(model: Model, pixels: Tensor, names: Sequence[str] | None) -> dict[str, Tensor]:
    return {name: values.float() for name, values in model.forward_layers(pixels.to(model.device), names).items()}
