"""What `zoo demo` does: a study of the shipped CIFAR-10 models; then both papers in miniature, on models that it trains."""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import zoo
from zoo import datasets, training
from zoo.app.report.compose import compose
from zoo.app.report.document import Document
from zoo.app.report.inputs import ReportInputs, available_images, transfer_embeddings
from zoo.app.terminal import note
from zoo.cards.names import parse_recipe
from zoo.cards.recipe_names import OBJECTIVES
from zoo.cards.selection import is_filter, is_pattern
from zoo.core.units import count, percent
from zoo.errors import InputError, ZooError
from zoo.models import registry
from zoo.models.registry import availability
from zoo.outputs import bundle
from zoo.runs.runner import resolve

STUDY = "cifar10:test"
SEEDS = (0, 1)
OTHER_ARCHITECTURES = ("resnet20-softmax", "all-cnn-c-softmax", "mobilenetv3_small_050-softmax")


def fetch_images() -> datasets.Dataset:
    """Return the images of the study, downloaded if they are not on this machine; an error if that is not possible."""
    try:
        return datasets.load(STUDY)
    except ZooError as error:
        problem = f"the images of {STUDY} are not on this machine, and downloading them failed"
        raise ZooError(problem, argument="images", hint="Check the network, or leave out {images}") from error


def study() -> Document | None:
    """Return the report on the shipped models, made from shipped outputs: no model is trained or run. None without them."""
    runs = bundle.study(STUDY)
    if len(runs) < 2:
        return None
    with stage(f"The shipped models: {len(runs)} networks on {STUDY}"):
        return compose(ReportInputs(runs, images=available_images(STUDY)))


def demonstrate(data: str, models: Sequence[str] | None = None) -> Document:
    """Train, run, calibrate, compare, combine and probe models, and return the report; a second call reuses everything.

    Args:
        data: dataset to train and compare on.
        models: names, patterns, filters or sets; default `default_models`.
    """
    names = _select(models) if models else default_models()
    spec = datasets.canonical(data)
    transfer = "digits-rotated:test" if spec.startswith("digits") else spec
    start = time.monotonic()
    note(f"{len(names)} models on {spec}; the same command continues if it is interrupted")
    with stage("1/4 Train (or load) the models"):
        names = _trained(names, spec)
    with stage("2/4 Run the models and store their outputs"):
        interactive = sys.stderr.isatty()  # a log gets no progress bars
        runs = zoo.run(names, data=spec, progress=interactive)
        accuracies = {name: outputs.accuracy for name, outputs in runs.items()}
        best, worst = max(accuracies, key=accuracies.__getitem__), min(accuracies, key=accuracies.__getitem__)
        note(f"  accuracy from {percent(accuracies[worst])} ({worst}) to {percent(accuracies[best])} ({best})")
    with stage(f"3/4 Compute embeddings of {transfer} to probe"):
        if datasets.training_split(transfer) is None:
            note("  skipped: the dataset has no training split")
            features = None
        else:
            features = transfer_embeddings(names, spec, transfer, progress=interactive)
    with stage("4/4 Calibrate, compare, search an ensemble, probe"):
        document = compose(ReportInputs(runs, images=datasets.load(spec), features=features))
    note(f"finished in {time.monotonic() - start:.0f} s")
    return document


def default_models() -> list[str]:
    """Return `resnet8` with each of the nine objectives from two seeds, and three other architectures."""
    suffixes = ["" if seed == 0 else f"-s{seed}" for seed in SEEDS]
    return list(OTHER_ARCHITECTURES) + [f"resnet8-{objective}{suffix}" for objective in OBJECTIVES for suffix in suffixes]


def _select(models: Sequence[str]) -> list[str]:
    """Return the selected models; names stay as typed, because the dataset decides what they are short for."""
    if any(map(is_filter, models)):
        return [str(name) for name in resolve(list(models))]
    return [str(name) for model in models for name in (resolve(model) if is_pattern(model) else [model])]


def _trained(names: Sequence[str], spec: str) -> list[str]:
    """Return the models' full names, after training those that have a recipe on the training images of a dataset."""
    images = datasets.training_split(spec)
    full_names, missing = [], []
    for name in names:
        try:
            planned = training.plan(name, images).name if images else registry.resolve(name)
        except InputError:  # not a recipe: downloaded, saved under its own name, or an ensemble
            planned = registry.resolve(name)
        full_names.append(planned)
        if parse_recipe(planned) and availability(planned) == "to train":
            missing.append({"name": planned})
    start, jobs = time.monotonic(), training.default_jobs(len(missing))
    if missing:
        note(f"  training {count(len(missing), 'model')}, {jobs} at a time")
    for number, new in enumerate(training.train_each(missing, jobs), 1):
        accuracy, seconds = new.results.get("test_accuracy", math.nan), time.monotonic() - start
        note(f"  {number:2d} of {len(missing)}  {new.name}: test accuracy {percent(accuracy)}  ({seconds:.0f} s)")
    return full_names


@contextmanager
def stage(title: str) -> Iterator[None]:
    """Print a headline before a piece of work, and its duration after."""
    note(title)
    start = time.monotonic()
    yield
    note(f"  {time.monotonic() - start:.0f} s")
