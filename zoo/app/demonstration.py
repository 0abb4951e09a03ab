"""`zoo demo`: a study of the CIFAR-10 zoo in the box; then both papers in miniature, on networks trained here."""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import zoo
from zoo import datasets, training
from zoo.app.printing import note
from zoo.app.report.compose import compose
from zoo.app.report.document import Document
from zoo.app.report.material import Material, feature_material, images_of
from zoo.cards.names import parse_recipe
from zoo.cards.recipe_names import OBJECTIVES
from zoo.errors import InputError
from zoo.models import registry
from zoo.models.registry import availability
from zoo.outputs import bundle
from zoo.runs.runner import resolve

STUDY = "cifar10:test"
SEEDS = (0, 1)
OTHERS = ("resnet20-softmax", "all-cnn-c-softmax", "mobilenetv3_small_050-softmax")


def study() -> Document | None:
    """The report on the networks that come with the package, from outputs that come along: nothing is trained or run."""
    runs = bundle.study(STUDY)
    if len(runs) < 2:
        return None
    with stage(f"The zoo in the box: {len(runs)} networks on {STUDY}"):
        document = compose(Material(runs, images=images_of(STUDY)))
        _tell(document)
    return document


def demonstrate(data: str, models: Sequence[str] | None = None) -> Document:
    """Train, run, calibrate, compare, combine and probe; each stage says what it found, and a second run finds it done."""
    names = [name for model in models for name in _expand(model)] if models else default_models()
    spec = datasets.canonical(data)
    transfer = "digits-rotated:test" if spec.startswith("digits") else spec
    began = time.monotonic()
    note(f"{len(names)} models on {spec}; the same command goes on where it was stopped")
    with stage("1/4 Train (or load) the models"):
        names = _make(names, spec)
    with stage("2/4 Run them, and keep what they say"):
        watched = sys.stderr.isatty()  # bars for a person; a log needs the findings only
        runs = zoo.run(names, data=spec, progress=watched)
        accuracies = {name: outputs.accuracy for name, outputs in runs.items()}
        best, worst = max(accuracies, key=accuracies.__getitem__), min(accuracies, key=accuracies.__getitem__)
        note(f"  accuracies from {accuracies[worst]:.1%} ({worst}) to {accuracies[best]:.1%} ({best})")
    with stage(f"3/4 Embed {transfer}, whose labels are probed for"):
        if datasets.training_split(transfer) is None:
            note("  it has no training split, so features are left out")
            features = None
        else:
            features = feature_material(names, spec, transfer, progress=watched)
    with stage("4/4 Calibrate, compare, search an ensemble, probe"):
        document = compose(Material(runs, images=datasets.load(spec), features=features))
        _tell(document)
    note(f"done in {time.monotonic() - began:.0f} s")
    return document


def default_models() -> list[str]:
    """`resnet8` with each of the nine objectives from two seeds, and three other architectures."""
    suffixes = ["" if seed == 0 else f"-s{seed}" for seed in SEEDS]
    return list(OTHERS) + [f"resnet8-{objective}{suffix}" for objective in OBJECTIVES for suffix in suffixes]


def _expand(model: str) -> list[str]:
    """The models of a pattern; a name as it is, for the data decide what is left out of it."""
    return [str(name) for name in resolve(model)] if any(mark in model for mark in "*?[") else [model]


def _make(names: Sequence[str], spec: str) -> list[str]:
    """What the models are called, those that have a recipe once they are trained on the images `spec` is the test of."""
    images = datasets.training_split(spec)
    made, missing = [], []
    for name in names:
        try:
            planned = training.plan(name, images).name if images else registry.resolve(name)
        except InputError:  # no recipe: downloaded, saved under a name of its own, or an ensemble
            planned = registry.resolve(name)
        made.append(planned)
        if parse_recipe(planned) and availability(planned) == "to train":
            missing.append({"name": planned})
    began = time.monotonic()
    for number, new in enumerate(training.train_each(missing, training.default_jobs(len(missing))), 1):
        accuracy, passed = new.results.get("test_accuracy", math.nan), time.monotonic() - began
        note(f"  {number:2d} of {len(missing)}  {new.name}: {accuracy:.1%} of the test images  ({passed:.0f} s)")
    return made


def _tell(document: Document) -> None:
    for finding in document.findings:
        note(f"  {finding.number} {finding.sentence}")


@contextmanager
def stage(title: str) -> Iterator[None]:
    """A headline before a piece of work, and how long it took after."""
    note(title)
    began = time.monotonic()
    yield
    note(f"  {time.monotonic() - began:.0f} s")
