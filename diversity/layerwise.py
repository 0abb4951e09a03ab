"""Measures of every layer of a network, streamed over a dataset: CKA, class separation and sparsity."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from diversity._activations import chunks, matrix, row_norms
from diversity._checks import whole_number
from diversity._layer_stream import EMBEDDING, MAX_BATCH, Layers, LayerStream, even_batches
from diversity.separation import Metric, OrderedSeparation
from diversity.similarity import MIN_ROWS, Kernel, MinibatchCKA
from zoo.cards.names import similar
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError, UnknownName, ZooWarning
from zoo.outputs.outputs import Outputs, align

if TYPE_CHECKING:
    import pandas as pd

    from zoo.datasets import Dataset
    from zoo.models.model import Model
    from zoo.runs.hidden import LayerBatch

    Network = str | Model | Outputs | Mapping[str, Any]


def cka(
    model_a: "Network",
    model_b: "Network",
    data: "str | Dataset | None" = None,
    layers: Layers = None,
    batch_size: int | None = None,
    epochs: int = 1,
    kernel: Kernel = "linear",
    bandwidth: float = 1.0,
    pretrained: bool = True,
    device: str | None = None,
    seed: int = 0,
) -> "pd.DataFrame":
    """Return the CKA between all layers of two networks, estimated without bias from minibatches.

    Rows are layers of the first network, columns layers of the second. Pass the same network twice to compare its own
    layers.

    Args:
        model_a: a model (name or loaded) that is run on `data`; or activations [N, ...] by layer name; or `Outputs`, or the
            name of imported ones, whose embeddings are compared.
        model_b: the other network, of the same kind. Activations must be of the same examples.
        data: dataset to run the models on; default: the default dataset.
        layers: layers to compare, for both networks or by model name; default: all.
        batch_size: examples per batch; default: as many as fit the memory budget, at most 1,500.
        epochs: passes over the examples, each in another order; more epochs give less noise.
        kernel, bandwidth: as in `kernel_cka`.
        pretrained: whether to load weights; else initial weights.
        device: where to run the models; default: the best available device.
        seed: random seed of the order of examples.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 5))
    >>> frame = cka({"early": x, "late": np.tanh(x)}, {"early": -x})
    >>> [round(float(value), 2) for value in frame["early"]]
    [1.0, 0.92]
    """
    whole_number(epochs, "epochs")
    meter = MinibatchCKA(kernel, bandwidth)
    rng = np.random.default_rng(seed)
    names = "first", "second"
    same = model_a is model_b
    if isinstance(model_a, str) and isinstance(model_b, str) and pretrained:
        model_a, model_b = _imported(model_a, model_b, data) or (model_a, model_b)
    if isinstance(model_a, Outputs) and isinstance(model_b, Outputs):
        names = model_a.name, model_b.name
        # The two models may predict different classes: embeddings are aligned by example id only.
        bare = [Outputs.from_arrays(o.name, embeddings=o.embeddings, ids=o.ids) for o in (model_a, model_b)]
        model_a, model_b = ({EMBEDDING: outputs.embeddings} for outputs in align(bare))
    if isinstance(model_a, Mapping) and isinstance(model_b, Mapping):
        first, second = _select_layers(model_a, layers, names[0]), _select_layers(model_b, layers, names[1])
        size = MAX_BATCH if batch_size is None else whole_number(batch_size, "batch_size")
        _add_arrays(meter, first, {} if same else second, size, epochs, rng)
    elif isinstance(model_a, (Mapping, Outputs)) or isinstance(model_b, (Mapping, Outputs)):
        kinds = f"{type(model_a).__name__} and {type(model_b).__name__}"
        expected = "two models, two mappings of activations, or two outputs"
        raise InputError(argument="model_b", expected=f"of the same kind as model_a: {expected}", found=kinds)
    else:
        stream = LayerStream([model_a, model_b], data, layers, batch_size, pretrained, device)
        names = stream.models[0].name, stream.models[-1].name
        for batch in _shuffled(stream, epochs, rng):
            meter.update(batch[names[0]], None if len(stream.models) == 1 else batch[names[1]])
    frame = meter.result()
    frame.index.name, frame.columns.name = names
    frame.attrs = {"rows": meter.rows, "skipped_rows": meter.skipped_rows}
    return frame


def layer_cka(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    layers: Layers = None,
    batch_size: int | None = None,
    epochs: int = 1,
    kernel: Kernel = "linear",
    bandwidth: float = 1.0,
    pretrained: bool = True,
    device: str | None = None,
    seed: int = 0,
) -> "pd.DataFrame":
    """Return the CKA between all layers of any number of models, each of which runs once; rows and columns: (model, layer).

    All layers of all models are in memory at a time, so more models mean smaller batches.

    Args:
        models: names, patterns or loaded models.
        data, layers, batch_size, epochs, kernel, bandwidth, pretrained, device, seed: as in `cka`.

    >>> frame = layer_cka(["resnet8-cosine", "resnet8-softmax"], "digits:test[:20]", pretrained=False, device="cpu")
    >>> frame.shape, frame.index[-1]
    ((10, 10), ('resnet8-softmax.digits', 'embedding'))
    """
    import pandas as pd

    whole_number(epochs, "epochs")
    stream = LayerStream(models, data, layers, batch_size, pretrained, device)
    meter = MinibatchCKA(kernel, bandwidth)
    for batch in _shuffled(stream, epochs, np.random.default_rng(seed)):
        meter.update({f"{model} {layer}": batch[model][layer] for model, layer in stream.widths})
    frame = meter.result()
    frame.index = frame.columns = pd.MultiIndex.from_tuples(stream.widths, names=["model", "layer"])
    frame.attrs = {"rows": meter.rows, "skipped_rows": meter.skipped_rows}
    return frame


def layer_separation(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    metric: Metric = "cosine",
    layers: Layers = None,
    batch_size: int | None = None,
    pretrained: bool = True,
    device: str | None = None,
) -> "pd.DataFrame":
    """Return the class separation of every layer (Kornblith et al. 2021, Fig. 4), the embedding last.

    Columns: `model`, `layer`, `r2` (eq. 11), `within`, `between`. Convolutional maps are flattened. A layer that cannot be
    measured (a zero vector has no cosine) has NaN, and a warning gives the reason. Examples run class by class, so that
    only one class's sums are in memory; `centered-cosine` runs them twice, the first time for the means.

    Args:
        models: names, patterns or loaded models.
        data: dataset to run them on; default: the default dataset.
        metric: as in `class_separation`.
        layers: layers to measure, for every model or by model name; default: all.
        batch_size, pretrained, device: as in `cka`.

    >>> frame = layer_separation("resnet8-cosine", "digits:test[:10]", pretrained=False, device="cpu")
    >>> frame.layer.tolist()
    ['stem', 'stage1_0', 'stage2_0', 'stage3_0', 'embedding']
    >>> frame.layer[frame.r2.idxmin()]  # with random weights, pooling removes what distinguishes the digits
    'embedding'
    """
    import pandas as pd

    stream = LayerStream(models, data, layers, batch_size, pretrained, device)
    order = np.argsort(stream.labels(), kind="stable")  # also checks that there are labels
    centres = stream.means() if metric == "centered-cosine" else {}
    meters = {
        (model, layer): OrderedSeparation(metric, centres.get((model, layer)), f"{model} {layer}, images in class order")
        for model, layer in stream.widths
    }
    errors: dict[tuple[str, str], InputError] = {}
    for batch in stream.batches(order):
        assert batch.labels is not None
        for (model, layer), meter in meters.items():
            if (model, layer) not in errors:
                try:
                    meter.update(batch[model][layer], batch.labels)
                except InputError as error:
                    errors[model, layer] = error
    rows = []
    for (model, layer), meter in meters.items():
        try:
            if (model, layer) in errors:
                raise errors[model, layer]
            found = meter.result()
            rows.append((model, layer, found.r2, found.within, found.between))
        except InputError as error:
            warnings.warn(f"class separation is undefined: {error}", ZooWarning, stacklevel=2)
            rows.append((model, layer, math.nan, math.nan, math.nan))
    return pd.DataFrame(rows, columns=["model", "layer", "r2", "within", "between"])


class SparsityMeter:
    """Fraction of non-zero activations of one layer over a stream of batches [n, ...].

    `rectified` is False once an activation was negative. The layer then does not end in a ReLU, and the fraction says little
    about it.

    >>> meter = SparsityMeter()
    >>> meter.update(torch.tensor([[0.0, 1.0, 2.0, 0.0]]))
    >>> meter.update(torch.tensor([[0.0, 0.0, 3.0, 0.0]]))
    >>> meter.nonzero_fraction, meter.rectified
    (0.375, True)
    """

    def __init__(self, name: str = "x") -> None:
        self.name = name
        self.rows = 0
        self.rectified = True
        self._nonzero = 0
        self._total = 0

    def update(self, x: ArrayLike | Array) -> None:
        """Add a batch of activations [n, ...]."""
        values = matrix(x, self.name)
        for start, part in chunks(values):
            row_norms(part, self.name, self.rows + start)  # NaN would count as non-zero
            self._nonzero += int(torch.count_nonzero(part))
            self._total += part.numel()
            self.rectified = self.rectified and bool(part.amin() >= 0)
        self.rows += len(values)

    @property
    def nonzero_fraction(self) -> float:
        if not self._total:
            raise InputError("no batch of activations was added", where=self.name)
        return self._nonzero / self._total


def layer_sparsity(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    layers: Layers = None,
    batch_size: int | None = None,
    pretrained: bool = True,
    device: str | None = None,
) -> "pd.DataFrame":
    """Return the fraction of non-zero activations of every layer (Kornblith et al. 2021, Fig. 3).

    Columns: `model`, `layer`, `nonzero` and `rectified`, which is False if the layer has negative activations. Such a layer
    does not end in a ReLU, and its fraction says little.

    Args:
        models, data, layers, batch_size, pretrained, device: as in `layer_separation`.

    >>> frame = layer_sparsity("resnet8-cosine", "digits:test[:10]", pretrained=False, device="cpu")
    >>> dict(zip(frame.layer, frame.nonzero.round(1), strict=True))  # pooled activations are hardly ever zero
    {'stem': 0.5, 'stage1_0': 0.7, 'stage2_0': 0.6, 'stage3_0': 0.6, 'embedding': 1.0}
    """
    import pandas as pd

    stream = LayerStream(models, data, layers, batch_size, pretrained, device)
    meters = {(model, layer): SparsityMeter(f"{model} {layer}") for model, layer in stream.widths}
    for batch in stream.batches(np.arange(len(stream.dataset))):
        for (model, layer), meter in meters.items():
            meter.update(batch[model][layer])
    rows = [(model, layer, meter.nonzero_fraction, meter.rectified) for (model, layer), meter in meters.items()]
    return pd.DataFrame(rows, columns=["model", "layer", "nonzero", "rectified"])


def _imported(first: str, second: str, data: "str | Dataset | None") -> tuple[Outputs, Outputs] | None:
    """Return the imported outputs of two names; None if either name is a model."""
    from zoo.datasets import canonical
    from zoo.runs.resolver import choose, infer_dataset

    spec = infer_dataset([first, second], None) if data is None else canonical(data) if isinstance(data, str) else data.spec
    choices = [choose(name, spec)[0] for name in (first, second)]
    opened = [choice.open() for choice in choices if choice.open is not None]
    return (opened[0], opened[1]) if len(opened) == 2 else None


def _shuffled(stream: LayerStream, epochs: int, rng: np.random.Generator) -> "Iterator[LayerBatch]":
    """Yield every example once per epoch, each time in another order, in batches large enough for CKA."""
    _check_rows(len(stream.dataset), stream.dataset.spec)
    for _ in range(epochs):
        yield from stream.batches(rng.permutation(len(stream.dataset)), MIN_ROWS)


def _add_arrays(
    meter: MinibatchCKA,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    batch_size: int,
    epochs: int,
    rng: np.random.Generator,
) -> None:
    sides = [{name: arrays.tensor(values, f"layer {name}") for name, values in side.items()} for side in (first, second)]
    lengths = {name: len(values) for side in sides for name, values in side.items()}
    rows = next(iter(lengths.values()))
    for name, length in lengths.items():
        if length != rows:
            raise InputError(where=f"layer {name}", expected=f"{rows} rows, as in the other layers", found=length)
    _check_rows(rows, "activations")
    size = even_batches(rows, batch_size, MIN_ROWS)
    for _ in range(epochs):
        for batch in torch.from_numpy(rng.permutation(rows)).split(size):
            a, b = ({name: x[batch.to(x.device)] for name, x in side.items()} for side in sides)
            meter.update(a, b or None)


def _select_layers(activations: Mapping[str, Any], layers: Layers, network: str) -> Mapping[str, Any]:
    if not activations:
        raise InputError(where=network, expected="activations of at least one layer", found=0)
    selected = layers.get(network) if isinstance(layers, Mapping) else layers
    for name in selected or ():
        if name not in activations:
            raise UnknownName(
                f"no layer {name!r} among {', '.join(activations)}",
                kind="layer",
                name=name,
                suggestions=similar(name, activations),
                where=network,
            )
    return activations if selected is None else {name: activations[name] for name in selected}


def _check_rows(rows: int, where: str) -> None:
    if rows < MIN_ROWS:
        raise InputError(f"CKA needs at least {MIN_ROWS} examples", where=where, found=rows)
