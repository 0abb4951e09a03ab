"""One or several processes, devices and precisions, through Accelerate."""

import os
from typing import Any

import torch
from torch import Tensor, nn

from zoo.cards.recipes import Recipe
from zoo.core import devices
from zoo.errors import InputError, ZooError

_ACCELERATE = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class Processes:
    """This process among those that train together: started by `torchrun` or `accelerate launch`, or alone."""

    def __init__(self, recipe: Recipe) -> None:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        on_cpu = devices.present()[0] == "cpu"
        if on_cpu and recipe.precision == "float16":
            raise InputError("recipe: precision is float16, which needs a GPU; on a CPU use bfloat16 or float32")
        # Accelerate keeps the precision of the first run in this process for all later ones unless told to forget it.
        AcceleratorState._reset_state()
        # It must be told that there is only a CPU: else it takes processes started by torchrun for lonely ones.
        self.accelerator: Any = Accelerator(mixed_precision=_ACCELERATE[recipe.precision], cpu=on_cpu)
        self.count: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.device: torch.device = self.accelerator.device
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if self.count != started:
            raise ZooError(
                f"{started} processes were started together, but Accelerate joins {self.count} of them on {self.device}"
            )
        if recipe.batch_size % self.count:
            raise InputError(f"recipe: batch_size is {recipe.batch_size}, expected a multiple of the {self.count} processes")

    @property
    def alone(self) -> bool:
        return self.count == 1

    @property
    def main(self) -> bool:
        """Whether this process writes files and talks."""
        return self.rank == 0

    def rows(self, batch_size: int) -> slice:
        """This process's rows of a batch; all processes have equally many, so that their mean losses average rightly."""
        share = batch_size // self.count
        return slice(self.rank * share, (self.rank + 1) * share)

    @property
    def emulates(self) -> bool:
        """Whether a CPU without instructions for bfloat16 is to compute in it: convolutions then take ten times as long."""
        asked = self.device.type == "cpu" and self.accelerator.mixed_precision == "bf16"
        return asked and not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())

    def prepare(self, learner: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[Any, Any]:
        """The learner wrapped for the device, the precision and the exchange of gradients, and what steps it.

        Only float16's loss scaling needs Accelerate's own optimiser and backward pass. They look up installed packages at
        every step, a thirtieth of a small network's time.
        """
        if self.accelerator.scaler is None:
            return self.accelerator.prepare(learner), optimiser
        learner, stepper = self.accelerator.prepare(learner, optimiser)
        return learner, stepper

    def backward(self, loss: Tensor) -> None:
        if self.accelerator.scaler is None:
            loss.backward()
        else:
            self.accelerator.backward(loss)

    def total(self, value: Tensor) -> Tensor:
        """The sum of a tensor over the processes; alone, the tensor itself."""
        return value if self.alone else self.accelerator.reduce(value, reduction="sum")

    def scaler_state(self) -> dict[str, Any]:
        """The state of float16's loss scaling; empty in other precisions."""
        return {} if self.accelerator.scaler is None else self.accelerator.scaler.state_dict()

    def set_scaler_state(self, state: dict[str, Any]) -> None:
        if state and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(state)

    def wait(self) -> None:
        """Until every process is here."""
        self.accelerator.wait_for_everyone()
