"""The training loop: trains a network on images by a recipe, with checkpoints, and returns its history."""

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
from zoo.training.evaluation import Tally, evaluate
from zoo.training.pretext import PretextTask
from zoo.training.processes import Processes
from zoo.training.randomness import For, seed_network, seed_of
from zoo.training.sync_batch_norm import SharedBatchNorm

CHECKPOINT, LOG = "checkpoint.safetensors", "log.jsonl"
MAX_SAVING_FRACTION = 0.05  # of the training time, for writing checkpoints
# How checkpoints of versions before 0.2 name the sums of a tally.
_FORMER_TALLY_NAMES = {"seen": "examples", "right": "correct", "surprise": "nll", "of_class": "class_counts"}


class Diverged(ZooError):
    """Training whose loss became infinite or NaN."""


class Watch(Protocol):
    """Called after each epoch with the network that training would return now; returns values for the log."""

    def __call__(self, network: Network, epoch: int, step: int, last: bool) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class Fit:
    """Result of a training run."""

    log: list[dict[str, Any]]  # one entry per epoch: loss, accuracy, nll, class_separation, holdout_accuracy, ...
    epoch: int  # the epoch whose weights the network has
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
    """Train a network in place.

    The network ends with the weights of the epoch that is most accurate on the recipe's holdout, or of the last epoch if
    there is no holdout. A resumed run ends with the same weights as an uninterrupted one.

    Args:
        network: its head must be an `ObjectiveHead`, whose objective is minimised. After a pretext task (`simclr`) the head
            is fitted again.
        train_set: labelled images.
        recipe: the training settings.
        soft_targets: [N, K] probabilities of a teacher for each image, which replace the labels.
        folder: where checkpoints and `log.jsonl`, one line per epoch, are written; default: nowhere.
        about: plain values that identify the run. A checkpoint with other values, another recipe or other data is an error.
        title: text before the progress bar.
        progress: whether to show progress.
        resume: whether to continue from the checkpoint in `folder`.
        checkpoint_every: seconds between checkpoints. Several processes write one after each epoch instead.
        workers: processes that decode images; see `ImageBatches`.
        watch: called after each epoch. It must not change the network.
    """
    _check(network, train_set, soft_targets)
    _check_early_side(network, recipe)
    with torch.random.fork_rng(devices=[]), kept_pages():
        run = _Run(network, train_set, recipe, soft_targets, folder, dict(about or {}), checkpoint_every, workers, watch)
        if resume:
            run.resume()
        with Bar(title, run.total, progress and run.processes.main, run.step) as bar:
            run.train(bar)
        return run.finish()


def _check(network: Network, train_set: Dataset, soft_targets: Tensor | None) -> None:
    if not isinstance(network.head, ObjectiveHead):
        found = type(network.head).__name__
        raise InputError(argument="network", expected="a network whose head is an ObjectiveHead", found=found)
    batches.check_classes(train_set)
    classes = network.head.weight.shape[0]
    if classes != len(train_set.classes):
        expected = f"a network with {len(train_set.classes)} classes, as {train_set.spec} has"
        raise InputError(argument="network", expected=expected, found=classes)
    if soft_targets is not None and soft_targets.shape != (len(train_set), classes):
        expected = f"probabilities of shape [{len(train_set)}, {classes}]"
        raise InputError(argument="soft_targets", expected=expected, found=list(soft_targets.shape))
    if soft_targets is None and isinstance(network.head.objective, Distilled):
        hint = "Name a model, such as a saved ensemble: {teacher=NAME}"
        raise InputError("distillation needs a teacher", argument="teacher", hint=hint)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        hint = "Loaded models are frozen; call requires_grad_() on the part to train"
        raise InputError("no parameter requires a gradient", argument="network", hint=hint)


def _check_early_side(network: Network, recipe: Recipe) -> None:
    if not recipe.early_side:
        return
    size = recipe.transform.size[0], recipe.early_side, recipe.early_side
    try:
        with torch.inference_mode():
            network.eval().body(torch.zeros(1, *size, device=next(network.parameters()).device))
    except (RuntimeError, AssertionError) as error:
        expected = f"0, because the network takes images of {recipe.transform.size[-1]} pixels only"
        raise InputError(argument="early_side", expected=expected, found=recipe.early_side) from error


class _Learner(nn.Module):
    """The loss as a module, so that wrappers for several processes and mixed precision cover all of it."""

    def __init__(self, network: Network, task: PretextTask | None) -> None:
        super().__init__()
        self.network, self.task = network, task

    def forward(self, images: Tensor, targets: Tensor, answers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        head: ObjectiveHead = self.network.head  # type: ignore[assignment]
        embeddings = self.network.body(images)
        if self.task is None:
            return head.loss(embeddings, targets), embeddings.detach()
        # The head is trained for the log only: its gradient does not reach the embeddings.
        return self.task(embeddings, answers) + head.loss(embeddings.detach(), targets), embeddings.detach()


class _Run:
    """A training run and its state."""

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
        if self.processes.main and self.processes.emulates_bfloat16:
            warnings.warn(
                "precision is bfloat16, which this processor emulates: training takes about ten times as long as in float32 "
                "(--set precision=float32)",
                ZooWarning,
                stacklevel=3,
            )
        settings = dataclasses.asdict(recipe) | {"transform": recipe.transform.settings}
        self.about = about | {"recipe": settings, "data": train_set.fingerprint}
        training, held_out = batches.split_holdout(train_set, recipe)
        self.soft_targets = None
        if soft_targets is not None:
            self.soft_targets = soft_targets[torch.from_numpy(batches.split_rows(len(train_set), recipe)[0])].float()
            self.about["soft_targets"] = files.digest([self.soft_targets.numpy().tobytes()])
        self.images = batches.ImageBatches(training, ImageAugmentation(recipe), workers)
        self.labels = torch.from_numpy(batches.labels_of(training))
        self.holdout = batches.ImageBatches(held_out, ImageAugmentation(recipe.plain()), workers) if held_out else None
        self.per_epoch, self.total = recipe.steps_per_epoch(len(training)), recipe.total_steps(len(training))

        self.network = network.to(self.processes.device)
        self.head: ObjectiveHead = network.head  # type: ignore[assignment]
        self.task = pretext.task_of(self.head, recipe, self.processes)
        self.trained = _Learner(network, self.task)
        self.optimiser = optimisation.optimiser(self.trained, recipe)
        self.average = optimisation.average(network, recipe)
        self.learner, self.stepper = self.processes.prepare(self.trained, self.optimiser)
        self.pipeline = Pipeline(recipe.transform)

        self.step, self.seconds, self.log = 0, 0.0, list[dict[str, Any]]()  # `seconds` of the current epoch
        self.best: dict[str, Tensor] = {}
        self.best_epoch = 0
        self.tally = self._new_tally()
        self.saved_at, self.saving_seconds = time.monotonic(), 0.0

    def train(self, bar: Bar) -> None:
        while self.step < self.total:
            epoch, first = divmod(self.step, self.per_epoch)
            self._epoch(epoch, first, bar)
        self._save()

    def _epoch(self, epoch: int, first: int, bar: Bar) -> None:
        start, seconds_before = time.monotonic(), self.seconds
        self.network.train()
        last = min(self.per_epoch, self.total - epoch * self.per_epoch)
        rows = self.processes.rows(self.recipe.batch_size)
        numbers = batches.order(len(self.labels), self.recipe, epoch)[first:last, rows]
        for batch, pixels in zip(numbers, self.images.batches(epoch, list(numbers)), strict=True):
            self._save_if_due()
            loss = self._learn(pixels.to(self.processes.device, non_blocking=True), torch.from_numpy(batch), rows)
            self.step += 1
            self.seconds = seconds_before + time.monotonic() - start
            bar.advance(state=functools.partial(self._state, epoch + 1, loss))
        self._finish_epoch(epoch + 1)

    def _state(self, epoch: int, loss: Tensor, steps: float) -> str:
        return f"epoch {epoch}  loss {float(loss):.3f}  {steps * self.recipe.batch_size:.0f} images/s"

    def _learn(self, pixels: Tensor, numbers: Tensor, rows: slice) -> Tensor:
        """Take one step on a batch; `rows` are its rows in the batch of all processes. Return the loss."""
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
            loss, embeddings = self.learner(images, targets, answers)
        with torch.no_grad():
            self.tally.add(embeddings, self.head(embeddings), labels, self.head.objective.link, loss)
        self.processes.backward(loss)
        self.stepper.step()
        self.stepper.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.network)
        return loss.detach()

    def _finish_epoch(self, epoch: int) -> None:
        tally = self.tally.over_processes(self.processes.total)
        loss = float(tally.loss / tally.examples)
        if not math.isfinite(loss):
            hint = "Lower {learning_rate} or raise {warmup_epochs}"
            raise Diverged(f"training diverged, the loss is {loss}", where=f"epoch {epoch}", hint=hint)
        entry: dict[str, Any] = {"epoch": epoch, "step": self.step, "loss": loss, **tally.summary()}
        entry["learning_rate"] = self.optimiser.param_groups[0]["lr"]
        if self.holdout is not None:
            scores = evaluate(self._result(), self.holdout, self.processes)
            entry |= {f"holdout_{name}": value for name, value in scores.items()}
        if self.watch is not None:
            entry |= self.watch(self._result(), epoch, self.step, last=self.step == self.total)
        entry |= {"seconds": round(self.seconds, 3), "images_per_second": round(float(tally.examples) / self.seconds, 1)}
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
        """Return the network that training would return now: the average of the weights if the recipe has one."""
        averaged: Any = self.average
        return self.network if averaged is None else averaged.module

    def _new_tally(self) -> Tally:
        classes, features = self.head.weight.shape
        return Tally.empty(classes, features, self.processes.device)

    def _save_if_due(self) -> None:
        # Between two steps. Several processes have no common clock, so they save after each epoch instead.
        interval = max(self.checkpoint_every, self.saving_seconds / MAX_SAVING_FRACTION)
        if self.processes.alone and time.monotonic() - self.saved_at >= interval:
            self._save()

    def _save(self) -> None:
        tally = self.tally.over_processes(self.processes.total)
        if self.folder is not None and self.processes.main:
            start = time.monotonic()
            groups = {
                "trained": self.trained.state_dict(),
                # After the last step nothing reads the optimiser's state, which is up to twice as large as the weights.
                "optimiser": optimisation.state(self.trained, self.optimiser) if self.step < self.total else {},
                "average": self.average.state_dict() if self.average is not None else {},
                "best": self.best,
                "tally": tally.tensors(),
            }
            tensors = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
            extra = {"seconds": self.seconds, "best_epoch": self.best_epoch, "scaler": self.processes.scaler_state()}
            checkpoint = Checkpoint(self.step, tensors, self.log, extra)
            checkpoints.save(files.make_folder(self.folder) / CHECKPOINT, checkpoint, self.about)
            self.saving_seconds = time.monotonic() - start
        self.saved_at = time.monotonic()

    def resume(self) -> None:
        """Restore the state of the folder's checkpoint, if there is one."""
        stored = checkpoints.load(self.folder / CHECKPOINT, self.about) if self.folder is not None else None
        if stored is None:
            return
        self.step, self.log, self.seconds = stored.step, stored.log, stored.extra["seconds"]
        groups: dict[str, dict[str, Tensor]] = {name: {} for name in ("trained", "optimiser", "average", "best", "tally")}
        for key, value in stored.tensors.items():
            group, _, name = key.partition(".")
            groups[group][name] = value
        self.trained.load_state_dict(groups["trained"])
        optimisation.set_state(self.trained, self.optimiser, groups["optimiser"])
        if self.average is not None:
            self.average.load_state_dict(groups["average"])
        self.best, self.best_epoch = groups["best"], stored.extra["best_epoch"]
        self.processes.set_scaler_state(stored.extra["scaler"])
        if self.processes.main:  # the stored sums are of all processes, so only one may continue them
            device, sums = self.processes.device, groups["tally"]
            self.tally = Tally(**{_FORMER_TALLY_NAMES.get(name, name): value.to(device) for name, value in sums.items()})

    def finish(self) -> Fit:
        self.network.load_state_dict(self.best or self._result().state_dict())
        self.network.eval()
        if self.task is not None:
            pretext.fit_head(self.network, self.images.plain(), self.processes)
        self.processes.wait()
        return Fit(self.log, self.best_epoch or len(self.log), self.step, sum(line["seconds"] for line in self.log))

    def _write_log(self) -> None:
        if self.folder is not None and self.processes.main:
            # Keys are sorted, as in a checkpoint, so that a resumed run writes the same bytes as an uninterrupted one.
            lines = "".join(json.dumps(line, sort_keys=True) + "\n" for line in self.log)
            files.write(files.make_folder(self.folder) / LOG, lines.encode())
