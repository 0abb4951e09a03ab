"""Zero-shot heads: an image is compared with sentences about each class by the cosine of their features.

Each class name is put into several templates ("a photo of a {}."); the normalised features of these sentences are averaged
and normalised again. For ImageNet, names and the eighty templates are those published with CLIP, as open_clip has them.
Other classes use one template.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.cards import labels
from zoo.core import files, home, tensorfile
from zoo.errors import CorruptFile, ZooWarning

Encoder: TypeAlias = Callable[[list[str]], Tensor]  # from sentences to features [N, D]

PLAIN_TEMPLATE = "a photo of a {}."
_BATCH_SIZE = 800  # sentences
_MANY_SENTENCES = 2000  # from this many on, a message announces the wait


class ZeroShotHead(nn.Module):
    """Logits scale * cos(x, w_k) + bias [N, K] of embeddings x [N, D], for class weights w [K, D] of unit length.

    The zero-shot head of Gontijo-Lopes et al. 2021, A.2; w_k are the text features of class k.

    >>> head = ZeroShotHead(torch.eye(2), scale=100.0)
    >>> head(torch.tensor([[3.0, 4.0]])).round()
    tensor([[60., 80.]])
    """

    def __init__(self, weight: Tensor, scale: Tensor | float, bias: Tensor | float = 0.0) -> None:
        super().__init__()
        self.out_features = weight.shape[0]
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.scale = nn.Parameter(torch.as_tensor(scale, dtype=torch.float32).reshape(()), requires_grad=False)
        self.bias = nn.Parameter(torch.as_tensor(bias, dtype=torch.float32).reshape(()), requires_grad=False)

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.scale * functional.linear(functional.normalize(embeddings, dim=1), self.weight) + self.bias


@dataclass(frozen=True)
class TextTower:
    """The text side of a dual encoder: width of its features, scale and bias of the logits, and its encoder."""

    width: int
    scale: float
    bias: float
    encode: Encoder | None  # None: class weights are random


def build(tower: TextTower, classes: Sequence[str], weights_hash: str | None) -> tuple[ZeroShotHead, str | None]:
    """Return the head for class names, and a hash of its sentences; the hash is None if the head is random.

    A thousand classes in eighty templates take minutes on a CPU, so class weights are stored in `<home>/heads`.
    """
    if tower.encode is None:
        weight = functional.normalize(torch.randn(len(classes), tower.width), dim=1)
        return ZeroShotHead(weight, tower.scale, tower.bias), None
    names, templates = sentences(classes)
    text = json.dumps([names, templates])
    digest = hashlib.sha256(text.encode()).hexdigest()
    if weights_hash is None:
        weight = class_weights(tower.encode, names, templates)
    else:
        weight = _stored_class_weights(files.digest([weights_hash, text]), tower.encode, names, templates)
    return ZeroShotHead(weight, tower.scale, tower.bias), digest


def sentences(classes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words for each class, and the templates that they are put into.

    >>> sentences(["sweet_pepper"])
    (['sweet pepper'], ['a photo of a {}.'])
    """
    imagenet = {name: index for index, name in enumerate(labels.classes("imagenet-1k"))}
    if not all(name in imagenet for name in classes):
        return [labels.describe(name).split(",")[0].replace("_", " ") for name in classes], [PLAIN_TEMPLATE]
    from open_clip.zero_shot_metadata import IMAGENET_CLASSNAMES, OPENAI_IMAGENET_TEMPLATES

    templates = [template("{}") for template in OPENAI_IMAGENET_TEMPLATES]
    return [IMAGENET_CLASSNAMES[imagenet[name]] for name in classes], templates


def class_weights(encode: Encoder, names: Sequence[str], templates: Sequence[str]) -> Tensor:
    """Return class weights [K, D] of unit length: for each class the mean of its sentences' normalised features."""
    classes_per_batch = max(1, _BATCH_SIZE // len(templates))
    rows = []
    with torch.inference_mode():
        for start in range(0, len(names), classes_per_batch):
            part = names[start : start + classes_per_batch]
            features = encode([template.format(name) for name in part for template in templates]).float()
            means = functional.normalize(features, dim=1).reshape(len(part), len(templates), -1).mean(1)
            rows.append(functional.normalize(means, dim=1))
    return torch.cat(rows).clone()


def _stored_class_weights(key: str, encode: Encoder, names: Sequence[str], templates: Sequence[str]) -> Tensor:
    """Return the class weights of a key from `<home>/heads`, after computing and storing them if they are missing."""
    path = home.folder("heads") / f"{key}.safetensors"
    if path.exists():
        try:
            return torch.from_numpy(np.array(tensorfile.read_sealed(path)[0]["weight"]))
        except (CorruptFile, KeyError):
            moved = files.set_aside(path)
            message = f"{path} is damaged and was set aside as {moved.name}; its class weights are computed again"
            warnings.warn(message, ZooWarning, stacklevel=2)
    if len(names) * len(templates) > _MANY_SENTENCES:
        count = f"{len(names)} classes in {len(templates)} templates"
        print(f"zoo: encoding {count} for a zero-shot head, once; stored at {path}", file=sys.stderr, flush=True)
    weight = class_weights(encode, names, templates)
    files.make_folder(path.parent)
    files.write(path, tensorfile.encode({"weight": weight.cpu().numpy()}, {"classes": list(names)}))
    return weight
