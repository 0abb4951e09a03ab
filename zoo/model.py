"""The one interface of every model: images in, embeddings and logits out."""

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from zoo._registry.names import near
from zoo._running.images import Images, decoded
from zoo._running.preprocessing import Preprocessing
from zoo._storage import files
from zoo.cards import Card
from zoo.datasets import Framing
from zoo.errors import InputError, UnknownName


class Network(nn.Module):
    """A body from pixels [N, C, H, W] to embeddings [N, D], and a head from these to logits [N, K].

    The embedding is the input of the final layer, so `head(body(x))` is all there is. `head` is None for a bare encoder.
    `blocks` are modules inside the body whose outputs are its hidden layers, by name, in order of computation.
    """

    def __init__(self, body: nn.Module, head: nn.Module | None, blocks: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.blocks = dict(blocks)  # a plain dict: these modules are registered in the body already

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Embeddings [N, D] and logits [N, K]."""
        embeddings = self.body(batch)
        return embeddings, None if self.head is None else self.head(embeddings)


class Model:
    """A network with its card, its transform and its class names; made by `zoo.load`.

    `transform` turns a image into the network's input and is part of the model: the two are never apart. Images come
    in any size (see `embed`); embeddings [N, D] are what the final layer sees, logits [N, K] are in the order of `classes`.

    >>> import zoo
    >>> model = zoo.load("resnet8-cosine", weights=False, device="cpu")
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
        return next(itertools.chain(self.network.parameters(), self.network.buffers())).device

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

    def framed(self, framing: Framing) -> "Model":
        """The same network, shown as much of each image as `framing` says."""
        if framing == "evaluation":
            return self
        other = copy.copy(self)
        other.transform = self.transform.framed(framing)
        return other

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Embeddings [N, D] and logits [N, K] (None without a head) of an already transformed batch on the model's device.

        A uint8 batch of `transform.pixels` is normalised here. The network runs in evaluation mode whatever mode it was
        left in, so that a image alone and in a batch give the same answer.
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
        for batch in self._batches(images, batch_size):
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


def state_hash(network: nn.Module) -> str:
    """A hash of every parameter and buffer, by name, dtype, shape and value."""

    def parts() -> Iterator[bytes | str]:
        for name, values in network.state_dict().items():
            yield f"{name} {values.dtype} {list(values.shape)}"
            if values.device.type != "meta":
                yield values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    return files.digest(parts())


def _keep(found: dict[str, Tensor], name: str) -> Callable[..., None]:
    """A hook that keeps a block's output; of a tuple the first tensor, which is the hidden state everywhere."""

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        found[name] = output if isinstance(output, Tensor) else output[0]

    return hook
