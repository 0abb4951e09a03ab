"""Hidden layers of models on a dataset, in whatever order of the examples a measure asks for."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from diversity._activations import column_means, matrix
from zoo.cards.names import default_dataset
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.datasets import Dataset
    from zoo.models.model import Model
    from zoo.runs.hidden import LayerBatch

    Models = str | Model | Sequence[str | Model]

Layers = Sequence[str] | Mapping[str, Sequence[str]] | None
EMBEDDING = "embedding"  # what the final layer is given, listed after the blocks
# Unless told otherwise a batch is what fits into this many bytes of float32, twice over since measures make a copy,
# and no larger than the 1,500 rows of Kornblith et al. (2021).
BUDGET, LARGEST_BATCH, SMALLEST_BATCH = 2**31, 1500, 16


class LayerStream:
    """Models, by name, pattern or loaded, and a dataset; `batches` runs the one on the other.

    `layers` are the layers wanted, of every model or by model; all blocks and `embedding` by default.
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

        if batch_size is not None and batch_size < 1:
            raise InputError(f"batch_size: expected at least 1, found {batch_size}")
        self.dataset = datasets.load(data if data is not None else default_dataset())
        self.device = device
        self.models = _load(models, pretrained, device)
        self._layers = layers
        self.widths = self._measure()
        fitting = BUDGET // (8 * sum(self.widths.values()))
        self.batch_size = batch_size or min(max(fitting, SMALLEST_BATCH), LARGEST_BATCH)

    def _measure(self) -> dict[tuple[str, str], int]:
        """(model, layer) -> activations of one example, from the first image that can be decoded."""
        some = self.dataset.select(slice(0, 16))
        first = next(self._run(some, 1), None)
        if first is None:
            raise InputError(f"{self.dataset.spec}: expected images, found none that can be decoded")
        return {(model, layer): values[0].numel() for model, found in first.items() for layer, values in found.items()}

    def batches(self, order: np.ndarray, fewest: int = 1) -> "Iterator[LayerBatch]":
        """The examples `order` [N], batch by batch, none of fewer than `fewest` rows unless images are lost."""
        yield from self._run(self.dataset.select(order), even_batches(len(order), self.batch_size, fewest))

    def _run(self, dataset: "Dataset", batch_size: int) -> "Iterator[LayerBatch]":
        from zoo.runs.hidden import layers

        return layers(self.models, dataset, self._layers, batch_size, device=self.device)

    def labels(self) -> np.ndarray:
        """[N], of at least two classes."""
        labels = self.dataset.labels
        if labels is None:
            raise InputError(f"{self.dataset.spec}: class separation needs labels, found none")
        if len(np.unique(labels)) < 2:
            raise InputError(f"{self.dataset.spec}: class separation needs at least two classes, found one")
        return labels

    def means(self) -> dict[tuple[str, str], torch.Tensor]:
        """(model, layer) -> mean activation over the dataset, [D] in float64."""
        totals: dict[tuple[str, str], torch.Tensor] = {}
        rows = 0
        for batch in self.batches(np.arange(len(self.dataset))):
            rows += len(batch.ids)
            for model, layer in self.widths:
                x = matrix(batch[model][layer], f"{model} {layer}")
                total = column_means(x, f"{model} {layer}") * len(x)
                totals[model, layer] = total if (model, layer) not in totals else totals[model, layer] + total
        return {key: total / rows for key, total in totals.items()}


def even_batches(rows: int, batch_size: int, fewest: int) -> int:
    """The batch size nearest below `batch_size`, else above it, that leaves no batch of fewer than `fewest` of the rows.

    >>> even_batches(101, 20, 4), even_batches(100, 20, 4), even_batches(43, 8, 4)
    (19, 20, 9)
    """
    wanted = max(batch_size, fewest)
    for size in (*range(wanted, fewest - 1, -1), *range(wanted, rows)):
        if rows % size == 0 or rows % size >= fewest:
            return size
    return max(rows, 1)


def _load(models: "Models", pretrained: bool, device: str | None) -> "list[Model]":
    """The models, each once; two that differ and share a name (before and after fine-tuning) are told apart."""
    from zoo.models.model import Model
    from zoo.models.registry import load
    from zoo.runs.runner import resolve

    loaded: dict[str, Model] = {}
    given: dict[str, str | Model] = {}
    for entry in [models] if isinstance(models, (str, Model)) else models:
        for found in resolve(entry):
            name = found if isinstance(found, str) else found.name
            if given.get(name) is found or (isinstance(found, str) and given.get(name) == found):
                continue
            while name in given:
                name += "'"
            given[name] = found
            model = load(found, pretrained, device) if isinstance(found, str) else found
            loaded[name] = _with_embedding(model, name)
    return list(loaded.values())


def _with_embedding(model: "Model", name: str) -> "Model":
    """The model under `name`, with its body as a last block, so that the embedding comes along with the hidden layers."""
    from zoo.models.model import Model
    from zoo.networks.network import Network

    network = Network(model.body, model.head, model.network.blocks | {EMBEDDING: model.body})
    return Model(dataclasses.replace(model.card, name=name), network, model.transform, model.classes)
