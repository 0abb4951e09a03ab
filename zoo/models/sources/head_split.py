"""Networks of libraries and users as a body that returns embeddings and a head that returns logits.

A classifier is split by replacing its final layer with an identity, so that the body is the network's own forward pass.
Some networks average several final layers: a distilled transformer has one for its class token and one for its distillation
token. There each layer is replaced by a module that pads the layer's input with zeros to a wider vector, so that the
network's average is the concatenation of these inputs.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.errors import InputError, ZooError


class ConvolutionHead(nn.Module):
    """A final layer that is a 1 x 1 convolution, applied to embeddings [N, D]."""

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, embeddings: Tensor) -> Tensor:
        logits: Tensor = self.convolution(embeddings[:, :, None, None])
        return logits.flatten(1)


class MeanHead(nn.Module):
    """The mean of several final layers, applied to consecutive parts of the embedding, or each to all of it."""

    def __init__(self, layers: Sequence[nn.Module], widths: Sequence[int] | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.widths = widths  # of the parts; None: every layer gets the whole embedding

    def forward(self, embeddings: Tensor) -> Tensor:
        parts = [embeddings] * len(self.layers) if self.widths is None else embeddings.split(list(self.widths), 1)
        outputs = [layer(part) for layer, part in zip(self.layers, parts, strict=True)]
        return torch.stack(outputs).mean(0)


class _PadToPart(nn.Module):
    """Place the input in its part of a wider vector, times the number of parts, because the network averages the parts."""

    def __init__(self, before: int, after: int, parts: int) -> None:
        super().__init__()
        self.before, self.after, self.parts = before, after, parts

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x * self.parts, (self.before, self.after))


class PooledEncoder(nn.Module):
    """An encoder or image tower of transformers, from pixels [N, C, H, W] to one vector per image [N, D].

    Args:
        model: the library's model.
        first_token: use the first token instead of the pooled output, for weights without a pooling layer.
    """

    def __init__(self, model: nn.Module, first_token: bool = False) -> None:
        super().__init__()
        self.model = model
        self.first_token = first_token

    def forward(self, pixels: Tensor) -> Tensor:
        image_features = getattr(self.model, "get_image_features", None)
        output = self.model(pixel_values=pixels) if image_features is None else image_features(pixel_values=pixels)
        if isinstance(output, Tensor):
            return output
        pooled = getattr(output, "pooler_output", None)
        if pooled is None or self.first_token:
            hidden: Tensor = output.last_hidden_state
            return hidden[:, 0] if hidden.ndim == 3 else hidden.mean((2, 3))
        return pooled.flatten(1)


class LogitsClassifier(nn.Module):
    """A classifier of transformers, from pixels to logits; after its final layer is removed, to embeddings."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=pixels).logits
        return logits


def split(model: nn.Module, final_layers: Sequence[str], example: Tensor, name: str) -> nn.Module:
    """Remove the final layers from a model, which becomes the body, and return them as its head.

    Args:
        model: the classifier; it is changed.
        final_layers: paths of its final layers.
        example: an input, run to find out how several final layers are used.
        name: the model's name, for errors.
    """
    if len(final_layers) > 1:
        return _split_several(model, final_layers, example, name)
    layer = model.get_submodule(final_layers[0])
    model.set_submodule(final_layers[0], nn.Identity())
    return ConvolutionHead(layer) if isinstance(layer, nn.Conv2d) else layer


def split_last(model: nn.Module, outputs: int, example: Tensor) -> nn.Module | None:
    """Split an unknown classifier at the last linear layer with this many outputs that it calls; return the head.

    Return None, and leave the network unchanged, if there is no such layer or what follows it changes the result.
    """
    layers = {path: layer for path, layer in model.named_modules() if path and _num_outputs(layer) == outputs}
    model.eval()
    expected, calls = _record_inputs(model, layers, example)
    called = [path for path, _ in calls]
    if not called or called.count(called[-1]) > 1:
        return None
    head = split(model, called[-1:], example, "")
    if expected.device.type == "meta" or outputs_agree(model, head, example, expected):
        return head
    model.set_submodule(called[-1], layers[called[-1]])
    return None


def outputs_agree(body: nn.Module, head: nn.Module, example: Tensor, expected: Tensor) -> bool:
    """Return whether body and head together return the logits of the unsplit network."""
    try:
        with torch.inference_mode():
            embeddings = body(example)
            logits = head(embeddings)
    except (RuntimeError, IndexError, InputError):  # shapes that do not match
        return False
    if embeddings.ndim != 2 or logits.shape != expected.shape:
        return False
    return torch.allclose(logits, expected, rtol=1e-4, atol=1e-4)


def _num_outputs(layer: nn.Module) -> int | None:
    """Return the outputs of a layer that could be a final one, else None."""
    if isinstance(layer, nn.Linear):
        return layer.out_features
    return layer.out_channels if isinstance(layer, nn.Conv2d) and set(layer.kernel_size) == {1} else None


def _record_inputs(
    model: nn.Module, layers: dict[str, nn.Module], example: Tensor
) -> tuple[Tensor, list[tuple[str, Tensor | None]]]:
    """Run a model; return its output and, in order, the path and the first argument of each call of one of the layers."""
    calls: list[tuple[str, Tensor | None]] = []

    def recorder(path: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        return lambda module, arguments: calls.append((path, next(iter(arguments), None)))

    hooks = [layer.register_forward_pre_hook(recorder(path)) for path, layer in layers.items()]
    try:
        with torch.inference_mode():
            return model(example), calls
    finally:
        for hook in hooks:
            hook.remove()


def _split_several(model: nn.Module, paths: Sequence[str], example: Tensor, name: str) -> nn.Module:
    layers = {path: model.get_submodule(path) for path in paths}
    model.eval()
    expected, calls = _record_inputs(model, layers, example)
    inputs = {path: argument for path, argument in calls if argument is not None}
    used = [path for path in paths if path in inputs]  # auxiliary layers are used in training only
    if len(used) == 1:
        return split(model, used, example, name)
    shared = len({id(inputs[path]) for path in used}) == 1
    widths = [inputs[path].shape[1] for path in used]
    for number, path in enumerate(used):
        padding = _PadToPart(sum(widths[:number]), sum(widths[number + 1 :]), len(used))
        model.set_submodule(path, nn.Identity() if shared else padding)
    head = MeanHead([layers[path] for path in used], None if shared else widths).eval()
    if expected.device.type != "meta" and not outputs_agree(model, head, example, expected):
        raise ZooError(f"the network does not average its {len(used)} final layers, so it cannot be split", where=name)
    return head
