"""`zoo.run`: outputs of models on a dataset. They are stored, completed after an interruption, and never computed twice."""

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
from zoo.outputs.store.writer import retire
from zoo.runs import model_facts, resolver
from zoo.runs.engines import extraction
from zoo.runs.engines.extraction import Job
from zoo.runs.engines.forward import Precision
from zoo.runs.model_facts import Facts
from zoo.runs.resolver import MAX_LISTED, NOT_DOWNLOADABLE, Choice
from zoo.runs.resolver import resolve as resolve

Engine = Literal["local", "ray"]


def run(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset | None" = None,
    pretrained: bool = True,
    fresh: bool = False,
    embeddings: bool | None = None,
    home: str | Path | None = None,
    batch_size: int = 64,
    precision: Precision = "float32",
    resize_mode: ResizeMode | None = None,
    engine: Engine = "local",
    device: str | Sequence[str] | None = None,
    workers: int | None = None,
    progress: bool = True,
    shard_rows: int = SHARD_ROWS,
) -> Runs:
    """Return the outputs of models on a dataset; run the models that have none yet.

    Outputs that exist are used: imported under the name, shipped with the package, or stored by an earlier run
    (`zoo.runs.resolver` has the order). An interrupted run is completed. Outputs are stored by model, weights, transform,
    precision and dataset.

    Args:
        models: names, patterns such as `resnet50-*`, filters, named sets, or loaded models.
        data: a dataset spec or a loaded dataset; default: the test split of the dataset whose classes the models predict.
        pretrained: whether networks get their trained weights; False gives random ones.
        fresh: whether to run the models even if outputs exist.
        embeddings: True requires embeddings, False leaves them out; None takes outputs with or without them, and computes
            embeddings when a model is run.
        home: where outputs are stored; default `ZOO_HOME`.
        batch_size: images per forward pass.
        precision: of the arithmetic.
        resize_mode: `evaluation`, the transform of a model's card; `transfer`, the shortest side at the network's input size
            (Kornblith et al. 2021, A.2); default: as the dataset asks.
        engine: `local` or `ray`.
        device: device or devices; default: every accelerator here, else the CPU.
        workers: processes that decode images; default: as many as the work needs.
        progress: whether to show a progress bar.
        shard_rows: examples per stored file; a killed run loses at most the files being written.

    >>> import tempfile
    >>> home = tempfile.mkdtemp()
    >>> runs = run("timm:test_resnet", data="digits:test[:8]", pretrained=False, home=home, progress=False)
    >>> runs["timm:test_resnet"].logits.shape
    (8, 1000)
    """
    for argument, number, least in (("batch_size", batch_size, 1), ("shard_rows", shard_rows, 1), ("workers", workers, 0)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
            raise InputError(argument=argument, expected=f"a whole number of at least {least}", found=number)
    if engine not in get_args(Engine):
        raise InputError(argument="engine", expected=" or ".join(get_args(Engine)), found=engine)
    if resize_mode not in (None, *get_args(ResizeMode)):
        raise InputError(argument="resize_mode", expected=" or ".join(get_args(ResizeMode)), found=resize_mode)
    place = None if home is None else Path(home)
    if isinstance(data, Dataset):
        spec: str | None = data.spec
    else:
        spec = resolver.infer_dataset(models, place) if data is None else canonical(data)
    choices = resolver.choose(models, spec, place, imports=pretrained and not fresh)
    options = _Options(
        place, pretrained, fresh, batch_size, precision, embeddings, resize_mode, engine, _devices(device), workers,
        progress, shard_rows,
    )  # fmt: skip
    for choice in choices:
        if choice.open is None and isinstance(choice.model, str):
            registry.card(choice.model)  # an unknown name is an error now, not after hours
    images = _Images(data if isinstance(data, Dataset) else spec or "")
    found, skipped = [], dict[str, ZooError]()
    for choice in choices:
        try:
            found.append(_outputs(choice, spec, images, options))
        except CorruptFile as error:  # a damaged import does not stop the others that a pattern selects
            if choice.open is None or not choice.optional:
                raise
            warnings.warn(f"{error}; skipped", ZooWarning, stacklevel=2)
        except ZooError as error:
            untrained = isinstance(error, MissingWeights) and registry.availability(choice.name) in NOT_DOWNLOADABLE
            if not (choice.optional and (untrained or images.missing)):  # a failed training, for example, is not skipped
                raise
            skipped[choice.name] = error
    if skipped:
        if not found:
            raise next(iter(skipped.values()))
        warnings.warn(resolver.skipped_models(list(skipped), len(choices)), ZooWarning, stacklevel=2)
    optional = {choice.name for choice in choices if choice.optional and choice.open is not None}
    return Runs(fitting(found, optional) if optional else found)


class _Images:
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


def _outputs(choice: Choice, spec: str | None, images: _Images, options: "_Options") -> Outputs:
    """Return existing outputs of a choice, or run it."""
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
        reason = error if images.missing is None else f"{spec}: its images are not on this machine"
        warnings.warn(f"{reason}; {which}", ZooWarning, stacklevel=3)
        return outputs
    return _run(subject, dataset, options)


def _shipped(choice: Choice, spec: str | None, options: "_Options") -> Outputs | None:
    """Return the shipped outputs of a model, or of the slice that is asked for, if they are what running it would give."""
    default = (options.precision, options.resize_mode) == ("float32", None)
    if not isinstance(choice.model, str) or spec is None or options.fresh or not (options.pretrained and default):
        return None
    outputs = resolver.shipped_outputs(choice.model, spec)
    if outputs is None or (options.embeddings and outputs.embeddings is None):
        return None
    if outputs.card is None or outputs.card.sha256 != registry.card(choice.model).sha256:
        return None  # outputs of other weights than those of today's card
    return outputs


@dataclass(frozen=True)
class _Options:
    home: Path | None
    pretrained: bool
    fresh: bool
    batch_size: int
    precision: Precision
    embeddings: bool | None
    resize_mode: ResizeMode | None
    engine: Engine
    devices: list[str]
    workers: int | None
    progress: bool
    shard_rows: int


@dataclass(frozen=True)
class _Subject:
    """A model to be run."""

    facts: Facts
    load: Callable[[str], Model]  # returns the model on a device


def _subject(model: "str | Model", pretrained: bool, dataset: Dataset, options: _Options) -> _Subject:
    if isinstance(model, Model):
        return _Subject(model_facts.of_model(model), functools.partial(_replica, model))
    card = registry.card(model)
    # A zero-shot head is made for the classes of the dataset.
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
    """Return the model itself if it is on that device, else a copy there."""
    target = torch.device(device)
    same = model.device.type == target.type and target.index in (None, model.device.index)
    return model if same else copy.deepcopy(model).to(device)


def _run(subject: _Subject, dataset: Dataset, options: _Options) -> Outputs:
    existing = None if options.fresh else _stored(subject, dataset, options) or _slice_of_stored(subject, dataset, options)
    if existing is not None:
        return _warn_of_undecodable(existing, dataset)
    matched = match(dataset, subject.facts.classes)
    embeddings = options.embeddings is not False
    run = RunFolder.of(_identity(subject.facts, matched, dataset, options, embeddings), options.home)
    outputs = None if options.fresh else _open(run)
    if outputs is None:
        if options.fresh and run.finished:
            retire(run.path)
        load = functools.partial(_with_resize_mode, subject.load, options.resize_mode or dataset.resize_mode)
        _complete(run, Job(run, dataset, matched, load, options.batch_size, options.workers), options)
        outputs = run.open()
    return _warn_of_undecodable(outputs, dataset)


def _stored(subject: _Subject, dataset: Dataset, options: _Options) -> Outputs | None:
    """Return the stored run of a model on a dataset; outputs with embeddings serve where none are asked for."""
    matched = match(dataset, subject.facts.classes)
    for embeddings in {None: (True, False), True: (True,), False: (True, False)}[options.embeddings]:
        run = RunFolder.of(_identity(subject.facts, matched, dataset, options, embeddings), options.home)
        outputs = _open(run)
        if outputs is not None:
            return outputs
    return None


def _slice_of_stored(subject: _Subject, dataset: Dataset, options: _Options) -> Outputs | None:
    """Return the rows of a stored run on the whole dataset, if `dataset` is a slice of it."""
    whole, rows = resolver.split_spec(dataset.spec)
    if whole is None or rows is None:
        return None
    outputs = _stored(subject, load_dataset(whole), options)
    return None if outputs is None else resolver.slice_by_id(outputs, dataset.ids, dataset.spec)


def _warn_of_undecodable(outputs: Outputs, dataset: Dataset) -> Outputs:
    """Return the outputs, after a warning if they lack rows of images that could not be decoded."""
    absent = [entry["id"] for entry in outputs.details["undecodable"]]
    if absent:
        listed = ", ".join(absent[:MAX_LISTED]) + (", ..." if len(absent) > MAX_LISTED else "")
        warnings.warn(
            f"{dataset.spec}: {len(absent)} of {len(dataset)} images cannot be decoded and are left out: {listed}",
            ZooWarning,
            stacklevel=5,
        )
    return outputs


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


def _complete(run: RunFolder, job: Job, options: _Options) -> None:
    """Compute the missing shards, then write the manifest. A second process at the same run starts from the other end."""
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


def _identity(facts: Facts, matched: Match, dataset: Dataset, options: _Options, embeddings: bool) -> Identity:
    kind: Literal["logits", "embeddings"] = "logits" if facts.classes else "embeddings"
    return Identity(
        name=facts.name,
        kind=kind,
        link=facts.link,
        classes=matched.classes,
        weights=facts.weights,
        transform=layout.with_resize_mode(facts.transform, options.resize_mode or dataset.resize_mode),
        precision=options.precision,
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


def _devices(device: str | Sequence[str] | None) -> list[str]:
    """Return the requested devices; default: all accelerators, else the CPU."""
    if device is not None:
        return [str(devices.choose(one)) for one in ([device] if isinstance(device, str) else device)]
    present = devices.present()
    return present[:-1] or present
