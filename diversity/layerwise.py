"""Layer by layer: CKA between networks, class separation and sparsity of every block, streamed over a dataset."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from diversity._layer_stream import EMBEDDING, LARGEST_BATCH, Layers, LayerStream, even_batches
from diversity.separation import Metric, OrderedSeparation
from diversity.similarity import FEWEST_ROWS, Kernel, MinibatchCKA
from diversity.sparsity import SparsityMeter
from zoo.cards.names import near
from zoo.core import arrays
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
    """CKA between all layers of two networks, minibatch and unbiased; rows are layers of the first, columns of the second.

    Networks are models (by name or loaded), run on the examples of `data`; or activations that are there already, by
    layer name, row by row of the same examples; or two `Outputs`, or the names of imported ones, whose embeddings are
    compared. The same network twice
    gives its layers among each other. `layers` are the layers wanted, of both or by model name. Every epoch goes through
    the examples in another order, for a batch has to be a sample of them all; more epochs, less noise.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 5))
    >>> frame = cka({"early": x, "late": np.tanh(x)}, {"early": -x})
    >>> [round(float(value), 2) for value in frame["early"]]
    [1.0, 0.92]
    """
    _check_passes(epochs, batch_size)
    meter = MinibatchCKA(kernel, bandwidth)
    rng = np.random.default_rng(seed)
    names = "first", "second"
    same = model_a is model_b
    if isinstance(model_a, str) and isinstance(model_b, str) and pretrained:
        model_a, model_b = _imported(model_a, model_b, data) or (model_a, model_b)
    if isinstance(model_a, Outputs) and isinstance(model_b, Outputs):
        names = model_a.name, model_b.name
        # Two models may predict different classes; for their features only the examples have to be the same.
        bare = [Outputs.from_arrays(o.name, embeddings=o.embeddings, ids=o.ids) for o in (model_a, model_b)]
        model_a, model_b = ({EMBEDDING: outputs.embeddings} for outputs in align(bare))
    if isinstance(model_a, Mapping) and isinstance(model_b, Mapping):
        first, second = _chosen(model_a, layers, names[0]), _chosen(model_b, layers, names[1])
        _run_arrays(meter, first, {} if same else second, batch_size or LARGEST_BATCH, epochs, rng)
    elif isinstance(model_a, (Mapping, Outputs)) or isinstance(model_b, (Mapping, Outputs)):
        raise InputError(
            "expected two models, two mappings of activations or two outputs, found one of one kind and one of another"
        )
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
    """`cka` between all layers of any number of models, each of which is run once; rows and columns are (model, layer).

    Batches hold fewer examples the more models there are, for all their layers are held at a time.

    >>> frame = layer_cka(["resnet8-cosine", "resnet8-softmax"], "digits:test[:20]", pretrained=False, device="cpu")
    >>> frame.shape, frame.index[-1]
    ((10, 10), ('resnet8-softmax.digits', 'embedding'))
    """
    import pandas as pd

    _check_passes(epochs, batch_size)
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
    """Class separation of every layer (Kornblith et al. 2021, Fig. 4): `model`, `layer`, `r2`, `within`, `between`.

    Models by name or loaded are run on the examples of `data`; the last layer of each is its embedding. `r2` is eq. 11.
    Convolutional maps are flattened. The examples are run class by class, so that one class's sums are held at a time;
    `centered-cosine` runs them twice, for the means come first. A layer that cannot be measured (a zero vector has no
    cosine) has no values, and a warning says why.

    >>> frame = layer_separation("resnet8-cosine", "digits:test[:10]", pretrained=False, device="cpu")
    >>> frame.layer.tolist()
    ['stem', 'stage1_0', 'stage2_0', 'stage3_0', 'embedding']
    >>> frame.layer[frame.r2.idxmin()]  # pooling the maps of random weights loses what told the digits apart
    'embedding'
    """
    import pandas as pd

    stream = LayerStream(models, data, layers, batch_size, pretrained, device)
    order = np.argsort(stream.labels(), kind="stable")
    centres = stream.means() if metric == "centered-cosine" else {}
    meters = {
        (model, layer): OrderedSeparation(metric, centres.get((model, layer)), f"{model} {layer}, images in class order")
        for model, layer in stream.widths
    }
    problems: dict[tuple[str, str], str] = {}
    for batch in stream.batches(order):
        for (model, layer), meter in meters.items():
            if (model, layer) not in problems:
                try:
                    meter.update(batch[model][layer], batch.labels)
                except InputError as problem:
                    problems[model, layer] = str(problem)
    rows = []
    for (model, layer), meter in meters.items():
        try:
            if (model, layer) in problems:
                raise InputError(problems[model, layer])
            found = meter.result()
            rows.append((model, layer, found.r2, found.within, found.between))
        except InputError as problem:
            warnings.warn(f"no class separation: {problem}", ZooWarning, stacklevel=2)
            rows.append((model, layer, math.nan, math.nan, math.nan))
    return pd.DataFrame(rows, columns=["model", "layer", "r2", "within", "between"])


def layer_sparsity(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    layers: Layers = None,
    batch_size: int | None = None,
    pretrained: bool = True,
    device: str | None = None,
) -> "pd.DataFrame":
    """The share of non-zero activations of every block (Kornblith et al. 2021, Fig. 3), one row per layer.

    The columns are `model`, `layer`, `nonzero` and `rectified`. A layer that is not rectified had negative activations: it
    does not end in a ReLU, and its share says little. `models`, `data` and `layers` as in `layer_separation`.

    >>> frame = layer_sparsity("resnet8-cosine", "digits:test[:10]", pretrained=False, device="cpu")
    >>> dict(zip(frame.layer, frame.nonzero.round(1), strict=True))  # pooled activations are hardly ever all zero
    {'stem': 0.5, 'stage1_0': 0.7, 'stage2_0': 0.6, 'stage3_0': 0.6, 'embedding': 1.0}
    """
    import pandas as pd

    stream = LayerStream(models, data, layers, batch_size, pretrained, device)
    meters = {(model, layer): SparsityMeter(f"{model} {layer}") for model, layer in stream.widths}
    for batch in stream.batches(np.arange(len(stream.dataset))):
        for (model, layer), meter in meters.items():
            meter.update(batch[model][layer])
    rows = [(model, layer, meter.nonzero_share, meter.rectified) for (model, layer), meter in meters.items()]
    return pd.DataFrame(rows, columns=["model", "layer", "nonzero", "rectified"])


def _imported(first: str, second: str, data: "str | Dataset | None") -> tuple[Outputs, Outputs] | None:
    """What both names stand for, where that is outputs made elsewhere and not a model."""
    from zoo.datasets import canonical
    from zoo.runs.resolver import choose, infer_dataset

    spec = infer_dataset([first, second], None) if data is None else canonical(data) if isinstance(data, str) else data.spec
    choices = [choose(name, spec)[0] for name in (first, second)]
    opened = [choice.open() for choice in choices if choice.open is not None]
    return (opened[0], opened[1]) if len(opened) == 2 else None


def _shuffled(stream: LayerStream, epochs: int, rng: np.random.Generator) -> "Iterator[LayerBatch]":
    """Every example once an epoch, each time in another order, in batches that CKA can be estimated from."""
    _check_rows(len(stream.dataset), stream.dataset.spec)
    for _ in range(epochs):
        yield from stream.batches(rng.permutation(len(stream.dataset)), FEWEST_ROWS)


def _run_arrays(
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
            raise InputError(f"layer {name}: expected {rows} rows as in the other layers, found {length}")
    _check_rows(rows, "activations")
    size = even_batches(rows, batch_size, FEWEST_ROWS)
    for _ in range(epochs):
        for numbers in torch.from_numpy(rng.permutation(rows)).split(size):
            a, b = ({name: x[numbers.to(x.device)] for name, x in side.items()} for side in sides)
            meter.update(a, b or None)


def _chosen(activations: Mapping[str, Any], layers: Layers, network: str) -> Mapping[str, Any]:
    wanted = layers.get(network) if isinstance(layers, Mapping) else layers
    for name in wanted or ():
        if name not in activations:
            raise UnknownName(f"{network}: no layer {name!r}{near(name, activations)}; layers: {', '.join(activations)}")
    if not activations:
        raise InputError(f"{network}: expected activations of at least one layer, found none")
    return activations if wanted is None else {name: activations[name] for name in wanted}


def _check_passes(epochs: int, batch_size: int | None) -> None:
    if epochs < 1 or (batch_size is not None and batch_size < 1):
        raise InputError(f"epochs {epochs}, batch_size {batch_size}: expected positive numbers")


def _check_rows(rows: int, where: str) -> None:
    if rows < FEWEST_ROWS:
        raise InputError(f"{where}: CKA needs at least {FEWEST_ROWS} examples, found {rows}")
