"""From several models' outputs to a report: each part says what it finds, in the order of reading."""

import platform
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

from zoo.app.report.calibration import calibration
from zoo.app.report.document import Document, Part
from zoo.app.report.ensemble import ensemble
from zoo.app.report.errors import errors
from zoo.app.report.evidence import Evidence, evidence
from zoo.app.report.features import joint_features, transfer
from zoo.app.report.labels import labels
from zoo.app.report.material import Material
from zoo.app.report.models import models
from zoo.app.report.next_model import next_model
from zoo.app.report.pair import pair
from zoo.app.report.serving import serving
from zoo.app.report.unlabelled import unlabelled
from zoo.outputs.outputs import Outputs

# A part that lacks its material gives None.
PARTS: tuple[Callable[[Evidence], Part | None], ...] = (
    models, errors, pair, ensemble, serving, next_model, calibration, unlabelled, labels, transfer, joint_features,
)  # fmt: skip


def compose(material: Material, base: str | None = None, steps: int = 10, seed: int = 0) -> Document:
    """The report on at least two models with labels."""
    known = evidence(material, base, steps, seed)
    parts = [found for part in PARTS if (found := part(known)) is not None]
    first = next(iter(known.runs.values()))
    numbers = {
        "population": known.population,
        "selection_examples": len(known.halves[0]),
        "test_examples": len(known.halves[1]),
    }
    for part in parts:
        numbers |= part.numbers
    return Document(
        title=f"{len(known.runs)} models on {first.dataset or 'these examples'}: who errs differently, and what to combine",
        subtitle=f"{len(first.classes)} classes, {known.population}. Models, pairs and ensembles that are singled out were "
        f"chosen on {len(known.halves[0]):,} of the examples and are reported on {len(known.halves[1]):,} others: the test "
        "examples.",
        findings=[replace(finding, section=part.section.id) for part in parts for finding in part.findings],
        sections=[part.section for part in parts],
        provenance=_provenance(known),
        numbers=numbers,
        evidence=known,
    )


def _provenance(known: Evidence) -> dict[str, str]:
    settings = {"base": known.base, "steps": known.steps, "seed": known.seed}
    first = next(iter(known.runs.values()))
    packages = ("model-zoo-diversity", "torch", "timm", "numpy", "scikit-learn")
    return {
        **{key: str(value) for key, value in settings.items() if value is not None},
        "dataset": f"{first.dataset or 'unnamed'}, {known.population}, {len(first.classes)} classes",
        **{f"outputs of {outputs.name}": _fingerprint(outputs) for outputs in known.runs.values()},
        "versions": ", ".join(f"{name} {version(name)}" for name in packages),
        "machine": f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    }


def _fingerprint(outputs: Outputs) -> str:
    keys = ("weights", "transform", "precision", "dataset_fingerprint", "fingerprint", "key")
    parts = [f"{key} {str(outputs.details[key])[:16]}" for key in keys if key in outputs.details]
    return ", ".join(parts) or "imported, no fingerprint"
