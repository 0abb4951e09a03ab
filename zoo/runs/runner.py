"""`zoo.run`: models on a dataset, their outputs kept, resumed where they were left, and never computed twice."""

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

import torch

from zoo.core import devices, files
from zoo.core.progress import counted
from zoo.datasets import Dataset, ResizeMode, canonical, is_user_dataset
from zoo.datasets import load as load_dataset
from zoo.datasets.class_matching import Match, match
from zoo.errors import CorruptFile, InputError, MissingWeights, ZooError, ZooWarning
from zoo.models import registry
from zoo.models.model import Model
from zoo.outputs.alignment import fitting
from zoo.outputs.outputs import Outputs, Runs
from zoo.outputs.store import SHARD_ROWS, Identity, RunFolder, layout
from zoo.outputs.store.layout import MANIFEST
from zoo.runs import model_facts, resolver
from zoo.runs.engines import extraction
from zoo.runs.engines.extraction import Job
from zoo.runs.engines.forward import Precision
from zoo.runs.model_facts import Facts
from zoo.runs.resolver import Choice
from zoo.runs.resolver import resolve as resolve

Engine = Literal["local", "ray"]


def run(
    names: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    pretrained: bool = True,
    home: str | Path | None = None,
    batch_size: int = 64,
    precision: Precision = "float32",
    embeddings: bool = True,
    resize_mode: ResizeMode | None = None,
    engine: Engine = "local",
    device: str | Sequence[str] | None = None,
    workers: int | None = None,
    progress: bool = True,
    shard_rows: int = SHARD_ROWS,
) -> Runs:
    """Outputs of models, given by name, pattern (`resnet50-*`) or as loaded, on a dataset (a spec, or loaded).

    Outputs that were imported under a name are taken for it; `resolver.py` has the order, and `NAME@run` means the model.
    What is stored already is opened, what was begun is completed, and models whose outputs are all there are not even
    loaded. `resize_mode` says how much of an image a model sees: `evaluation`, what its card says, or `transfer`, the
    shortest side at the network's input (Kornblith et al. 2021, A.2); by default as the dataset asks. `device` defaults to
    every accelerator here, `workers` (processes that decode images) to what the machine and the work call for. `shard_rows`
    outputs at a time are written; a killed run loses at most the shards under way.

    >>> import tempfile
    >>> home = tempfile.mkdtemp()
    >>> runs = run("timm:test_resnet", data="digits:test[:8]", pretrained=False, home=home, progress=False)
    >>> runs["timm:test_resnet"].logits.shape
    (8, 1000)
    """
    if batch_size < 1 or shard_rows < 1 or (workers is not None and workers < 0):
        raise InputError(f"batch_size {batch_size}, shard_rows {shard_rows}, workers {workers}: expected positive numbers")
    if engine not in ("local", "ray"):
        raise InputError(f"engine {engine!r}: expected local or ray")
    if resize_mode not in (None, *get_args(ResizeMode)):
        raise InputError(f"resize_mode {resize_mode!r}: expected {' or '.join(get_args(ResizeMode))}")
    place = None if home is None else Path(home)
    if isinstance(data, Dataset):
        spec: str | None = data.spec
    else:
        spec = resolver.dataset_of(names, place) if data is None else canonical(data)
    choices = resolver.choose(names, spec, place, random=not pretrained)
    options = _Options(
        place, batch_size, precision, embeddings, resize_mode, engine, _devices(device), workers, progress, shard_rows
    )  # fmt: skip
    for choice in choices:
        if choice.open is None and isinstance(choice.model, str):
            registry.card(choice.model)  # a name that is not known is said now, not after hours
    images = _Images(data if isinstance(data, Dataset) else spec or "")
    found, left_out = [], dict[str, ZooError]()
    for choice in choices:
        try:
            found.append(_outputs(choice, spec, images, pretrained, options))
        except CorruptFile as error:  # one damaged import must not block the others that match a pattern
            if choice.open is None or not choice.optional:
                raise
            warnings.warn(f"{error}; left out", ZooWarning, stacklevel=2)
        except ZooError as error:
            untrained = isinstance(error, MissingWeights) and registry.availability(str(choice.model)) in resolver.FAR
            if not (choice.optional and (untrained or images.missing)):  # a training that failed, say, is no reason
                raise
            left_out[str(choice.model)] = error
    if left_out:
        first = next(iter(left_out.values()))
        if not found:
            raise first
        warnings.warn(resolver.left_out(list(left_out), len(choices)), ZooWarning, stacklevel=2)
    optional = {str(choice.model) for choice in choices if choice.optional and choice.open is not None}
    return Runs(fitting(found, optional) if optional else found)


class _Images:
    """A dataset, loaded when its images are first needed; where they are not here, that is found out once."""

    def __init__(self, data: "str | Dataset") -> None:
        self.data = data
        self.missing: ZooError | None = None

    @functools.cached_property
    def dataset(self) -> Dataset:
        return load_dataset(self.data)

    def __call__(self) -> Dataset:
        if self.missing is None:
            try:
                return self.dataset
            except ZooError as error:
                self.missing = error
        raise self.missing


def _outputs(choice: Choice, spec: str | None, images: _Images, pretrained: bool, options: "_Options") -> Outputs:
    """What a choice stands for. Images or weights that are not here are not missed where the run is stored."""
    if choice.open is not None:
        return choice.open()
    try:
        dataset = images()
        if is_user_dataset(dataset.spec):
            dataset[0]  # has none, and says so before a model is trained or downloaded
        subject = _subject(choice.model, pretrained, dataset, options)
    except (InputError, CorruptFile):
        raise
    except ZooError as error:
        named = choice.model if isinstance(choice.model, str) and pretrained else None
        found = named and resolver.without_running(named, spec, options.home, options.resize_mode)
        if not found:
            raise
        outputs, which = found
        reason = error if images.missing is None else f"{spec}: its images are not on this machine"
        warnings.warn(f"{reason}; {which}", ZooWarning, stacklevel=3)
        return outputs
    return _run(subject, dataset, options)


@dataclass(frozen=True)
class _Options:
    home: Path | None
    batch_size: int
    precision: Precision
    embeddings: bool
    resize_mode: ResizeMode | None
    engine: Engine
    devices: list[str]
    workers: int | None
    progress: bool
    shard_rows: int


@dataclass(frozen=True)
class _Subject:
    """A model to be run: what identifies it, and how to get it onto a device."""

    facts: Facts
    load: Callable[[str], Model]


def _subject(model: "str | Model", pretrained: bool, dataset: Dataset, options: _Options) -> _Subject:
    if isinstance(model, Model):
        return _Subject(model_facts.of_model(model), functools.partial(_replica, model))
    card = registry.card(model)
    # a zero-shot head is made for the classes at hand
    classes = dataset.classes if card.head == "zero-shot" and dataset.classes else None
    load = functools.partial(_load, model, pretrained, classes)
    facts = model_facts.recall(card, pretrained, classes, options.home)
    if facts is None:
        loaded = load("cpu")
        facts = model_facts.of_model(loaded, pretrained)
        model_facts.remember(facts, card, pretrained, classes, options.home)
        if options.engine == "local":
            load = functools.partial(_replica, loaded)
    return _Subject(facts, load)


def _load(name: str, pretrained: bool, classes: Sequence[str] | None, device: str) -> Model:
    return registry.load(name, pretrained=pretrained, device=device, classes=classes)


def _with_resize_mode(load: Callable[[str], Model], resize_mode: ResizeMode, device: str) -> Model:
    return load(device).with_resize_mode(resize_mode)


def _replica(model: Model, device: str) -> Model:
    """The model itself where it is on that device, else a copy of it there."""
    wanted = torch.device(device)
    here = model.device.type == wanted.type and wanted.index in (None, model.device.index)
    return model if here else copy.deepcopy(model).to(device)


def _run(subject: _Subject, dataset: Dataset, options: _Options) -> Outputs:
    matched = match(dataset, subject.facts.classes)
    run = RunFolder.of(_identity(subject.facts, matched, dataset, options), options.home)
    if not options.embeddings:  # outputs that have more than was asked for will do
        fuller = RunFolder.of(_identity(subject.facts, matched, dataset, options, embeddings=True), options.home)
        run = fuller if fuller.finished else run
    outputs = _open(run)
    if outputs is None:
        load = functools.partial(_with_resize_mode, subject.load, options.resize_mode or dataset.resize_mode)
        _complete(run, Job(run, dataset, matched, load, options.batch_size, options.workers), options)
        outputs = run.open()
    lost = outputs.details["undecodable"]
    if lost:
        named = ", ".join(entry["id"] for entry in lost[:3]) + (", ..." if len(lost) > 3 else "")
        warnings.warn(
            f"{dataset.spec}: {len(lost)} of {len(dataset)} images cannot be decoded and are left out: {named}",
            ZooWarning,
            stacklevel=4,
        )
    return outputs


def _open(run: RunFolder) -> Outputs | None:
    """The outputs if they are finished and whole."""
    if not run.finished:
        return None
    try:
        whole = not run.problems()
    except CorruptFile as error:  # the manifest itself; shards carry their own checksums, so they are kept
        kept = files.set_aside(run.path / MANIFEST)
        warnings.warn(f"{error}; set aside as {kept.name} and made again", ZooWarning, stacklevel=5)
        return None
    return run.open() if whole else None


def _complete(run: RunFolder, job: Job, options: _Options) -> None:
    """Make the missing shards, then the manifest. A second process at the same run starts from the other end."""
    files.make_folder(run.path)
    with files.lock(run.path) as first:
        missing = run.missing() if first else run.missing()[::-1]
        if missing:
            total = sum(len(run.identity.rows(shard)) for shard in missing)
            engine = extraction if options.engine == "local" else import_module(f"zoo.runs.engines.{options.engine}")
            title = f"{run.identity.name} on {run.identity.dataset}"
            with counted(title, total, options.progress, "images") as report:
                engine.run(job, missing, options.devices, report)
        run.finish()


def _identity(facts: Facts, matched: Match, dataset: Dataset, options: _Options, embeddings: bool | None = None) -> Identity:
    kind: Literal["logits", "embeddings"] = "logits" if facts.classes else "embeddings"
    return Identity(
        name=facts.name,
        kind=kind,
        link=facts.link,
        classes=matched.classes,
        weights=facts.weights,
        transform=layout.with_resize_mode(facts.transform, options.resize_mode or dataset.resize_mode),
        precision=options.precision,
        embeddings=kind == "embeddings" or (facts.embeds and (options.embeddings if embeddings is None else embeddings)),
        fingerprint=dataset.fingerprint,
        examples=len(dataset),
        shard_rows=options.shard_rows,
        label_classes=matched.label_classes,
        predicts=files.digest(facts.classes)[:16],
        dataset=dataset.spec,
        dataset_name=dataset.spec if ":/" not in dataset.spec else dataset.name,
        card=facts.card,
    )


def _devices(device: str | Sequence[str] | None) -> list[str]:
    """The devices asked for, or every accelerator here, or the CPU."""
    if device is not None:
        return [str(devices.choose(one)) for one in ([device] if isinstance(device, str) else device)]
    here = devices.present()
    return here[:-1] or here
