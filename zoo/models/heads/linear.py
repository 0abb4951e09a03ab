"""Linear heads: fitted on embeddings by multinomial logistic regression, stored and loaded with a model's card."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from zoo.cards import card as cards
from zoo.cards import card_index
from zoo.cards.card import Card
from zoo.cards.names import check_user_name
from zoo.core import arrays, files, home, tensorfile
from zoo.core.arrays import Array
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, MissingWeights
from zoo.models.model import Model
from zoo.models.trained import head_file, local_head, shipped_head
from zoo.models.weights import verify_shipped
from zoo.networks.network import Network

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def fit_linear(
    model: Model,
    embeddings: "ArrayLike | Array",
    labels: "ArrayLike | Array",
    classes: Sequence[str],
    strength: float = 1e-2,
    name: str | None = None,
) -> Model:
    """Return a model with a linear head that is fitted on embeddings and labels.

    The head minimises the sum of log losses + strength * ||W||^2 by L-BFGS, in dimensions scaled to unit variance
    (Gontijo-Lopes et al. 2021, A.2, "L-BFGS"). The scaling is folded into the weights.

    Args:
        model: computes the embeddings.
        embeddings: [N, D].
        labels: [N] indices into `classes`; every class must occur.
        classes: [K] class names.
        strength: of the penalty on the weights.
        name: the new model's name; default: the model's name with `+linear`.

    >>> import zoo
    >>> model = zoo.load("resnet8-cosine", pretrained=False, device="cpu")
    >>> images = np.zeros((4, 8, 8, 3), np.uint8)
    >>> images[2:] = 255
    >>> fitted = fit_linear(model, model.embed(images), [0, 0, 1, 1], ["black", "white"])
    >>> fitted.name, [fitted.classes[k] for k in fitted.predict(images).argmax(1)]
    ('resnet8-cosine.digits+linear', ['black', 'black', 'white', 'white'])
    """
    x = arrays.tensor(embeddings, "embeddings").cpu().double()
    if x.ndim != 2 or not torch.isfinite(x).all():
        expected = "finite numbers of shape [N, D]"
        raise InputError(where=model.name, argument="embeddings", expected=expected, found=list(x.shape))
    if not strength > 0:
        raise InputError(where=model.name, argument="strength", expected="above 0", found=strength)
    y = arrays.labels(labels, len(classes), len(x)).cpu().numpy()
    absent = sorted(set(range(len(classes))) - set(y.tolist()))
    if absent:
        problem = f"there is no example of class {classes[absent[0]]!r} ({len(absent)} such classes)"
        raise InputError(problem, where=model.name, argument="labels", hint="Fit on examples of all classes")
    weight, bias = solve(x.numpy(), y, strength)
    head = _linear(torch.from_numpy(weight).float(), torch.from_numpy(bias).float()).to(model.device)
    network = Network(model.body, head, model.network.blocks)
    card = dataclasses.replace(
        model.card,
        name=name or f"{model.name}+linear",
        source="fitted",
        head="linear",
        labels="own",
        link="softmax",
        reference=[],
        path=None,
        details={"base": model.name, "classes": [str(name) for name in classes]},
    )
    digest = files.digest([model.weights_hash, weight.tobytes(), bias.tobytes()])
    return Model(card, network, model.transform, classes, digest)


def save_linear(model: Model) -> Path:
    """Store a fitted head and a card of its model, so that `zoo.load` finds it by name; return the card's path.

    If the model has the name of a shipped card whose head was never published, only the head is stored.

    >>> import os, tempfile, zoo
    >>> from unittest.mock import patch
    >>> model = zoo.load("resnet8-cosine", pretrained=False, device="cpu")
    >>> fitted = fit_linear(model, np.eye(2, model.num_features), [0, 1], ["cat", "dog"], name="pets")
    >>> with patch.dict(os.environ, ZOO_HOME=tempfile.mkdtemp()):
    ...     save_linear(fitted).name
    ...     zoo.load("pets", pretrained=False, device="cpu").classes
    'pets.md'
    ('cat', 'dog')
    """
    if not isinstance(model.head, nn.Linear) or model.card.head != "linear":
        raise InputError("has no fitted linear head", where=model.name, hint="Fit one with zoo.heads.fit_linear")
    check_user_name(model.name)
    if shipped_head(model.card).exists():
        raise InputError("a head of this name is shipped", where=model.name, hint="Choose another name")
    tensors = {"weight": model.head.weight.cpu().numpy(), "bias": model.head.bias.cpu().numpy()}
    path = local_head(model.card)
    files.make_folder(path.parent)
    files.write(path, tensorfile.encode(tensors, {"classes": list(model.classes)}))
    published = card_index.shipped().get(model.name)
    if published is not None and published.path is not None:
        return published.path
    base = model.card.details["base"]
    body = f"A linear head for {len(model.classes)} classes, fitted on this machine on embeddings of {base}."
    card = dataclasses.replace(model.card, title=model.name, body=f"# {model.name}\n\n{body}")
    card_path = files.make_folder(home.folder("cards")) / f"{model.name}.md"
    files.write(card_path, cards.write(card).encode())
    return card_path


def on_base(card: Card, base: Model, pretrained: bool) -> Model:
    """Return the model of a card that `save_linear` wrote: its stored head on the body of its base model."""
    classes = card.details["classes"]
    head, digest = stored(card, base.num_features, classes, pretrained)
    network = Network(base.body, head, base.network.blocks).eval().requires_grad_(False).to(base.device)
    joined = None if digest is None else files.digest([base.weights_hash, digest])
    # A head that was fitted on images of another size has a transform of its own.
    changed = card.transform if card.transform != base.card.transform else None
    return Model(card, network, base.transform if changed is None else Pipeline(changed), classes, joined)


def stored(card: Card, width: int, classes: Sequence[str], pretrained: bool) -> tuple[nn.Module, str | None]:
    """Return the stored head of a card and its hash, or a random head and None if `pretrained` is False."""
    if not pretrained:
        return nn.Linear(width, len(classes)), None
    path = head_file(card)
    if not path.exists():
        raise MissingWeights(
            f"no linear head was published, and there is none at {path}",
            where=card.name,
            hint="Fit one on embeddings of labelled images with zoo.heads.fit_linear, then store it with "
            "zoo.heads.save_linear",
        )
    digest = verify_shipped(card, path) if path == shipped_head(card) else files.sha256(path)
    tensors, note = tensorfile.read_sealed(path)
    stored_classes = note.get("classes")
    weight, bias = (torch.from_numpy(np.array(tensors[key])) for key in ("weight", "bias"))
    if stored_classes != list(classes) or weight.shape != (len(classes), width):
        raise InputError(
            f"the head has shape {list(weight.shape)} and {len(stored_classes or ())} classes instead of "
            f"[{len(classes)}, {width}] and the classes of {card.labels}",
            where=f"{card.name}: {path}",
            hint="Fit it again",
        )
    return _linear(weight, bias), digest


def solve(x: np.ndarray, y: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Return weights [K, D] and biases [K] fitted on embeddings x [N, D] and labels y [N]; see `fit_linear`."""
    from sklearn.linear_model import LogisticRegression

    mean, scale = x.mean(0), x.std(0)
    scale[scale == 0] = 1
    # scikit-learn minimises C * (sum of losses) + ||W||^2 / 2, so C = 1 / (2 strength).
    solver = LogisticRegression(C=1 / (2 * strength), tol=1e-6, max_iter=5000)
    solver.fit((x - mean) / scale, y)
    coefficients, intercepts = solver.coef_, solver.intercept_
    if len(coefficients) == 1:  # two classes: one row, the logit of the second class minus that of the first
        coefficients, intercepts = np.vstack([-coefficients, coefficients]) / 2, np.hstack([-intercepts, intercepts]) / 2
    weight = coefficients / scale
    return weight, intercepts - weight @ mean


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    head = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    return head.requires_grad_(False)
