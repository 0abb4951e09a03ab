"""The line through accuracies on two datasets, against SciPy's refits without each model."""

import numpy as np
import pytest
from raised import fields
from scipy import stats

from probes.accuracy_line import accuracy_line
from zoo.errors import InputError

M = 12
X = np.linspace(-0.5, 1.5, M)
FIRST = stats.norm.cdf(X)


def second(noise=0.02, off=0.0):
    y = 0.8 * X - 0.3 + noise * np.random.default_rng(2).normal(size=M)
    y[4] += off
    return stats.norm.cdf(y)


def test_slope_and_interval_are_those_of_least_squares():
    line = accuracy_line([str(i) for i in range(M)], FIRST, second(), (10**6, 10**6))
    fit = stats.linregress(X, stats.norm.ppf(second()))
    assert line.slope == pytest.approx(fit.slope)
    assert line.intercept == pytest.approx(fit.intercept)
    wide = stats.t.ppf(0.975, M - 2) * fit.stderr
    assert line.slope_interval == pytest.approx((fit.slope - wide, fit.slope + wide))
    assert line.slope_interval[0] < 0.8 < line.slope_interval[1]
    assert line.frame["expected"].to_numpy() == pytest.approx(stats.norm.cdf(fit.intercept + fit.slope * X))


@pytest.mark.parametrize("off", [0.0, 0.3])
def test_outlier_p_values_equal_refits_without_each_model(off):
    y = stats.norm.ppf(second(off=off))
    line = accuracy_line([str(i) for i in range(M)], FIRST, second(off=off), (10**6, 10**6))
    for i in range(M):
        rest = np.arange(M) != i
        fit = stats.linregress(X[rest], y[rest])
        residuals = y[rest] - fit.intercept - fit.slope * X[rest]
        variance = residuals @ residuals / (M - 3)
        spread = 1 + 1 / (M - 1) + (X[i] - X[rest].mean()) ** 2 / ((X[rest] - X[rest].mean()) ** 2).sum()
        t = (y[i] - fit.intercept - fit.slope * X[i]) / np.sqrt(variance * spread)
        assert line.frame["p"][i] == pytest.approx(min(1, M * 2 * stats.t.sf(abs(t), M - 3)), rel=1e-6)
    assert line.frame["off"].tolist() == [bool(off) and i == 4 for i in range(M)]


def test_two_models_have_no_line_and_three_no_outliers():
    line = accuracy_line("ab", [0.5, 0.6], [0.4, 0.5], (100, 100))
    assert np.isnan(line.slope)
    assert not line.frame["off"].any()
    three = accuracy_line("abc", [0.5, 0.6, 0.7], [0.4, 0.5, 0.55], (100, 100))
    assert np.isfinite(three.slope)
    assert three.frame["p"].isna().all()


@pytest.mark.parametrize(("first", "second", "argument"), [([0.5], [0.4, 0.5], "first"), ([0.4, 0.5], [0.5], "second")])
def test_every_model_needs_two_accuracies(first, second, argument):
    with pytest.raises(InputError, check=fields(argument=argument, found=1)):
        accuracy_line("ab", first, second, (100, 100))


def test_accuracies_of_0_and_1_have_finite_probits():
    line = accuracy_line("abcd", [0.0, 0.5, 0.9, 1.0], [0.0, 0.4, 0.8, 1.0], (50, 50))
    assert np.isfinite([line.slope, *line.frame["expected"]]).all()
