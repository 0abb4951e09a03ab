"""ONNX graphs as networks: read a file and its external data, cut a graph at a tensor, run it.

An ONNX file may keep weights in other files. Their locations are checked before any of them is opened: a location must be a
regular file inside the model's folder, also after links are resolved, and the total size is bounded.
"""

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.cards.names import unknown
from zoo.core import settings
from zoo.errors import CorruptFile, InputError, ZooError

_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_AFTER_FINAL_LAYER = ("Softmax", "Sigmoid", "Identity", "Cast", "LogSoftmax")
_MAX_BYTES = 2**31 - 1  # of a graph with its weights: the limit of the format


def libraries(name: str) -> tuple[Any, Any]:
    """Return the modules onnx and onnxruntime."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        hint = "Run `pip install 'model-zoo-diversity[onnx]'`"
        raise InputError("ONNX files need onnx and onnxruntime, which are not installed", where=name, hint=hint) from error
    return onnx, onnxruntime


def read(path: Path, name: str) -> Any:
    """Return the model in a file, without external data."""
    onnx, _ = libraries(name)
    from google.protobuf.message import DecodeError

    where = f"{name}: {path}"
    if not path.is_file():
        raise InputError("there is no such file", where=where)
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(where=where, expected=f"at most {_MAX_BYTES} bytes", found=path.stat().st_size)
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, OSError, ValueError) as error:
        raise CorruptFile(f"is not a readable ONNX file: {_short(error)}", where=where) from error
    if not model.graph.node or not model.graph.output:
        raise CorruptFile("is not a readable ONNX file: it has no graph", where=where)
    return model


def external_files(model: Any, path: Path, name: str) -> list[Path]:
    """Return the files outside `path` that hold weights of the graph, after checking all of them without opening one."""
    onnx, _ = libraries(name)
    folder = path.parent.resolve()
    found: set[Path] = set()
    total = 0
    for tensor in _tensors(model, onnx.TensorProto):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        where = f"{name}: external data {location!r} of the tensor {tensor.name!r}"
        file = _checked_location(folder, location, where)
        size = file.stat().st_size
        try:
            offset = int(entries.get("offset", 0))
            length = int(entries.get("length", size - offset))
        except ValueError as error:
            raise CorruptFile(f"offset and length are not whole numbers: {_short(error)}", where=where) from error
        if offset < 0 or length < 0 or offset + length > size:
            raise CorruptFile(f"bytes {offset} to {offset + length} are outside a file of {size} bytes", where=where)
        total += length
        if max(total, size) > _MAX_BYTES:
            raise InputError(where=where, expected=f"at most {_MAX_BYTES} bytes of weights", found=max(total, size))
        found.add(file)
    return sorted(found)


def load_external_data(model: Any, path: Path, name: str) -> None:
    """Read the external data of a graph, which `external_files` has checked, into its tensors."""
    onnx, _ = libraries(name)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (onnx.checker.ValidationError, OSError, ValueError) as error:
        raise CorruptFile(f"the external data cannot be read: {_short(error)}", where=f"{name}: {path}") from error


def _checked_location(folder: Path, location: str, where: str) -> Path:
    try:
        file = (folder / location).resolve()
        inside, regular = file.is_relative_to(folder) and file != folder, file.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a NUL byte, too long a name
        raise InputError(f"is not a file: {_short(error)}", where=where) from error
    if not inside:
        raise InputError("refused, because it is outside the model's folder", where=where)
    if not regular:
        raise InputError("is missing or not a regular file", where=where)
    return folder / location


def _tensors(message: Any, kind: type) -> Iterator[Any]:
    """Yield every tensor of a model, in all nodes, subgraphs and functions."""
    for _, value in message.ListFields():
        for item in value if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else [value]:
            if isinstance(item, kind):
                yield item
            elif hasattr(item, "ListFields"):
                yield from _tensors(item, kind)


def image_input(model: Any, name: str) -> tuple[str, tuple[int | None, ...], bool]:
    """Return the name of the only input, its shape [N, C, H, W] (None: any size), and whether its channels come last."""
    stored = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in stored]
    if len(inputs) != 1 or len(inputs[0].type.tensor_type.shape.dim) != 4:
        raise InputError(where=name, expected="a graph with one input of images [N, C, H, W]", found=f"{len(inputs)} inputs")
    declared = [one.dim_value if one.dim_value > 0 else None for one in inputs[0].type.tensor_type.shape.dim]
    if math.prod(size or 1 for size in declared) > settings.max_pixels():
        raise InputError(
            f"the graph declares an input of {' x '.join(str(size or '?') for size in declared)}",
            where=name,
            expected=f"at most {settings.max_pixels()} numbers",
            hint="Raise ZOO_MAX_PIXELS if the input is right",
        )
    n, *rest = declared
    last = rest[0] not in (1, 3) and rest[2] in (1, 3)
    return inputs[0].name, (n, *(rest[2:] + rest[:2] if last else rest)), last


def final_operation(model: Any) -> str:
    """Return the operation that computes the first output: `Gemm`, `Softmax`, ..."""
    node = _producers(model).get(model.graph.output[0].name)
    return node.op_type if node is not None else ""


def last_embedding(model: Any) -> str | None:
    """Return the name of the final linear layer's input, or None if the graph does not end in a linear layer."""
    producers = _producers(model)
    node = producers.get(model.graph.output[0].name)
    while node is not None and node.op_type in _AFTER_FINAL_LAYER:
        node = producers.get(node.input[0])
    if node is not None and node.op_type == "Add":
        node = next((producers[one] for one in node.input if one in producers and producers[one].op_type == "MatMul"), None)
    return str(node.input[0]) if node is not None and node.op_type in ("Gemm", "MatMul") else None


def cut(model: Any, embedding: str, name: str) -> tuple[Any, Any]:
    """Return the part of a graph before a tensor and the part after it."""
    onnx, _ = libraries(name)
    known = {one for node in model.graph.node for one in node.output}
    if embedding not in known:
        raise unknown("tensor of the graph", embedding, known, where=name)
    inferred = onnx.shape_inference.infer_shapes(model)
    start, end = image_input(model, name)[0], model.graph.output[0].name
    try:
        extract = onnx.utils.Extractor(inferred).extract_model
        return extract([start], [embedding]), extract([embedding], [end])
    except (KeyError, ValueError, onnx.checker.ValidationError) as error:
        problem = f"the graph cannot be cut at {embedding!r}: {_short(error)}"
        raise InputError(problem, where=name, argument="embedding") from error


class Graph(nn.Module):
    """A graph from one tensor to another, run on the CPU. A copy opens its own onnxruntime session."""

    def __init__(self, model: Any, name: str, channels_last: bool = False) -> None:
        super().__init__()
        if model.ByteSize() > _MAX_BYTES:
            raise InputError(where=name, expected=f"a graph of at most {_MAX_BYTES} bytes", found=model.ByteSize())
        self.content = model.SerializeToString()
        self.name, self.channels_last = name, channels_last

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "session"}

    @cached_property
    def session(self) -> Any:
        _, runtime = libraries(self.name)
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            session = runtime.InferenceSession(self.content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common base class
            raise InputError(f"onnxruntime cannot run the graph: {_short(error)}", where=self.name) from error
        kind = session.get_inputs()[0].type
        if kind not in _FLOATS:
            raise InputError(f"the graph's input is {kind}", where=self.name, expected="floating-point numbers")
        return session

    def forward(self, batch: Tensor) -> Tensor:
        source = self.session.get_inputs()[0]
        values = (batch.movedim(1, -1) if self.channels_last else batch).cpu().numpy().astype(_FLOATS[source.type])
        fixed = source.shape[0] if isinstance(source.shape[0], int) else None
        if fixed is None or fixed == len(values):
            results = [self._run(source.name, values)]
        else:  # the graph takes batches of one size only: the last batch is padded
            padded = np.concatenate([values, np.zeros_like(values[:1]).repeat(-len(values) % fixed, 0)])
            results = [self._run(source.name, padded[i : i + fixed]) for i in range(0, len(padded), fixed)]
        return torch.from_numpy(np.concatenate(results)[: len(values)].astype(np.float32)).to(batch.device)

    def _run(self, source: str, values: np.ndarray) -> np.ndarray:
        try:
            return np.asarray(self.session.run(None, {source: np.ascontiguousarray(values)})[0])
        except Exception as error:
            raise ZooError(f"onnxruntime failed: {_short(error)}", where=self.name) from error


def _producers(model: Any) -> dict[str, Any]:
    """Return the node that computes each tensor."""
    return {output: node for node in model.graph.node for output in node.output}


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
