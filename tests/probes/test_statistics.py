"""Statistics over seeds, against SciPy, least squares and the papers' figures."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from probes import statistics
from zoo.cards import card as cards
from zoo.errors import InputError
from zoo.models import registry


def test_mean_and_error_is_scipys():
    values = np.random.default_rng(0).normal(77, 0.2, 8)
    assert statistics.mean_and_error(values) == pytest.approx((values.mean(), scipy.stats.sem(values)))
    mean, error = statistics.mean_and_error([3.0])
    assert mean == 3.0
    assert np.isnan(error)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(2, 9), min_size=2, max_size=5), lower=st.booleans())
def test_not_worse_than_best_is_welchs_test(seed, sizes, lower):
    rng = np.random.default_rng(seed)
    groups = {f"g{i}": rng.normal(rng.normal(0, 1), rng.uniform(0.1, 2), n) for i, n in enumerate(sizes)}
    best = (min if lower else max)(groups, key=lambda name: groups[name].mean())
    expected = [name for name, x in groups.items() if scipy.stats.ttest_ind(groups[best], x, equal_var=False).pvalue >= 0.05]
    assert statistics.not_worse_than_best(groups, lower_is_better=lower) == expected
    assert best in expected


def test_groups_without_spread_differ_when_their_means_do():
    groups = {"a": [0.1, 0.1, 0.1], "b": [0.1] * 5, "c": [0.3 - 0.1] * 3, "d": [0.2, 0.2, 0.2]}
    assert statistics.not_worse_than_best(groups) == ["c", "d"]  # 0.3 - 0.1 is 0.2 but for rounding
    assert statistics.not_worse_than_best({name: groups[name] for name in "ab"}) == ["a", "b"]


def _residual(design: np.ndarray, y: np.ndarray) -> float:
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(np.square(y - fitted).sum())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), a=st.integers(2, 5), b=st.integers(2, 4), replicates=st.integers(1, 4))
def test_anova_is_a_comparison_of_nested_linear_models(seed, a, b, replicates):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(a, b, replicates)) + rng.normal(size=(a, 1, 1)) + 20 * rng.normal(size=(1, b, 1))
    row, column, _ = (index.ravel() for index in np.indices(y.shape))
    rows, columns = np.eye(a)[row], np.eye(b)[column]
    both = np.hstack([rows, columns])
    full = both if replicates == 1 else np.eye(a * b)[row * b + column]
    flat, found = y.ravel(), statistics.two_way_anova(y)
    residual = _residual(full, flat)
    freedom = (a - 1) * (b - 1) if replicates == 1 else a * b * (replicates - 1)
    assert found.residual_sum_of_squares == pytest.approx(residual)
    assert found.residual_freedom == freedom
    for effect, reduced, df in ((found.rows, columns, a - 1), (found.columns, rows, b - 1)):
        explained = _residual(reduced, flat) - _residual(both, flat)
        f = (explained / df) / (residual / freedom)
        assert (effect.sum_of_squares, effect.freedom, effect.f) == pytest.approx((explained, df, f), rel=1e-6)
        assert effect.p == pytest.approx(scipy.stats.f.sf(f, df, freedom), rel=1e-6, abs=1e-300)
    assert (found.interaction is None) == (replicates == 1)


def test_anova_of_a_table_worked_by_hand():
    # Cell means 2 4 / 6 10, each +-1: grand mean 5.5, rows 3 and 8, columns 4 and 7.
    found = statistics.two_way_anova([[[1, 3], [3, 5]], [[5, 7], [9, 11]]])
    assert found.rows.sum_of_squares == pytest.approx(50)
    assert found.columns.sum_of_squares == pytest.approx(18)
    assert found.interaction.sum_of_squares == pytest.approx(2)
    assert (found.residual_sum_of_squares, found.residual_freedom) == pytest.approx((8, 4))
    assert (found.rows.f, found.columns.f, found.interaction.f) == pytest.approx((25, 9, 1))
    assert found.rows.p == pytest.approx(2 * scipy.stats.t.sf(5, 4))  # one degree of freedom: F is t squared


@given(values=arrays(float, (3, 4), elements=st.integers(-100, 100).map(float)), scale=st.sampled_from([0.1, 1.0, 7.3]))
def test_anova_without_spread_finds_any_difference_and_no_other(values, scale):
    column = values[:1] * scale
    same = statistics.two_way_anova(np.repeat(column[:, :, None], 3, 2).repeat(2, 0))
    assert (same.rows.f, same.rows.p) == (0.0, 1.0)
    other = statistics.two_way_anova(np.repeat(np.vstack([column, column + 0.5])[:, :, None], 3, 2))
    assert other.rows.p == 0.0


def test_average_separates_what_single_datasets_cannot():
    rng = np.random.default_rng(3)
    level = rng.uniform(40, 95, (8, 1))
    groups = {name: level + gain + rng.normal(0, 0.3, (8, 3)) for name, gain in (("a", 0.6), ("b", 0.55), ("c", 0.0))}
    assert statistics.not_worse_on_average(groups) == ["a", "b"]
    tied = [set(statistics.not_worse_than_best({name: x[d] for name, x in groups.items()})) for d in range(8)]
    assert any("c" in names for names in tied)
    assert statistics.not_worse_on_average({n: -x for n, x in groups.items()}, lower_is_better=True) == ["a", "b"]


def test_class_separation_and_transfer_of_the_nine_losses():
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
def test_spearman_is_pearson_of_average_ranks(pairs):
    x, y = np.array(pairs, float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        with pytest.raises(InputError, match="ranks need numbers that differ"):
            statistics.spearman(x, y)
        return

    def ranks(v):
        return [np.mean([sorted(v).index(a) + 1, len(v) - sorted(v)[::-1].index(a)]) for a in v]

    assert statistics.spearman(x, y)[0] == pytest.approx(np.corrcoef(ranks(x), ranks(y))[0, 1])


def _frame(seeds: int = 4) -> pd.DataFrame:
    means = {("a", "x"): 80, ("a", "y"): 60, ("b|c", "x"): 80, ("b|c", "y"): 50}
    rows = [(o, d, m + 0.1 * k**2) for (o, d), m in means.items() for k in range(seeds)]
    return pd.DataFrame(rows, columns=["objective", "dataset", "accuracy"])


def test_table_shows_means_errors_bold_and_average():
    frame = _frame()
    header, rule, first, second = statistics.table(frame, average=True, digits=2).split("\n")
    assert header == "| objective | x | y | average |"
    assert rule == "| --- | --- | --- | --- |"
    x = frame[(frame.objective == "a") & (frame.dataset == "x")].accuracy
    assert first.split(" | ")[1] == f"**{x.mean():.2f} ± {scipy.stats.sem(x):.2f}**"
    assert first.count("**") == 6
    assert second.startswith("| b\\|c | **")
    assert second.count("**") == 2  # tied on x alone
    assert statistics.table(frame, lower_is_better=["y"]).split("\n")[3].count("**") == 4


def test_table_of_single_seeds_and_gaps_has_nothing_it_cannot_show():
    single = statistics.table(_frame(1))
    assert "±" not in single
    assert "**" not in single
    gap = _frame().query("objective == 'a' or dataset == 'x'")
    assert statistics.table(gap).split("\n")[3].endswith("| – |")
    with pytest.raises(InputError, match="equally many seeds"):
        statistics.table(gap, average=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.mean_and_error([]), "at least 1"),
        (lambda: statistics.mean_and_error([1.0, np.nan]), r"entry \[1\] is not a finite"),
        (lambda: statistics.mean_and_error(["high"]), "expected numbers"),
        (lambda: statistics.not_worse_than_best({}), "at least one, found none"),
        (lambda: statistics.not_worse_than_best({"a": [1.0, 2.0], "b": [1.0]}), "b: .*at least 2"),
        (lambda: statistics.not_worse_than_best({"a": [1.0, 2.0]}, p=5), "between 0 and 1"),
        (lambda: statistics.two_way_anova([[1.0, 2.0]]), r"\[rows, columns, replicates\]"),
        (lambda: statistics.two_way_anova([[[1.0], [2.0]]]), "two rows and two columns"),
        (lambda: statistics.two_way_anova([[[1.0], [2.0, 3.0]]]), "same number of replicates"),
        (lambda: statistics.two_way_anova([[[1.0], [np.inf]]] * 2), r"entry \[0, 1, 0\]"),
        (lambda: statistics.not_worse_on_average({"a": np.ones((2, 2)), "b": np.ones((2, 3))}), "same number of datasets"),
        (lambda: statistics.spearman([1, 2, 3], [1, 2, 3, 4]), "found 3 and 4"),
        (lambda: statistics.table(pd.DataFrame({"objective": []})), "no column 'dataset'"),
        (lambda: statistics.table(_frame(), lower_is_better=["z"]), "'z' is not a column"),
        (lambda: statistics.table(_frame(), lower_is_better=["x"], average=True), "cannot be averaged"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
