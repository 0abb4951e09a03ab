"""Statistics against SciPy, brute force, least squares and the papers' figures."""

import itertools
import math
import time

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from raised import fields

from probes import statistics
from zoo.cards import card as cards
from zoo.errors import InputError
from zoo.models import registry


def test_mean_and_error_equal_scipys():
    values = np.random.default_rng(0).normal(77, 0.2, 8)
    assert statistics.mean_and_error(values) == pytest.approx((values.mean(), scipy.stats.sem(values)))
    mean, error = statistics.mean_and_error([3.0])
    assert mean == 3.0
    assert np.isnan(error)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(3, 9), min_size=2, max_size=5), lower=st.booleans())
def test_indistinguishable_from_best_is_welchs_test(seed, sizes, lower):
    rng = np.random.default_rng(seed)
    groups = {f"g{i}": rng.normal(rng.normal(0, 1), rng.uniform(0.1, 2), n) for i, n in enumerate(sizes)}
    best = (min if lower else max)(groups, key=lambda name: groups[name].mean())
    expected = [name for name, x in groups.items() if scipy.stats.ttest_ind(groups[best], x, equal_var=False).pvalue >= 0.05]
    assert statistics.indistinguishable_from_best(groups, lower_is_better=lower) == expected
    assert best in expected


@pytest.mark.parametrize("size", [1, 2])
def test_groups_of_fewer_than_three_values_are_not_tested(size):
    groups = {"a": [77.0, 77.1, 77.2], "b": [50.0, 50.1][:size]}
    assert statistics.indistinguishable_from_best(groups) is None
    averages = {"a": np.ones((2, 1)), "b": np.zeros((2, 1))}
    assert statistics.indistinguishable_on_average(averages) is None
    assert statistics.indistinguishable_on_average({name: x.repeat(2, 1) for name, x in averages.items()}) == ["a"]


def test_groups_without_variance_differ_if_their_means_do():
    groups = {"a": [0.1, 0.1, 0.1], "b": [0.1] * 5, "c": [0.3 - 0.1] * 3, "d": [0.2, 0.2, 0.2]}
    assert statistics.indistinguishable_from_best(groups) == ["c", "d"]  # 0.3 - 0.1 is 0.2 up to rounding
    assert statistics.indistinguishable_from_best({name: groups[name] for name in "ab"}) == ["a", "b"]


def _residual(design: np.ndarray, y: np.ndarray) -> float:
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(np.square(y - fitted).sum())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), a=st.integers(2, 5), b=st.integers(2, 4), replicates=st.integers(1, 4))
def test_anova_compares_nested_linear_models(seed, a, b, replicates):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(a, b, replicates)) + rng.normal(size=(a, 1, 1)) + 20 * rng.normal(size=(1, b, 1))
    row, column, _ = (index.ravel() for index in np.indices(y.shape))
    rows, columns = np.eye(a)[row], np.eye(b)[column]
    both = np.hstack([rows, columns])
    full = both if replicates == 1 else np.eye(a * b)[row * b + column]
    flat = y.ravel()
    freedom = (a - 1) * (b - 1) if replicates == 1 else a * b * (replicates - 1)
    explained = _residual(columns, flat) - _residual(both, flat)
    f = (explained / (a - 1)) / (_residual(full, flat) / freedom)
    expected = (f, scipy.stats.f.sf(f, a - 1, freedom))
    assert statistics.two_way_anova(y) == pytest.approx(expected, rel=1e-6, abs=1e-300)


def test_anova_equals_a_table_by_hand():
    # Cell means 2 4 / 6 10, each +-1: rows 3 and 8, sum of squares 50; residual 8 with 4 degrees of freedom.
    f, p = statistics.two_way_anova([[[1, 3], [3, 5]], [[5, 7], [9, 11]]])
    assert f == pytest.approx(25)
    assert p == pytest.approx(2 * scipy.stats.t.sf(5, 4))  # one degree of freedom: F is t squared


@given(values=arrays(float, (3, 4), elements=st.integers(-100, 100).map(float)), scale=st.sampled_from([0.1, 1.0, 7.3]))
def test_anova_without_variance_finds_real_differences_only(values, scale):
    column = values[:1] * scale
    same = statistics.two_way_anova(np.repeat(column[:, :, None], 3, 2).repeat(2, 0))
    assert same == (0.0, 1.0)
    other = statistics.two_way_anova(np.repeat(np.vstack([column, column + 0.5])[:, :, None], 3, 2))
    assert other[1] == 0.0


def test_averages_differ_where_single_datasets_do_not():
    rng = np.random.default_rng(3)
    level = rng.uniform(40, 95, (8, 1))
    groups = {name: level + gain + rng.normal(0, 0.3, (8, 3)) for name, gain in (("a", 0.6), ("b", 0.55), ("c", 0.0))}
    assert statistics.indistinguishable_on_average(groups) == ["a", "b"]
    tied = [set(statistics.indistinguishable_from_best({name: x[d] for name, x in groups.items()})) for d in range(8)]
    assert any("c" in names for names in tied)
    assert statistics.indistinguishable_on_average({n: -x for n, x in groups.items()}, lower_is_better=True) == ["a", "b"]


def test_class_separation_and_transfer_of_the_nine_losses_correlate_as_published():
    separation, transfer = [], []
    for path in sorted(registry.shipped_folder().glob("resnet50-*.md")):
        results = {key: value for entry in cards.read(path).reference for key, value in entry.results.items()}
        linear = [value for key, value in results.items() if key.startswith("linear-")]
        if "class-separation" in results and len(linear) == 8:
            separation.append(results["class-separation"])
            transfer.append(np.mean(linear))
    assert len(separation) == 9
    rho, p = statistics.spearman(separation, transfer)
    assert round(rho, 2) == -0.93
    assert p < 0.002


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=20))
def test_spearman_is_the_correlation_of_average_ranks(pairs):
    x, y = np.array(pairs, float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        with pytest.raises(InputError, check=fields(argument="x" if np.ptp(x) == 0 else "y", expected="different")):
            statistics.spearman(x, y)
        return

    def ranks(v):
        return [np.mean([sorted(v).index(a) + 1, len(v) - sorted(v)[::-1].index(a)]) for a in v]

    assert statistics.spearman(x, y)[0] == pytest.approx(np.corrcoef(ranks(x), ranks(y))[0, 1])


def brute_force_p(x: np.ndarray, y: np.ndarray) -> float:
    """Return the fraction of all permutations of y with at least the same absolute rank correlation."""
    first, second = scipy.stats.rankdata(x), scipy.stats.rankdata(y)
    rho = np.array([np.corrcoef(first, second[list(order)])[0, 1] for order in itertools.permutations(range(len(y)))])
    return float(np.mean(np.abs(rho) >= abs(np.corrcoef(first, second)[0, 1]) - 1e-9))


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 6).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 5), min_size=n, max_size=n)] * 2)))
def test_p_value_of_few_points_equals_brute_force_with_ties(samples):
    x, y = np.array(samples, float)
    if np.ptp(x) and np.ptp(y):
        assert statistics.spearman(x, y)[1] == pytest.approx(brute_force_p(x, y))


@pytest.mark.parametrize("n", [3, 5, 7])
def test_p_value_of_few_points_equals_scipys_permutation_test(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=n), rng.normal(size=n)
    result = scipy.stats.permutation_test(
        (y,), lambda z: scipy.stats.spearmanr(x, z).statistic, permutation_type="pairings", n_resamples=math.inf
    )
    assert statistics.spearman(x, y)[1] == pytest.approx(result.pvalue)


def test_perfect_correlation_has_the_p_value_of_its_two_orders():
    for n in range(3, 11):
        assert statistics.spearman(range(n), range(n)) == pytest.approx((1, 2 / math.factorial(n)))


def test_p_value_of_ten_points_takes_little_time_and_is_close_to_scipys():
    rng = np.random.default_rng(0)
    x = rng.normal(size=10)
    y = x + rng.normal(size=10)
    start = time.process_time()
    rho, p = statistics.spearman(x, y)
    assert time.process_time() - start < 2
    expected = scipy.stats.spearmanr(x, y)
    assert rho == pytest.approx(expected.statistic)
    assert p == pytest.approx(expected.pvalue, rel=0.2)


def test_p_value_of_many_points_is_scipys():
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    expected = scipy.stats.spearmanr(x, y)
    assert statistics.spearman(x, y) == (expected.statistic, expected.pvalue)


def test_leave_one_out_is_spearman_without_each_point():
    x, y = np.random.default_rng(0).normal(size=(2, 6))
    frame = statistics.leave_one_out(x, y, labels=list("abcdef"))
    assert frame["without"].tolist() == list("abcdef")
    for row in range(6):
        rest = np.arange(6) != row
        assert (frame["correlation"][row], frame["p"][row]) == pytest.approx(statistics.spearman(x[rest], y[rest]))
    constant = statistics.leave_one_out([1.0, 1.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0])
    assert constant["without"].tolist() == [0, 1, 2, 3]
    assert constant["correlation"].isna().tolist() == [False, False, False, True]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_equals_a_loop_over_sorted_p_values(p_values):
    expected, largest = {}, 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, (len(p_values) - rank) * p_values[index])
        expected[index] = min(1.0, largest)
    adjusted = statistics.holm(p_values)
    assert adjusted.tolist() == pytest.approx([expected[i] for i in range(len(p_values))])
    assert (adjusted >= p_values).all()


def _frame(seeds: int = 4) -> pd.DataFrame:
    means = {("a", "x"): 80, ("a", "y"): 60, ("b|c", "x"): 80, ("b|c", "y"): 50}
    rows = [(o, d, m + 0.1 * k**2) for (o, d), m in means.items() for k in range(seeds)]
    return pd.DataFrame(rows, columns=["objective", "dataset", "accuracy"])


def test_table_has_means_errors_bold_cells_and_an_average():
    frame = _frame()
    header, rule, first, second = statistics.table(frame, average=True, digits=2).split("\n")
    assert header == "| objective | x | y | average |"
    assert rule == "| --- | --- | --- | --- |"
    x = frame[(frame.objective == "a") & (frame.dataset == "x")].accuracy
    assert first.split(" | ")[1] == f"**{x.mean():.2f} ± {scipy.stats.sem(x):.2f}**"
    assert first.count("**") == 6
    assert second.startswith("| b\\|c | **")
    assert second.count("**") == 2  # tied on x only
    assert statistics.table(frame, lower_is_better=["y"]).split("\n")[3].count("**") == 4


def test_table_of_few_seeds_has_no_bold_cells_and_missing_cells_are_dashes():
    single = statistics.table(_frame(1))
    assert "±" not in single
    assert "**" not in single
    two = statistics.table(_frame(2), average=True).split("\n")
    assert [line.count("**") for line in two[2:]] == [2, 0]  # the average has four values per row and is tested
    gap = _frame().query("objective == 'a' or dataset == 'x'")
    assert statistics.table(gap).split("\n")[3].endswith("| – |")
    with pytest.raises(InputError, check=fields(argument="average", problem="seeds")):
        statistics.table(gap, average=True)


UNEQUAL = {"a": np.ones((2, 2)), "b": np.ones((2, 3))}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: statistics.mean_and_error([]), {"argument": "values", "found": [0]}),
        (lambda: statistics.mean_and_error([1.0, np.nan]), {"argument": "values", "problem": "[1]"}),
        (lambda: statistics.mean_and_error(["high"]), {"argument": "values", "problem": "high"}),
        (lambda: statistics.mean_and_error(np.ma.masked_array([1.0, 2.0], [0, 1])), {"problem": "masked"}),
        (lambda: statistics.indistinguishable_from_best({}), {"argument": "groups", "found": 0}),
        (lambda: statistics.indistinguishable_from_best({"a": [1.0, 2.0, 3.0], "b": []}), {"where": "b", "found": [0]}),
        (lambda: statistics.indistinguishable_from_best({"a": [1.0, 2.0]}, p=5), {"argument": "p", "found": 5}),
        (lambda: statistics.two_way_anova([[1.0, 2.0]]), {"argument": "table", "found": [1, 2]}),
        (lambda: statistics.two_way_anova([[[1.0], [2.0]]]), {"argument": "table", "found": [1, 2]}),
        (lambda: statistics.two_way_anova([[[1.0], [2.0, 3.0]]]), {"argument": "table", "problem": "rectangular"}),
        (lambda: statistics.two_way_anova([[[1.0], [np.inf]]] * 2), {"argument": "table", "problem": "[0, 1, 0]"}),
        (lambda: statistics.indistinguishable_on_average(UNEQUAL), {"where": "b", "argument": "groups", "found": [2, 3]}),
        (lambda: statistics.indistinguishable_on_average({"a": [1.0]}), {"where": "a", "argument": "groups", "found": [1]}),
        (lambda: statistics.spearman([1, 2, 3], [1, 2, 3, 4]), {"argument": "y", "expected": "3", "found": 4}),
        (lambda: statistics.spearman([1, 2], [1, 2]), {"argument": "x", "found": [2]}),
        (lambda: statistics.leave_one_out([1, 2, 3], [1, 2, 3]), {"argument": "x", "found": [3]}),
        (lambda: statistics.leave_one_out([1, 2, 3, 4], [1, 2, 3, 4], "ab"), {"argument": "labels", "found": 2}),
        (lambda: statistics.holm([0.1, 1.5]), {"argument": "p_values", "found": 1.5}),
        (lambda: statistics.holm([0.1, np.nan]), {"argument": "p_values", "expected": "from 0 to 1"}),
        (lambda: statistics.table(pd.DataFrame({"objective": []})), {"argument": "frame", "problem": "dataset"}),
        (lambda: statistics.table(_frame(), lower_is_better=["z"]), {"argument": "lower_is_better", "found": "z"}),
        (lambda: statistics.table(_frame(), lower_is_better=["x"], average=True), {"argument": "average"}),
    ],
)
def test_bad_input_is_named(call, error):
    with pytest.raises(InputError, check=fields(**error)):
        call()
