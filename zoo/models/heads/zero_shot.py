"""A zero-shot head: classes as sentences, scored by the cosine between an image's and a sentence's features.

Each class is put into several templates ("a photo of a {}."), the normalised features of these sentences are averaged and
normalised again. For ImageNet the names and the eighty templates are those CLIP was published with, as open_clip has
them; any other class goes into one template.
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

Encoder: TypeAlias = Callable[[list[str]], Tensor]  # sentences to features [N, D]

PLAIN_TEMPLATE = "a photo of a {}."
_SENTENCES_AT_ONCE = 800
_MANY_SENTENCES = 2000  # from here on it takes long enough to be told


class ZeroShotHead(nn.Module):
    """scale * cos(x, w_k) + bias for class weights w [K, D] of unit length: embeddings x [N, D] in, logits [N, K] out.

    The zero-shot head of Gontijo-Lopes et al. 2021, A.2; w_k stands for the sentences of class k.

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
    """What a zero-shot head needs of a model. `encode` turns sentences into features [N, D]; None: random class weights."""

    width: int
    scale: float
    bias: float
    encode: Encoder | None


def build(tower: TextTower, classes: Sequence[str], weights_hash: str | None) -> tuple[ZeroShotHead, str | None]:
    """The head for `classes`, and a hash of the sentences it was made from; None where it is random.

    A thousand classes in eighty templates take minutes on a CPU, so class weights are kept in `<home>/heads`.
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
        weight = _kept(files.digest([weights_hash, text]), tower.encode, names, templates)
    return ZeroShotHead(weight, tower.scale, tower.bias), digest


def sentences(classes: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words for each class, and the templates they go into.

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
    """[K, D] of unit length: for each class the mean of its sentences' unit features."""
    at_once = max(1, _SENTENCES_AT_ONCE // len(templates))
    rows = []
    with torch.inference_mode():
        for start in range(0, len(names), at_once):
            part = names[start : start + at_once]
            features = encode([template.format(name) for name in part for template in templates]).float()
            means = functional.normalize(features, dim=1).reshape(len(part), len(templates), -1).mean(1)
            rows.append(functional.normalize(means, dim=1))
    return torch.cat(rows).clone()


def _kept(key: str, encode: Encoder, names: Sequence[str], templates: Sequence[str]) -> Tensor:
    """The class weights of a key from `<home>/heads`, made and put there where they are not."""
    path = home.folder("heads") / f"{key}.safetensors"
    if path.exists():
        try:
            return torch.from_numpy(np.array(tensorfile.read_sealed(path)[0]["weight"]))
        except (CorruptFile, KeyError):
            moved = files.set_aside(path)
            warnings.warn(f"{path} is damaged, set aside as {moved.name}; its class weights are computed anew", ZooWarning,
                          stacklevel=2)  # fmt: skip
    if len(names) * len(templates) > _MANY_SENTENCES:
        count = f"{len(names)} classes in {len(templates)} templates"
        print(f"zoo: reading {count} once for a zero-shot head, kept at {path}", file=sys.stderr, flush=True)
    weight = class_weights(encode, names, templates)
    files.make_folder(path.parent)
    files.write(path, tensorfile.encode({"weight": weight.cpu().numpy()}, {"classes": list(names)}))
    return weight
