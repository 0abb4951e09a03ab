"""Malicious files. Each must be rejected with a one-line error, in little time and memory, without executing its code."""

import gzip
import io
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from samples import Sample

_UNPACKED = 2**29  # size in bytes of the decompressed archives


class _Runs:
    """An object whose pickle creates the file `mark` when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable, tuple]:
        return Path.touch, (self.mark,)


def make(folder: Path) -> list[Sample]:
    """Write all malicious files into `folder`."""
    folder.mkdir(parents=True)
    return [*_cards(folder), *_tensors(folder), *_packed(folder), *_claims(folder)]


def _cards(folder: Path) -> list[Sample]:
    from zoo.cards import card as cards
    from zoo.cards import card_index

    whole = cards.write(next(iter(card_index.shipped().values())))

    def _parsed(path: Path) -> cards.Card:  # not `read`, which would reject the file's name
        return cards.parse(cards.read_text(path), str(path))

    def with_details(value: str) -> str:
        return whole.replace("\nzoo:\n", f"\nzoo:\n  details: {{a: {value}}}\n", 1)

    layers = "".join(f"  a{n + 1}: [{', '.join([f'*a{n}'] * 9)}]\n".replace(":", f": &a{n + 1}", 1) for n in range(9))
    texts = {
        "date": with_details("2020-01-01"),
        "no-month": with_details("2020-13-01"),
        "nan": with_details(".nan"),
        "infinite": with_details("-.inf"),
        "digits": with_details("9" * 5000),
        "fewer-digits": with_details("9" * 4000),
        "hexadecimal": with_details("0x" + "f" * 100_000),
        "binary": with_details("!!binary aGVsbG8="),
        "set": with_details("!!set {a, b}"),
        "python": with_details("!!python/object/apply:os.getcwd []"),
        "brackets": with_details("[" * 100_000),
        "closed-brackets": with_details("[" * 20_000 + "]" * 20_000),
        "quoted-brackets": with_details('["]", ' * 20_000 + "1" + "]" * 20_000),
        "dashes": "---\n" + "- " * 100_000 + "\n---\n",
        "questions": "---\n" + "? " * 50_000 + "\n---\n",
        "aliases": f"---\ntags:\n  a0: &a0 [x]\n{layers}---\n",
        "self": "---\nzoo: &a [*a]\n---\n",
        "long": whole + "x" * 2**21,
        "bytes": "---\n\x00\x01\x02\n---\n",
    }
    return [_sample(folder, f"card-{name}.md", text.encode(), _parsed) for name, text in texts.items()]


def _tensors(folder: Path) -> list[Sample]:
    from zoo.core import state_dicts, tensorfile

    def file(header: Any, data: bytes = bytes(16)) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data

    def tensor(dtype: Any = "F32", shape: Any = (4,), offsets: Any = (0, 16)) -> bytes:
        return file({"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}})

    heads = {
        "dtype": tensor(dtype="F7"),
        "list-dtype": tensor(dtype=["F32"]),
        "large": tensor(shape=[2**62, 4]),
        "larger": tensor(shape=[2**70, 2**70]),
        "empty": tensor(shape=[0, 2**62], offsets=[0, 0]),
        "empty-wide": tensor(shape=[0, 2**40], offsets=[0, 0]),
        "dimensions": tensor(shape=[1] * 100 + [4]),
        "negative": tensor(shape=[-4]),
        "float": tensor(shape=[4.0]),
        "offsets": tensor(offsets=[0, 2**63]),
        "metadata": file({"__metadata__": {"zoo": "\ud800"}}, b""),
        "brackets": file(b"[" * 100_000, b""),
        "terabytes": struct.pack("<Q", 2**42) + b"{}",
    }

    def read(path: Path) -> None:
        tensorfile.read(path)
        tensorfile.read_sealed(path)

    pickled = folder / "pickled"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("archive/data.pkl", bytes(2**26))
    weights = {
        "runs.pth": pickle.dumps(_Runs(pickled)),
        "packed.pth": archive.getvalue(),
        "cut.pth": archive.getvalue()[:-10],
        "end.pth": b"PK\x05\x06" + bytes(18),
    }

    def load(path: Path) -> None:
        try:
            state_dicts.read(path, "model")
        finally:
            assert not pickled.exists(), "the pickle was executed"

    return [
        *(_sample(folder, f"{name}.safetensors", data, read) for name, data in heads.items()),
        *(_sample(folder, name, data, load) for name, data in weights.items()),
    ]


def _packed(folder: Path) -> list[Sample]:
    from zoo.datasets import images
    from zoo.outputs.importing.importer import import_outputs

    nothing = io.BytesIO()
    np.lib.format.write_array_header_1_0(nothing, {"descr": "<f4", "fortran_order": False, "shape": (_UNPACKED // 8, 2)})
    archive = io.BytesIO()
    with (
        zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open("logits.npy", "w") as file,
    ):
        file.write(nothing.getvalue())
        for _ in range(_UNPACKED // 2**20):
            file.write(bytes(2**20))
    lines = gzip.compress(b"id,a,b\n" + b"x,1,2\n" * (_UNPACKED // 6), 1)
    wide = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + wide
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return [
        _sample(folder, "inflates.npz", archive.getvalue(), lambda path: import_outputs(path, kind="logits")),
        _sample(folder, "inflates.csv.gz", lines, lambda path: import_outputs(path, kind="logits")),
        _sample(folder, "inflates.png", png, images.read),
        _sample(folder, "eps.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", images.read),
    ]


def _claims(folder: Path) -> list[Sample]:
    from zoo.core import files
    from zoo.models import trained
    from zoo.outputs.importing.importer import import_outputs
    from zoo.outputs.store import layout

    identity = {
        "name": "m", "kind": "logits", "link": "softmax", "classes": ["a", "b"], "weights": "w", "transform": "t",
        "precision": "float32", "embeddings": False, "fingerprint": "f" * 64, "examples": 4, "shard_rows": 4,
        "label_classes": None, "predicts": "", "dataset": None, "dataset_name": "unnamed", "card": None,
    }  # fmt: skip
    items = []
    for name, changes in {
        "rows": {"shard_rows": 0}, "negative": {"shard_rows": -1}, "many": {"examples": 10**30}, "text": {"examples": "4"},
        "classes": {"classes": [1, 2]}, "kind": {"kind": "secrets"},
    }.items():  # fmt: skip
        path = folder / f"manifest-{name}.json"
        value = {"schema": 1, "identity": identity | changes, "digest": "0" * 64, "shards": [], "undecodable": []}
        files.write_json(path, value)
        items.append(Sample(f"bomb manifest-{name}", path, layout.read_manifest))
    predictions = {
        "label.jsonl": '{"id": "a", "prediction": 1, "label": 1099511627776}\n',
        "id.jsonl": "".join(json.dumps({"id": f"{n}" + "x" * 10**6, "prediction": 0, "label": 0}) + "\n" for n in range(30)),
        "brackets.json": "[" * 100_000,
        "digits.json": '[{"prediction": ' + "9" * 10_000 + "}]",
    }
    for name, text in predictions.items():
        items.append(_sample(folder, name, text.encode(), lambda path: import_outputs(path, kind="predictions")))
    for name, text in {
        "list": "[1]",
        "brackets": "[" * 100_000,
        "bytes": "\x00",
        "digits": '{"loss": ' + "9" * 9000,
    }.items():
        (folder / name).mkdir()
        items.append(_sample(folder / name, trained.LOG, text.encode(), lambda path: trained.log(path.parent)))
    return items


def _sample(folder: Path, name: str, data: bytes, read: Callable[[Path], Any]) -> Sample:
    path = folder / name
    path.write_bytes(data)
    return Sample(f"bomb {path.relative_to(path.parents[1])}", path, read)
