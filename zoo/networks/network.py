"""The network inside every model: a body that returns embeddings and a head that returns logits."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from zoo.core import files


class Network(nn.Module):
    """A body from inputs [N, C, H, W] to embeddings [N, D], and a head from embeddings to logits [N, K].

    Args:
        body: returns the input of the final layer, so that `head(body(x))` is the whole network.
        head: the final layer; None for an encoder without one.
        blocks: modules inside the body whose outputs are the hidden layers, by name, in order of computation.
        embeds: False for a network that cannot be split: its body returns the logits, and its head is an `IdentityHead`.
    """

    def __init__(
        self, body: nn.Module, head: nn.Module | None, blocks: Mapping[str, nn.Module], embeds: bool = True
    ) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.blocks = dict(blocks)  # a plain dict: these modules are registered in the body already
        self.embeds = embeds

    def forward(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return embeddings [N, D] and logits [N, K]; the logits are None without a head."""
        embeddings = self.body(batch)
        return embeddings, None if self.head is None else self.head(embeddings)


class IdentityHead(nn.Identity):
    """The head of a network that cannot be split: its body already returns the logits."""

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features


def state_hash(network: nn.Module) -> str:
    """Return a hash of every parameter and buffer: name, dtype, shape and values."""

    def parts() -> Iterator[bytes | str]:
        for name, values in network.state_dict().items():
            yield f"{name} {values.dtype} {list(values.shape)}"
            if values.device.type != "meta":
                yield values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    return files.digest(parts())
