"""The one interface of every model: images in, embeddings and logits out."""

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from zoo.cards.card import Card
from zoo.cards.names import near
from zoo.core.pages import kept_pages
from zoo.core.types import Link
from zoo.datasets import ResizeMode
from zoo.datasets.images import Images, decoded
from zoo.datasets.preprocessing import Preprocessing
from zoo.errors import InputError, UnknownName
from zoo.models.sources.user_models import AnyTransform, Gives, adopt
from zoo.networks.network import Network as Network
from zoo.networks.network import state_hash as state_hash


class Model:
    """A network with its card, its transform and its class names; made by `zoo.load`, or by `Model.of` from one's own.

    `transform` turns an image into the network's input and is part of the model: the two are never apart. Images come
    in any size (see `embed`); embeddings [N, D] are what the final layer sees, logits [N, K] are in the order of `classes`.

    >>> import zoo
    >>> model = zoo.load("resnet8-cosine", pretrained=False, device="cpu")
    >>> model
    <Model resnet8-cosine.digits: 10 classes, 0.1 M parameters, on cpu>
    >>> images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    >>> model.embed(images).shape, model.predict(images).shape
    (torch.Size([2, 64]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        card: Card,
        network: Network,
        transform: Preprocessing,
        classes: Sequence[str],
        weights_hash: str | None = None,
    ) -> None:
        self.card = card
        self.network = network
        self.transform = transform
        self.classes = tuple(classes)  # () for a bare encoder
        self._weights_hash = weights_hash

    @classmethod
    def of(
        cls,
        classifier: "nn.Module | Callable[[Tensor], Any]",
        transform: AnyTransform,
        classes: str | Sequence[str] | None,
        *,
        name: str,
        final_layer: str | None = None,
        kind: Gives = "logits",
        link: Link = "softmax",
    ) -> "Model":
        """A model of one's own: any network, or any function from a batch of inputs to numbers [N, K].

        `transform` is a `zoo.cards.Transform`, or a function from an image to a tensor such as torchvision's; `classes` the
        names of the columns, a label set's name (`imagenet-1k`), or None for an encoder. The network is copied. Embeddings
        are what goes into its last linear layer, or into `final_layer`; where something after that layer changes the
        answer, as in any function, there are none. `kind` says what the numbers are.

        >>> import numpy as np
        >>> def brightness(batch):
        ...     light = batch.mean((1, 2, 3))
        ...     return torch.stack([1 - light, light], 1)
        >>> def shrink(image):
        ...     return np.moveaxis(np.array(image.resize((8, 8))), 2, 0) / 255
        >>> model = Model.of(brightness, shrink, ["dark", "light"], name="brightness", kind="probabilities")
        >>> model.predict(torch.full((1, 3, 20, 20), 255, dtype=torch.uint8)).exp()
        tensor([[0., 1.]])
        """
        card, network, prepared, names, digest = adopt(classifier, transform, classes, name, final_layer, kind, link)
        return cls(card, network, prepared, names, digest)

    def __repr__(self) -> str:
        head = f"{len(self.classes)} classes" if self.classes else "no head"
        return f"<Model {self.card.name}: {head}, {self.num_parameters / 1e6:.1f} M parameters, on {self.device}>"

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def body(self) -> nn.Module:
        return self.network.body

    @property
    def head(self) -> nn.Module | None:
        return self.network.head

    @property
    def device(self) -> torch.device:
        own = itertools.chain(self.network.parameters(), self.network.buffers())
        return next(own, torch.empty(0)).device  # a function of one's own has neither

    @property
    def embeds(self) -> bool:
        """Whether it has embeddings; a network that cannot be taken apart has none."""
        return self.network.embeds

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.network.parameters())

    @cached_property
    def num_features(self) -> int:
        """The dimensions of the embeddings, seen on one black image."""
        empty = torch.zeros(1, *self.transform.size, device=self.device)
        return int(self.forward(empty)[0].shape[1])

    @property
    def layer_names(self) -> list[str]:
        """The hidden layers `layers` gives: the network's blocks, in order of computation."""
        return list(self.network.blocks)

    @cached_property
    def weights_hash(self) -> str:
        """The hash of the weights as they were loaded; random weights are hashed number by number."""
        return self._weights_hash or state_hash(self.network)

    def to(self, device: torch.device | str) -> "Model":
        """This model, moved to another device."""
        self.network.to(device)
        return self

    def with_resize_mode(self, resize_mode: ResizeMode) -> "Model":
        """The same network, shown as much of each image as `resize_mode` says."""
        if resize_mode == "evaluation":
            return self
        other = copy.copy(self)
        other.transform = self.transform.with_resize_mode(resize_mode)
        return other

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Embeddings [N, D] and logits [N, K] (None without a head) of an already transformed batch on the model's device.

        A uint8 batch of `transform.pixels` is normalised here. The network runs in evaluation mode whatever mode it was
        left in, so that an image alone and in a batch give the same answer.
        """
        self.network.eval()
        with torch.inference_mode():
            result: tuple[Tensor, Tensor | None] = self.network(self._inputs(batch))
            return result

    def forward_layers(self, batch: Tensor, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """The outputs of the named blocks for an already transformed batch, in the shapes the network gives them."""
        blocks = self._named_blocks(names)
        found: dict[str, Tensor] = {}
        hooks = [block.register_forward_hook(_keep(found, name)) for name, block in blocks.items()]
        try:
            self.network.eval()
            with torch.inference_mode():
                self.network.body(self._inputs(batch))
        finally:
            for hook in hooks:
                hook.remove()
        return {name: found[name] for name in blocks}

    def embed(self, images: Images, batch_size: int = 64) -> Tensor:
        """Embeddings [N, D] of images, float32 on the CPU.

        `images` is one or many of: PIL images, paths, uint8 arrays [H, W, 3] or [N, H, W, 3], uint8 tensors [3, H, W]
        or [N, 3, H, W]; they may be a generator.
        """
        if not self.embeds:
            raise InputError(
                f"{self.name}: has no embeddings: it is not known which of its layers is the last; name it, or use predict"
            )
        return self._map(images, batch_size, lambda batch: {"embeddings": self.forward(batch)[0]})["embeddings"]

    def predict(self, images: Images, batch_size: int = 64) -> Tensor:
        """Logits [N, K] of images, float32 on the CPU; columns in the order of `classes`."""
        if not self.classes:
            raise InputError(
                f"{self.name}: a bare encoder has no classes to predict; use embed, or fit a head with zoo.heads.fit_linear"
            )
        return self._map(images, batch_size, self._logits)["logits"]

    def layers(self, images: Images, names: Sequence[str] | None = None, batch_size: int = 64) -> dict[str, Tensor]:
        """Hidden layers of images by name, [N, ...] float32 on the CPU; all blocks unless `names` says which."""
        self._named_blocks(names)
        return self._map(images, batch_size, lambda batch: self.forward_layers(batch, names))

    def _logits(self, batch: Tensor) -> dict[str, Tensor]:
        logits = self.forward(batch)[1]
        return {} if logits is None else {"logits": logits}

    def _inputs(self, batch: Tensor) -> Tensor:
        return self.transform.normalise(batch) if batch.dtype == torch.uint8 else batch

    def _map(self, images: Images, batch_size: int, function: Callable[[Tensor], dict[str, Tensor]]) -> dict[str, Tensor]:
        """`function` of each batch of images, its results put end to end."""
        parts: dict[str, list[Tensor]] = {}
        with contextlib.ExitStack() as stack:
            for number, batch in enumerate(self._batches(images, batch_size)):
                if number == 1:  # worth its while from the second batch on
                    stack.enter_context(kept_pages())
                for name, values in function(batch.to(self.device)).items():
                    parts.setdefault(name, []).append(values.float().cpu())
        if not parts:
            raise InputError(f"{self.name}: expected at least one image, found none")
        return {name: torch.cat(values) for name, values in parts.items()}

    def _batches(self, images: Images, batch_size: int) -> Iterator[Tensor]:
        if batch_size < 1:
            raise InputError(f"batch_size: expected at least 1, found {batch_size}")
        queue = decoded(images)
        while group := list(itertools.islice(queue, batch_size)):
            yield torch.stack([self.transform.pixels(image) for image in group])

    def _named_blocks(self, names: Sequence[str] | None) -> dict[str, nn.Module]:
        blocks = self.network.blocks
        for name in names or ():
            if name not in blocks:
                raise UnknownName(f"{self.name}: no layer {name!r}{near(name, blocks)}; layers: {', '.join(blocks)}")
        return blocks if names is None else {name: blocks[name] for name in names}


def _keep(found: dict[str, Tensor], name: str) -> Callable[..., None]:
    """A hook that keeps a block's output; of a tuple the first tensor, which is the hidden state everywhere."""

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        found[name] = output if isinstance(output, Tensor) else output[0]

    return hook
