"""How many labels are wrong, from labels that people have checked.

Models alone cannot tell: labels that are wrong at random on easy examples stand out, but on hard examples a wrong label
looks like a mistake of the models. A simple random sample of n checked labels suffices. If D of N labels are wrong, the
number of wrong labels among the checked ones is hypergeometric. The confidence interval consists of every D that neither
tail of this distribution rejects (Clopper & Pearson, for a finite population). Its coverage is at least its confidence
level.
"""

import warnings
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diversity._checks import whole_number
from diversity.bootstrap import LEVEL, check_level
from zoo.cards.selection import suggest
from zoo.core import arrays
from zoo.core.backend import is_tensor
from zoo.errors import InputError, UnknownName, ZooWarning

# If the mean rank of the checked examples is more standard errors than this from the mean rank of all examples, they are not
# a random sample: one of 16,000 random samples exceeds it.
MAX_RANK_DEVIATION = 4.0
ANSWERS = {"yes": True, "true": True, "no": False, "false": False}  # whether a label is correct


@dataclass(frozen=True)
class WrongLabels:
    """Estimated number of wrong labels among all examples, from a simple random sample of checked ones."""

    examples: int  # all
    checked: int
    wrong: int  # of the checked labels
    interval: tuple[int, int]  # ends of the exact interval of the number among all examples
    level: float

    @property
    def estimate(self) -> float:
        """Estimated number of wrong labels among all examples."""
        return self.wrong / self.checked * self.examples

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"about {self.estimate:,.0f} labels are wrong ({100 * self.level:g}% CI {low:,} to {high:,}; "
            f"{self.wrong:,} of {self.checked:,} checked labels)"
        )


def count_wrong_labels(wrong: int, checked: int, examples: int, level: float = LEVEL) -> WrongLabels:
    """Return the estimated number of wrong labels with its exact confidence interval.

    Args:
        wrong: number of wrong labels among the checked ones.
        checked: number of checked labels, a simple random sample.
        examples: number of all labels.
        level: confidence level.

    >>> count_wrong_labels(2, 400, 10_000).interval
    (7, 176)
    """
    from scipy.stats import hypergeom

    check_level(level)
    whole_number(examples, "examples")
    if whole_number(checked, "checked") > examples:
        raise InputError(argument="checked", expected=f"at most the number of examples, {examples}", found=checked)
    if whole_number(wrong, "wrong", minimum=0) > checked:
        raise InputError(argument="wrong", expected=f"at most the number of checked labels, {checked}", found=wrong)
    tail = (1 - level) / 2 * (1 - 1e-9)  # a probability that equals the tail does not reject, whatever its rounding
    possible = range(wrong, examples - checked + wrong + 1)
    # P(at least `wrong`) rises with the number of wrong labels among all, P(at most `wrong`) falls.
    low = bisect_left(possible, True, key=lambda total: hypergeom.sf(wrong - 1, examples, total, checked) >= tail)
    high = bisect_left(possible, True, key=lambda total: hypergeom.cdf(wrong, examples, total, checked) < tail)
    return WrongLabels(examples, checked, wrong, (possible[low], possible[high - 1]), level)


def read_checked(checked: Any, ids: Sequence[str], labels: np.ndarray, classes: Sequence[str]) -> dict[int, bool]:
    """Return whether the label is wrong for each checked example, by row.

    Args:
        checked: [N] in the order of `ids`, or a mapping from ids. An entry is the correct class (its name or its number), or
            a boolean, yes or no: whether the label is correct. None, NaN, an empty text or -1 stand for a label that was not
            checked.
        ids: [N] the examples.
        labels: [N] the labels, as class numbers.
        classes: [K] class names.
    """
    if isinstance(checked, Mapping):
        row_of = {row_id: row for row, row_id in enumerate(ids)}
        entries = {}
        for key, value in checked.items():
            if str(key) not in row_of:
                raise InputError(f"{str(key)!r} is not the id of an example", argument="checked")
            entries[row_of[str(key)]] = value
    else:
        values = arrays.to_numpy(checked) if is_tensor(checked) else checked
        values = values if isinstance(values, np.ndarray) else np.asarray(values, object)
        if values.shape != (len(ids),):
            expected = f"{len(ids)} entries, one per example, or a mapping from ids"
            raise InputError(argument="checked", expected=expected, found=list(values.shape))
        entries = dict(enumerate(values.tolist()))
    number_of = {name: number for number, name in enumerate(classes)}
    found = {}
    for row, value in entries.items():
        if not _is_missing(value):
            found[row] = _is_wrong(value, labels[row], number_of, ids[row])
    if not found:
        raise InputError(argument="checked", expected="at least one checked label", found=0)
    return found


def warn_unless_random(rows: Sequence[int], scores: np.ndarray) -> None:
    """Warn if the checked rows have higher or lower scores [N] than a simple random sample would have."""
    from scipy.stats import rankdata

    examples, checked = len(scores), len(rows)
    ranks = rankdata(scores)
    spread = np.sqrt(ranks.var(ddof=1) * (examples - checked) / (examples * checked)) if checked < examples else 0.0
    deviation = ranks[list(rows)].mean() - ranks.mean()
    if spread and abs(deviation) > MAX_RANK_DEVIATION * spread:
        which = "more" if deviation > 0 else "less"
        warnings.warn(
            f"the {checked:,} checked labels are {which} suspicious than a random sample would be, so the estimated number "
            "of wrong labels is not valid; draw the examples to check with Triage.sample",
            ZooWarning,
            stacklevel=4,
        )


def _is_missing(value: Any) -> bool:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))
    return value is None or value == "" or value != value or (is_number and value == -1)


def _is_wrong(value: Any, label: int, number_of: Mapping[str, int], row_id: str) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return not value
    if isinstance(value, str):
        if value in number_of:  # a class may be called yes or no
            return number_of[value] != label
        if value.lower() in ANSWERS:
            return not ANSWERS[value.lower()]
        raise UnknownName(
            kind="class", name=value, argument="checked", where=f"example {row_id!r}", suggestions=suggest(value, number_of)
        )
    if isinstance(value, (int, float, np.number)) and 0 <= value < len(number_of) and value == int(value):
        return int(value) != label
    expected = f"a class name, a class number below {len(number_of)}, or a boolean"
    raise InputError(argument="checked", where=f"example {row_id!r}", expected=expected, found=value)
