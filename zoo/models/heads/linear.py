"""A linear head, fitted on embeddings by multinomial logistic regression, and kept beside a model's card."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.cards import card as cards
from zoo.cards import card_index
from zoo.cards.card import Card
from zoo.cards.names import check_user_name
from zoo.core import arrays, files, home, tensorfile
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import CorruptFile, InputError, MissingWeights
from zoo.models.model import Model
from zoo.models.trained import head_file, local_head, shipped_head
from zoo.networks.network import Network


def fit_linear(
    model: Model, embeddings: Any, y: Any, classes: Sequence[str], strength: float = 1e-2, name: str | None = None
) -> Model:
    """`model` with a linear head that predicts `classes`, fitted on embeddings [N, D] with labels `y` [N].

    The head that Gontijo-Lopes et al. 2021, A.2, call L-BFGS. `y` are indices into `classes`, each of which occurs.
    Minimises the sum of log losses + strength * ||W||^2 by L-BFGS, in dimensions scaled to unit variance; the scaling is
    folded into the weights, so the head takes embeddings as they are. `name` is the new model's, by default the model's
    own with `+linear`.

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
        raise InputError(f"{model.name}: embeddings: expected finite numbers of shape [N, D], found {list(x.shape)}")
    if not strength > 0:
        raise InputError(f"{model.name}: strength: expected a positive number, found {strength}")
    labels = arrays.labels(y, len(classes), len(x)).cpu().numpy()
    absent = sorted(set(range(len(classes))) - set(labels.tolist()))
    if absent:
        raise InputError(
            f"{model.name}: no example of class {classes[absent[0]]!r} ({len(absent)} such); fit on all classes"
        )
    weight, bias = solve(x.numpy(), labels, strength)
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
    """Keep a fitted head and a card of the model, so that `zoo.load` finds it by name; the path of the card.

    The name may be that of a shipped card whose head was never published: then the head alone is kept.

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
        raise InputError(f"{model.name}: has no fitted linear head to save; make one with zoo.heads.fit_linear")
    check_user_name(model.name)
    if shipped_head(model.card).exists():
        raise InputError(f"{model.name}: a head of this name comes with the package; choose another name")
    tensors = {"weight": model.head.weight.cpu().numpy(), "bias": model.head.bias.cpu().numpy()}
    path = local_head(model.card)
    files.make_folder(path.parent)
    files.write(path, tensorfile.encode(tensors, {"classes": list(model.classes)}))
    published = card_index.shipped().get(model.name)
    if published is not None and published.path is not None:
        return published.path
    base = model.card.details["base"]
    words = f"# {model.name}\n\nA linear head for {len(model.classes)} classes, fitted here on the embeddings of {base}."
    card = dataclasses.replace(model.card, title=model.name, body=words)
    card_path = files.make_folder(home.folder("cards")) / f"{model.name}.md"
    files.write(card_path, cards.write(card).encode())
    return card_path


def on_base(card: Card, base: Model, pretrained: bool) -> Model:
    """The model of a card that `save_linear` wrote: the head kept for it on the body of the model it was fitted on."""
    classes = card.details["classes"]
    head, digest = stored(card, base.num_features, classes, pretrained)
    network = Network(base.body, head, base.network.blocks).eval().requires_grad_(False).to(base.device)
    joined = None if digest is None else files.digest([base.weights_hash, digest])
    own = card.transform if card.transform != base.card.transform else None  # fitted on images of another size
    return Model(card, network, base.transform if own is None else Pipeline(own), classes, joined)


def stored(card: Card, width: int, classes: Sequence[str], pretrained: bool) -> tuple[nn.Module, str | None]:
    """The head kept for a card, and its hash; with `weights` false a random one."""
    if not pretrained:
        return nn.Linear(width, len(classes)), None
    path = head_file(card)
    if not path.exists():
        raise MissingWeights(
            f"{card.name}: no linear head was published, and none is in {path}; fit one on embeddings of labelled images "
            "with zoo.heads.fit_linear, then keep it with zoo.heads.save_linear"
        )
    digest = files.sha256(path)
    if path == shipped_head(card) and digest != card.sha256:
        raise CorruptFile(
            f"{card.name}: {path} has the sha256 {digest}, its card says {card.sha256 or 'none'}; install the package again"
        )
    tensors, note = tensorfile.read_sealed(path)
    kept = note.get("classes")
    weight, bias = (torch.from_numpy(np.array(tensors[key])) for key in ("weight", "bias"))
    if kept != list(classes) or weight.shape != (len(classes), width):
        raise InputError(
            f"{card.name}: the head in {path} has shape {list(weight.shape)} and {len(kept or ())} classes, expected "
            f"[{len(classes)}, {width}] and the classes of {card.labels}; fit it again"
        )
    return _linear(weight, bias), digest


def solve(x: np.ndarray, y: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights [K, D] and biases [K] for embeddings x [N, D] and labels y [N]; see `fit_linear`."""
    from sklearn.linear_model import LogisticRegression

    mean, scale = x.mean(0), x.std(0)
    scale[scale == 0] = 1
    # scikit-learn minimises C * (sum of losses) + ||W||^2 / 2, so C = 1 / (2 strength).
    solver = LogisticRegression(C=1 / (2 * strength), tol=1e-6, max_iter=5000)
    solver.fit((x - mean) / scale, y)
    coefficients, intercepts = solver.coef_, solver.intercept_
    if len(coefficients) == 1:  # two classes: one row, the logit of the second against the first
        coefficients, intercepts = np.vstack([-coefficients, coefficients]) / 2, np.hstack([-intercepts, intercepts]) / 2
    weight = coefficients / scale
    return weight, intercepts - weight @ mean


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    head = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    return head.requires_grad_(False)
