"""How objectives differ in what they predict: Tables C.2 and C.3 and Figures C.4 to C.7 of Kornblith et al. 2021."""

import warnings

import numpy as np
import pandas as pd

import diversity
import ensembles
import probes
from diversity.charts import matrix_chart
from probes.distribution_shift import SETS
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import CARDS, OBJECTIVES, SEEDS, models
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, by_row
from zoo.app.figures.study import Study
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Runs

CALIBRATION = {"nll": "nll_before", "ece": "ece_before", "nll-calibrated": "nll_after", "ece-calibrated": "ece_after"}


@figure("loss/table-C.2", "Robustness", [OBJECTIVES], f"{DIGITS} -O sets=digits-holes", IMAGENET)
def robustness(study: Study, *, sets: tuple[str, ...] = SETS) -> Result:
    """Accuracy on shifted data in percent, for ImageNet-C the mean corruption error; sets that are not here are named."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # what is missing is said below
        frame = probes.robustness(list(study.names), sets, run=study.outputs)
    if frame.isna().all(axis=None):
        raise InputError(f"loss/table-C.2: {next(iter(frame.attrs['missing'].values()))}; -O sets=SPEC,SPEC names others")
    long = (100 * frame).reset_index().melt("model", var_name="column").dropna()
    notes = [f"{name} is left out: {reason}" for name, reason in frame.attrs["missing"].items()]
    return by_row(study, long.itertuples(index=False, name=None), papers.loss_table("C.2"), ["in-c-mce"], notes=notes)


@figure("loss/table-C.3", "Calibration", [OBJECTIVES], DIGITS, f"{IMAGENET} --split in1k:train[:50046]")
def calibration(study: Study) -> Result:
    """NLL and ECE before and after the temperature, on examples it was not fitted on."""
    found = study.calibrated.to_frame().to_dict("records")
    values = [(row["model"], column, row[field]) for row in found for column, field in CALIBRATION.items()]
    return by_row(study, values, papers.loss_table("C.3"), CALIBRATION, notes=[study.calibrated.population])


@figure("loss/C.4", "Whose wrong answers agree", [models(3)], DIGITS, IMAGENET)
def wrong_agreement(study: Study) -> Result:
    """The share of examples both get wrong on which two models give the same class, and the tree it makes of the models."""
    return _agreements(study, ["wrong_agreement"])


@figure("loss/C.5", "Agreement, three ways", [models()], DIGITS, IMAGENET)
def agreements(study: Study) -> Result:
    """Same class; both right or both wrong; same class where both are wrong."""
    return _agreements(study, ["agreement", "error_agreement", "wrong_agreement"])


def _agreements(study: Study, measures: list[str]) -> Result:
    """A matrix per measure, and a line per pair of rows: the mean over pairs of different models of the two."""
    table = diversity.pairwise(Runs(study.runs[name] for name in study.rows))
    frame = table.to_frame()
    rows = {"row": frame["first"].map(study.rows), "other": frame["second"].map(study.rows)}
    frame = pd.concat([pd.DataFrame(rows), 100 * frame[measures]], axis=1)
    means = frame.groupby(["row", "other"], sort=False, as_index=False)[measures].mean()
    drawn = []
    for name in measures:
        matrix = table.matrix(name)
        known = matrix.notna().all(axis=None) and len(measures) == 1
        tree = diversity.cluster(matrix.to_numpy(), table.names) if known else None
        drawn.append(matrix_chart(matrix, diversity.MEASURES[name].title, tree))
    return Result(means, shapes.side_by_side(*drawn))


@figure("loss/C.6", "Agreement of ensembles over seeds", [OBJECTIVES, CARDS], DIGITS, IMAGENET)
def ensemble_agreement(study: Study) -> Result:
    """The share of examples on which the votes of two objectives' seeds agree."""
    return _matrix(ensembles.ensemble_agreement(_votes(study)), "votes agree")


@figure("loss/C.7", "Ensembles of half one objective, half another", [OBJECTIVES, SEEDS], DIGITS, IMAGENET)
def half_and_half(study: Study) -> Result:
    """The accuracy of the vote of as many models in all."""
    return _matrix(ensembles.half_and_half(_votes(study), study.runs.labels), "accuracy of the vote")


def _votes(study: Study) -> dict[str, np.ndarray]:
    """[seeds, N] predictions by row."""
    return {row: np.stack([study.runs[name].predictions for name in names]) for row, names in study.members.items()}


def _matrix(matrix: pd.DataFrame, title: str) -> Result:
    table = (100 * matrix).rename_axis("row").reset_index()
    return Result(table, matrix_chart(matrix, title))
