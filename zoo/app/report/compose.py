"""From the outputs of several models to a report. Each section is computed by one function, in the order of reading."""

import platform
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

from zoo.app.report.analysis import Analysis, analyse
from zoo.app.report.calibration import calibration
from zoo.app.report.candidates import candidates
from zoo.app.report.cascade import cascade
from zoo.app.report.classes import classes
from zoo.app.report.document import Document, Part
from zoo.app.report.ensemble import ensemble
from zoo.app.report.errors import errors
from zoo.app.report.groups import groups
from zoo.app.report.inputs import ReportInputs
from zoo.app.report.labels import labels
from zoo.app.report.models import models
from zoo.app.report.outside import outside
from zoo.app.report.overview import overview
from zoo.app.report.pair import pair
from zoo.app.report.training import training
from zoo.app.report.transfer import joint_features, transfer
from zoo.app.report.unlabelled import unlabelled
from zoo.outputs.outputs import Outputs

# A function returns None if the report lacks the data for its section.
PARTS: tuple[Callable[[Analysis], Part | None], ...] = (
    overview, models, errors, pair, ensemble, cascade, candidates, classes, groups, calibration, outside, unlabelled,
    labels, training, transfer, joint_features,
)  # fmt: skip


def compose(inputs: ReportInputs, base: str | None = None, steps: int = 10, seed: int = 0) -> Document:
    """Return the report on at least two models with labels.

    Args:
        inputs: the outputs, and data for optional sections.
        base: the model that the ensemble search starts from; default: the most accurate one.
        steps: models that the search adds at most.
        seed: of the splits and of every bootstrap.
    """
    analysis = analyse(inputs, base, steps, seed)
    parts = [found for part in PARTS if (found := part(analysis)) is not None]
    first = next(iter(analysis.runs.values()))
    selection, test = map(len, analysis.splits)
    numbers = {"population": analysis.population, "selection_examples": selection, "test_examples": test}
    for part in parts:
        numbers |= part.numbers
    subtitle = (
        f"{len(first):,} examples, {len(first.classes)} classes. The best model, pairs and ensembles were chosen on "
        f"{selection:,} of these examples (selection) and are reported on the other {test:,} (test)."
    )
    if analysis.shared_ending:
        subtitle += f" Model names are shown without the ending {analysis.shared_ending}."
    return Document(
        title=f"{len(analysis.runs)} models on {first.dataset or 'these examples'}: how errors differ, and which to combine",
        subtitle=subtitle,
        findings=[replace(finding, section=part.section.id) for part in parts for finding in part.findings],
        sections=[part.section for part in parts],
        provenance=_provenance(analysis),
        numbers=numbers,
        analysis=analysis,
    )


def _provenance(analysis: Analysis) -> dict[str, str]:
    settings = {"base": analysis.base, "steps": analysis.steps, "seed": analysis.seed}
    first = next(iter(analysis.runs.values()))
    packages = ("model-zoo-diversity", "torch", "timm", "numpy", "scikit-learn")
    return {
        **{key: str(value) for key, value in settings.items() if value is not None},
        "dataset": f"{first.dataset or 'unnamed'}, {analysis.population}, {len(first.classes)} classes",
        **{f"outputs of {outputs.name}": _fingerprint(outputs) for outputs in analysis.runs.values()},
        "versions": ", ".join(f"{name} {version(name)}" for name in packages),
        "machine": f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    }


def _fingerprint(outputs: Outputs) -> str:
    keys = ("weights", "transform", "precision", "dataset_fingerprint", "fingerprint", "key")
    parts = [f"{key} {str(outputs.details[key])[:16]}" for key in keys if key in outputs.details]
    return ", ".join(parts) or "imported, no fingerprint"
