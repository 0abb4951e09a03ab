"""Safetensors files: written the same way every time, memory-mapped after every promise of the header is checked.

`read` takes anybody's file; `encode` and `read_sealed` are for our own, which carry a note and a seal over every byte.
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

MAX_HEADER = 16 * 2**20
_MOST_DIMENSIONS = 32
_WIDEST_EMPTY = 2**20  # columns of no row at all
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1", "BF16": "<u2",
}  # fmt: skip
_FIELD = '{"sha256": "'  # how the note of a file of ours begins; the seal comes next
_START = b'{"__metadata__":{"zoo":"{\\"sha256\\": \\"'  # so the header begins, after the eight bytes of its length
_SEAL = slice(8 + len(_START), 8 + len(_START) + files.SEAL_LENGTH)


@dataclass(frozen=True)
class TensorFile:
    """The tensors of a file by name, as views of one memory map, and the metadata beside them."""

    tensors: dict[str, np.ndarray]
    metadata: dict[str, str]


def encode(tensors: "Mapping[str, np.ndarray | torch.Tensor]", note: Mapping[str, Any]) -> bytes:
    """A sealed safetensors file with `note`, as JSON, under its one metadata key.

    The library writes several metadata keys in an order that changes from process to process; with one key the bytes
    depend on the contents alone.
    """
    text = json.dumps(dict(note), sort_keys=True, ensure_ascii=True, allow_nan=False)
    metadata = {"zoo": f'{_FIELD}{"0" * files.SEAL_LENGTH}"{", " if note else ""}{text[1:]}'}
    if all(isinstance(array, np.ndarray) for array in tensors.values()):
        from safetensors.numpy import save

        data = bytearray(save({name: np.asarray(array, order="C") for name, array in tensors.items()}, metadata=metadata))
    else:
        from safetensors.torch import save as save_torch

        data = bytearray(save_torch(dict(tensors), metadata=metadata))
    if data[8 : _SEAL.start] != _START:  # the library would have to change the order of its header
        raise ZooError(f"safetensors wrote a header that begins with {bytes(data[8 : _SEAL.start])!r}, not {_START!r}")
    data[_SEAL] = _seal(memoryview(data))
    return bytes(data)


def read_sealed(path: Path, check: bool = True) -> tuple[dict[str, np.ndarray], Any]:
    """The tensors and the note of a file that `encode` made; with `check` every byte is compared with its seal."""
    return read(path).tensors, read_note(path, check)


def read_note(path: Path, check: bool = True) -> Any:
    """The note of a file that `encode` made. Without `check` only its header is read."""
    data = _mapped(path)
    header, _ = _header(data, path)
    metadata = header.get("__metadata__")
    text = metadata.get("zoo") if isinstance(metadata, dict) else None
    if not isinstance(text, str) or data[8 : _SEAL.start].tobytes() != _START:
        raise CorruptFile(f"{path}: carries no description of itself, so it is not one of ours")
    if check and data[_SEAL].tobytes() != _seal(data.data):
        raise CorruptFile(f"{path}: its contents do not match its checksum")
    return files.parse_json(_unsealed(text).encode("utf-8", "surrogatepass"), f"{path} metadata")


def _unsealed(text: str) -> str:
    """The note without its seal."""
    return "{" + text[len(_FIELD) + files.SEAL_LENGTH + 1 :].removeprefix(", ") if text.startswith(_FIELD) else text


def _seal(data: memoryview) -> bytes:
    """The checksum of all bytes of a file but the seal's own."""
    total = hashlib.sha256(data[: _SEAL.start])
    total.update(data[_SEAL.stop :])
    return total.hexdigest().encode()


def read(path: Path) -> TensorFile:
    """Map the file, or raise CorruptFile where the header promises what the file does not hold."""
    data = _mapped(path)
    header, start = _header(data, path)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CorruptFile(f"{path}: field '__metadata__' must be a mapping of texts")
    metadata = {key: _unsealed(text) for key, text in metadata.items()}
    body = np.asarray(data)[start:]
    spans: list[tuple[int, int]] = []
    tensors = {}
    for name, entry in header.items():
        kind, shape, begin, end = _entry(entry, name, path)
        dtype = np.dtype(_DTYPES[kind])
        if end - begin != math.prod(shape) * dtype.itemsize or end > len(body):
            raise CorruptFile(
                f"{path}: tensor {name!r} claims shape {list(shape)} of {kind} in bytes {begin}..{end}, "
                f"the file holds {len(body)} bytes of data"
            )
        spans.append((begin, end))
        array = body[begin:end].view(dtype).reshape(shape)
        # bfloat16 is the upper half of a float32, and NumPy has no such type
        tensors[name] = (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array
    covered = 0
    for begin, end in sorted(spans):
        if begin != covered:
            raise CorruptFile(f"{path}: tensors overlap or leave a gap at byte {min(begin, covered)} of the data")
        covered = end
    if covered != len(body):
        raise CorruptFile(f"{path}: {len(body) - covered} bytes of trailing garbage after the last tensor")
    return TensorFile(tensors, metadata)


def _mapped(path: Path) -> np.ndarray:
    try:
        if path.is_symlink() or not path.is_file():
            raise CorruptFile(f"{path}: expected a regular file")
        return np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
    except OSError as error:
        raise ZooError(f"{path}: cannot be read: {error.strerror or error}") from error


def _header(data: np.ndarray, path: Path) -> tuple[dict[str, Any], int]:
    if len(data) < 8:
        raise CorruptFile(f"{path}: {len(data)} bytes long, too short for a safetensors file")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > min(MAX_HEADER, len(data) - 8):
        raise CorruptFile(f"{path}: claims a header of {length} bytes, expected at most {min(MAX_HEADER, len(data) - 8)}")
    header = files.parse_json(data[8 : 8 + length].tobytes(), f"{path} header")
    if not isinstance(header, dict):
        raise CorruptFile(f"{path}: header must be a mapping")
    return header, 8 + length


def _entry(entry: Any, name: str, path: Path) -> tuple[str, tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise CorruptFile(f"{path}: tensor {name!r} needs exactly dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise CorruptFile(f"{path}: tensor {name!r} has unknown dtype {str(kind)[:40]!r}")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise CorruptFile(f"{path}: tensor {name!r} has a shape or offset that is not a whole number")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CorruptFile(f"{path}: tensor {name!r} has offsets {str(offsets)[:80]}, expected begin and end")
    if len(shape) > _MOST_DIMENSIONS or max(shape, default=0) >= 2**63 or (0 in shape and max(shape) > _WIDEST_EMPTY):
        raise CorruptFile(f"{path}: tensor {name!r} claims shape {str(shape)[:80]}, which no tensor of ours has")
    return kind, tuple(shape), offsets[0], offsets[1]
