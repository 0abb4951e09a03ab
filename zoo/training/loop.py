"""The training loop: a network, images and a recipe in; the trained network and its history out."""

import contextlib
import dataclasses
import functools
import json
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.cards.recipes import Recipe
from zoo.core import files
from zoo.core.pages import kept_pages
from zoo.core.progress import Bar
from zoo.datasets import Dataset
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.networks.network import Network
from zoo.objectives import ObjectiveHead
from zoo.objectives.frameworks import Distilled
from zoo.training import batches, checkpoints, optimisation, pretext
from zoo.training.augmentation import ImageAugmentation, mix, shift_and_flip, shrink
from zoo.training.checkpoints import Checkpoint
from zoo.training.evaluation import evaluate
from zoo.training.optimisation import prefixed, under
from zoo.training.pretext import PretextTask
from zoo.training.processes import Processes
from zoo.training.randomness import For, seed_network, seed_of
from zoo.training.sync_batch_norm import SharedBatchNorm
from zoo.training.tally import Tally

CHECKPOINT, LOG = "checkpoint.safetensors", "log.jsonl"
SHARE = 0.05  # of the time may go into writing checkpoints


class Watch(Protocol):
    """Called after each epoch with the network that would be the result; what it returns is written into the log."""

    def __call__(self, network: Network, epoch: int, step: int, last: bool) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class Fit:
    """What became of a training run."""

    log: list[dict[str, Any]]  # one entry per epoch: loss, accuracy, nll, class_separation, ... and holdout_* beside them
    epoch: int  # the epoch whose weights the network now has
    steps: int
    seconds: float


def fit(
    network: Network,
    train_set: Dataset,
    recipe: Recipe,
    *,
    soft_targets: Tensor | None = None,
    folder: Path | None = None,
    about: Mapping[str, Any] | None = None,
    title: str = "training",
    progress: bool = True,
    resume: bool = True,
    checkpoint_every: float = 30.0,
    workers: int | None = None,
    watch: Watch | None = None,
) -> Fit:
    """Train `network` in place on labelled images; it ends with the weights of the last epoch, or of the best one.

    The best epoch is the one most accurate on the recipe's holdout; without a holdout it is the last. The network's head
    must be an `ObjectiveHead`, which says what is minimised; after a pretext task (`simclr`) it is fitted anew. With a
    `folder`, the state is written there every `checkpoint_every` seconds (at the end of each epoch when there are several
    processes) and a run that finds its own state goes on from it (unless told not to `resume`), to the same weights as if
    it had never stopped; `log.jsonl` gets a line per epoch. `about` tells this run from others in plain values: a state with
    other values, another recipe or other data is refused. `soft_targets` [N, K] are learnt in place of the labels: a
    teacher's probabilities for each image. `watch` looks at the network on the way, and changes nothing in it.
    """
    _check(network, train_set, soft_targets)
    _check_early(network, recipe)
    with torch.random.fork_rng(devices=[]), kept_pages():
        run = _Run(network, train_set, recipe, soft_targets, folder, dict(about or {}), checkpoint_every, workers, watch)
        if resume:
            run.resume()
        with Bar(title, run.total, progress and run.processes.main, run.step) as bar:
            run.train(bar)
        return run.finish()


def _check(network: Network, train_set: Dataset, soft_targets: Tensor | None) -> None:
    if not isinstance(network.head, ObjectiveHead):
        raise InputError("network: expected an ObjectiveHead, which says what is minimised; give it one before training")
    batches.check_classes(train_set)
    classes = network.head.weight.shape[0]
    if classes != len(train_set.classes):
        raise InputError(f"network: its head has {classes} classes, {train_set.spec} has {len(train_set.classes)}")
    if soft_targets is not None and soft_targets.shape != (len(train_set), classes):
        found = list(soft_targets.shape)
        raise InputError(f"soft_targets: expected [{len(train_set)}, {classes}] probabilities, found shape {found}")
    if soft_targets is None and isinstance(network.head.objective, Distilled):
        raise InputError("distillation: needs a teacher to learn from; name a model, such as a saved ensemble: teacher=NAME")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise InputError("network: all of it is frozen, as loaded models are; call requires_grad_() on what is to learn")


def _check_early(network: Network, recipe: Recipe) -> None:
    if not recipe.early_side:
        return
    sides = recipe.transform.size[0], recipe.early_side, recipe.early_side
    try:
        with torch.inference_mode():
            network.eval().body(torch.zeros(1, *sides, device=next(network.parameters()).device))
    except (RuntimeError, AssertionError) as error:
        side = recipe.transform.size[-1]
        raise InputError(
            f"recipe: early_side is {recipe.early_side}, but the network takes images of {side} pixels alone; set 0"
        ) from error


class _Learner(nn.Module):
    """The loss as a module, so that what wraps a module (several processes, mixed precision) covers all of it."""

    def __init__(self, network: Network, task: PretextTask | None) -> None:
        super().__init__()
        self.network, self.task = network, task

    def forward(self, images: Tensor, targets: Tensor, answers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        head: ObjectiveHead = self.network.head  # type: ignore[assignment]
        features = self.network.body(images)
        if self.task is None:
            return head.loss(features, targets), features.detach()
        # The head only watches: it is what the log reports, and no gradient of it reaches the features.
        return self.task(features, answers) + head.loss(features.detach(), targets), features.detach()


class _Run:
    """One training run and where it stands."""

    def __init__(
        self,
        network: Network,
        train_set: Dataset,
        recipe: Recipe,
        soft_targets: Tensor | None,
        folder: Path | None,
        about: dict[str, Any],
        checkpoint_every: float,
        workers: int | None,
        watch: Watch | None,
    ) -> None:
        self.recipe, self.folder, self.checkpoint_every, self.watch = recipe, folder, checkpoint_every, watch
        self.processes = Processes(recipe)
        if self.processes.main and self.processes.emulates:
            warnings.warn(
                "recipe: precision is bfloat16, for which this processor has no instructions: training takes about ten "
                "times as long as at float32 (--set precision=float32 --as NAME)",
                ZooWarning,
                stacklevel=3,
            )
        settings = dataclasses.asdict(recipe) | {"transform": recipe.transform.settings}
        self.about = about | {"recipe": settings, "data": train_set.fingerprint}
        learnt, kept_back = batches.split_holdout(train_set, recipe)
        self.soft_targets = None
        if soft_targets is not None:
            self.soft_targets = soft_targets[torch.from_numpy(batches.split_rows(len(train_set), recipe)[0])].float()
            self.about["soft_targets"] = files.digest([self.soft_targets.numpy().tobytes()])
        self.images = batches.ImageBatches(learnt, ImageAugmentation(recipe), workers)
        self.labels = torch.from_numpy(batches.labels_of(learnt))
        self.holdout = batches.ImageBatches(kept_back, ImageAugmentation(recipe.plain()), workers) if kept_back else None
        self.per_epoch, self.total = recipe.steps_per_epoch(len(learnt)), recipe.total_steps(len(learnt))

        self.network = network.to(self.processes.device)
        self.head: ObjectiveHead = network.head  # type: ignore[assignment]
        self.task = pretext.task_of(self.head, recipe, self.processes)
        self.trained = _Learner(network, self.task)
        self.optimiser = optimisation.optimiser(self.trained, recipe)
        self.average = optimisation.average(network, recipe)
        self.learner, self.stepper = self.processes.prepare(self.trained, self.optimiser)
        self.pipeline = Pipeline(recipe.transform)

        self.step, self.seconds, self.log = 0, 0.0, list[dict[str, Any]]()
        self.best: dict[str, Tensor] = {}
        self.best_epoch = 0
        self.tally = self._new_tally()
        self.saved, self.cost = time.monotonic(), 0.0

    def train(self, bar: Bar) -> None:
        while self.step < self.total:
            epoch, first = divmod(self.step, self.per_epoch)
            self._epoch(epoch, first, bar)
        self._save()

    def _epoch(self, epoch: int, first: int, bar: Bar) -> None:
        began, before = time.monotonic(), self.seconds
        self.network.train()
        last = min(self.per_epoch, self.total - epoch * self.per_epoch)
        rows = self.processes.rows(self.recipe.batch_size)
        numbers = batches.order(len(self.labels), self.recipe, epoch)[first:last, rows]
        for batch, pixels in zip(numbers, self.images.batches(epoch, list(numbers)), strict=True):
            self._save_if_due()
            loss = self._learn(pixels.to(self.processes.device, non_blocking=True), torch.from_numpy(batch), rows)
            self.step += 1
            self.seconds = before + time.monotonic() - began
            bar.advance(state=functools.partial(self._state, epoch + 1, loss))
        self._finish_epoch(epoch + 1)

    def _state(self, epoch: int, loss: Tensor, steps: float) -> str:
        return f"epoch {epoch}  loss {float(loss):.3f}  {steps * self.recipe.batch_size:.0f} images/s"

    def _learn(self, pixels: Tensor, numbers: Tensor, rows: slice) -> Tensor:
        recipe, step = self.recipe, self.step
        labels = self.labels[numbers].to(self.processes.device, non_blocking=True)
        pixels, answers = shift_and_flip(pixels, recipe, step, rows), None
        if self.task is not None:
            pixels, labels, answers = self.task.pose(pixels, labels, step)
        images = shrink(self.pipeline.normalise(pixels), recipe, step, self.total)
        if self.soft_targets is None:
            targets = functional.one_hot(labels, self.head.weight.shape[0]).to(images.dtype)
        else:
            targets = self.soft_targets[numbers].to(images)
        images, targets = mix(images, targets, recipe, step)
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.rate(step, len(self.labels))
        seed_network(self.processes.device, seed_of(recipe.entropy, For.NETWORK, step, self.processes.rank))
        with contextlib.nullcontext() if self.processes.alone else SharedBatchNorm():
            loss, features = self.learner(images, targets, answers)
        with torch.no_grad():
            self.tally.add(features, self.head(features), labels, self.head.objective.link, loss)
        self.processes.backward(loss)
        self.stepper.step()
        self.stepper.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.network)
        return loss.detach()

    def _finish_epoch(self, epoch: int) -> None:
        tally = self.tally.over_processes(self.processes.total)
        loss = float(tally.loss / tally.seen)
        if not math.isfinite(loss):
            raise ZooError(
                f"epoch {epoch}: training diverged, the loss is {loss}; lower learning_rate or raise warmup_epochs"
            )
        entry: dict[str, Any] = {"epoch": epoch, "step": self.step, "loss": loss, **tally.summary()}
        entry["learning_rate"] = self.optimiser.param_groups[0]["lr"]
        if self.holdout is not None:
            found = evaluate(self._result(), self.holdout, self.processes)
            entry |= {f"holdout_{name}": value for name, value in found.items()}
        if self.watch is not None:
            entry |= self.watch(self._result(), epoch, self.step, last=self.step == self.total)
        entry |= {"seconds": round(self.seconds, 3), "images_per_second": round(float(tally.seen) / self.seconds, 1)}
        self.log.append(entry)
        if self.holdout is not None and self._is_best(entry):
            self.best_epoch = epoch
            self.best = {name: value.detach().clone() for name, value in self._result().state_dict().items()}
        self.tally, self.seconds = self._new_tally(), 0.0
        self._write_log()
        if not self.processes.alone:
            self._save()

    def _is_best(self, entry: Mapping[str, Any]) -> bool:
        def merit(line: Mapping[str, Any]) -> tuple[float, float]:
            return line["holdout_accuracy"], -line["holdout_nll"]

        return all(merit(entry) > merit(earlier) for earlier in self.log[:-1])

    def _result(self) -> Network:
        """The network that would be the result if training stopped here."""
        averaged: Any = self.average
        return self.network if averaged is None else averaged.module

    def _new_tally(self) -> Tally:
        classes, features = self.head.weight.shape
        return Tally.empty(classes, features, self.processes.device)

    def _save_if_due(self) -> None:
        """Between two steps; processes that share a run have no common clock, so they save after each epoch instead."""
        if self.processes.alone and time.monotonic() - self.saved >= max(self.checkpoint_every, self.cost / SHARE):
            self._save()

    def _save(self) -> None:
        tally = self.tally.over_processes(self.processes.total)
        if self.folder is not None and self.processes.main:
            began = time.monotonic()
            tensors = (
                prefixed("trained", self.trained.state_dict())
                | prefixed("optimiser", optimisation.state(self.trained, self.optimiser))
                | prefixed("average", self.average.state_dict() if self.average is not None else {})
                | prefixed("best", self.best)
                | prefixed("tally", tally.tensors())
            )
            extra = {"seconds": self.seconds, "best_epoch": self.best_epoch, "scaler": self.processes.scaler_state()}
            checkpoint = Checkpoint(self.step, tensors, self.log, extra)
            checkpoints.save(files.make_folder(self.folder) / CHECKPOINT, checkpoint, self.about)
            self.cost = time.monotonic() - began
        self.saved = time.monotonic()

    def resume(self) -> None:
        """Go on from the folder's checkpoint, if there is one."""
        found = checkpoints.load(self.folder / CHECKPOINT, self.about) if self.folder is not None else None
        if found is None:
            return
        self.step, self.log, self.seconds = found.step, found.log, found.extra["seconds"]
        self.trained.load_state_dict(under("trained", found.tensors))
        optimisation.set_state(self.trained, self.optimiser, under("optimiser", found.tensors))
        if self.average is not None:
            self.average.load_state_dict(under("average", found.tensors))
        self.best, self.best_epoch = under("best", found.tensors), found.extra["best_epoch"]
        self.processes.set_scaler_state(found.extra["scaler"])
        if self.processes.main:  # the sums are of all processes; one of them takes them up
            device = self.processes.device
            self.tally = Tally(**{name: value.to(device) for name, value in under("tally", found.tensors).items()})

    def finish(self) -> Fit:
        self.network.load_state_dict(self.best or self._result().state_dict())
        self.network.eval()
        if self.task is not None:
            pretext.fit_head(self.network, self.images.plain(), self.processes)
        self.processes.wait()
        return Fit(self.log, self.best_epoch or len(self.log), self.step, sum(line["seconds"] for line in self.log))

    def _write_log(self) -> None:
        if self.folder is not None and self.processes.main:
            # Sorted, as a checkpoint has them: a resumed run writes the bytes of an undisturbed one.
            lines = "".join(json.dumps(line, sort_keys=True) + "\n" for line in self.log)
            files.write(files.make_folder(self.folder) / LOG, lines.encode())
