"""What every model computes with: a body that gives embeddings and a head that gives logits."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from zoo.core import files


class Network(nn.Module):
    """A body from pixels [N, C, H, W] to embeddings [N, D], and a head from these to logits [N, K].

    The embedding is the input of the final layer, so `head(body(x))` is all there is. `head` is None for a bare encoder.
    `blocks` are modules inside the body whose outputs are its hidden layers, by name, in order of computation. A network
    that cannot be taken apart does not embed: its body gives the logits, and its head hands them on (`Unchanged`).
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
        """Embeddings [N, D] and logits [N, K]."""
        embeddings = self.body(batch)
        return embeddings, None if self.head is None else self.head(embeddings)


class Unchanged(nn.Identity):
    """The head of a network that is not taken apart."""

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features


def state_hash(network: nn.Module) -> str:
    """A hash of every parameter and buffer, by name, dtype, shape and value."""

    def parts() -> Iterator[bytes | str]:
        for name, values in network.state_dict().items():
            yield f"{name} {values.dtype} {list(values.shape)}"
            if values.device.type != "meta":
                yield values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    return files.digest(parts())
