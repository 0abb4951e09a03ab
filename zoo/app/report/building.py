"""From several models' outputs to a report: calibrate, measure, and put what was found into words."""

import platform
from importlib.metadata import version
from typing import Any

from zoo import calibration
from zoo.app.report.document import Document, Finding, Section
from zoo.app.report.material import Material
from zoo.app.report.mistakes import mistakes
from zoo.app.report.overview import overview
from zoo.app.report.specialists import specialists
from zoo.app.report.together import together
from zoo.errors import InputError
from zoo.outputs import Outputs, Runs


def build(material: Material, base: str | None = None, steps: int = 10, seed: int = 0) -> Document:
    """The report on at least two models with labels."""
    runs = material.runs.aligned()
    if len(runs) < 2:
        raise InputError(f"a report compares models: expected at least two, found {len(runs)}")
    uncalibrated = any(outputs.temperature is None for outputs in runs.values())
    if uncalibrated and all(outputs.kind != "predictions" for outputs in runs.values()):
        runs = calibration.calibrate(runs, material.calibration, seed)
    scored = all(outputs.kind != "predictions" for outputs in runs.values())
    sections, models = overview(runs)
    error_section, error_findings, numbers = mistakes(runs)
    sections.insert(1, error_section)
    findings = list(error_findings)
    numbers["models"] = models
    if scored:
        special, pair = specialists(runs, numbers["pair"], material.images)
        ensemble, finding, path = together(runs, base, steps, seed)
        sections[2:2] = [special, ensemble]
        findings.insert(0, finding)
        numbers |= pair | path
    if material.features is not None:
        from zoo.app.report.features import features

        feature_sections, feature_findings, found = features(runs, material.features, numbers["pair"], seed)
        sections += feature_sections
        findings += feature_findings
        numbers |= found
    return _document(runs, sections, findings, numbers, {"base": base, "steps": steps, "seed": seed})


def _document(
    runs: Runs, sections: list[Section], findings: list[Finding], numbers: dict[str, Any], settings: dict[str, Any]
) -> Document:
    first = next(iter(runs.values()))
    best = max(runs.values(), key=lambda outputs: outputs.accuracy)
    provenance = {key: str(value) for key, value in settings.items() if value is not None}
    provenance["dataset"] = f"{first.dataset or 'unnamed'}, {len(first)} examples, {len(first.classes)} classes"
    provenance |= {f"outputs of {outputs.name}": _fingerprint(outputs) for outputs in runs.values()}
    packages = ("model-zoo-diversity", "torch", "timm", "numpy", "scikit-learn")
    provenance["versions"] = ", ".join(f"{name} {version(name)}" for name in packages)
    provenance["machine"] = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    headline = Finding(f"{best.accuracy:.1%}", f"is the best single model, {best.name}, of {len(runs)}.")
    title = f"{len(runs)} models on {first.dataset or 'these examples'}: who errs differently, and what to combine"
    subtitle = f"{len(first):,} examples of {len(first.classes)} classes, on none of which a temperature was fitted."
    return Document(title, subtitle, [headline, *findings], sections, provenance, numbers)


def _fingerprint(outputs: Outputs) -> str:
    keys = ("weights", "transform", "precision", "dataset_fingerprint", "fingerprint", "key")
    parts = [f"{key} {str(outputs.details[key])[:16]}" for key in keys if key in outputs.details]
    return ", ".join(parts) or "imported, no fingerprint"
