"""Wilson's interval against SciPy's, the multinomial draws against a bootstrap of examples, and the coverage of both."""

import numpy as np
import pytest
import torch
from accelerator import Accelerator, download, upload
from raised import fields
from scipy.stats import binomtest

import diversity
from diversity import bootstrap, intervals
from diversity.bootstrap import percentile_interval, resample, resample_together, resampled_means
from diversity.intervals import interval, resampled, wilson
from diversity.pair_ensembles import EnsembleTable
from diversity.tables import ErrorTable
from zoo.errors import InputError


def drawn(rows=400, models=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, rows)
    return np.where(rng.random((models, rows)) < 0.6, y, rng.integers(0, 4, (models, rows))), y


@pytest.mark.parametrize(("hits", "count"), [(0, 1), (1, 1), (7, 7), (0, 40), (3, 7), (399, 400), (20_000, 50_000)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_wilsons_interval_equals_scipys(hits, count, level):
    expected = binomtest(hits, count).proportion_ci(level, method="wilson")
    np.testing.assert_allclose(wilson(hits / count, count, level), expected, rtol=1e-12, atol=1e-15)


def test_the_interval_of_a_fraction_of_few_examples_is_never_a_point():
    table = EnsembleTable(np.array([90.0, 1, 0, 7, 0]), np.array([90.0, 1, 0, 0, 0]))
    counts = {
        "conversion_rate": (1, 1), "dominance": (0, 7), "dominated": (1, 8), "wrong_agreement": (7, 7),
        "both_wrong_gained": (0, 7), "both_right_lost": (0, 90), "accuracy_first": (91, 98),
    }  # fmt: skip
    for measure, (hits, count) in counts.items():
        expected = binomtest(hits, count).proportion_ci(method="wilson")
        assert interval(table, measure) == pytest.approx(tuple(expected), abs=1e-12), measure


@pytest.mark.parametrize("measure", ["kappa", "q", "correlation"])
def test_equals_the_bootstrap_of_the_examples(measure):
    (a, b), y = drawn()
    table = diversity.error_table(a, b, y)
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(y), (4000, len(y)))
    naive = np.array([getattr(diversity.error_table(a[r], b[r], y[r]), measure) for r in rows])
    ours = getattr(resampled(table, 4000), measure)
    assert ours.mean() == pytest.approx(naive.mean(), abs=4 * naive.std() / 60)
    assert ours.std() == pytest.approx(naive.std(), rel=0.06)
    low, high = interval(table, measure, resamples=4000)
    np.testing.assert_allclose([low, high], np.quantile(naive, [0.025, 0.975]), atol=0.2 * naive.std())


def test_intervals_cover_the_truth_at_their_level():
    truth = np.array([0.55, 0.12, 0.13, 0.08, 0.12])
    rng = np.random.default_rng(0)
    hits = 0
    for seed in range(400):
        table = ErrorTable(rng.multinomial(300, truth).astype(float))
        low, high = interval(table, "inconsistency", resamples=200, level=0.9, seed=seed)
        hits += low <= 0.25 <= high
    assert 0.86 <= hits / 400 <= 0.94


def test_every_pair_of_a_matrix(monkeypatch):
    p, y = drawn(models=5)
    m = diversity.pairwise(p, y)
    monkeypatch.setattr(intervals, "PAIR_BLOCK", 4)
    for measure in ("kappa", "dominance"):
        low, high = m.interval(measure, resamples=3000)
        for i in range(5):
            for j in range(5):
                expected = interval(diversity.error_table(p[i], p[j], y), measure, resamples=3000, seed=7)
                np.testing.assert_allclose([low[i, j], high[i, j]], expected, atol=0.02)
        assert (low <= m.measure(measure)).all()
        assert (m.measure(measure) <= high).all()


def test_the_same_seed_gives_the_same_interval():
    (a, b), y = drawn()
    table = diversity.error_table(a, b, y)
    assert interval(table, "kappa", seed=3) == interval(table, "kappa", seed=3)
    assert interval(table, "kappa", seed=3) != interval(table, "kappa", seed=4)


def test_the_ensemble_is_resampled_with_its_members():
    table = EnsembleTable(np.array([60.0, 15, 10, 5, 10]), np.array([60.0, 12, 8, 0, 2]))
    draws = resampled(table, 5000)
    assert (draws.right <= draws.cells).all()
    assert draws.ensemble_accuracy.mean() == pytest.approx(0.82, abs=0.003)
    assert draws.conversion_rate.std() == pytest.approx(np.sqrt(0.8 * 0.2 / 25), rel=0.1)


def test_draws_in_which_a_measure_is_undefined_are_left_out():
    low, high = interval(ErrorTable(np.array([97.0, 1.0, 1.0, 1.0, 0.0])), "q")
    assert -1 <= low < high <= 1
    errorless = ErrorTable(np.array([9.0, 0, 0, 0, 0]))
    assert np.isnan([interval(errorless, "wrong_agreement"), interval(errorless, "q")]).all()


def test_means_of_columns():
    x = np.random.default_rng(0).normal(size=(500, 2))
    means = resampled_means(torch.from_numpy(x), 2000).numpy()
    np.testing.assert_allclose(means.mean(0), x.mean(0), atol=0.005)
    np.testing.assert_allclose(means.std(0), x.std(0) / np.sqrt(500), rtol=0.06)
    constant = resampled_means(torch.ones(50, 1), 40)
    assert (constant == 1).all()  # the weights of every draw sum to the number of examples
    assert len(constant) == 40


def test_invalid_arguments_are_named():
    table = ErrorTable(np.array([9.0, 1, 1, 1, 1]))
    with pytest.raises(InputError, check=fields(argument="level", found=95)):
        interval(table, "kappa", level=95)
    with pytest.raises(InputError, check=fields(argument="resamples", found=0)):
        interval(table, "kappa", resamples=0)
    with pytest.raises(InputError, check=fields(argument="measure", found="conversion_rate")):
        interval(EnsembleTable(table.cells), "conversion_rate")
    with pytest.raises(InputError, check=fields(argument="measure", found="mcnemar")):
        interval(table, "mcnemar")
    with pytest.raises(InputError, check=fields(argument="measure", name="nope")):
        interval(diversity.pairwise(*drawn()), "nope")


def test_resample_keeps_the_total_and_the_empty_cells():
    draws = resample([[5, 0, 5], [1, 9, 0]], 50)
    assert draws.shape == (50, 2, 3)
    assert (draws.sum(2) == 10).all()
    assert (draws[:, 0, 1] == 0).all()


@pytest.mark.parametrize("tables", [[[60, 15, 10, 15], [55, 20, 10, 15], [0, 0, 100, 0]], [[7, 2, 1, 0], [30, 5, 5, 10]]])
def test_tables_resampled_together_have_the_distribution_of_a_multinomial(tables):
    """Mean and covariance of the cells of every table, whether or not the tables have the same number of examples."""
    tables = np.array(tables)
    draws = np.empty((20_000, *tables.shape))
    for numbers, block in resample_together(tables, 20_000, seed=1):
        draws[:, numbers] = block
    for table, drawn_cells in zip(tables, draws.swapaxes(0, 1), strict=True):
        n = table.sum()
        assert (drawn_cells.sum(1) == n).all()
        assert (drawn_cells[:, table == 0] == 0).all()
        covariance = n * (np.diag(table / n) - np.outer(table, table) / n**2)
        np.testing.assert_allclose(drawn_cells.mean(0), table, atol=4 * np.sqrt(n / 4 / 20_000))
        np.testing.assert_allclose(np.cov(drawn_cells.T), covariance, atol=0.05 * n / 4)


@pytest.mark.parametrize("measure", ["kappa", "q", "correlation"])
def test_intervals_of_a_matrix_equal_those_of_independent_draws(measure, monkeypatch):
    """Within Monte Carlo error: the ends of two sets of 20,000 independent draws differ as much."""
    monkeypatch.setattr(bootstrap, "TABLE_BLOCK", 7)
    p, y = drawn(models=6)
    m = diversity.pairwise(p, y)
    first, second = np.triu_indices(6, 1)
    together = np.stack(m.interval(measure, resamples=20_000))[:, first, second]
    tables = [EnsembleTable(resample(m.cells[first, second], 20_000, seed)) for seed in (1, 2)]
    one, two = (np.stack(percentile_interval(getattr(table, measure))) for table in tables)
    spread = getattr(tables[0], measure).std(0)
    assert np.abs((together - one) / spread).max() < 0.1
    assert np.abs((two - one) / spread).max() < 0.1


def test_percentiles_are_those_of_numpy():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 3, 4))
    values[rng.random(values.shape) < 0.2] = np.nan
    expected = np.nanquantile(values, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(percentile_interval(values, 0.9), expected, rtol=1e-12)


def test_percentile_interval_of_constant_values():
    low, high = percentile_interval(np.full((10, 2), 3.0))
    assert low.tolist() == high.tolist() == [3, 3]


def test_stays_on_the_stand_in_device():
    p, y = drawn(models=3)
    x = np.random.default_rng(0).normal(size=(60, 2))
    with Accelerator():
        low, high = interval(diversity.pairwise(upload(p), upload(y)), "kappa", resamples=50)
        means = resampled_means(upload(x), 40)
    expected = interval(diversity.pairwise(p, y), "kappa", resamples=50)
    np.testing.assert_allclose(download(low), expected[0])
    np.testing.assert_allclose(download(high), expected[1])
    np.testing.assert_allclose(download(means), resampled_means(torch.from_numpy(x), 40))
