"""How objectives differ in their predictions: Tables C.2 and C.3 and Figures C.4 to C.7 of Kornblith et al. 2021."""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

import diversity
import probes
from diversity.charts import matrix_chart
from ensembles.objective_groups import ensemble_agreement
from probes.distribution_shift import SETS
from zoo import calibration
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import CARDS, OBJECTIVES, SEEDS, models
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, by_row
from zoo.app.figures.study import Study
from zoo.cards.published import HOLDOUT
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Outputs, Runs

COLUMNS = {"nll": "nll_before", "ece": "ece_before", "nll-calibrated": "nll_after", "ece-calibrated": "ece_after"}
HELD_OUT = f"MODELS --data in1k after zoo train resnet50-cosine.in1k --set holdout={HOLDOUT} --name NAME"


@figure("loss/table-C.2", "Robustness", [OBJECTIVES], f"{DIGITS} -O sets=digits-holes", IMAGENET)
def robustness(study: Study, *, sets: tuple[str, ...] = SETS) -> Result:
    """Accuracy on shifted data in percent, and for ImageNet-C the mean corruption error. Missing datasets are listed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # the notes list missing datasets
        frame = probes.robustness(list(study.names), sets, run=study.outputs)
    if frame.isna().all(axis=None):
        reason = next(iter(frame.attrs["missing"].values()))
        raise InputError(f"no dataset is available: {reason}", argument="sets", hint="{sets=SPEC,SPEC} names others")
    long = (100 * frame).reset_index().melt("model", var_name="column").dropna()
    notes = [f"{name} is missing: {reason}" for name, reason in frame.attrs["missing"].items()]
    return by_row(study, long.itertuples(index=False, name=None), papers.loss_table("C.2"), ["in-c-mce"], notes=notes)


@figure("loss/table-C.3", "Calibration", [OBJECTIVES], DIGITS, HELD_OUT)
def calibration_table(study: Study) -> Result:
    """NLL and ECE before and after temperature scaling, on examples that did not fit the temperature.

    Models that were trained with a holdout have their temperatures fitted on it, as in the paper.
    """
    holdouts = {name: study.holdout_spec(name) for name in study.names}
    if study.temperatures_from is None and all(holdouts.values()):
        parts, note = _on_own_holdouts(study, {name: str(spec) for name, spec in holdouts.items()})
    else:
        parts, note = [study.calibrated], study.calibrated.population
    fits = [row for part in parts for row in part.to_frame().to_dict("records")]
    values = [(row["model"], column, row[field]) for row in fits for column, field in COLUMNS.items()]
    return by_row(study, values, papers.loss_table("C.3"), COLUMNS, notes=[note])


def _on_own_holdouts(study: Study, holdouts: dict[str, str]) -> tuple[list[calibration.CalibratedRuns], str]:
    """Return runs calibrated on the images that each model was not trained on; these differ between seeds."""
    parts = []
    for spec in dict.fromkeys(holdouts.values()):
        names = [name for name, holdout in holdouts.items() if holdout == spec]
        parts.append(calibration.calibrate(study.runs.subset(names), study.outputs(names, data=spec), study.seed))
    specs = ", ".join(dict.fromkeys(holdouts.values()))
    return parts, f"{len(study.runs.labels):,} examples; temperatures are fitted on each model's holdout ({specs})"


@figure("loss/C.4", "Agreement of wrong predictions", [models(3)], DIGITS, IMAGENET)
def wrong_agreement(study: Study) -> Result:
    """Fraction of examples with the same predicted class, of those that both models classify wrongly; with a dendrogram."""
    return _agreements(study, ["wrong_agreement"])


@figure("loss/C.5", "Agreement of predictions, three measures", [models()], DIGITS, IMAGENET)
def agreements(study: Study) -> Result:
    """Same class; both correct or both wrong; same class where both are wrong."""
    return _agreements(study, ["agreement", "error_agreement", "wrong_agreement"])


def _agreements(study: Study, measures: list[str]) -> Result:
    """Return one matrix of all models per measure, and for each pair of objectives the mean over their models.

    The diagonal of a matrix is left empty: it is 1 by definition and would stretch the colour scale.
    """
    table = diversity.pairwise(Runs(study.runs[name] for name in study.rows))
    frame = table.to_frame()
    rows = {"row": frame["first"].map(study.rows), "other": frame["second"].map(study.rows)}
    frame = pd.concat([pd.DataFrame(rows), 100 * frame[measures]], axis=1)
    means = frame.groupby(["row", "other"], sort=False, as_index=False)[measures].mean()
    drawn = []
    for name in measures:
        matrix = table.matrix(name)
        clustered = matrix.notna().all(axis=None) and len(measures) == 1
        tree = diversity.cluster(matrix.to_numpy(), table.names) if clustered else None
        drawn.append(matrix_chart(without_diagonal(matrix), diversity.MEASURES[name].title, tree))
    return Result(means, shapes.side_by_side(*drawn))


def without_diagonal(matrix: pd.DataFrame) -> pd.DataFrame:
    """Return a square matrix with NaN on its diagonal."""
    return matrix.mask(np.eye(len(matrix), dtype=bool))


@figure("loss/C.6", "Agreement of ensembles over seeds", [OBJECTIVES, CARDS], DIGITS, IMAGENET)
def agreement_of_ensembles(study: Study) -> Result:
    """Fraction of examples on which the majority votes of two objectives' seeds agree."""
    votes, tied = {}, []
    for row, names in study.members.items():
        prediction, ties = majority_vote([study.runs[name] for name in names])
        votes[row] = prediction[None]
        tied.append(ties)
    matrix = ensemble_agreement(votes)
    return _matrix(matrix, without_diagonal(matrix), "votes agree", tied)


@figure("loss/C.7", "Ensembles of two objectives", [OBJECTIVES, SEEDS], DIGITS, IMAGENET)
def mixed_ensembles(study: Study) -> Result:
    """Accuracy of the majority vote of as many seeds of one objective as of another.

    All ensembles have the same size. The first half of one objective's seeds votes with the second half of the other's and
    vice versa; the entry is the mean accuracy of both. On the diagonal all seeds of one objective vote.
    """
    half = min(map(len, study.members.values())) // 2
    runs = {row: [study.runs[name] for name in names[: 2 * half]] for row, names in study.members.items()}
    accuracy, tied = np.empty((len(runs), len(runs))), []
    for i, first in enumerate(runs.values()):
        for j, second in enumerate(runs.values()):
            prediction, ties = majority_vote([*first[:half], *second[half:]])
            accuracy[i, j] = (prediction == study.runs.labels).mean()
            tied.append(ties)
    matrix = pd.DataFrame((accuracy + accuracy.T) / 2, index=list(runs), columns=list(runs))
    return _matrix(matrix, matrix, "accuracy of the vote", tied)


def majority_vote(members: Sequence[Outputs]) -> tuple[np.ndarray, float]:
    """Return the class [N] that most members predict, and the fraction of examples whose vote is tied.

    A tie is broken by the mean probability; without probabilities, by the lowest class.
    """
    predictions = np.stack([member.predictions for member in members])
    counts = np.zeros((predictions.shape[1], len(members[0].classes)), np.float32)
    for each in predictions:
        predicted = np.flatnonzero(each >= 0)
        counts[predicted, each[predicted]] += 1
    tied = float(((counts == counts.max(1, keepdims=True)).sum(1) > 1).mean())
    if all(member.kind in ("logits", "probabilities") for member in members):
        for member in members:  # less than half a vote in total
            counts += np.asarray(member.probabilities, np.float32) / (2 * len(members) + 1)
    return counts.argmax(1), tied


def _matrix(matrix: pd.DataFrame, drawn: pd.DataFrame, title: str, tied: Sequence[float]) -> Result:
    table = (100 * matrix).rename_axis("row").reset_index()
    note = f"{min(tied):.1%} to {max(tied):.1%} of an ensemble's votes are tied; the mean probability breaks a tie"
    return Result(table, matrix_chart(drawn, title), (note,) if max(tied) else ())
