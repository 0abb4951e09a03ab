"""Which of M models differ significantly in accuracy: McNemar's test of every pair, with Holm's correction.

All models classify the same examples, so their accuracies are paired. Two accuracies differ only in the examples that
exactly one of the models classifies correctly: b by the first, c by the second. McNemar's exact test asks whether such an
example is equally likely to be one of the b and one of the c. M models make M (M - 1) / 2 tests, so Holm's method adjusts
the p-values: the probability that any pair is called different by chance stays below 1 - level.

The confidence interval of a difference in accuracy (b - c) / N follows Bonett & Price (2012), who add one example to b and
one to c:

    d ± z sqrt((b' + c' - d²) / (N + 2)),      b' = (b + 1) / (N + 2),   c' = (c + 1) / (N + 2),   d = b' - c'.

It is also valid for small N, where the usual normal approximation is not. Each interval is for one pair, without
correction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from diversity.bootstrap import LEVEL, check_level
from diversity.intervals import wilson
from diversity.pairs import Pairwise, pairwise
from diversity.tables import ErrorTable, on_host
from zoo.core.arrays import Array
from zoo.core.statistics import holm
from zoo.core.units import MISSING, interval, percent
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

Test = Literal["exact", "mid-p"]


@dataclass(frozen=True, eq=False)
class Significance:
    """Differences in accuracy of all pairs of M models. Models are sorted by accuracy, best first.

    Entry [i, j] of a matrix is about model i (first) and model j (second); the diagonals hold 0 and p-values of 1.
    """

    models: tuple[str, ...]
    examples: int
    accuracy: np.ndarray  # [M]
    accuracy_interval: tuple[np.ndarray, np.ndarray]  # [M] ends of Wilson intervals
    only_first: np.ndarray  # [M, M] number of examples that only the first model classifies correctly
    difference: np.ndarray  # [M, M] accuracy of the first minus that of the second
    difference_interval: tuple[np.ndarray, np.ndarray]  # [M, M] ends of paired intervals
    p: np.ndarray  # [M, M] p-values of McNemar's test
    p_holm: np.ndarray  # [M, M] p-values adjusted for all pairs
    letters: tuple[str, ...]  # [M] two models without a common letter differ significantly
    level: float
    test: Test

    @property
    def significant(self) -> np.ndarray:
        """[M, M] whether two accuracies differ significantly."""
        return _is_significant(self.p_holm, self.level)

    @property
    def indistinguishable_from_best(self) -> tuple[str, ...]:
        """The most accurate model, and the models whose accuracy does not differ significantly from its accuracy."""
        return tuple(name for name, differs in zip(self.models, self.significant[0], strict=True) if not differs)

    def to_frame(self) -> "pandas.DataFrame":
        """Return one row per pair, with the more accurate model first.

        Columns: `first`, `second`, `difference` (in accuracy) with the ends of its interval (`low`, `high`), `only_first`
        and `only_second` (number of examples that only this model classifies correctly), `p`, `p_holm` and `significant`.
        """
        import pandas

        i, j = np.triu_indices(len(self.models), 1)
        names = np.array(self.models, object)
        columns = {
            "first": names[i],
            "second": names[j],
            "difference": self.difference[i, j],
            "low": self.difference_interval[0][i, j],
            "high": self.difference_interval[1][i, j],
            "only_first": self.only_first[i, j],
            "only_second": self.only_first[j, i],
            "p": self.p[i, j],
            "p_holm": self.p_holm[i, j],
            "significant": self.significant[i, j],
        }
        return pandas.DataFrame(columns)

    def by_model(self) -> "pandas.DataFrame":
        """Return one row per model, best first.

        Columns: `model`, `accuracy` with its interval (`accuracy_low`, `accuracy_high`), `below_best` (the best model's
        accuracy minus this model's) with its interval (`below_best_low`, `below_best_high`), `p_holm` (of the test against
        the best model) and `letters`.
        """
        import pandas

        (low, high), (nearest, furthest) = self.accuracy_interval, self.difference_interval
        return pandas.DataFrame(
            {
                "model": list(self.models),
                "accuracy": self.accuracy,
                "accuracy_low": low,
                "accuracy_high": high,
                "below_best": self.difference[0],
                "below_best_low": nearest[0],
                "below_best_high": furthest[0],
                "p_holm": self.p_holm[0],
                "letters": list(self.letters),
            }
        )

    def __str__(self) -> str:
        frame = self.by_model()
        ends = zip(frame["below_best_low"], frame["below_best_high"], strict=True)
        shown = frame[["model"]].assign(
            accuracy=[percent(accuracy) for accuracy in self.accuracy],
            below_best=[MISSING, *(f"{100 * gap:.1f}" for gap in self.difference[0, 1:])],
            interval=[MISSING, *[interval(one, None) for one in ends][1:]],
            p_holm=[MISSING, *(f"{p:.2g}" if p >= 1e-9 else "<1e-9" for p in self.p_holm[0, 1:])],
            letters=list(self.letters),
        )
        shown = shown.rename(
            columns={"below_best": "below best", "interval": f"{100 * self.level:g}% CI", "p_holm": "p (Holm)"}
        )
        best, *others = self.indistinguishable_from_best
        if others:
            number = f"{len(others)} other {'model' if len(others) == 1 else 'models'}"
            finding = f"The accuracy of {best} does not differ significantly from that of {number}"
        else:
            finding = f"{best} is significantly more accurate than every other model"
        pairs = len(self.models) * (len(self.models) - 1) // 2
        family = f"McNemar's {self.test} test, Holm's correction for {pairs:,} pairs, {self.examples:,} examples"
        return f"{shown.to_string(index=False)}\n{finding} ({family})."


def significance(
    runs: Runs | Mapping[str, Outputs] | Pairwise | ArrayLike | Array | Sequence[ArrayLike | Array],
    labels: ArrayLike | Array | None = None,
    names: Sequence[str] | None = None,
    level: float = LEVEL,
    test: Test = "exact",
) -> Significance:
    """Test every pair of models for a difference in accuracy.

    Args:
        runs: outputs of at least two models, predicted classes [M, N], or the result of `pairwise`.
        labels: [N] true classes; default: the labels of the runs.
        names: [M] the models' names; default: the names of the runs, or numbers.
        level: confidence level of the intervals. A difference is significant if its adjusted p-value is below 1 - level.
        test: `exact` is McNemar's exact test. `mid-p` counts half the probability of the observed table: it is less
            conservative for few inconsistent examples, and may exceed the level slightly.

    >>> y = np.zeros(100, int)
    >>> predictions = np.zeros((3, 100), int)
    >>> predictions[1, :30], predictions[2, :32] = 1, 1
    >>> result = significance(predictions, y, ["a", "b", "c"])
    >>> result.letters, result.indistinguishable_from_best
    (('a', 'b', 'b'), ('a',))
    >>> [round(float(end[0, 1]), 3) for end in result.difference_interval]
    [0.202, 0.387]
    """
    check_level(level)
    if test not in get_args(Test):
        raise InputError(argument="test", expected=" or ".join(get_args(Test)), found=test)
    if isinstance(runs, Pairwise):
        if labels is not None or names is not None:
            given = "labels" if labels is not None else "names"
            raise InputError("the result of pairwise already has its labels and names", argument=given)
        pairs = runs
    else:
        pairs = pairwise(runs, labels, names)
    models = len(pairs.names)
    if models < 2:
        raise InputError(argument="runs", expected="outputs of at least two models", found=models)
    cells = on_host(pairs.cells)
    order = np.argsort(-on_host(pairs.accuracy), kind="stable")
    table = ErrorTable(cells[np.ix_(order, order)].astype(np.float64))
    examples = int(table.examples[0, 0])
    i, j = np.triu_indices(models, 1)
    p, p_holm = np.ones((models, models)), np.ones((models, models))
    p[i, j] = _p_values(table.only_first[i, j], table.only_second[i, j], test)
    p_holm[i, j] = holm(p[i, j])
    p[j, i], p_holm[j, i] = p[i, j], p_holm[i, j]
    accuracy = table.accuracy_first[:, 0]
    return Significance(
        models=tuple(pairs.names[m] for m in order),
        examples=examples,
        accuracy=accuracy,
        accuracy_interval=wilson(accuracy, examples, level),
        only_first=table.only_first.astype(np.int64),
        difference=(table.only_first - table.only_second) / examples,
        difference_interval=paired_interval(table.only_first, table.only_second, examples, level),
        p=p,
        p_holm=p_holm,
        letters=letter_groups(~_is_significant(p_holm, level)),
        level=level,
        test=test,
    )


def paired_interval(
    only_first: ArrayLike, only_second: ArrayLike, examples: ArrayLike, level: float = LEVEL
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Bonett & Price's interval for the difference of two paired accuracies.

    Args:
        only_first: [...] number of examples that only the first model classifies correctly.
        only_second: [...] number of examples that only the second model classifies correctly.
        examples: [...] number of all examples.
        level: confidence level.

    >>> [round(float(end), 4) for end in paired_interval(1, 7, 21)]
    [-0.5084, -0.0134]
    """
    from scipy.special import ndtri

    check_level(level)
    b, c, n = (np.asarray(count, np.float64) for count in (only_first, only_second, examples))
    first, second = (b + 1) / (n + 2), (c + 1) / (n + 2)
    middle = first - second
    half = ndtri((1 + level) / 2) * np.sqrt((first + second - middle**2) / (n + 2))
    return np.maximum(middle - half, -1), np.minimum(middle + half, 1)


def letter_groups(alike: np.ndarray) -> tuple[str, ...]:
    """Return a compact letter display: two items have a letter in common exactly if they are alike.

    A letter stands for a set of items that are all alike. Maximal sets are found greedily, starting from the first items. A
    set is dropped if each of its pairs has another letter in common. (Finding the smallest number of letters is NP-hard.)
    After z come A to Z, then a1, b1, ...

    Args:
        alike: [M, M] symmetric, whether two items do not differ significantly; the diagonal is ignored.

    >>> letter_groups(np.array([[True, True, False], [True, True, True], [False, True, True]]))
    ('a', 'ab', 'b')
    """
    alike = np.array(alike, bool)
    np.fill_diagonal(alike, True)
    count = len(alike)
    uncovered = np.triu(alike)
    groups: list[np.ndarray] = []  # [M] booleans, one array per letter
    while uncovered.any():
        first, second = divmod(int(uncovered.argmax()), count)
        items = list({first, second})
        candidates = alike[first] & alike[second]
        while True:
            candidates[items] = False
            if not candidates.any():
                break
            # Prefer an item with an uncovered pair among `items`, so that a letter covers many new pairs.
            preferred = (uncovered[items] | uncovered.T[items]).any(0) & candidates
            item = int((preferred if preferred.any() else candidates).argmax())
            items.append(item)
            candidates &= alike[item]
        group = np.isin(np.arange(count), items)
        uncovered &= ~np.outer(group, group)
        groups.append(group)
    letters_in_common = np.sum([np.outer(group, group) for group in groups], 0, dtype=int)
    needed = []
    for group in groups[::-1]:
        if (letters_in_common[np.ix_(group, group)] > 1).all():
            letters_in_common -= np.outer(group, group)
        else:
            needed.append(group)
    needed.sort(key=lambda group: np.flatnonzero(group).tolist())
    return tuple("".join(_letter(k) for k, group in enumerate(needed) if group[item]) for item in range(count))


def _letter(number: int) -> str:
    lap, place = divmod(number, len(ascii_letters))
    return ascii_letters[place] + (str(lap) if lap else "")


def _p_values(only_first: np.ndarray, only_second: np.ndarray, test: Test) -> np.ndarray:
    cells = np.stack([0 * only_first, only_first, only_second, 0 * only_first, 0 * only_first], -1)
    p: np.ndarray = ErrorTable(cells).mcnemar
    if test == "exact":
        return p
    from scipy.stats import binom

    observed = binom.pmf(only_first, only_first + only_second, 0.5)
    # `p` contains the equally likely tables (b, c) and (c, b), and each counts half. For b = c they are the same table.
    return np.where(only_first == only_second, 1 - observed / 2, p - observed)


def _is_significant(p_holm: np.ndarray, level: float) -> np.ndarray:
    return p_holm < round(1 - level, 12)
