"""A classifier of some library cut before its final layer: a body that gives embeddings, a head that gives logits.

The final layer is taken out of the network and an identity put in its place, so the body is the library's own forward pass
and nothing is repeated here that the library might do differently. Some networks have several final layers, of which the
mean is the answer: a distilled transformer has one for its class token and one for its distillation token. There the
identities put each layer's input into its own share of a wider embedding, so that the mean is these inputs end to end.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.errors import InputError, ZooError


class ConvolutionHead(nn.Module):
    """A final layer that is a 1 x 1 convolution, on embeddings [N, D]."""

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, embeddings: Tensor) -> Tensor:
        logits: Tensor = self.convolution(embeddings[:, :, None, None])
        return logits.flatten(1)


class MeanHead(nn.Module):
    """The mean of several final layers, each on its own share of the embedding or all on the whole."""

    def __init__(self, layers: Sequence[nn.Module], widths: Sequence[int] | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.widths = widths

    def forward(self, embeddings: Tensor) -> Tensor:
        shares = [embeddings] * len(self.layers) if self.widths is None else embeddings.split(list(self.widths), 1)
        outputs = [layer(share) for layer, share in zip(self.layers, shares, strict=True)]
        return torch.stack(outputs).mean(0)


class _Place(nn.Module):
    """Puts its input into its share of a wider vector, times the number of shares, which their mean divides out again."""

    def __init__(self, before: int, after: int, shares: int) -> None:
        super().__init__()
        self.before, self.after, self.shares = before, after, shares

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x * self.shares, (self.before, self.after))


def split(model: nn.Module, final_layers: Sequence[str], example: Tensor, name: str) -> nn.Module:
    """The head of `model`, whose final layers, named by their paths, are taken out of it; what is left is the body."""
    if len(final_layers) > 1:
        return _split_several(model, final_layers, example, name)
    layer = model.get_submodule(final_layers[0])
    model.set_submodule(final_layers[0], nn.Identity())
    return ConvolutionHead(layer) if isinstance(layer, nn.Conv2d) else layer


def split_last(model: nn.Module, outputs: int, example: Tensor) -> nn.Module | None:
    """The head of a classifier that nothing is known about: the last linear layer of so many outputs that it calls.

    None, and the network as it was, where it has no such layer or where what follows changes the answer.
    """
    called: list[str] = []

    def look(path: str) -> Any:
        return lambda module, arguments: called.append(path)

    layers = {path: layer for path, layer in model.named_modules() if path and _outputs(layer) == outputs}
    hooks = [layer.register_forward_pre_hook(look(path)) for path, layer in layers.items()]
    model.eval()
    try:
        with torch.inference_mode():
            expected = model(example)
    finally:
        for hook in hooks:
            hook.remove()
    if not called or called.count(called[-1]) > 1:
        return None
    head = split(model, called[-1:], example, "")
    if expected.device.type == "meta" or agree(model, head, example, expected):
        return head
    model.set_submodule(called[-1], layers[called[-1]])
    return None


def _outputs(layer: nn.Module) -> int | None:
    """The outputs of a layer that could be a final one."""
    if isinstance(layer, nn.Linear):
        return layer.out_features
    return layer.out_channels if isinstance(layer, nn.Conv2d) and set(layer.kernel_size) == {1} else None


def _split_several(model: nn.Module, paths: Sequence[str], example: Tensor, name: str) -> nn.Module:
    inputs: dict[str, Tensor] = {}

    def look(path: str) -> Any:
        def hook(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            inputs[path] = arguments[0]

        return hook

    layers = {path: model.get_submodule(path) for path in paths}
    hooks = [layer.register_forward_pre_hook(look(path)) for path, layer in layers.items()]
    model.eval()
    with torch.inference_mode():
        expected = model(example)
    for hook in hooks:
        hook.remove()
    used = [path for path in paths if path in inputs]  # auxiliary ones serve training only
    if len(used) == 1:
        return split(model, used, example, name)
    shared = len({id(inputs[path]) for path in used}) == 1
    widths = [inputs[path].shape[1] for path in used]
    for number, path in enumerate(used):
        place = _Place(sum(widths[:number]), sum(widths[number + 1 :]), len(used))
        model.set_submodule(path, nn.Identity() if shared else place)
    head = MeanHead([layers[path] for path in used], None if shared else widths).eval()
    if expected.device.type != "meta" and not agree(model, head, example, expected):
        raise ZooError(f"{name}: its {len(used)} final layers are combined in a way that is not known here")
    return head


def agree(model: nn.Module, head: nn.Module, example: Tensor, expected: Tensor) -> bool:
    """Whether body and head together give what the whole network gave."""
    try:
        with torch.inference_mode():
            embeddings = model(example)
            found = head(embeddings)
    except (RuntimeError, IndexError, InputError):  # shapes that do not go together
        return False
    return embeddings.ndim == 2 and found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-4, atol=1e-4)
