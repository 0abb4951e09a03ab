"""Statistics over seeds as in Kornblith et al. (2021): means, standard errors, and what is as good as the best.

A number is in bold when it does not differ significantly from the best of its column: by a t-test for one dataset, by a
two-way analysis of variance for the average over datasets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zoo.errors import InputError


def mean_and_error(values: Any) -> tuple[float, float]:
    """The mean over seeds and its standard error, s / sqrt(n); the error of a single value is NaN.

    >>> mean_and_error([76.0, 78.0])
    (77.0, 1.0)
    """
    x = _sample(values, "values")
    return float(x.mean()), float(np.sqrt(_variance(x) / len(x)))


def not_worse_than_best(groups: Mapping[str, Any], p: float = 0.05, lower_is_better: bool = False) -> list[str]:
    """The names of the groups whose mean does not differ significantly from the best group's, in the order given.

    `groups` maps a name to its values over seeds, at least two. The test is Welch's two-sided t-test, which lets the
    groups differ in variance, as objectives do; a group is left out when its p-value is below `p`.

    >>> not_worse_than_best({"a": [77.0, 77.2, 77.4], "b": [77.1, 77.2, 77.5], "c": [76.0, 76.1, 76.3]})
    ['a', 'b']
    """
    samples = {name: _sample(values, name, least=2) for name, values in groups.items()}
    best = samples[_best({name: float(x.mean()) for name, x in samples.items()}, p, lower_is_better)]
    return [name for name, x in samples.items() if x is best or _welch(best, x) >= p]


@dataclass(frozen=True)
class Effect:
    """One line of an analysis of variance."""

    sum_of_squares: float
    freedom: int
    f: float
    p: float


@dataclass(frozen=True)
class Anova:
    """A two-way analysis of variance; `interaction` is None where cells have one value, with nothing to tell it by."""

    rows: Effect
    columns: Effect
    interaction: Effect | None
    residual_sum_of_squares: float
    residual_freedom: int


def two_way_anova(table: Any) -> Anova:
    """Objective x dataset: do the rows differ, once the columns' own levels are taken away?

    `table` [A, B, R] has R replicates (seeds) for each of A rows and B columns. With such a balanced design the sums of
    squares are orthogonal: rows, columns, interaction and residual add up to the total. The residual is what is left
    within the cells; with a single replicate it is the interaction.

    >>> effect = two_way_anova([[[3.0, 5.0], [6.0, 8.0]], [[7.0, 9.0], [10.0, 12.0]]]).rows
    >>> effect.sum_of_squares, effect.freedom, effect.f
    (32.0, 1, 16.0)
    """
    y = _cells(table, "table")  # by hand: SciPy's analysis of variance is one-way
    a, b, replicates = y.shape
    if a < 2 or b < 2:
        raise InputError(f"table: expected at least two rows and two columns, found {a} and {b}")
    cells, rows, columns = y.mean(2), y.mean((1, 2)), y.mean((0, 2))
    ss_rows = b * replicates * np.square(rows - y.mean()).sum()
    ss_columns = a * replicates * np.square(columns - y.mean()).sum()
    ss_interaction = replicates * np.square(cells - rows[:, None] - columns + y.mean()).sum()
    ss_within = np.square(y - cells[..., None]).sum()
    df_interaction, df_within = (a - 1) * (b - 1), a * b * (replicates - 1)
    residual, freedom = (ss_interaction, df_interaction) if replicates == 1 else (ss_within, df_within)
    # What rounding alone leaves of numbers that agree is nothing, however small the residual it is compared with.
    noise = y.size * (8 * np.finfo(float).eps * np.abs(y).max()) ** 2

    def effect(squares: float, df: int) -> Effect:
        return _effect(float(squares), df, float(residual), freedom, float(noise))

    return Anova(
        effect(ss_rows, a - 1),
        effect(ss_columns, b - 1),
        None if replicates == 1 else effect(ss_interaction, df_interaction),
        float(residual),
        freedom,
    )


def not_worse_on_average(groups: Mapping[str, Any], p: float = 0.05, lower_is_better: bool = False) -> list[str]:
    """The names of the groups whose average over datasets does not differ significantly from the best group's.

    `groups` maps a name to values [B, R]: B datasets, R seeds, the same numbers for all. Each group is compared with the
    best by a two-way analysis of variance of these two alone.

    >>> level = [[70.0], [90.0], [50.0]]  # of three datasets, far more apart than the objectives are
    >>> noise = np.array([[0.1, -0.1], [0.0, 0.2], [-0.2, 0.0]])
    >>> not_worse_on_average({"a": level + noise, "b": level + noise[::-1], "c": level + noise - 1})
    ['a', 'b']
    """
    samples = {name: _cells([values], name)[0] for name, values in groups.items()}
    shapes = {name: x.shape for name, x in samples.items()}
    if len(set(shapes.values())) > 1:
        raise InputError(f"groups: expected the same number of datasets and seeds for all, found {shapes}")
    best = samples[_best({name: float(x.mean()) for name, x in samples.items()}, p, lower_is_better)]
    return [name for name, x in samples.items() if x is best or two_way_anova([best, x]).rows.p >= p]


def spearman(x: Any, y: Any) -> tuple[float, float]:
    """Spearman's rank correlation of two rows of numbers and its two-sided p-value (by the t distribution).

    >>> spearman([0.35, 0.42, 0.85], [76.0, 74.3, 48.3])[0]
    -1.0
    """
    from scipy.stats import spearmanr

    first, second = _sample(x, "x", least=3), _sample(y, "y", least=3)
    if len(first) != len(second):
        raise InputError(f"x and y: expected equally many numbers, found {len(first)} and {len(second)}")
    for name, sample in (("x", first), ("y", second)):
        if np.ptp(sample) == 0:
            raise InputError(f"{name}: all {len(sample)} numbers are {sample[0]:g}; ranks need numbers that differ")
    found = spearmanr(first, second)
    return float(found.statistic), float(found.pvalue)


def table(
    frame: pd.DataFrame,
    rows: str = "objective",
    columns: str = "dataset",
    values: str = "accuracy",
    digits: int = 1,
    p: float = 0.05,
    average: bool = False,
    lower_is_better: Sequence[str] = (),
) -> str:
    """A Markdown table of mean ± standard error, in bold what does not differ significantly from its column's best.

    `frame` has a row for each objective, dataset and seed. `average` adds the mean over the datasets, which then must
    have equally many seeds; `lower_is_better` names the columns where the least is best. A column where a cell has a
    single seed has no standard errors to show for it and, as nothing can be tested, nothing in bold.

    >>> runs = [("softmax", "food", 74.6), ("softmax", "food", 74.8), ("cosine", "food", 62.0), ("cosine", "food", 62.3)]
    >>> print(table(pd.DataFrame(runs, columns=["objective", "dataset", "accuracy"])))
    | objective | food |
    | --- | --- |
    | softmax | **74.7 ± 0.1** |
    | cosine | 62.1 ± 0.1 |
    """
    missing = [name for name in (rows, columns, values) if name not in frame]
    if missing or not len(frame):
        found = f"no column {missing[0]!r}" if missing else "no rows"
        raise InputError(f"frame: expected columns {rows}, {columns} and {values} with one row per seed, found {found}")
    cells = {key: group.to_numpy(float) for key, group in frame.groupby([rows, columns], sort=False)[values]}
    names, headings = list(frame[rows].unique()), list(frame[columns].unique())
    unknown = set(lower_is_better) - set(headings)
    if unknown:
        raise InputError(f"lower_is_better: {sorted(unknown)[0]!r} is not a column; the columns are {', '.join(headings)}")
    shown = [{n: cells[n, h] for n in names if (n, h) in cells} for h in headings]
    bold = [_bold(group, p, heading in lower_is_better) for heading, group in zip(headings, shown, strict=True)]
    if average:
        if lower_is_better and len(set(lower_is_better)) < len(headings):
            raise InputError("average: columns where less is better cannot be averaged with columns where more is")
        if len({len(cell) for cell in cells.values()}) > 1 or len(cells) < len(names) * len(headings):
            raise InputError("average: expected equally many seeds in every cell; leave out what is incomplete")
        wide = {n: np.stack([cells[n, h] for h in headings]) for n in names}
        shown.append({n: x.mean(0) for n, x in wide.items()})
        bold.append(not_worse_on_average(wide, p, bool(lower_is_better)) if len(headings) > 1 else bold[0])
    lines = [[rows, *headings, *["average"] * average], ["---"] * (1 + len(shown))]
    lines += [[n, *[_cell(group.get(n), n in best, digits) for group, best in zip(shown, bold, strict=True)]] for n in names]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _bold(groups: Mapping[str, np.ndarray], p: float, lower_is_better: bool) -> list[str]:
    testable = all(len(x) > 1 for x in groups.values())
    return not_worse_than_best(groups, p, lower_is_better) if testable else []


def _cell(values: np.ndarray | None, bold: bool, digits: int) -> str:
    if values is None:
        return "–"
    mean, error = mean_and_error(values)
    text = f"{mean:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")
    return f"**{text}**" if bold else text


def _welch(x: np.ndarray, y: np.ndarray) -> float:
    """The p-value of Welch's t-test; samples without any spread, of which SciPy's is NaN, differ if their means do."""
    from scipy.stats import ttest_ind_from_stats

    spread = [np.sqrt(_variance(side)) for side in (x, y)]
    if not any(spread):
        return float(np.isclose(x[0], y[0], rtol=1e-12, atol=0))
    # From the moments: of seeds that agree exactly SciPy's own variance is rounding, and warns of it.
    return float(ttest_ind_from_stats(x.mean(), spread[0], len(x), y.mean(), spread[1], len(y), equal_var=False).pvalue)


def _effect(squares: float, df: int, residual: float, freedom: int, noise: float) -> Effect:
    from scipy.stats import f

    squares = squares if squares > noise else 0.0
    if residual <= noise:  # replicates that agree exactly: any difference counts, and no difference is none
        return Effect(squares, df, np.inf if squares else 0.0, 0.0 if squares else 1.0)
    ratio = (squares / df) / (residual / freedom)
    return Effect(squares, df, ratio, float(f.sf(ratio, df, freedom)))


def _best(means: Mapping[str, float], p: float, lower_is_better: bool) -> str:
    if not means:
        raise InputError("groups: expected at least one, found none")
    if not 0 < p < 1:
        raise InputError(f"p: expected a level between 0 and 1, found {p}")
    return (min if lower_is_better else max)(means, key=lambda name: means[name])


def _variance(x: np.ndarray) -> float:
    """The unbiased variance; exactly 0 for equal numbers, whose mean may round to another; NaN for a single one."""
    if len(x) == 1:
        return float("nan")
    return float(x.var(ddof=1)) if np.ptp(x) else 0.0


def _sample(values: Any, name: str, least: int = 1) -> np.ndarray:
    x = _numbers(values, name)
    if x.ndim != 1 or len(x) < least:
        raise InputError(f"{name}: expected a row of at least {least} numbers, found shape {list(x.shape)}")
    return x


def _cells(values: Any, name: str) -> np.ndarray:
    y = _numbers(values, name)
    if y.ndim != 3 or 0 in y.shape:
        raise InputError(f"{name}: expected shape [rows, columns, replicates], found {list(y.shape)}")
    return y


def _numbers(values: Any, name: str) -> np.ndarray:
    try:
        x = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: expected numbers, the same number of replicates in every cell; found {error}") from error
    if not np.isfinite(x).all():
        raise InputError(f"{name}: entry {np.argwhere(~np.isfinite(x))[0].tolist()} is not a finite number")
    return x
