"""`zoo.collect`: outputs of a model that lives in one's own code, PyTorch's or scikit-learn's, over one's own data."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import torch

from zoo.core.types import Link
from zoo.datasets.images import decoded
from zoo.errors import InputError, ZooWarning
from zoo.models.model import Model
from zoo.outputs.importing.importer import import_outputs
from zoo.outputs.outputs import Kind, Outputs

_BATCH = 64
_INPUTS = ("image", "images", "pixel_values", "input", "inputs", "x")
_LABELS = ("label", "labels", "target", "targets", "y")
_IDS = ("id", "ids", "image_id", "filename", "path")


def collect(
    model: Any,
    data: Any,
    name: str | None = None,
    labels: Any = None,
    ids: Any = None,
    classes: Sequence[str] | None = None,
    kind: Kind = "logits",
    link: Link = "softmax",
    dataset: str | None = None,
) -> Outputs:
    """What a model says about data: a `torch.nn.Module` or a function over a `DataLoader`, a fitted classifier over its
    features, or a `zoo.Model` over images, whose name and classes it has already.

    A loader's batches are `(inputs, labels)`, `(inputs, labels, ids)`, mappings with such keys, or inputs alone. The
    network gives logits [N, K], or what `kind` says; it is run in evaluation mode, where its weights are, and left as it
    was. Of a scikit-learn classifier `predict_proba` is taken, or `predict` where it has no other, and `classes_`.

    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["cat", "cat", "dog", "dog"])
    >>> outputs = collect(LogisticRegression().fit(x, y), x, name="logistic", labels=y)
    >>> outputs.kind, outputs.classes, outputs.accuracy
    ('probabilities', ('cat', 'dog'), 1.0)
    """
    if isinstance(model, Model):
        arrays, name, link = _of_model(model, data), name or model.name, model.card.link
    elif isinstance(model, torch.nn.Module):
        arrays = _of_network(model, data, kind)
    elif hasattr(model, "predict"):
        arrays = _of_classifier(model, data)
    elif callable(model):
        arrays = _of_network(_Function(model), data, kind)
    else:
        raise InputError(
            f"{name}: expected a torch.nn.Module, a function or a fitted classifier, found {type(model).__name__}"
        )
    if name is None:
        raise InputError("name: the model has none of its own; say what to call it")
    kind = next(one for one in get_args(Kind) if one in arrays)
    classes = arrays.pop("classes", None) if classes is None else classes
    given = {"labels": labels, "ids": ids}
    arrays |= {key: np.asarray(value) for key, value in given.items() if value is not None}
    return import_outputs(arrays, name=name, kind=kind, classes=classes, link=link, data=dataset)[name]


def _of_model(model: Model, images: Any) -> dict[str, Any]:
    """One pass over the images for embeddings and logits, as far as the model has them."""
    parts: dict[str, list[np.ndarray]] = {}
    queue = decoded(images)
    while group := list(itertools.islice(queue, _BATCH)):
        batch = torch.stack([model.transform.pixels(image) for image in group]).to(model.device)
        embeddings, logits = model.forward(batch)
        found = {"embeddings": embeddings if model.embeds else None, "logits": logits}
        for key, values in found.items():
            if values is not None:
                parts.setdefault(key, []).append(values.float().cpu().numpy())
    if not parts:
        raise InputError(f"{model.name}: expected at least one image, found none")
    classes = {"classes": list(model.classes)} if model.classes else {}
    return {key: np.concatenate(blocks) for key, blocks in parts.items()} | classes


class _Function(torch.nn.Module):
    """A function of one's own, of tensors or of what NumPy makes of them, as a network."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.function(batch))


def _of_classifier(model: Any, data: Any) -> dict[str, Any]:
    classes = [str(c) for c in getattr(model, "classes_", ())]
    if hasattr(model, "predict_proba"):
        found: dict[str, Any] = {"probabilities": np.asarray(model.predict_proba(data))}
    else:
        found = {"predictions": np.asarray(model.predict(data)).astype(str)}
    return found | ({"classes": classes} if classes else {})


def _of_network(model: torch.nn.Module, loader: Iterable[Any], kind: str) -> dict[str, Any]:
    _check_order(loader)
    place = next(iter(model.parameters()), torch.empty(0)).device
    parts: dict[str, list[Any]] = {}
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for batch in loader:
                inputs, rest = _unpacked(batch)
                said = model(inputs.to(place))
                said = getattr(said, "logits", said)  # of a Hugging Face model
                if not isinstance(said, torch.Tensor):
                    raise InputError(f"the network gives {type(said).__name__}, expected a tensor [N, K]; wrap it")
                parts.setdefault(kind, []).append(
                    said.float().cpu().numpy() if said.is_floating_point() else said.cpu().numpy()
                )
                for key, value in rest.items():
                    values = value.cpu().tolist() if isinstance(value, torch.Tensor) else list(value)
                    parts.setdefault(key, []).append(values)
    finally:
        model.train(training)
    if not parts:
        raise InputError("the loader gives no batch, expected at least one")
    return {key: np.concatenate(blocks) for key, blocks in parts.items()}


def _unpacked(batch: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    """The inputs of a batch, and its labels and ids where it has them."""
    if isinstance(batch, Mapping):
        names = {"inputs": _INPUTS, "labels": _LABELS, "ids": _IDS}
        found = {key: next((batch[n] for n in usual if n in batch), None) for key, usual in names.items()}
    else:
        sequence = batch if isinstance(batch, (list, tuple)) else [batch]
        found = dict(zip(("inputs", "labels", "ids"), sequence, strict=False))
    inputs = found.pop("inputs", None)
    if not isinstance(inputs, torch.Tensor):
        raise InputError(f"a batch of the loader: expected a tensor of inputs first, found {type(inputs).__name__}")
    return inputs, {key: value for key, value in found.items() if value is not None}


def _check_order(loader: Any) -> None:
    """Rows without ids are known by their place, which a shuffled loader gives to others each time."""
    if isinstance(getattr(loader, "sampler", None), torch.utils.data.RandomSampler):
        raise InputError("the loader shuffles, so rows would not be those of other models; make it with shuffle=False")
    if getattr(loader, "drop_last", False):
        warnings.warn("the loader drops its last batch (drop_last=True): those rows are missing", ZooWarning, stacklevel=4)
