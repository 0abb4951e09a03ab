"""Every measure of two models by name: one record that tables, intervals, charts, reports and commands read.

The value itself is the attribute of that name of an ErrorTable, an EnsembleTable or a Comparison.
"""

import math
from dataclasses import dataclass
from typing import Literal

from zoo.cards.names import similar
from zoo.core.units import MISSING
from zoo.errors import UnknownName

Source = Literal["errors", "ensemble", "comparison"]  # attribute of ErrorTable, of EnsembleTable, or of Comparison only
Section = Literal["Errors", "Agreement", "Ensemble", "Specialization"]


@dataclass(frozen=True)
class Measure:
    """Description of a measure of two models."""

    name: str
    title: str
    section: Section
    source: Source
    greater: Literal["more diverse", "less diverse", "better", "worse"] | None  # what a greater value means
    of: str | None = None  # attribute with the denominator of a fraction: it gets Wilson's interval, others the bootstrap
    needs: Literal["predictions", "probabilities", "embeddings"] = "predictions"
    unit: Literal["share", "coefficient", "p-value", "angle"] = "share"
    difference: bool = False  # of two accuracies, shown in percentage points
    chance: float | None = None  # the value for independent errors (CAPA: independent predictions), if that is one number
    has_interval: bool = True
    printed: bool = True  # in the text of a comparison; False if another line implies it
    by_category: bool = False  # averaged over the pairs of a category (Gontijo-Lopes et al. 2021, Figs 1 and 2)

    def text(self, number: float, value: float | None = None) -> str:
        """Return a number as text in the measure's unit.

        Args:
            number: the measure's value, or an end of its confidence interval.
            value: the measure's value, which decides how many decimals its interval has too; default: `number`.

        >>> MEASURES["inconsistency"].text(0.128), MEASURES["kappa"].text(0.3), MEASURES["gain_over_best"].text(0.024)
        ('12.8%', '0.300', '+2.4')
        """
        if math.isnan(number):
            return MISSING
        if self.unit == "p-value":
            return f"{number:.2g}" if number < 1e-3 else f"{number:.3f}"
        if self.unit == "share":
            decimals = 1 if 0.01 <= abs(number if value is None else value) <= 0.99 else 2
            return f"{100 * number:+z.{decimals}f}" if self.difference else f"{100 * number:z.{decimals}f}%"
        return f"{number:z.3f}"


# fmt: off
_TABLE = (
    Measure("accuracy_first", "accuracy of the first", "Errors", "errors", "better", "examples"),
    Measure("accuracy_second", "accuracy of the second", "Errors", "errors", "better", "examples"),
    Measure("mcnemar", "McNemar p-value", "Errors", "errors", None, unit="p-value", has_interval=False),
    Measure("inconsistency", "error inconsistency", "Errors", "errors", "more diverse", "examples", by_category=True),
    Measure("kappa", "error consistency (kappa)", "Errors", "errors", "less diverse", unit="coefficient", chance=0.0),
    Measure("correlation", "correlation of errors", "Errors", "errors", "less diverse", unit="coefficient", chance=0.0),
    Measure("q", "Q statistic", "Errors", "errors", "less diverse", unit="coefficient", chance=0.0),
    Measure("dominance", "second correct if first wrong", "Errors", "errors", "more diverse", "first_wrong"),
    Measure("dominated", "first correct if second wrong", "Errors", "errors", "more diverse", "second_wrong"),
    Measure("double_fault", "both wrong", "Errors", "errors", "less diverse", "examples", printed=False, by_category=True),
    Measure("agreement", "same top-1 class", "Agreement", "errors", "less diverse", "examples"),
    Measure("disagreement", "different top-1 class", "Agreement", "errors", "more diverse", "examples", printed=False),
    Measure("error_agreement", "both correct or both wrong", "Agreement", "errors", "less diverse", "examples"),
    Measure("wrong_agreement", "same class if both wrong", "Agreement", "errors", "less diverse", "both_wrong"),
    Measure("capa", "chance-adjusted (CAPA)", "Agreement", "comparison", "less diverse", unit="coefficient", chance=0.0),
    Measure("cka", "embeddings (linear CKA)", "Agreement", "comparison", "less diverse",
            needs="embeddings", unit="coefficient", has_interval=False),
    Measure("ensemble_accuracy", "accuracy of the ensemble", "Ensemble", "ensemble", "better", "examples",
            needs="probabilities", by_category=True),
    Measure("gain_over_mean", "gain over the mean member", "Ensemble", "ensemble", "better",
            needs="probabilities", difference=True, by_category=True),
    Measure("gain_over_best", "gain over the better member", "Ensemble", "ensemble", "better",
            needs="probabilities", difference=True, by_category=True),
    Measure("conversion_rate", "conversion rate", "Ensemble", "ensemble", "better", "inconsistent",
            needs="probabilities", by_category=True),
    Measure("both_right_lost", "wrong although both correct", "Ensemble", "ensemble", "worse", "both_right",
            needs="probabilities"),
    Measure("both_wrong_gained", "correct although both wrong", "Ensemble", "ensemble", "better", "both_wrong",
            needs="probabilities"),
    Measure("mean_theta", "mean angle (+: first more confident)", "Specialization", "comparison", None,
            needs="probabilities", unit="angle"),
)
# fmt: on
MEASURES = {measure.name: measure for measure in _TABLE}


def names(*sources: Source) -> list[str]:
    """Return the names of the measures of these sources, in the order of the table.

    >>> names("ensemble")[:2]
    ['ensemble_accuracy', 'gain_over_mean']
    """
    return [name for name, measure in MEASURES.items() if measure.source in sources]


def find(name: str, *sources: Source) -> Measure:
    """Return the record of a measure, or raise an error that lists the measures of these sources (default: all)."""
    known = names(*sources) if sources else list(MEASURES)
    if name not in known:
        raise UnknownName(
            f"unknown measure {name!r}; known measures are {', '.join(known)}",
            kind="measure",
            name=name,
            argument="measure",
            suggestions=similar(name, known),
        )
    return MEASURES[name]


def title(name: str) -> str:
    """Return what tables and axes call a measure or any other column."""
    return MEASURES[name].title if name in MEASURES else name.replace("_", " ")
