"""What each model of a run needs: outputs that exist already, or a job that computes them."""

import copy
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from zoo.core import devices, files
from zoo.core.types import Precision
from zoo.datasets import Dataset, ResizeMode, canonical, is_user_dataset
from zoo.datasets import load as load_dataset
from zoo.datasets.class_matching import Match, match
from zoo.errors import CorruptFile, InputError, MissingWeights, ZooError, ZooWarning
from zoo.models import registry
from zoo.models.sources.base import Availability
from zoo.outputs.outputs import Outputs
from zoo.outputs.store import Identity, RunFolder, layout
from zoo.outputs.store.layout import MANIFEST
from zoo.runs import memory, model_facts, resolver
from zoo.runs.engines.job import Failures, Job
from zoo.runs.model_facts import Facts
from zoo.runs.resolver import MAX_LISTED, NOT_DOWNLOADABLE, Choice, Models

if TYPE_CHECKING:
    from zoo.models.model import Model

Engine = Literal["local", "ray"]


@dataclass(frozen=True)
class Options:
    """The arguments of `zoo.run` that are the same for all models."""

    home: Path | None
    pretrained: bool
    fresh: bool
    batch_size: int
    precision: Precision
    embeddings: bool | None
    resize_mode: ResizeMode | None
    engine: Engine
    device: list[str] | None  # the requested devices
    workers: int | None
    shard_rows: int
    fold: bool

    @functools.cached_property
    def devices(self) -> list[str]:
        """The requested devices; default: all accelerators, else the CPU."""
        present = devices.present() if self.device is None else []
        return self.device or present[:-1] or present


class Images:
    """A dataset that is loaded when its images are first needed. If it is missing, it is searched for only once."""

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


@dataclass(frozen=True)
class Request:
    """The checked arguments of a call of `zoo.run`."""

    choices: list[Choice]
    spec: str | None
    images: Images
    options: Options


def request(
    models: Models,
    data: "str | Dataset | None",
    pretrained: bool,
    fresh: bool,
    embeddings: bool | None,
    home: str | Path | None,
    batch_size: int,
    precision: Precision,
    resize_mode: ResizeMode | None,
    engine: Engine,
    device: str | Sequence[str] | None,
    workers: int | None,
    shard_rows: int,
    fold: bool,
) -> Request:
    """Check the arguments of `zoo.run` and resolve names."""
    for argument, number, least in (("batch_size", batch_size, 1), ("shard_rows", shard_rows, 1), ("workers", workers, 0)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
            raise InputError(argument=argument, expected=f"a whole number of at least {least}", found=number)
    for argument, value, known in (
        ("precision", precision, get_args(Precision)),
        ("engine", engine, get_args(Engine)),
        ("resize_mode", resize_mode or "evaluation", get_args(ResizeMode)),
    ):
        if value not in known:
            raise InputError(argument=argument, expected=f"one of {', '.join(known)}", found=value)
    place = None if home is None else Path(home)
    if isinstance(data, Dataset):
        spec: str | None = data.spec
    else:
        spec = resolver.infer_dataset(models, place) if data is None else canonical(data)
    choices = resolver.choose(models, spec, place, imports=pretrained and not fresh)
    options = Options(
        place, pretrained, fresh, batch_size, precision, embeddings, resize_mode, engine, _devices(device), workers,
        shard_rows, fold,
    )  # fmt: skip
    for choice in choices:
        if choice.open is None and isinstance(choice.model, str):
            registry.card(choice.model)  # an unknown name is an error now, not after hours
    return Request(choices, spec, Images(data if isinstance(data, Dataset) else spec or ""), options)


def find(request: Request, failed: Failures) -> Iterator[Outputs | Job]:
    """Yield the existing outputs of each choice, or the job that computes them.

    Models that a pattern selects are skipped with a warning if they cannot be run here. An `InputError`, or the error that
    the images are missing, is raised; any other error of a model is added to `failed`, and the other models go on.
    """
    choices, images = request.choices, request.images
    skipped, damaged = dict[str, ZooError](), 0
    for choice in choices:
        try:
            yield _outputs(choice, request.spec, images, request.options)
        except ZooError as error:
            if isinstance(error, CorruptFile) and choice.open is not None and choice.optional:  # a damaged import
                warnings.warn(f"{error}; skipped", ZooWarning, stacklevel=4)
                damaged += 1
                continue
            untrained = isinstance(error, MissingWeights) and registry.availability(choice.name) in NOT_DOWNLOADABLE
            if choice.optional and (untrained or images.missing):  # a failed training, for example, is not skipped
                skipped[choice.name] = error
            elif isinstance(error, InputError) or images.missing is not None:
                raise
            else:
                failed[choice.name] = error
    if skipped:
        if len(skipped) + damaged == len(choices):
            raise next(iter(skipped.values()))
        warnings.warn(resolver.skipped_models(list(skipped), len(choices)), ZooWarning, stacklevel=4)


def missing_weights(choice: Choice, request: Request) -> Availability | None:
    """Return the availability of weights that a run needs and that are not on this machine; None if nothing is missing."""
    options = request.options
    if choice.open is not None or not isinstance(choice.model, str) or not options.pretrained:
        return None
    state = registry.availability(choice.name)
    if state in ("shipped", "local") or _shipped(choice, request.spec, options) is not None:
        return None
    card = registry.card(choice.model)
    classes = request.images().classes if card.head == "zero-shot" else None
    return None if model_facts.load(card, True, classes or None, options.home) is not None else state


def groups(results: Iterable[Outputs | Job], options: Options) -> Iterator[list[Outputs | Job]]:
    """Yield the results in order, in lists whose jobs fit into memory together."""
    group: list[Outputs | Job] = []
    room, used = 0, 0
    for result in results:
        if isinstance(result, Job):
            copies = (os.cpu_count() or 1) if options.engine == "ray" else options.devices.count("cpu") or 1
            room = room or memory.available(options.devices, copies)
            if used and used + memory.needed(result) > room:
                yield group
                group, used = [], 0
            used += memory.needed(result)
        group.append(result)
    yield group


def warn_of_undecodable(outputs: Outputs, stacklevel: int) -> None:
    """Warn if the outputs lack rows of images that could not be decoded."""
    absent = [entry["id"] for entry in outputs.details["undecodable"]]
    if absent:
        listed = ", ".join(absent[:MAX_LISTED]) + (", ..." if len(absent) > MAX_LISTED else "")
        total = len(outputs) + len(absent)
        message = f"{outputs.dataset}: {len(absent)} of {total} images cannot be decoded and are left out: {listed}"
        warnings.warn(message, ZooWarning, stacklevel=stacklevel)


def _outputs(choice: Choice, spec: str | None, images: Images, options: Options) -> Outputs | Job:
    """Return existing outputs of a choice, or the job that computes them."""
    if choice.open is not None:
        return choice.open()
    shipped = _shipped(choice, spec, options)
    if shipped is not None:
        return shipped
    try:
        dataset = images()
        if is_user_dataset(dataset.spec):
            dataset[0]  # raises the error that there are no images, before a model is trained or downloaded
        subject = _subject(choice.model, options.pretrained, dataset, options)
    except (InputError, CorruptFile):
        raise
    except ZooError as error:
        usable = isinstance(choice.model, str) and options.pretrained and not options.fresh
        existing = resolver.existing_outputs(choice.name, spec, options.home, options.resize_mode) if usable else None
        if existing is None:
            raise
        outputs, which = existing
        reason = error if images.missing is None else f"the images of {spec} are not on this machine"
        warnings.warn(f"{reason}; {which}", ZooWarning, stacklevel=5)
        return outputs
    stored = None if options.fresh else _stored_or_combined(choice, subject, dataset, images, options)
    if stored is not None:
        warn_of_undecodable(stored, stacklevel=5)
        return stored
    return _job(subject, dataset, options)


def _shipped(choice: Choice, spec: str | None, options: Options) -> Outputs | None:
    """Return a model's shipped outputs on the dataset or slice, if running the model would give the same outputs."""
    default = (options.precision, options.resize_mode, options.fold) == ("float32", None, False)
    if not isinstance(choice.model, str) or spec is None or options.fresh or not (options.pretrained and default):
        return None
    return _shipped_outputs(choice.model, spec, bool(options.embeddings))


def _shipped_outputs(name: str, spec: str, embeddings: bool) -> Outputs | None:
    """Return the shipped outputs of a model's current weights, or of an ensemble of such models."""
    outputs = resolver.shipped_outputs(name, spec)
    if outputs is None:
        return None if embeddings else resolver.combined_outputs(name, lambda one: _shipped_outputs(one, spec, False))
    if embeddings and outputs.embeddings is None:
        return None
    if outputs.card is None or outputs.card.sha256 != registry.card(name).sha256:
        return None  # computed with other weights than the current card's
    return outputs


@dataclass(frozen=True)
class _Subject:
    """A model to be run."""

    facts: Facts
    load: "Callable[[str], Model]"  # returns the model on a device


def _subject(model: "str | Model", pretrained: bool, dataset: Dataset, options: Options) -> _Subject:
    if not isinstance(model, str):
        return _Subject(model_facts.of_model(model), functools.partial(_replica, model))
    card = registry.card(model)
    # A zero-shot head is made for the classes of the dataset.
    classes = dataset.classes if card.head == "zero-shot" and dataset.classes else None
    load = functools.partial(_load, model, pretrained, classes)
    facts = model_facts.load(card, pretrained, classes, options.home)
    if facts is None:
        loaded = load("cpu")
        facts = model_facts.of_model(loaded, pretrained)
        model_facts.save(facts, card, pretrained, classes, options.home)
        if options.engine == "local":
            load = functools.partial(_replica, loaded)
    return _Subject(facts, load)


def _load(name: str, pretrained: bool, classes: Sequence[str] | None, device: str) -> "Model":
    return registry.load(name, pretrained=pretrained, device=device, classes=classes)


def _with_resize_mode(load: "Callable[[str], Model]", resize_mode: ResizeMode, device: str) -> "Model":
    return load(device).with_resize_mode(resize_mode)


def _replica(model: "Model", device: str) -> "Model":
    """Return the model itself if it is on that device, else a copy there."""
    import torch

    target = torch.device(device)
    same = model.device.type == target.type and target.index in (None, model.device.index)
    return model if same else copy.deepcopy(model).to(device)


def _job(subject: _Subject, dataset: Dataset, options: Options) -> Job:
    matched = match(dataset, subject.facts.classes)
    embeddings = options.embeddings is not False
    run = RunFolder.of(_identity(subject.facts, matched, dataset, options, embeddings), options.home)
    load = functools.partial(_with_resize_mode, subject.load, options.resize_mode or dataset.resize_mode)
    return Job(
        run,
        dataset,
        matched,
        load,
        options.batch_size,
        options.workers,
        subject.facts.bytes,
        options.precision,
        options.fold,
    )


def _stored_or_combined(
    choice: Choice, subject: _Subject, dataset: Dataset, images: Images, options: Options
) -> Outputs | None:
    """Return the stored run of a model, or the outputs of an ensemble whose members all have outputs."""
    stored = _stored(subject, dataset, options) or _slice_of_stored(subject, dataset, options)
    if stored is not None or not isinstance(choice.model, str) or options.embeddings:
        return stored

    def outputs_of(member: str) -> Outputs | None:
        found = _outputs(Choice(member), dataset.spec, images, options)
        return found if isinstance(found, Outputs) else None

    return resolver.combined_outputs(choice.model, outputs_of)


def _stored(subject: _Subject, dataset: Dataset, options: Options) -> Outputs | None:
    """Return the stored run of a model on a dataset; it may have embeddings even if they are not requested."""
    matched = match(dataset, subject.facts.classes)
    for embeddings in (True,) if options.embeddings else (True, False):
        run = RunFolder.of(_identity(subject.facts, matched, dataset, options, embeddings), options.home)
        outputs = _open(run)
        if outputs is not None:
            return outputs
    return None


def _slice_of_stored(subject: _Subject, dataset: Dataset, options: Options) -> Outputs | None:
    """Return the rows of a stored run on the whole dataset, if `dataset` is a slice of it."""
    whole, rows = resolver.split_spec(dataset.spec)
    if whole is None or rows is None:
        return None
    outputs = _stored(subject, load_dataset(whole), options)
    return None if outputs is None else resolver.slice_by_id(outputs, dataset.ids, dataset.spec)


def _open(run: RunFolder) -> Outputs | None:
    """Return the outputs of a run, or None if it is unfinished or damaged."""
    if not run.finished:
        return None
    try:
        undamaged = not run.problems()
    except CorruptFile as error:  # of the manifest; the shards carry their own checksums and stay
        moved = files.set_aside(run.path / MANIFEST)
        warnings.warn(f"{error}; set aside as {moved.name}, to be written anew", ZooWarning, stacklevel=5)
        return None
    return run.open() if undamaged else None


def _identity(facts: Facts, matched: Match, dataset: Dataset, options: Options, embeddings: bool) -> Identity:
    kind: Literal["logits", "embeddings"] = "logits" if facts.classes else "embeddings"
    return Identity(
        name=facts.name,
        kind=kind,
        link=facts.link,
        classes=matched.classes,
        weights=facts.weights,
        transform=layout.with_resize_mode(facts.transform, options.resize_mode or dataset.resize_mode),
        precision=f"{options.precision}-folded" if options.fold else options.precision,
        embeddings=kind == "embeddings" or (facts.embeds and embeddings),
        fingerprint=dataset.fingerprint,
        examples=len(dataset),
        shard_rows=options.shard_rows,
        label_classes=matched.label_classes,
        predicts=files.digest(facts.classes)[:16],
        dataset=dataset.spec,
        dataset_name=dataset.spec if ":/" not in dataset.spec else dataset.name,
        card=facts.card,
    )


def _devices(device: str | Sequence[str] | None) -> list[str] | None:
    """Return the requested devices, after checking that this machine has them."""
    if device is None:
        return None
    return [str(devices.choose(one)) for one in ([device] if isinstance(device, str) else device)]
