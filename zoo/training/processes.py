"""One or several training processes, their device and precision, through Accelerate."""

import os
from typing import Any

import torch
from torch import Tensor, nn

from zoo.cards.recipes import Recipe
from zoo.core import devices
from zoo.errors import InputError, ZooError

_ACCELERATE = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class Processes:
    """This process and the others that train the same model, started by `torchrun` or `accelerate launch`."""

    def __init__(self, recipe: Recipe) -> None:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        on_cpu = devices.present()[0] == "cpu"
        if on_cpu and recipe.precision == "float16":
            raise InputError(argument="precision", expected="bfloat16 or float32 on a CPU", found=recipe.precision)
        # Without a reset, Accelerate uses the precision of the first run in this process for all later ones.
        AcceleratorState._reset_state()
        # Without `cpu=True` on a machine without GPU, Accelerate does not join processes that torchrun started.
        self.accelerator: Any = Accelerator(mixed_precision=_ACCELERATE[recipe.precision], cpu=on_cpu)
        self.count: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.device: torch.device = self.accelerator.device
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if self.count != started:
            raise ZooError(f"{started} processes were started, but Accelerate joined {self.count} of them on {self.device}")
        if recipe.batch_size % self.count:
            expected = f"a multiple of the {self.count} processes"
            raise InputError(argument="batch_size", expected=expected, found=recipe.batch_size)

    @property
    def alone(self) -> bool:
        return self.count == 1

    @property
    def main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def rows(self, batch_size: int) -> slice:
        """Return this process's rows of a batch. All processes have equally many, so the mean of their losses is exact."""
        size = batch_size // self.count
        return slice(self.rank * size, (self.rank + 1) * size)

    @property
    def emulates_bfloat16(self) -> bool:
        """Whether training in bfloat16 runs on a CPU without bfloat16 instructions, which is ten times slower."""
        bfloat16 = self.device.type == "cpu" and self.accelerator.mixed_precision == "bf16"
        return bfloat16 and not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())

    def prepare(self, learner: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[Any, Any]:
        """Return the learner, wrapped for device, precision and exchange of gradients, and the optimiser to step.

        Only float16, with its loss scaling, needs Accelerate's optimiser and backward pass. They look up installed packages
        at every step, which takes 3% of a small network's time.
        """
        if self.accelerator.scaler is None:
            return self.accelerator.prepare(learner), optimiser
        learner, optimiser = self.accelerator.prepare(learner, optimiser)
        return learner, optimiser

    def backward(self, loss: Tensor) -> None:
        if self.accelerator.scaler is None:
            loss.backward()
        else:
            self.accelerator.backward(loss)

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over the processes."""
        return value if self.alone else self.accelerator.reduce(value, reduction="sum")

    def scaler_state(self) -> dict[str, Any]:
        """Return the state of float16's loss scaling; empty in other precisions."""
        return {} if self.accelerator.scaler is None else self.accelerator.scaler.state_dict()

    def set_scaler_state(self, state: dict[str, Any]) -> None:
        if state and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(state)

    def wait(self) -> None:
        """Wait until every process has reached this call."""
        self.accelerator.wait_for_everyone()
