"""A Hugging Face cache made by hand: what a download would have left on the disk, without one."""

import hashlib
import io
from pathlib import Path

import safetensors.torch
import torch


class FakeHub:
    """The cache folder, and how to put files into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(
        self, repository: str, file: str, content: "dict[str, torch.Tensor] | str | bytes", revision: str = "main"
    ) -> Path:
        """A file of a repository: a state dictionary becomes safetensors or a torch checkpoint, by the file's ending."""
        root = self.folder / f"models--{repository.replace('/', '--')}"
        commit = f"{revision:0<40}"[:40]
        (root / "refs").mkdir(parents=True, exist_ok=True)
        (root / "refs" / revision).write_text(commit)
        (root / "blobs").mkdir(exist_ok=True)
        path = root / "snapshots" / commit / file
        path.parent.mkdir(parents=True, exist_ok=True)
        data = _bytes(file, content)
        blob = root / "blobs" / hashlib.sha256(data).hexdigest()  # as the hub's own cache names a large file
        blob.write_bytes(data)
        path.unlink(missing_ok=True)
        path.symlink_to(blob)
        return path


def _bytes(file: str, content: "dict[str, torch.Tensor] | str | bytes") -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes):
        return content
    if file.endswith(".safetensors"):
        return safetensors.torch.save({key: value.contiguous() for key, value in content.items()})
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
