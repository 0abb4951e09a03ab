"""An ONNX graph as a network: read with the data beside it, cut at a tensor, run by onnxruntime."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.cards.names import near
from zoo.errors import CorruptFile, InputError, ZooError

_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_PASSED_ON = ("Softmax", "Sigmoid", "Identity", "Cast", "LogSoftmax")  # what may follow the final layer
_LARGEST = 2**31 - 1  # bytes of one message, by the format's own limit


def libraries(name: str) -> tuple[Any, Any]:
    """onnx and onnxruntime."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise InputError(
            f"{name}: an ONNX file needs onnx and onnxruntime; run `pip install 'model-zoo-diversity[onnx]'`"
        ) from error
    return onnx, onnxruntime


def read(path: Path, name: str, data: bool = True) -> Any:
    """The model in a file; without `data`, its structure alone."""
    onnx, _ = libraries(name)
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(str(path), load_external_data=data)
    except (DecodeError, onnx.checker.ValidationError, OSError, ValueError) as error:
        raise CorruptFile(f"{name}: {path} is not a readable ONNX file: {' '.join(str(error).split())[:200]}") from error
    if not model.graph.node or not model.graph.output:
        raise CorruptFile(f"{name}: {path} is not a readable ONNX file: it has no graph")
    return model


def external_files(model: Any, path: Path) -> list[Path]:
    """The files beside `path` that hold weights of the graph."""
    located = ({entry.key: entry.value for entry in one.external_data} for one in model.graph.initializer)
    return sorted({path.parent / entries["location"] for entries in located if "location" in entries})


def image_input(model: Any, name: str) -> tuple[str, tuple[int | None, ...], bool]:
    """The one input: its name, its shape as [N, C, H, W] with None for what is left open, and whether channels come last."""
    stored = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in stored]
    if len(inputs) != 1 or len(inputs[0].type.tensor_type.shape.dim) != 4:
        raise InputError(f"{name}: expected a graph with one input of images [N, C, H, W], found {len(inputs)} inputs")
    n, *rest = (dimension.dim_value or None for dimension in inputs[0].type.tensor_type.shape.dim)
    last = rest[0] not in (1, 3) and rest[2] in (1, 3)
    return inputs[0].name, (n, *(rest[2:] + rest[:2] if last else rest)), last


def final_operation(model: Any) -> str:
    """What the first output was made by: `Gemm`, `Softmax`, ..."""
    maker = _makers(model).get(model.graph.output[0].name)
    return maker.op_type if maker is not None else ""


def last_embedding(model: Any) -> str | None:
    """The tensor that goes into the final linear layer; None where the graph does not end in one."""
    makers = _makers(model)
    node = makers.get(model.graph.output[0].name)
    while node is not None and node.op_type in _PASSED_ON:
        node = makers.get(node.input[0])
    if node is not None and node.op_type == "Add":
        node = next((makers[one] for one in node.input if one in makers and makers[one].op_type == "MatMul"), None)
    return str(node.input[0]) if node is not None and node.op_type in ("Gemm", "MatMul") else None


def cut(model: Any, embedding: str, name: str) -> tuple[Any, Any]:
    """The part of the graph before a tensor and the part after it."""
    onnx, _ = libraries(name)
    known = {one for node in model.graph.node for one in node.output}
    if embedding not in known:
        raise InputError(f"{name}: its graph has no tensor {embedding!r}{near(embedding, known)}")
    inferred = onnx.shape_inference.infer_shapes(model)
    start, end = image_input(model, name)[0], model.graph.output[0].name
    try:
        extract = onnx.utils.Extractor(inferred).extract_model
        return extract([start], [embedding]), extract([embedding], [end])
    except (KeyError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(
            f"{name}: its graph cannot be cut at {embedding!r}: {' '.join(str(error).split())[:200]}"
        ) from error


class Graph(nn.Module):
    """A graph from one tensor to one, on the CPU; a copy of it begins a session of its own."""

    def __init__(self, model: Any, name: str, channels_last: bool = False) -> None:
        super().__init__()
        if model.ByteSize() > _LARGEST:
            raise InputError(f"{name}: its graph holds {model.ByteSize()} bytes, at most {_LARGEST} can be run")
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
        except Exception as error:  # onnxruntime's errors have no class in common
            raise InputError(f"{self.name}: onnxruntime cannot run it: {' '.join(str(error).split())[:300]}") from error
        if session.get_inputs()[0].type not in _FLOATS:
            raise InputError(
                f"{self.name}: its input is a {session.get_inputs()[0].type}, expected numbers after the transform, float"
            )
        return session

    def forward(self, batch: Tensor) -> Tensor:
        source = self.session.get_inputs()[0]
        values = (batch.movedim(1, -1) if self.channels_last else batch).cpu().numpy().astype(_FLOATS[source.type])
        fixed = source.shape[0] if isinstance(source.shape[0], int) else None
        if fixed is None or fixed == len(values):
            results = [self._run(source.name, values)]
        else:  # exported for batches of one size: filled up to it, and cut off again
            filled = np.concatenate([values, np.zeros_like(values[:1]).repeat(-len(values) % fixed, 0)])
            results = [self._run(source.name, filled[i : i + fixed]) for i in range(0, len(filled), fixed)]
        return torch.from_numpy(np.concatenate(results)[: len(values)].astype(np.float32)).to(batch.device)

    def _run(self, source: str, values: np.ndarray) -> np.ndarray:
        try:
            return np.asarray(self.session.run(None, {source: np.ascontiguousarray(values)})[0])
        except Exception as error:
            raise ZooError(f"{self.name}: onnxruntime failed: {' '.join(str(error).split())[:300]}") from error


def _makers(model: Any) -> dict[str, Any]:
    """The node that each tensor comes from."""
    return {output: node for node in model.graph.node for output in node.output}
