"""The error table of two models: against loops, scikit-learn, SciPy and DESlib, and its invariants."""

import math

import numpy as np
import pytest
import torch
from accelerator import DEVICES, Accelerator, upload
from deslib.util import diversity as deslib
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.stats import binomtest, pearsonr
from sklearn.metrics import cohen_kappa_score

import diversity
from zoo.errors import InputError


def drawn(seed, rows=200, classes=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    return [np.where(rng.random(rows) < skill, y, rng.integers(0, classes, rows)) for skill in (0.5, 0.7)] + [y]


pairs = st.tuples(st.integers(0, 10**6), st.integers(1, 60), st.integers(2, 6)).map(lambda drawing: drawn(*drawing))


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_every_measure_is_what_a_loop_counts(drawing):
    a, b, y = drawing
    n = len(y)
    rows = [(p == t, q == t, p == q) for p, q, t in zip(a.tolist(), b.tolist(), y.tolist(), strict=True)]
    table = diversity.error_table(a, b, y)
    both_wrong = [same for first, second, same in rows if not first and not second]
    first_wrong = [second for first, second, _ in rows if not first]
    second_wrong = [first for first, second, _ in rows if not second]

    def mean(values):
        return sum(values) / len(values) if values else math.nan

    expected = {
        "examples": n,
        "both_right": sum(first and second for first, second, _ in rows),
        "only_first": sum(first and not second for first, second, _ in rows),
        "only_second": sum(second and not first for first, second, _ in rows),
        "both_wrong": len(both_wrong),
        "accuracy_first": mean([first for first, _, _ in rows]),
        "accuracy_second": mean([second for _, second, _ in rows]),
        "inconsistency": mean([first != second for first, second, _ in rows]),
        "agreement": mean([same for _, _, same in rows]),
        "disagreement": mean([not same for _, _, same in rows]),
        "error_agreement": mean([first == second for first, second, _ in rows]),
        "wrong_agreement": mean(both_wrong),
        "dominance": mean(first_wrong),
        "dominated": mean(second_wrong),
        "double_fault": len(both_wrong) / n,
    }
    for name, value in expected.items():
        assert getattr(table, name) == pytest.approx(value, abs=1e-12, nan_ok=True), name


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_against_other_implementations(drawing):
    a, b, y = drawing
    right, right_b = a == y, b == y
    table = diversity.error_table(a, b, y)
    if len(set(right)) == 2 and len(set(right_b)) == 2:
        assert table.kappa == pytest.approx(cohen_kappa_score(right, right_b), abs=1e-12)
        assert table.correlation == pytest.approx(pearsonr(right, right_b)[0], abs=1e-9)
        assert table.correlation == pytest.approx(deslib.correlation_coefficient(y, a, b), abs=1e-9)
        if (table.both_right * table.both_wrong + table.only_first * table.only_second) > 0:
            assert table.q == pytest.approx(deslib.Q_statistic(y, a, b), abs=1e-12)
    assert table.inconsistency == pytest.approx(deslib.disagreement_measure(y, a, b))
    assert table.error_agreement == pytest.approx(deslib.agreement_measure(y, a, b))
    assert table.double_fault == pytest.approx(deslib.double_fault(y, a, b))
    discordant = int(table.only_first + table.only_second)
    expected = binomtest(int(table.only_first), discordant).pvalue if discordant else 1.0
    assert table.mcnemar == pytest.approx(expected, rel=1e-9)
    assert diversity.mcnemar(a, b, y) == table.mcnemar


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_invariants(drawing):
    a, b, y = drawing
    inconsistency = diversity.error_inconsistency(a, b, y)
    first, second = (a == y).mean(), (b == y).mean()
    assert inconsistency == diversity.error_inconsistency(b, a, y)
    assert inconsistency <= min(first + second, 2 - first - second) + 1e-12
    assert inconsistency >= abs(first - second) - 1e-12
    assert diversity.error_inconsistency(a, a, y) == 0
    assert diversity.error_consistency(a, a, y) == 1
    assert diversity.agreement(a, a) == 1
    assert diversity.agreement(a, b) == pytest.approx((a == b).mean())
    assert -1 <= diversity.error_consistency(a, b, y) <= 1
    forward, backward = diversity.error_table(a, b, y), diversity.error_table(b, a, y)
    assert forward.dominance == pytest.approx(backward.dominated, nan_ok=True)


def test_no_answer_is_wrong_and_agrees_with_nothing():
    a, b, y = [0, -1, -1, -1, 2], [0, -1, 1, 0, 2], [0, 0, 1, 1, 1]
    assert diversity.error_table(a, b, y).cells.tolist() == [1, 0, 1, 1, 2]
    assert diversity.agreement(a, b) == 2 / 5
    assert diversity.error_inconsistency(a, b, y) == 1 / 5
    alone = diversity.error_table(a, a, y)
    assert (alone.agreement, alone.kappa) == (2 / 5, 1)


def test_models_without_errors():
    y = np.array([0, 1, 2])
    table = diversity.error_table(y, y, y)
    assert (table.inconsistency, table.kappa, table.mcnemar) == (0, 1, 1)
    for undefined in (table.wrong_agreement, table.dominance, table.q, table.correlation):
        assert math.isnan(undefined)


def test_kinds_of_input():
    a, b, y = drawn(0)
    expected = diversity.error_inconsistency(a, b, y)
    assert isinstance(expected, float)
    assert diversity.error_inconsistency(a.tolist(), b.astype(np.int8), y.astype(np.uint16)) == expected
    assert diversity.error_inconsistency(torch.from_numpy(a), torch.from_numpy(b), y) == expected


@pytest.mark.parametrize(
    ("a", "b", "y", "argument"),
    [
        ([0, 1], [0], [0, 1], "pred_b"),
        ([0, 1], [0, 1], [0], "labels"),
        ([0.1, 0.9], [0, 1], [0, 1], "pred_a"),
        ([[0.1, 0.9]], [0], [0], "pred_a"),
        ([0, -2], [0, 1], [0, 1], "pred_a"),
        ([0, 1], [0, 1], [0, -1], "labels"),
        ([True, False], [0, 1], [0, 1], "pred_a"),
        (np.zeros(0, int), np.zeros(0, int), np.zeros(0, int), "pred_a"),
    ],
)
def test_invalid_arguments_are_named(a, b, y, argument):
    with pytest.raises(InputError, check=fields(argument=argument)):
        diversity.error_inconsistency(a, b, y)


def test_a_label_beyond_the_largest_number_of_classes_is_refused():
    with pytest.raises(InputError, match=str(2**40)):
        diversity.error_inconsistency([0, 1], [0, 1], [0, 2**40])


def test_stays_on_the_stand_in_device():
    a, b, y = drawn(3)
    with Accelerator():
        remote = [
            f(upload(a), upload(b), upload(y))
            for f in (diversity.error_inconsistency, diversity.error_consistency, diversity.mcnemar)
        ]
        assert diversity.agreement(upload(a), upload(b)) == (a == b).mean()
        assert diversity.error_table(upload(a), upload(b), y).inconsistency == remote[0]
    assert remote == [f(a, b, y) for f in (diversity.error_inconsistency, diversity.error_consistency, diversity.mcnemar)]


@pytest.mark.parametrize("device", DEVICES)
def test_on_each_device(device):
    a, b, y = (torch.from_numpy(x).to(device) for x in drawn(3))
    assert diversity.error_inconsistency(a, b, y) == pytest.approx(float(((a == y) != (b == y)).float().mean()))
