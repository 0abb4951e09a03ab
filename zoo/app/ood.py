"""`zoo ood`: can models tell examples of another dataset from those they know?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.options import (
    NUMBERS,
    TABLE,
    TRUST,
    Common,
    Ensemble,
    Fresh,
    ModelFiles,
    Models,
    Results,
    Seed,
    command,
    spec_option,
)
from zoo.app.terminal import note, print_table
from zoo.app.trust import ENSEMBLE, RESAMPLES, check_ensemble
from zoo.core.units import estimate
from zoo.errors import InputError, ZooError

if TYPE_CHECKING:
    import numpy as np

    from zoo.outputs.outputs import Outputs, Runs

NEIGHBOUR = 50  # the distance to this nearest training example is the kNN score
LEVEL_TOLERANCE = 0.01  # logits whose maximum or energy varies less than this have no level; float16 rounds within it


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("ood", rich_help_panel=TRUST)(command(ood))


def ood(
    *,
    models: Models,
    inside: Annotated[str, spec_option("--in", "Dataset like the models' training data.")],
    outside: Annotated[list[str], spec_option("--out", "Out-of-distribution dataset. May be repeated.")],
    train: Annotated[
        str | None,
        spec_option("--train", "Training data, for the scores by embeddings: Mahalanobis distance and nearest neighbours."),
    ] = None,
    ensemble: Ensemble = False,
    common: Common = False,
    fresh: Fresh = False,
    seed: Seed = 0,
    model_files: ModelFiles,
    results: Results,
) -> None:
    """Detect out-of-distribution examples: how well does each score separate --out from --in?

    AUROC and AUPR: 100% is perfect. FPR@95: the fraction of --out that is accepted if 95% of --in are.

    [dim]zoo ood 'resnet8-*' --in digits:test --out digits-holes:test[/dim]

    [dim]zoo ood r7x2.cifar10 --in cifar10:test --out fashion-mnist:test --train cifar10:train -o ood.csv[/dim]
    """
    import pandas as pd

    results.check(TABLE, NUMBERS)
    names = model_files.named(models)

    def outputs_on(data: str, argument: str) -> "Runs":
        runs = run_on(names, data, argument, fresh=fresh, embeddings=None if train is None else True)
        return runs.common() if common else runs

    known = None if train is None else outputs_on(train, "train")
    before = outputs_on(inside, "inside")
    check_ensemble(before, ensemble)
    rows = []
    for spec in dict.fromkeys(outside):
        after = outputs_on(spec, "outside")
        rows += [{"out": spec} | row for row in detections(before, after, known, ensemble, seed)]

    value = {"in": inside, "train": train, "results": rows}
    results.deliver(value, lambda: _print(rows, inside), table=pd.DataFrame(rows))


def run_on(names: list[str], data: str, argument: str, **options: Any) -> "Runs":
    """Return the outputs on a dataset. An error about `data` becomes one about the parameter that named the dataset."""
    from zoo.runs.runner import run

    try:
        return run(names, data=data, **options)
    except ZooError as error:
        if error.argument == "data" or getattr(error, "kind", None) == "dataset":
            error.argument = argument
        error.hint = error.hint and error.hint.replace("{data", f"{{{argument}")
        raise


def _print(rows: list[dict[str, Any]], inside: str) -> None:
    """Print a table per dataset, and per score if there are several models, so that models can be compared."""
    titles = {"auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR@95"}
    several = len({row["model"] for row in rows}) > 1
    row_key, table_key = ("model", "score") if several else ("score", "model")
    tables: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        cells = {title: estimate(row[key], (row[f"{key}_low"], row[f"{key}_high"])) for key, title in titles.items()}
        tables.setdefault((row["out"], row[table_key]), []).append({row_key: row[row_key]} | cells)
    for number, ((spec, name), part) in enumerate(tables.items()):
        if number:
            print()
        print_table(part, title=f"{inside} against {spec}, {name} (95% CI)", formats=dict.fromkeys(titles.values(), str))


def check_apart(runs: "Runs", others: "Runs", argument: str) -> None:
    """Raise an error if two datasets share examples; the option `argument` named the dataset at fault."""
    first, second = (next(iter(one.values())) for one in (runs, others))
    if first.dataset is None or second.dataset is None:
        return
    same = first.dataset.partition("[")[0] == second.dataset.partition("[")[0]  # without the slices
    shared = set(first.ids.tolist()) & set(second.ids.tolist()) if same else set()
    if shared:
        raise InputError(
            f"{len(shared):,} examples are in {first.dataset} and in {second.dataset}, first {min(shared)!r}",
            argument=argument,
            hint="Choose datasets without common examples",
        )


def detections(
    before: "Runs", after: "Runs", known: "Runs | None" = None, ensemble: bool = False, seed: int = 0
) -> "Iterator[dict[str, Any]]":
    """Yield one row per model and score: how well the score separates `after` from `before`, with intervals.

    Args:
        before: outputs on examples like the training data.
        after: outputs on out-of-distribution examples.
        known: outputs with embeddings on the training data.
        ensemble: whether to add rows for the ensemble of all models.
        seed: of the resamples.
    """
    from zoo.calibration.ood import detection

    check_apart(before, after, "outside")
    if known is not None:
        check_apart(known, before, "train")
        check_apart(known, after, "train")
    for model, score, scores, other_scores in _scores(before, after, known, ensemble):
        found = detection(scores, other_scores, RESAMPLES, seed)
        row: dict[str, Any] = {"model": model, "score": score, "examples": len(scores), "out_examples": len(other_scores)}
        for measure, (low, high) in found.intervals.items():
            row |= {measure: getattr(found, measure), f"{measure}_low": low, f"{measure}_high": high}
        yield row


def _scores(
    before: "Runs", after: "Runs", known: "Runs | None", ensemble: bool
) -> "Iterator[tuple[str, str, np.ndarray, np.ndarray]]":
    """Yield model, score, and the values of the score on in- and out-of-distribution examples."""
    both = [name for name in before if name in after and (known is None or name in known)]
    if not both:
        raise InputError("no model has outputs on all datasets")
    shifted = [name for name in both if _is_shifted(before[name]) or _is_shifted(after[name])]
    if shifted:
        note(f"no energy for {', '.join(shifted)}: the logits have no level of their own")
    for name in both:
        _check_comparable(before[name], after[name])
        inner = _of_model(before[name], None if known is None else known[name])
        outer = _of_model(after[name], None if known is None else known[name])
        for score, values in inner.items():
            if score in outer:
                yield name, score, values, outer[score]
    if ensemble and len(both) > 1:
        inner, outer = (_of_ensemble(runs.subset(both)) for runs in (before, after))
        for score, values in inner.items():
            yield ENSEMBLE, score, values, outer[score]


def _check_comparable(before: "Outputs", after: "Outputs") -> None:
    """Raise an error unless both outputs of a model have probabilities of equally many classes."""
    for outputs in (before, after):
        if outputs.kind not in ("logits", "probabilities"):
            where, dataset = outputs.name, outputs.dataset or "its examples"
            raise InputError(where=where, expected=f"logits or probabilities on {dataset}", found=outputs.kind)
    if len(before.classes) != len(after.classes):
        raise InputError(
            f"has outputs for {len(before.classes)} classes on {before.dataset} and for {len(after.classes)} on "
            f"{after.dataset}: their confidences cannot be compared",
            where=before.name,
        )


def _of_model(outputs: "Outputs", known: "Outputs | None") -> "dict[str, np.ndarray]":
    """Return each score [N] that the outputs allow; larger means more familiar."""
    from zoo.calibration.ood import ClassGaussians, energy_score, knn_score
    from zoo.calibration.selective import certainty

    scores = {score: certainty(outputs.probabilities, score) for score in ("confidence", "entropy")}
    if outputs.kind == "logits" and outputs.link == "softmax" and not _is_shifted(outputs):
        scores["energy"] = energy_score(outputs.logits)
    if known is not None:
        training, embeddings = known.require_embeddings().array(), outputs.require_embeddings().array()
        scores["nearest"] = knn_score(embeddings, training, min(NEIGHBOUR, len(known)))
        if known.labels is not None:
            scores["Mahalanobis"] = ClassGaussians.fit(training, known.labels).score(embeddings)
    return scores


def _is_shifted(outputs: "Outputs") -> bool:
    """Return whether logits have no level, which energy needs.

    Bundles may store them minus their maximum, and those of a saved ensemble are the logarithm of probabilities: these have
    the same maximum, or the same energy, on every example.
    """
    import numpy as np

    from zoo.calibration.ood import energy_score
    from zoo.core import arrays

    if outputs.kind != "logits" or outputs.link != "softmax":
        return False  # there is no energy anyway
    if outputs.card is not None and outputs.card.members:
        return True
    levels = arrays.to_numpy(outputs.logits).max(1), energy_score(outputs.logits)
    return len(outputs) > 1 and any(np.ptp(level) <= LEVEL_TOLERANCE for level in levels)


def _of_ensemble(runs: "Runs") -> "dict[str, np.ndarray]":
    from ensembles import average
    from zoo.calibration.selective import certainty

    runs = runs.aligned()
    mean = average(runs)
    members = (outputs.probabilities for outputs in runs.values())
    return {
        "confidence": certainty(mean, "confidence"),
        "entropy": certainty(mean, "entropy"),
        "disagreement": certainty(mean, "disagreement", members),
    }
