"""The forward pass of a batch: at the precision asked for, in pieces that fit into memory, checked row by row."""

import contextlib
import gc
import warnings
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from zoo.errors import InputError, ZooError, ZooWarning
from zoo.models.model import Model

Precision = Literal["float32", "bfloat16", "float16"]


class Forward:
    """Embeddings and logits of batches of pixels, as float32 on the CPU.

    When a batch does not fit into memory it is halved, as often as needed, and later batches start at the size that fitted.
    """

    def __init__(self, model: Model, precision: Precision, embeddings: bool, columns: Sequence[int] | None) -> None:
        if precision not in get_args(Precision):
            raise InputError(f"precision {precision!r}: expected one of {', '.join(get_args(Precision))}")
        self.model, self.device, self.precision = model, model.device, precision
        self.embeddings = embeddings
        self.columns = None if columns is None else torch.tensor(columns, device=self.device)
        self.largest: int | None = None  # batch that fitted, once one did not
        model.network.to(memory_format=torch.channels_last)

    def __call__(self, pixels: Tensor, ids: Sequence[str]) -> dict[str, np.ndarray]:
        """`embeddings` [N, D] and `logits` [N, K], as far as the model has them and they were asked for."""
        parts: list[dict[str, Tensor]] = []
        start = 0
        while start < len(pixels):
            piece = pixels[start : start + (self.largest or len(pixels))]
            try:
                parts.append(self._piece(piece))
            except (RuntimeError, MemoryError) as error:
                if not _is_out_of_memory(error):
                    raise
                self._halve(len(piece), error)
                continue
            start += len(piece)
        result = {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}
        for name, values in result.items():
            self._check(name, values, ids)
        return result

    def _piece(self, pixels: Tensor) -> dict[str, Tensor]:
        batch = pixels.to(self.device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        with self._autocast():
            embeddings, logits = self.model.forward(batch)
        found = {"embeddings": embeddings} if self.embeddings or logits is None else {}
        if logits is not None:
            found["logits"] = logits if self.columns is None else logits[:, self.columns]
        return {name: values.float().cpu() for name, values in found.items()}

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        if self.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.precision))

    def _halve(self, size: int, error: Exception) -> None:
        if size == 1:
            raise ZooError(f"{self.model.name}: one image alone does not fit into the memory of {self.device}") from error
        self.largest = size // 2
        warnings.warn(
            f"{self.model.name}: a batch of {size} does not fit into the memory of {self.device}; "
            f"going on with {self.largest}",
            ZooWarning,
            stacklevel=4,
        )
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _check(self, name: str, values: np.ndarray, ids: Sequence[str]) -> None:
        """An error that names the first image whose result is no number; minus infinity may mask a class."""
        finite = np.isfinite(values.max(1)) if name == "logits" else np.isfinite(values).all(1)
        if not finite.all():
            row = int(np.flatnonzero(~finite)[0])
            advice = "" if self.precision == "float32" else "; use precision='float32'"
            raise ZooError(
                f"{self.model.name}: {name} of image {ids[row]!r} are not finite at {self.precision} "
                f"({int((~finite).sum())} such in its batch){advice}"
            )


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or ("alloc" in str(error) and "memory" in str(error))
