"""Every measure of two models by name: one record that tables, intervals, charts, reports and commands read.

The value itself is the attribute of that name, of the object that `source` says.
"""

from dataclasses import dataclass
from typing import Literal

from zoo.errors import InputError

Source = Literal["errors", "ensemble", "comparison"]  # an attribute of ErrorTable, EnsembleTable, or only of Comparison
Section = Literal["Errors", "Agreement", "Ensemble", "Specialization"]


@dataclass(frozen=True)
class Measure:
    """What is to be known of a measure besides its value.

    `of` names the count that a plain share is a share of; its interval is then Wilson's, others are bootstrapped.
    `chance` is the value of models whose errors (for CAPA: whose answers) are independent, where that is one number.
    """

    name: str
    title: str
    section: Section
    source: Source
    greater: Literal["more diverse", "less diverse", "better", "worse"] | None  # what a greater value means
    of: str | None = None
    needs: Literal["predictions", "probabilities", "embeddings"] = "predictions"
    unit: Literal["share", "coefficient", "p-value", "angle"] = "share"
    chance: float | None = None
    has_interval: bool = True
    printed: bool = True  # in the text of a comparison; False for what another line says already
    by_category: bool = False  # averaged over the pairs of a category (Gontijo-Lopes et al. 2021, Figs 1 and 2)


# fmt: off
_TABLE = (
    Measure("accuracy_first", "accuracy, first", "Errors", "errors", "better", "examples"),
    Measure("accuracy_second", "accuracy, second", "Errors", "errors", "better", "examples"),
    Measure("mcnemar", "McNemar p-value", "Errors", "errors", None, unit="p-value", has_interval=False),
    Measure("inconsistency", "error inconsistency", "Errors", "errors", "more diverse", "examples", by_category=True),
    Measure("kappa", "error consistency (kappa)", "Errors", "errors", "less diverse", unit="coefficient", chance=0.0),
    Measure("correlation", "correlation of errors", "Errors", "errors", "less diverse", unit="coefficient", chance=0.0),
    Measure("q", "Q statistic", "Errors", "errors", "less diverse", unit="coefficient", chance=0.0),
    Measure("dominance", "P(second right | first wrong)", "Errors", "errors", "more diverse", "first_wrong"),
    Measure("dominated", "P(first right | second wrong)", "Errors", "errors", "more diverse", "second_wrong"),
    Measure("double_fault", "both wrong", "Errors", "errors", "less diverse", "examples", printed=False, by_category=True),
    Measure("agreement", "same top-1 class", "Agreement", "errors", "less diverse", "examples"),
    Measure("disagreement", "different top-1 class", "Agreement", "errors", "more diverse", "examples", printed=False),
    Measure("error_agreement", "both right or both wrong", "Agreement", "errors", "less diverse", "examples"),
    Measure("wrong_agreement", "same class where both wrong", "Agreement", "errors", "less diverse", "both_wrong"),
    Measure("capa", "chance-adjusted (CAPA)", "Agreement", "comparison", "less diverse", unit="coefficient", chance=0.0),
    Measure("cka", "embeddings (linear CKA)", "Agreement", "comparison", "less diverse",
            needs="embeddings", unit="coefficient", has_interval=False),
    Measure("ensemble_accuracy", "accuracy of the ensemble", "Ensemble", "ensemble", "better", "examples",
            needs="probabilities", by_category=True),
    Measure("gain_over_mean", "gain over the mean member", "Ensemble", "ensemble", "better",
            needs="probabilities", by_category=True),
    Measure("gain_over_best", "gain over the best member", "Ensemble", "ensemble", "better",
            needs="probabilities", by_category=True),
    Measure("conversion_rate", "conversion rate", "Ensemble", "ensemble", "better", "inconsistent",
            needs="probabilities", by_category=True),
    Measure("both_right_lost", "lost where both right", "Ensemble", "ensemble", "worse", "both_right",
            needs="probabilities"),
    Measure("both_wrong_gained", "gained where both wrong", "Ensemble", "ensemble", "better", "both_wrong",
            needs="probabilities"),
    Measure("mean_theta", "mean angle (first surer: > 0)", "Specialization", "comparison", None,
            needs="probabilities", unit="angle"),
)
# fmt: on
MEASURES = {measure.name: measure for measure in _TABLE}


def names(*sources: Source) -> list[str]:
    """The measures of these sources, in the order of the table.

    >>> names("ensemble")[:2]
    ['ensemble_accuracy', 'gain_over_mean']
    """
    return [name for name, measure in MEASURES.items() if measure.source in sources]


def find(name: str, *sources: Source) -> Measure:
    """The record of a measure, if it is one of these sources'; else an error that lists those."""
    known = names(*sources) if sources else list(MEASURES)
    if name not in known:
        raise InputError(f"measure {name!r}: expected one of {', '.join(known)}")
    return MEASURES[name]


def title(name: str) -> str:
    """What tables and axes call a measure, or any other column."""
    return MEASURES[name].title if name in MEASURES else name.replace("_", " ")
