"""A Hugging Face cache made by hand: what a download would have left on the disk, without one."""

from pathlib import Path

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
        blob = root / "blobs" / f"{revision}-{file.replace('/', '-')}"
        if isinstance(content, dict):
            if file.endswith(".safetensors"):
                from safetensors.torch import save_file

                save_file({key: value.contiguous() for key, value in content.items()}, blob)
            else:
                torch.save(content, blob)
        else:
            blob.write_bytes(content.encode() if isinstance(content, str) else content)
        path.unlink(missing_ok=True)
        path.symlink_to(blob)  # as the hub's own cache does
        return path
