"""The forward pass: at the requested precision, in batches that fit into memory, with a check of every row."""

import contextlib
import copy
import gc
import warnings
from collections.abc import Sequence
from typing import cast, get_args

import numpy as np
import torch
from torch import Tensor

from zoo.core.types import Precision
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.models.model import Model
from zoo.networks.network import Network
from zoo.runs.engines import folding
from zoo.runs.engines.stages import Stages


class Forward:
    """The forward pass of a model: embeddings and logits of batches, as float32 on the CPU.

    A batch that does not fit into memory is halved until it does. Later batches start at the size that fitted.

    Args:
        model: the model.
        precision: precision of the arithmetic.
        embeddings: whether to return embeddings. A model without logits returns them in any case.
        columns: indices of the logits to return; default: all.
        stages: records the time of copies and forward passes.
        fold: whether to fold batch normalisations into convolutions. The model itself is not changed.
    """

    def __init__(
        self,
        model: Model,
        precision: Precision,
        embeddings: bool,
        columns: Sequence[int] | None,
        stages: Stages | None = None,
        fold: bool = False,
    ) -> None:
        if precision not in get_args(Precision):
            raise InputError(argument="precision", expected=f"one of {', '.join(get_args(Precision))}", found=precision)
        self.model, self.device, self.precision = model, model.device, precision
        self.embeddings = embeddings
        self.columns = None if columns is None else torch.tensor(columns, device=self.device)
        self.max_batch: int | None = None  # known once a batch did not fit
        self.stages, self.fold = stages or Stages(), fold
        model.network.to(memory_format=torch.channels_last)

    def __call__(self, pixels: Tensor, ids: Sequence[str]) -> dict[str, np.ndarray]:
        """Return `embeddings` [N, D] and `logits` [N, K] of pixels [N, C, H, W], as far as the model has them.

        Args:
            pixels: [N, C, H, W].
            ids: [N] names of the images, for errors.
        """
        parts: list[dict[str, Tensor]] = []
        start = 0
        while start < len(pixels):
            batch = pixels[start : start + (self.max_batch or len(pixels))]
            try:
                parts.append(self._forward(batch))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self._halve(len(batch), error)
                continue
            start += len(batch)
        result = {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}
        for name, values in result.items():
            self._check(name, values, ids)
        return result

    def _forward(self, pixels: Tensor) -> dict[str, Tensor]:
        with self.stages.timed("copy"):
            batch = pixels.to(self.device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        if self.fold:
            self._fold(batch[:1])
        with self.stages.timed("forward"):
            with self._autocast():
                embeddings, logits = self.model.forward(batch)
            results = {"embeddings": embeddings} if self.embeddings or logits is None else {}
            if logits is not None:
                results["logits"] = logits if self.columns is None else logits[:, self.columns]
            return {name: values.float().cpu() for name, values in results.items()}

    def _fold(self, example: Tensor) -> None:
        """Replace the model by a copy with folded batch normalisations, found with one example."""
        model, self.fold = copy.copy(self.model), False
        model.network.eval()
        inputs = model.transform.normalise(example) if example.dtype == torch.uint8 else example
        folded, _ = folding.fold(model.network, inputs)
        model.network = cast(Network, folded.to(memory_format=torch.channels_last))
        self.model = model

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        if self.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.precision))

    def _halve(self, size: int, error: Exception) -> None:
        if size == 1:
            problem = f"a single image does not fit into the memory of {self.device}"
            raise ZooError(problem, where=self.model.name) from error
        self.max_batch = size // 2
        warnings.warn(
            f"{self.model.name}: a batch of {size} does not fit into the memory of {self.device}; "
            f"continuing with batches of {self.max_batch}",
            ZooWarning,
            stacklevel=4,
        )
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _check(self, name: str, values: np.ndarray, ids: Sequence[str]) -> None:
        """Raise an error that names the first image with a NaN or infinite result; a logit may be minus infinity."""
        finite = np.isfinite(values.max(1)) if name == "logits" else np.isfinite(values).all(1)
        if not finite.all():
            row = int(np.flatnonzero(~finite)[0])
            raise ZooError(
                f"{name} are not finite at {self.precision} ({int((~finite).sum())} such images in its batch)",
                where=f"{self.model.name}: image {ids[row]!r}",
                hint=None if self.precision == "float32" else "Pass {precision=float32}",
            )


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is a lack of memory."""
    if error is None:
        return False
    if is_out_of_memory(error.__cause__):
        return True
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or ("alloc" in str(error) and "memory" in str(error))
