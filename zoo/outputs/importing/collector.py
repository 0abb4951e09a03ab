"""`zoo.collect`: the outputs of a user's PyTorch or scikit-learn model on the user's data."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zoo.core.types import Link
from zoo.datasets.images import decoded
from zoo.errors import InputError, ZooWarning
from zoo.models.model import Model
from zoo.outputs.importing.importer import import_outputs
from zoo.outputs.kinds import KINDS, Kind
from zoo.outputs.outputs import Outputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_BATCH_SIZE = 64
_INPUT_KEYS = ("image", "images", "pixel_values", "input", "inputs", "x")
_LABEL_KEYS = ("label", "labels", "target", "targets", "y")
_ID_KEYS = ("id", "ids", "image_id", "filename", "path")


def collect(
    model: Any,
    data: Any,
    name: str | None = None,
    labels: "ArrayLike | None" = None,
    ids: Sequence[object] | None = None,
    classes: Sequence[str] | None = None,
    kind: Kind = "logits",
    link: Link = "softmax",
    dataset: str | None = None,
) -> Outputs:
    """Return the outputs of a model on data.

    A network runs in evaluation mode, on the device of its weights, and is left in the mode it was in. A scikit-learn
    classifier gives `predict_proba`, else `decision_function` as logits, else `predict`; its classes are `classes_`.

    Args:
        model: a `torch.nn.Module` or a function of a batch, which returns logits [N, K] or what `kind` says; a fitted
            scikit-learn classifier; or a `zoo.Model`.
        data: for a network or function, a `DataLoader` or another iterable of batches: `(inputs, labels)`,
            `(inputs, labels, ids)`, mappings with such keys, or inputs alone. For a classifier, its input. For a
            `zoo.Model`, images.
        name: the model's name; a `zoo.Model` has one.
        labels: [N] true classes, if the data do not contain them.
        ids: [N] names of the examples, if the data do not contain them; default: row numbers.
        classes: [K] class names, if the model does not have them.
        kind: what a network or function returns.
        link: how logits become probabilities.
        dataset: spec of the dataset.

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
        expected = "a torch.nn.Module, a function or a fitted classifier"
        raise InputError(where=name, argument="model", expected=expected, found=type(model).__name__)
    if name is None:
        raise InputError(argument="name", expected="given, since the model has no name")
    kind = next(one for one in KINDS if one in arrays)
    classes = arrays.pop("classes", None) if classes is None else classes
    given = {"labels": labels, "ids": ids}
    arrays |= {key: np.asarray(value) for key, value in given.items() if value is not None}
    return import_outputs(arrays, name=name, kind=kind, classes=classes, link=link, data=dataset)[name]


def _of_model(model: Model, images: Any) -> dict[str, Any]:
    """Return the embeddings and the logits, if the model has them, from one pass over the images."""
    parts: dict[str, list[np.ndarray]] = {}
    queue = decoded(images)
    while group := list(itertools.islice(queue, _BATCH_SIZE)):
        batch = torch.stack([model.transform.pixels(image) for image in group]).to(model.device)
        embeddings, logits = model.forward(batch)
        results = {"embeddings": embeddings if model.embeds else None, "logits": logits}
        for key, values in results.items():
            if values is not None:
                parts.setdefault(key, []).append(values.float().cpu().numpy())
    if not parts:
        raise InputError(where=model.name, argument="data", expected="at least one image", found=0)
    classes = {"classes": list(model.classes)} if model.classes else {}
    return {key: np.concatenate(blocks) for key, blocks in parts.items()} | classes


class _Function(torch.nn.Module):
    """A function of a batch as a network; it may return an array."""

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
        if classes and hasattr(model, "decision_function"):
            scores = np.asarray(model.decision_function(data), np.float64)
            if scores.ndim == 1 and len(classes) == 2:  # positive for the second class
                scores = np.stack([np.zeros_like(scores), scores], 1)
            if scores.shape == (len(found["predictions"]), len(classes)):
                found["logits"] = scores
    return found | ({"classes": classes} if classes else {})


def _of_network(model: torch.nn.Module, loader: Iterable[Any], kind: str) -> dict[str, Any]:
    _check_order(loader)
    device = next(iter(model.parameters()), torch.empty(0)).device
    parts: dict[str, list[Any]] = {}
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for batch in loader:
                inputs, others = _unpack(batch)
                result = model(inputs.to(device))
                result = getattr(result, "logits", result)  # of a Hugging Face model
                if not isinstance(result, torch.Tensor):
                    hint = "Wrap the model in a function that returns a tensor [N, K]"
                    raise InputError(f"returns a {type(result).__name__}", argument="model", hint=hint)
                result = result.float() if result.is_floating_point() else result
                parts.setdefault(kind, []).append(result.cpu().numpy())
                for key, value in others.items():
                    values = value.cpu().tolist() if isinstance(value, torch.Tensor) else list(value)
                    parts.setdefault(key, []).append(values)
    finally:
        model.train(training)
    if not parts:
        raise InputError(argument="data", expected="at least one batch", found=0)
    return {key: np.concatenate(blocks) for key, blocks in parts.items()}


def _unpack(batch: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return the inputs of a batch, and its labels and ids if it has any."""
    if isinstance(batch, Mapping):
        keys = {"inputs": _INPUT_KEYS, "labels": _LABEL_KEYS, "ids": _ID_KEYS}
        found = {what: next((batch[key] for key in known if key in batch), None) for what, known in keys.items()}
    else:
        sequence = batch if isinstance(batch, (list, tuple)) else [batch]
        found = dict(zip(("inputs", "labels", "ids"), sequence, strict=False))
    inputs = found.pop("inputs", None)
    if not isinstance(inputs, torch.Tensor):
        expected = "batches that begin with a tensor of inputs"
        raise InputError(argument="data", expected=expected, found=type(inputs).__name__)
    return inputs, {key: value for key, value in found.items() if value is not None}


def _check_order(loader: Any) -> None:
    """Refuse a loader that shuffles: rows without ids are identified by their position."""
    if isinstance(getattr(loader, "sampler", None), torch.utils.data.RandomSampler):
        raise InputError(
            "the loader shuffles, so rows could not be matched with those of other models",
            argument="data",
            hint="Create it with shuffle=False",
        )
    if getattr(loader, "drop_last", False):
        warnings.warn("the loader drops its last batch (drop_last=True): its rows are missing", ZooWarning, stacklevel=4)
