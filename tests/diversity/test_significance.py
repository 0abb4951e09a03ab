"""Significance of differences: against loops over pairs, published examples, simulated coverage, and its invariants."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.stats import binom, binomtest, rankdata

import diversity
from diversity.significance import letter_groups, paired_interval, significance
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs


def predictions(seed=0, models=6, rows=400, classes=4, skill=(0.7, 0.85)):
    """Predictions whose errors are correlated, with accuracies that differ between the models."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    hardness = rng.random(rows)
    wrong = hardness + 0.3 * rng.random((models, rows)) > np.linspace(*skill, models)[:, None] + 0.15
    return np.where(wrong, (y + rng.integers(1, classes, (models, rows))) % classes, y), y


def holm_by_a_loop(p_values):
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


@pytest.mark.parametrize("test", ["exact", "mid-p"])
def test_every_pair_equals_a_loop(test):
    preds, y = predictions()
    names = list("uvwxyz")
    found = significance(preds, y, names, test=test)
    correct = {name: row == y for name, row in zip(names, preds, strict=True)}
    ranks = rankdata([-correct[name].mean() for name in names], method="ordinal")
    assert found.models == tuple(names[i] for i in np.argsort(ranks))
    expected = {}
    for first, second in itertools.combinations(found.models, 2):
        b, c = (int((correct[x] & ~correct[z]).sum()) for x, z in ((first, second), (second, first)))
        if test == "exact":
            p = binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
        else:  # Fagerland, Lydersen & Laake (2013), equations 3 and 4
            p = 2 * binom.cdf(min(b, c), b + c, 0.5) - binom.pmf(min(b, c), b + c, 0.5)
            p = 1 - binom.pmf(b, b + c, 0.5) / 2 if b == c else p
        expected[first, second] = b, c, p
    adjusted = holm_by_a_loop([p for _, _, p in expected.values()])
    frame = found.to_frame()
    assert list(zip(frame["first"], frame["second"], strict=True)) == list(expected)
    for row, (b, c, p), p_holm in zip(frame.itertuples(), expected.values(), adjusted, strict=True):
        assert (row.only_first, row.only_second) == (b, c)
        assert row.difference == pytest.approx((b - c) / len(y))
        assert row.p == pytest.approx(p)
        assert row.p_holm == pytest.approx(p_holm)
        assert row.significant == (p_holm < 0.05)
    assert 0 < frame["significant"].sum() < len(frame)


def test_the_published_example():
    """Airway hyper-responsiveness (Bentur et al. 2009), as in Fagerland, Lydersen & Laake (2014), Table V."""
    first = np.repeat([1, 1, 0, 0], [1, 1, 7, 12])
    second = np.repeat([1, 0, 1, 0], [1, 1, 7, 12])
    for test, p in (("exact", 0.0703125), ("mid-p", 0.0390625)):
        found = significance([first, second], np.ones(21, int), ["before", "after"], test=test)
        assert found.p[0, 1] == pytest.approx(p)
    low, high = paired_interval(1, 7, 21)
    assert (round(float(low), 3), round(float(high), 3)) == (-0.508, -0.013)


@pytest.mark.parametrize(("rows", "b", "c"), [(20, 0.2, 0.1), (50, 0.05, 0.02), (300, 0.1, 0.02), (2000, 0.01, 0.01)])
def test_intervals_of_differences_cover_the_true_difference(rows, b, c):
    draws = np.random.default_rng(0).multinomial(rows, [b, c, 1 - b - c], 4000)
    low, high = paired_interval(draws[:, 0], draws[:, 1], rows)
    assert ((low <= b - c) & (b - c <= high)).mean() >= 0.93
    observed = (draws[:, 0] - draws[:, 1]) / rows
    assert ((low <= observed) & (observed <= high)).all()


def test_large_samples_give_the_interval_of_the_paired_bootstrap():
    preds, y = predictions(rows=3000, models=2)
    found = significance(preds, y)
    difference = (preds[1] == y).astype(float) - (preds[0] == y)
    rng = np.random.default_rng(0)
    draws = [difference[rng.integers(0, 3000, 3000)].mean() for _ in range(2000)]
    ends = [float(end[0, 1]) for end in found.difference_interval]
    assert ends == pytest.approx(np.quantile(draws, [0.025, 0.975]).tolist(), abs=2e-3)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 60), st.sampled_from([0.8, 0.95]))
def test_invariants(seed, models, rows, level):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    preds = np.where(rng.random((models, rows)) < rng.random((models, 1)), y, rng.integers(-1, 3, (models, rows)))
    found = significance(preds, y, level=level)
    assert (np.diff(found.accuracy) <= 0).all()
    assert found.difference == pytest.approx(found.accuracy[:, None] - found.accuracy[None])
    assert found.difference == pytest.approx(-found.difference.T)
    low, high = found.difference_interval
    assert low == pytest.approx(-high.T)
    assert ((low <= found.difference + 1e-12) & (found.difference <= high + 1e-12)).all()
    assert (found.p <= found.p_holm).all()
    assert (found.p_holm <= 1).all()
    assert (found.p_holm == found.p_holm.T).all()
    shared = np.array([[bool(set(a) & set(b)) for b in found.letters] for a in found.letters])
    assert (shared == ~found.significant).all()
    assert found.indistinguishable_from_best[0] == found.models[0]
    assert found.indistinguishable_from_best == tuple(
        name for name, letters in zip(found.models, found.letters, strict=True) if set(letters) & set(found.letters[0])
    )
    # The order of models and examples makes no difference.
    order, places = rng.permutation(models), rng.permutation(rows)
    again = significance(preds[order][:, places], y[places], [str(m) for m in order], level=level)
    pairs = {frozenset(pair): p for *pair, p in found.to_frame()[["first", "second", "p_holm"]].itertuples(index=False)}
    for first, second, p in again.to_frame()[["first", "second", "p_holm"]].itertuples(index=False):
        assert pairs[frozenset((first, second))] == pytest.approx(p)


def test_models_with_equal_predictions_are_never_different():
    preds, y = predictions(models=3)
    found = significance(np.concatenate([preds, preds]), y)
    for name in range(3):
        i, j = (found.models.index(str(m)) for m in (name, name + 3))
        assert found.p_holm[i, j] == 1
        assert found.difference[i, j] == 0
        assert set(found.letters[i]) & set(found.letters[j])


class TestLetterGroups:
    def test_windows_of_sorted_means_get_one_letter_each(self):
        near = np.abs(np.arange(6)[:, None] - np.arange(6)) <= 2
        assert letter_groups(near) == ("a", "ab", "abc", "bcd", "cd", "d")

    @settings(max_examples=200)
    @given(st.integers(1, 9), st.integers(0, 10**6), st.floats(0, 1))
    def test_two_items_share_a_letter_exactly_if_they_are_alike(self, count, seed, density):
        upper = np.triu(np.random.default_rng(seed).random((count, count)) < density, 1)
        alike = upper | upper.T | np.eye(count, dtype=bool)
        letters = [set(item) for item in letter_groups(alike)]
        for i, j in itertools.product(range(count), repeat=2):
            assert bool(letters[i] & letters[j]) == alike[i, j]
        for letter in set.union(*letters):
            group = {item for item in range(count) if letter in letters[item]}
            others = [item for item in range(count) if item not in group]
            assert not any(alike[item, sorted(group)].all() for item in others), "a letter could be given to more items"
            rest = [item - {letter} for item in letters]
            still = all(rest[i] & rest[j] for i, j in itertools.product(group, repeat=2))
            assert not still, "a letter is redundant"

    def test_letters_do_not_run_out(self):
        letters = letter_groups(np.eye(120, dtype=bool))
        assert len(set(letters)) == 120
        assert (letters[0], letters[26], letters[52], letters[119]) == ("a", "A", "a1", "p2")


def test_runs_pairwise_and_arrays_agree():
    preds, y = predictions(models=3)
    runs = Runs(Outputs.from_arrays(f"m{i}", predictions=row, labels=y) for i, row in enumerate(preds))
    found = diversity.significance(runs)
    for other in (significance(preds, y, runs.names), significance(diversity.pairwise(runs))):
        assert other.models == found.models
        assert (other.p_holm == found.p_holm).all()


def test_the_printed_table_names_models_accuracies_and_letters():
    preds, y = predictions()
    found = significance(preds, y, [f"model-{i}" for i in range(6)])
    lines = str(found).splitlines()
    assert len(lines) == 8
    for row, line in zip(found.by_model().itertuples(), lines[1:], strict=False):
        assert line.split()[0] == row.model
        assert f"{100 * row.accuracy:.1f}%" in line
        assert line.split()[-1] == row.letters
    assert re.search(rf"{found.models[0]}\b.*Holm.*15 pairs.*400 examples", lines[-1])


def test_invalid_arguments_are_named():
    preds, y = predictions(models=2)
    for call, expected in (
        (lambda: significance(preds[:1], y), {"argument": "runs", "found": 1}),
        (lambda: significance(preds, y, level=1.0), {"argument": "level", "found": 1.0}),
        (lambda: significance(preds, y, test="t"), {"argument": "test", "found": "t"}),
        (lambda: significance(preds), {"argument": "labels"}),
        (lambda: significance(preds, y[:10]), {"argument": "labels"}),
        (lambda: significance(preds, y, ["a"]), {"argument": "names", "found": 1}),
        (lambda: significance(diversity.pairwise(preds, y), labels=y), {"argument": "labels"}),
    ):
        with pytest.raises(InputError, check=fields(**expected)):
            call()
