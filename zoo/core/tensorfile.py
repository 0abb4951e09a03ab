"""Safetensors files: written reproducibly, and memory-mapped after the header is checked against the file.

`read` reads any safetensors file. `encode` and `read_sealed` are for our own files, which contain a *note* (JSON metadata)
and a seal, the checksum of all other bytes.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.core import files
from zoo.errors import CorruptFile, ZooError

if TYPE_CHECKING:
    import torch

MAX_HEADER = 16 * 2**20  # bytes
_MAX_DIMENSIONS = 32
_MAX_EMPTY_WIDTH = 2**20  # columns of a tensor without rows
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1", "BF16": "<u2",
}  # fmt: skip
_NOTE_START = '{"sha256": "'  # the first characters of a note; the seal follows
_START = b'{"__metadata__":{"zoo":"{\\"sha256\\": \\"'  # the first bytes of the header, which follows its 8-byte length
_SEAL = slice(8 + len(_START), 8 + len(_START) + files.SEAL_LENGTH)


@dataclass(frozen=True)
class TensorFile:
    """Tensors of a file by name, as views of one memory map, and its metadata."""

    tensors: dict[str, np.ndarray]
    metadata: dict[str, str]


def encode(tensors: "Mapping[str, np.ndarray | torch.Tensor]", note: Mapping[str, Any]) -> bytes:
    """Return the bytes of a sealed safetensors file.

    The note is stored under one metadata key, because the library writes several keys in an order that changes from process
    to process. With one key the bytes depend on the contents only.

    Args:
        tensors: the tensors by name.
        note: the metadata, stored as JSON.
    """
    text = json.dumps(dict(note), sort_keys=True, ensure_ascii=True, allow_nan=False)
    metadata = {"zoo": f'{_NOTE_START}{"0" * files.SEAL_LENGTH}"{", " if note else ""}{text[1:]}'}
    if all(isinstance(array, np.ndarray) for array in tensors.values()):
        from safetensors.numpy import save

        data = bytearray(save({name: np.asarray(array, order="C") for name, array in tensors.items()}, metadata=metadata))
    else:
        from safetensors.torch import save as save_torch

        data = bytearray(save_torch(dict(tensors), metadata=metadata))
    if data[8 : _SEAL.start] != _START:  # a new version of the library may order its header differently
        raise ZooError(f"safetensors wrote a header that begins with {bytes(data[8 : _SEAL.start])!r}, not {_START!r}")
    data[_SEAL] = _seal(memoryview(data))
    return bytes(data)


def read_sealed(path: Path, check: bool = True) -> tuple[dict[str, np.ndarray], Any]:
    """Return the tensors and the note of a file that `encode` made; `check` compares every byte with the seal."""
    return read(path).tensors, read_note(path, check)


def read_note(path: Path, check: bool = True) -> Any:
    """Return the note of a file that `encode` made. Without `check`, only the header is read."""
    data = _mapped(path)
    header, _ = _header(data, path)
    metadata = header.get("__metadata__")
    text = metadata.get("zoo") if isinstance(metadata, dict) else None
    if not isinstance(text, str) or data[8 : _SEAL.start].tobytes() != _START:
        raise CorruptFile("has no note, so this package did not write it", where=path)
    if check and data[_SEAL].tobytes() != _seal(data.data):
        raise CorruptFile("does not match its checksum", where=path)
    return files.parse_json(_without_seal(text).encode("utf-8", "surrogatepass"), f"{path} metadata")


def _without_seal(note: str) -> str:
    """Return the JSON of a note without its seal; other texts are returned unchanged."""
    if not note.startswith(_NOTE_START):
        return note
    return "{" + note[len(_NOTE_START) + files.SEAL_LENGTH + 1 :].removeprefix(", ")


def _seal(data: memoryview) -> bytes:
    """Return the checksum of all bytes of a file except the seal."""
    total = hashlib.sha256(data[: _SEAL.start])
    total.update(data[_SEAL.stop :])
    return total.hexdigest().encode()


def read(path: Path) -> TensorFile:
    """Return the tensors of a memory-mapped file, or raise CorruptFile if the header does not describe its contents."""
    data = _mapped(path)
    header, start = _header(data, path)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CorruptFile(where=f"{path}: __metadata__", expected="a mapping of texts")
    metadata = {key: _without_seal(text) for key, text in metadata.items()}
    body = np.asarray(data)[start:]
    spans: list[tuple[int, int]] = []
    tensors = {}
    for name, entry in header.items():
        kind, shape, begin, end = _entry(entry, f"{path}: tensor {name!r}")
        dtype = np.dtype(_DTYPES[kind])
        if end - begin != math.prod(shape) * dtype.itemsize or end > len(body):
            raise CorruptFile(
                f"claims shape {list(shape)} of {kind} in bytes {begin}..{end}, but the file has {len(body)} bytes of data",
                where=f"{path}: tensor {name!r}",
            )
        spans.append((begin, end))
        array = body[begin:end].view(dtype).reshape(shape)
        # NumPy has no bfloat16, which is the upper half of a float32.
        tensors[name] = (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array
    covered = 0
    for begin, end in sorted(spans):
        if begin != covered:
            raise CorruptFile(f"tensors overlap or leave a gap at byte {min(begin, covered)} of the data", where=path)
        covered = end
    if covered != len(body):
        raise CorruptFile(f"{len(body) - covered} bytes follow the last tensor", where=path)
    return TensorFile(tensors, metadata)


def _mapped(path: Path) -> np.ndarray:
    try:
        if path.is_symlink() or not path.is_file():
            raise CorruptFile(where=path, expected="a regular file")
        return np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
    except OSError as error:
        raise ZooError(f"cannot be read: {error.strerror or error}", where=path) from error


def _header(data: np.ndarray, path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a file and the offset of its data."""
    if len(data) < 8:
        raise CorruptFile(f"{len(data)} bytes are too short for a safetensors file", where=path)
    length = int.from_bytes(data[:8].tobytes(), "little")
    limit = min(MAX_HEADER, len(data) - 8)
    if length > limit:
        raise CorruptFile(f"claims a header of {length} bytes", where=path, expected=f"at most {limit}")
    header = files.parse_json(data[8 : 8 + length].tobytes(), f"{path} header")
    if not isinstance(header, dict):
        raise CorruptFile(where=f"{path} header", expected="a mapping")
    return header, 8 + length


def _entry(entry: Any, where: str) -> tuple[str, tuple[int, ...], int, int]:
    """Return dtype, shape, begin and end of a tensor from its entry in the header."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise CorruptFile(where=where, expected="exactly dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise CorruptFile(f"unknown dtype {str(kind)[:40]!r}", where=where)
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise CorruptFile("has a shape or offset that is not a whole number", where=where)
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CorruptFile(f"has offsets {str(offsets)[:80]}", where=where, expected="begin and end")
    if len(shape) > _MAX_DIMENSIONS or max(shape, default=0) >= 2**63 or (0 in shape and max(shape) > _MAX_EMPTY_WIDTH):
        raise CorruptFile(f"claims the impossible shape {str(shape)[:80]}", where=where)
    return kind, tuple(shape), offsets[0], offsets[1]
