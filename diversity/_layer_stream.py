"""Hidden layers of models on a dataset, streamed in batches."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from diversity._activations import column_means, matrix
from diversity._checks import whole_number
from zoo.cards.names import default_dataset
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.datasets import Dataset
    from zoo.models.model import Model
    from zoo.runs.hidden import LayerBatch

    Models = str | Model | Sequence[str | Model]

Layers = Sequence[str] | Mapping[str, Sequence[str]] | None
EMBEDDING = "embedding"  # the input of the final layer, listed after the blocks
# The default batch fits into BUDGET bytes of float32, counted twice because measures make a copy. It has at most the 1,500
# rows of Kornblith et al. (2021).
BUDGET, MAX_BATCH, MIN_BATCH = 2**31, 1500, 16


class LayerStream:
    """Activations of all layers of some models on a dataset; `batches` runs the models.

    Args:
        models: names, patterns or loaded models.
        data: spec of a dataset, or a dataset; default: the default dataset.
        layers: layers to return, for every model or by model name; default: all blocks and `embedding`.
        batch_size: images per batch; default: as many as fit the memory budget.
        pretrained: whether to load weights; else initial weights.
        device: where to run the models; default: the best available device.
    """

    def __init__(
        self,
        models: "Models",
        data: "str | Dataset | None" = None,
        layers: Layers = None,
        batch_size: int | None = None,
        pretrained: bool = True,
        device: str | None = None,
    ) -> None:
        from zoo import datasets

        if batch_size is not None:
            whole_number(batch_size, "batch_size")
        self.dataset = datasets.load(data if data is not None else default_dataset())
        self.device = device
        self.models = _load(models, pretrained, device)
        self._layers = layers
        self.widths = self._measure_widths()
        fitting = BUDGET // (8 * sum(self.widths.values()))
        self.batch_size = batch_size or min(max(fitting, MIN_BATCH), MAX_BATCH)

    def _measure_widths(self) -> dict[tuple[str, str], int]:
        """Return the number of activations per example of each (model, layer), from the first image that can be decoded."""
        first = next(self._run(self.dataset.select(slice(0, 16)), 1), None)
        if first is None:
            raise InputError("none of the first images can be decoded", where=self.dataset.spec)
        return {(model, layer): values[0].numel() for model, layers in first.items() for layer, values in layers.items()}

    def batches(self, order: np.ndarray, min_rows: int = 1) -> "Iterator[LayerBatch]":
        """Yield the layers of the examples `order` [N] batch by batch.

        No batch has fewer than `min_rows` rows, unless images cannot be decoded.
        """
        yield from self._run(self.dataset.select(order), even_batches(len(order), self.batch_size, min_rows))

    def _run(self, dataset: "Dataset", batch_size: int) -> "Iterator[LayerBatch]":
        from zoo.runs.hidden import layers

        return layers(self.models, dataset, self._layers, batch_size, device=self.device)

    def labels(self) -> np.ndarray:
        """Return the labels [N], or raise an error unless there are at least two classes."""
        labels = self.dataset.labels
        if labels is None:
            raise InputError("class separation needs labels, and the dataset has none", where=self.dataset.spec)
        if len(np.unique(labels)) < 2:
            raise InputError("class separation needs at least two classes, and the dataset has one", where=self.dataset.spec)
        return labels

    def means(self) -> dict[tuple[str, str], torch.Tensor]:
        """Return the mean activation [D] over the dataset of each (model, layer), in float64."""
        totals: dict[tuple[str, str], torch.Tensor] = {}
        rows = 0
        for batch in self.batches(np.arange(len(self.dataset))):
            rows += len(batch.ids)
            for model, layer in self.widths:
                x = matrix(batch[model][layer], f"{model} {layer}")
                total = column_means(x, f"{model} {layer}") * len(x)
                totals[model, layer] = total if (model, layer) not in totals else totals[model, layer] + total
        return {key: total / rows for key, total in totals.items()}


def even_batches(rows: int, batch_size: int, min_rows: int) -> int:
    """Return a batch size that leaves no last batch of fewer than `min_rows` rows.

    The largest such size up to `batch_size` is returned, or the smallest above it if there is none.

    >>> even_batches(101, 20, 4), even_batches(100, 20, 4), even_batches(43, 8, 4)
    (19, 20, 9)
    """
    start = max(batch_size, min_rows)
    for size in (*range(start, min_rows - 1, -1), *range(start, rows)):
        if rows % size == 0 or rows % size >= min_rows:
            return size
    return max(rows, 1)


def _load(models: "Models", pretrained: bool, device: str | None) -> "list[Model]":
    """Load each model once. Apostrophes tell apart models of the same name, such as before and after fine-tuning."""
    from zoo.models.model import Model
    from zoo.models.registry import load
    from zoo.runs.runner import resolve

    loaded: dict[str, Model] = {}
    entries: dict[str, str | Model] = {}
    for selector in [models] if isinstance(models, (str, Model)) else models:
        for entry in resolve(selector):
            name = entry if isinstance(entry, str) else entry.name
            if entries.get(name) is entry or (isinstance(entry, str) and entries.get(name) == entry):
                continue
            while name in entries:
                name += "'"
            entries[name] = entry
            model = load(entry, pretrained, device) if isinstance(entry, str) else entry
            loaded[name] = _with_embedding(model, name)
    return list(loaded.values())


def _with_embedding(model: "Model", name: str) -> "Model":
    """Return the model under `name` with its body as a last block, so that the embedding counts as a hidden layer."""
    from zoo.models.model import Model
    from zoo.networks.network import Network

    network = Network(model.body, model.head, model.network.blocks | {EMBEDDING: model.body})
    return Model(dataclasses.replace(model.card, name=name), network, model.transform, model.classes)
