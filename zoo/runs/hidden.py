"""`zoo.layers`: hidden layers of several models on the same images, in batches. They are too large to be stored."""

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
from zoo.runs.engines.loader import load_batches, translate_killed_worker, useful_workers
from zoo.runs.resolver import MAX_LISTED
from zoo.runs.runner import resolve


class LayerBatch(dict[str, dict[str, Tensor]]):
    """Hidden layers of one batch: `batch[model][layer]` is [N, ...], float32 on the model's device.

    `ids` [N] and `labels` [N] identify the examples in the batch; `labels` is None if the dataset has none.
    """

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
    """Yield the hidden layers of models on a dataset, batch by batch. Each image is decoded once for all models.

    Images that cannot be decoded are left out for all models; a warning names them at the end.

    Args:
        models: names, patterns, filters, named sets, or loaded models.
        data: a dataset spec or a loaded dataset; default `ZOO_DATASET`.
        names: the layers, for all models or by model; default: all layers.
        batch_size: images per batch.
        pretrained: whether networks get their trained weights; False gives random ones.
        device: where the models run; default: an accelerator if there is one, else the CPU.
        workers: processes that decode images; default: as many as the work needs.

    >>> batch = next(layers("timm:test_resnet", data="digits:test[:4]", pretrained=False))
    >>> [(name, tuple(values.shape)[:2]) for name, values in batch["timm:test_resnet"].items()][:2]
    [('layer1.0', (4, 32)), ('layer2.0', (4, 48))]
    """
    if batch_size < 1:
        raise InputError(argument="batch_size", expected="at least 1", found=batch_size)
    dataset = load_dataset(data if data is not None else default_dataset())
    place = str(devices.choose(device))
    loaded = [m if isinstance(m, Model) else registry.load(m, pretrained=pretrained, device=place) for m in resolve(models)]
    loaded = [model.with_resize_mode(dataset.resize_mode) for model in loaded]
    layers_of = {model.name: names.get(model.name) if isinstance(names, Mapping) else names for model in loaded}
    undecodable: list[str] = []
    spans = [range(start, min(start + batch_size, len(dataset))) for start in range(0, len(dataset), batch_size)]
    transforms = {model.transform.pixels_key: model.transform for model in loaded}
    workers = useful_workers(workers, len(dataset), 1)
    with translate_killed_worker(), kept_pages():
        batches = load_batches(dataset, list(transforms.values()), map(list, spans), workers, torch.device(place))
        for span, batch in zip(spans, batches, strict=True):
            rows = [row for row, reason in zip(span, batch.reasons, strict=True) if reason is None]
            undecodable += [dataset.ids[row] for row in span if row not in rows]
            if not rows:
                continue
            decoded = torch.tensor(rows) - span.start
            pixels = {key: batch.of_transform(number)[decoded] for number, key in enumerate(transforms)}
            hidden = {m.name: _of_model(m, pixels[m.transform.pixels_key], layers_of[m.name]) for m in loaded}
            labels = None if dataset.labels is None else dataset.labels[rows]
            yield LayerBatch(hidden, [dataset.ids[row] for row in rows], labels)
    if undecodable:
        listed = ", ".join(undecodable[:MAX_LISTED]) + (", ..." if len(undecodable) > MAX_LISTED else "")
        warnings.warn(
            f"{dataset.spec}: {len(undecodable)} images cannot be decoded and are left out: {listed}",
            ZooWarning,
            stacklevel=2,
        )


def _of_model(model: Model, pixels: Tensor, names: Sequence[str] | None) -> dict[str, Tensor]:
    return {name: values.float() for name, values in model.forward_layers(pixels.to(model.device), names).items()}
