"""Statistics over seeds (Kornblith et al. 2021) and over models, with exact p-values of rank correlations of few points.

Tables show means with standard errors. A number is bold if it does not differ significantly from the best of its column: by
a t-test for one dataset, by a two-way analysis of variance for the average over datasets.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from zoo.core.statistics import holm as holm
from zoo.errors import InputError

MIN_TESTED = 3  # values per group; with two, a t-test has one or two degrees of freedom and hardly ever finds a difference
MAX_EXACT = 10  # points up to which the p-value of a rank correlation is exact


def mean_and_error(values: ArrayLike) -> tuple[float, float]:
    """Return the mean over seeds and its standard error, s / sqrt(n); the error of a single value is NaN.

    >>> mean_and_error([76.0, 78.0])
    (77.0, 1.0)
    """
    x = _sample(values, "values")
    return float(x.mean()), float(np.sqrt(_variance(x) / len(x)))


def indistinguishable_from_best(
    groups: Mapping[str, ArrayLike], p: float = 0.05, lower_is_better: bool = False
) -> list[str] | None:
    """Return the names of the groups whose mean does not differ significantly from the best group's, in the given order.

    The test is Welch's two-sided t-test, which allows for different variances. It needs at least three values per group:
    with fewer, nothing is tested and the result is None.

    Args:
        groups: values over seeds by name.
        p: significance level; a group differs if its p-value is below it.
        lower_is_better: whether the best mean is the lowest.

    >>> indistinguishable_from_best({"a": [77.0, 77.2, 77.4], "b": [77.1, 77.2, 77.5], "c": [76.0, 76.1, 76.3]})
    ['a', 'b']
    >>> indistinguishable_from_best({"a": [77.0, 77.2], "c": [76.0, 76.1]}) is None  # not tested
    True
    """
    samples = {name: _sample(values, "groups", where=name) for name, values in groups.items()}
    best = samples[_best({name: float(x.mean()) for name, x in samples.items()}, p, lower_is_better)]
    if min(map(len, samples.values())) < MIN_TESTED:
        return None
    return [name for name, x in samples.items() if x is best or _welch(best, x) >= p]


def indistinguishable_on_average(
    groups: Mapping[str, ArrayLike], p: float = 0.05, lower_is_better: bool = False
) -> list[str] | None:
    """Return the names of the groups whose average over datasets does not differ significantly from the best group's.

    Each group is compared with the best by a two-way analysis of variance of these two. With fewer than three values per
    group, nothing is tested and the result is None.

    Args:
        groups: values [B, R] by name: B datasets, R seeds, the same for all groups.
        p, lower_is_better: as in `indistinguishable_from_best`.

    >>> level = [[70.0], [90.0], [50.0]]  # datasets differ much more than groups
    >>> noise = np.array([[0.1, -0.1], [0.0, 0.2], [-0.2, 0.0]])
    >>> indistinguishable_on_average({"a": level + noise, "b": level + noise[::-1], "c": level + noise - 1})
    ['a', 'b']
    """
    samples = {name: _numbers(values, "groups", 2, "[datasets, seeds]", name) for name, values in groups.items()}
    best = samples[_best({name: float(x.mean()) for name, x in samples.items()}, p, lower_is_better)]
    for name, x in samples.items():
        if x.shape != best.shape:
            expected = f"values of shape {list(best.shape)} (datasets, seeds), the same for all groups"
            raise InputError(where=name, argument="groups", expected=expected, found=list(x.shape))
    if best.size < MIN_TESTED:
        return None
    return [name for name, x in samples.items() if x is best or two_way_anova([best, x])[1] >= p]


def two_way_anova(table: ArrayLike) -> tuple[float, float]:
    """Return F and p-value of the rows of a balanced table: do rows differ, beyond the differences between columns?

    F is the mean square of the rows divided by the mean square of the residual, the variation within cells; with one
    replicate per cell, the interaction of rows and columns. SciPy has one-way analysis of variance only.

    Args:
        table: [A, B, R]: A rows (objectives), B columns (datasets), R replicates (seeds).

    >>> two_way_anova([[[3.0, 5.0], [6.0, 8.0]], [[7.0, 9.0], [10.0, 12.0]]])[0]
    16.0
    """
    from scipy.stats import f

    y = _numbers(table, "table", 3, "[rows, columns, replicates]")
    a, b, replicates = y.shape
    if a < 2 or b < 2:
        raise InputError(argument="table", expected="at least two rows and two columns", found=[a, b])
    cells, rows, columns = y.mean(2), y.mean((1, 2)), y.mean((0, 2))
    squares = b * replicates * np.square(rows - y.mean()).sum()
    if replicates == 1:
        residual, freedom = np.square(cells - rows[:, None] - columns + y.mean()).sum(), (a - 1) * (b - 1)
    else:
        residual, freedom = np.square(y - cells[..., None]).sum(), a * b * (replicates - 1)
    # Differences of this size are rounding error and count as none, however small the residual is.
    rounding = y.size * (8 * np.finfo(float).eps * np.abs(y).max()) ** 2
    if squares <= rounding:
        return 0.0, 1.0
    if residual <= rounding:  # replicates agree exactly: any difference is significant
        return np.inf, 0.0
    ratio = (squares / (a - 1)) / (residual / freedom)
    return float(ratio), float(f.sf(ratio, a - 1, freedom))


def spearman(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Return Spearman's rank correlation of two samples [n] and its two-sided p-value.

    For n <= 10 the p-value is exact: the fraction of the n! permutations whose correlation is at least as large in absolute
    value. For larger n it is SciPy's, from the t distribution.

    >>> rho, p = spearman([0.35, 0.42, 0.85], [76.0, 74.3, 48.3])
    >>> round(rho, 3), round(p, 3)  # 2 of 6 permutations are as extreme
    (-1.0, 0.333)
    """
    from scipy.stats import rankdata, spearmanr

    first, second = _two_samples(x, y, 3)
    for argument, sample in (("x", first), ("y", second)):
        if np.ptp(sample) == 0:
            raise InputError(argument=argument, expected="at least two different numbers", found=sample[0])
    result = spearmanr(first, second)
    if len(first) > MAX_EXACT:
        return float(result.statistic), float(result.pvalue)
    ranks = [np.round(2 * rankdata(sample)).astype(np.int64) for sample in (first, second)]  # ties have half ranks
    return float(result.statistic), _permutation_p(*ranks)


def leave_one_out(x: ArrayLike, y: ArrayLike, labels: Sequence[str] | None = None) -> pd.DataFrame:
    """Return Spearman's rank correlation without each point in turn: how much it depends on single points.

    Args:
        x: [n], at least four numbers.
        y: [n].
        labels: [n] names of the points; default: their numbers.

    Returns:
        A frame with one row per point: `without`, `correlation` and `p`; NaN if the other points do not vary.

    >>> leave_one_out([1, 2, 3, 4], [1, 2, 3, 0], labels=["a", "b", "c", "d"]).round(2).values.tolist()
    [['a', -0.5, 1.0], ['b', -0.5, 1.0], ['c', -0.5, 1.0], ['d', 1.0, 0.33]]
    """
    first, second = _two_samples(x, y, 4)
    names = list(range(len(first))) if labels is None else list(labels)
    if len(names) != len(first):
        raise InputError(argument="labels", expected=f"{len(first)} names, one per point", found=len(names))
    table = []
    for row, name in enumerate(names):
        rest = [np.delete(sample, row) for sample in (first, second)]
        varied = all(np.ptp(sample) > 0 for sample in rest)
        table.append((name, *(spearman(*rest) if varied else (np.nan, np.nan))))
    return pd.DataFrame(table, columns=["without", "correlation", "p"])


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
    """Return a Markdown table of mean ± standard error; bold if not significantly different from the column's best.

    A single seed has no standard error. A column in which a cell has fewer than three seeds is not tested, so nothing in it
    is bold.

    Args:
        frame: one row per objective, dataset and seed.
        rows: the column of `frame` that names the rows of the table.
        columns: the column of `frame` that names the columns of the table.
        values: the column of `frame` with the numbers.
        digits: digits after the decimal point.
        p: significance level.
        average: whether to add the mean over the columns, which must have equally many seeds in every cell.
        lower_is_better: the columns of the table in which the lowest mean is best.

    >>> runs = [("softmax", "food", x) for x in (74.6, 74.8, 74.7)] + [("cosine", "food", x) for x in (62.0, 62.3, 62.2)]
    >>> print(table(pd.DataFrame(runs, columns=["objective", "dataset", "accuracy"])))
    | objective | food |
    | --- | --- |
    | softmax | **74.7 ± 0.1** |
    | cosine | 62.2 ± 0.1 |
    """
    missing = [name for name in (rows, columns, values) if name not in frame]
    if missing or not len(frame):
        problem = f"has no column {missing[0]!r}" if missing else "has no rows"
        raise InputError(problem, argument="frame", hint=f"It needs columns {rows}, {columns} and {values}")
    cells = {key: group.to_numpy(float) for key, group in frame.groupby([rows, columns], sort=False)[values]}
    names, headings = list(frame[rows].unique()), list(frame[columns].unique())
    unknown = sorted(set(lower_is_better) - set(headings))
    if unknown:
        raise InputError(argument="lower_is_better", expected=f"columns among {', '.join(headings)}", found=unknown[0])
    shown = [{n: cells[n, h] for n in names if (n, h) in cells} for h in headings]
    bold = [
        indistinguishable_from_best(group, p, heading in lower_is_better) or []
        for heading, group in zip(headings, shown, strict=True)
    ]
    if average:
        if lower_is_better and len(set(lower_is_better)) < len(headings):
            problem = "columns in which lower is better cannot be averaged with columns in which higher is better"
            raise InputError(problem, argument="average")
        if len({len(cell) for cell in cells.values()}) > 1 or len(cells) < len(names) * len(headings):
            problem = "the average needs equally many seeds in every cell"
            raise InputError(problem, argument="average", hint="Leave out incomplete rows or columns")
        by_name = {n: np.stack([cells[n, h] for h in headings]) for n in names}
        shown.append({n: x.mean(0) for n, x in by_name.items()})
        several = len(headings) > 1
        bold.append(indistinguishable_on_average(by_name, p, bool(lower_is_better)) or [] if several else bold[0])
    lines = [[rows, *headings, *["average"] * average], ["---"] * (1 + len(shown))]
    lines += [[n, *[_cell(group.get(n), n in best, digits) for group, best in zip(shown, bold, strict=True)]] for n in names]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _cell(values: np.ndarray | None, bold: bool, digits: int) -> str:
    if values is None:
        return "–"
    mean, error = mean_and_error(values)
    text = f"{mean:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")
    return f"**{text}**" if bold else text


def _permutation_p(first: np.ndarray, second: np.ndarray) -> float:
    """Return the fraction of permutations of `second` whose |correlation| with `first` is at least the given one.

    Both hold whole numbers [n]. The correlation is a linear function of S = sum_i first_i second_perm(i), a whole number.
    The permutations are counted by their S rather than listed: `ways[subset, S]` is the number of ways to assign a subset
    of `second`, a bit mask, to the first entries of `first`. For n = 10 that takes 5,120 additions of rows of counts.
    """
    n = len(first)
    largest = int(np.sort(first) @ np.sort(second))
    ways = np.zeros((2**n, largest + 1), np.int64)
    ways[0, 0] = 1
    for subset in range(2**n - 1):
        assigned = subset.bit_count()
        for j in range(n):
            if not subset >> j & 1:
                product = int(first[assigned] * second[j])
                ways[subset | 1 << j, product:] += ways[subset, : largest + 1 - product]
    # n S - sum(first) sum(second) is proportional to the correlation, and exact.
    deviation = np.abs(n * np.arange(largest + 1) - first.sum() * second.sum())
    as_extreme = deviation >= abs(n * int(first @ second) - int(first.sum() * second.sum()))
    return float(ways[-1][as_extreme].sum() / ways[-1].sum())


def _welch(x: np.ndarray, y: np.ndarray) -> float:
    """Return the p-value of Welch's t-test; of samples without variance, 1 if they are equal and 0 if not."""
    from scipy.stats import ttest_ind_from_stats

    deviation = [np.sqrt(_variance(side)) for side in (x, y)]
    if not any(deviation):
        return float(np.isclose(x[0], y[0], rtol=1e-12, atol=0))
    # From the moments: SciPy's own variance of equal numbers is rounding error, and it warns.
    return float(ttest_ind_from_stats(x.mean(), deviation[0], len(x), y.mean(), deviation[1], len(y), False).pvalue)


def _best(means: Mapping[str, float], p: float, lower_is_better: bool) -> str:
    if not means:
        raise InputError(argument="groups", expected="at least one group", found=0)
    if not 0 < p < 1:
        raise InputError(argument="p", expected="a significance level between 0 and 1", found=p)
    return (min if lower_is_better else max)(means, key=lambda name: means[name])


def _variance(x: np.ndarray) -> float:
    """Return the unbiased variance: exactly 0 for equal numbers, whose mean may be rounded; NaN for a single one."""
    if len(x) == 1:
        return float("nan")
    return float(x.var(ddof=1)) if np.ptp(x) else 0.0


def _two_samples(x: ArrayLike, y: ArrayLike, min_size: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = _sample(x, "x", min_size), _sample(y, "y", min_size)
    if len(first) != len(second):
        raise InputError(argument="y", expected=f"{len(first)} numbers, as many as in x", found=len(second))
    return first, second


def _sample(values: ArrayLike, argument: str, min_size: int = 1, where: str | None = None) -> np.ndarray:
    x = _numbers(values, argument, 1, f"[n] with at least {min_size} numbers", where)
    if len(x) < min_size:
        raise InputError(argument=argument, expected=f"at least {min_size} numbers", found=[len(x)], where=where)
    return x


def _numbers(values: ArrayLike, argument: str, ndim: int, shape: str, where: str | None = None) -> np.ndarray:
    """Return finite numbers of some number of dimensions, none of them empty; `shape` describes it in the error."""
    if np.ma.is_masked(values):
        raise InputError("some entries are masked", argument=argument, where=where, hint="Leave them out")
    try:
        x = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        problem = f"is not a rectangular array of numbers ({error})"
        raise InputError(problem, argument=argument, where=where) from error
    if x.ndim != ndim or 0 in x.shape:
        raise InputError(argument=argument, expected=f"of shape {shape}", found=list(x.shape), where=where)
    if not np.isfinite(x).all():
        entry = np.argwhere(~np.isfinite(x))[0].tolist()
        raise InputError(f"entry {entry} is not a finite number", argument=argument, where=where)
    return x
