"""The ensemble of a pair, counted by a loop."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from accelerator import DEVICES, Accelerator, upload
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields

import diversity
from diversity import pair_ensembles
from diversity.measures import names
from diversity.pair_ensembles import EnsembleTable
from diversity.summary import GAIN_PARTS
from zoo.errors import InputError


def drawn(seed=0, rows=200, classes=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    boost = np.eye(classes)[y]
    p, q = (rng.dirichlet(np.ones(classes), rows) + boost * rng.uniform(0, 0.6, (rows, 1)) for _ in range(2))
    return p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True), y


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 50), st.integers(2, 6))
def test_every_measure_equals_the_count_of_a_loop(seed, rows, classes):
    p, q, y = drawn(seed, rows, classes)
    table = diversity.ensemble_table(p, q, y)
    verdicts = []
    for a, b, t in zip(p, q, y, strict=True):
        joint = max(range(classes), key=lambda k: (a[k] + b[k], -k))
        verdicts.append((a.argmax() == t, b.argmax() == t, joint == t))

    def fraction(values):
        return sum(values) / len(values) if values else math.nan

    first, second, joint = ([v[i] for v in verdicts] for i in range(3))
    assert table.ensemble_accuracy == pytest.approx(fraction(joint))
    assert table.gain_over_mean == pytest.approx(fraction(joint) - (fraction(first) + fraction(second)) / 2)
    assert table.gain_over_best == pytest.approx(fraction(joint) - max(fraction(first), fraction(second)))
    converted = [e for a, b, e in verdicts if a != b]
    assert table.conversion_rate == pytest.approx(fraction(converted), nan_ok=True)
    assert table.both_right_lost == pytest.approx(fraction([not e for a, b, e in verdicts if a and b]), nan_ok=True)
    assert table.both_wrong_gained == pytest.approx(fraction([e for a, b, e in verdicts if not a and not b]), nan_ok=True)
    assert table.inconsistency == diversity.error_inconsistency(p.argmax(1), q.argmax(1), y)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=10, max_size=10).filter(any))
def test_the_gain_over_the_mean_is_exactly_the_sum_of_its_parts(counts):
    """In fractions, also for tables in which the ensemble loses examples that both members get right."""
    right, wrong = counts[:5], counts[5:]
    cells = [r + w for r, w in zip(right, wrong, strict=True)]
    n = sum(cells)
    gain = Fraction(sum(right), n) - Fraction(2 * cells[0] + cells[1] + cells[2], 2 * n)
    conversion = Fraction(2 * (right[1] + right[2]) - cells[1] - cells[2], 2 * n)
    lost, gained = Fraction(cells[0] - right[0], n), Fraction(right[3] + right[4], n)
    assert conversion - lost + gained == gain
    table = EnsembleTable(np.array(cells, float), np.array(right, float))
    assert [getattr(table, part) for part in GAIN_PARTS] == [float(part) for part in (conversion, lost, gained)]
    assert table.gain_over_mean == pytest.approx(float(gain), abs=1e-15)
    if table.inconsistent:
        expected = table.inconsistency * (table.conversion_rate - 0.5)
        assert table.gain_from_conversion == pytest.approx(expected, abs=1e-15)


def test_chunks_add_up(monkeypatch):
    p, q, y = drawn()
    whole = diversity.ensemble_table(p, q, y)
    monkeypatch.setattr(pair_ensembles, "CHUNK", 7)
    parts = diversity.ensemble_table(p, q, y)
    np.testing.assert_array_equal(parts.cells, whole.cells)
    np.testing.assert_array_equal(parts.right, whole.right)


def test_a_model_with_itself_gains_nothing():
    p, _, y = drawn()
    table = diversity.ensemble_table(p, p, y)
    assert table.ensemble_accuracy == table.accuracy_first
    assert table.gain_over_mean == table.gain_over_best == 0
    assert math.isnan(table.conversion_rate)


def test_without_probabilities_measures_of_the_ensemble_are_none():
    table = EnsembleTable(np.array([7.0, 1, 1, 1, 0]))
    assert all(getattr(table, measure) is None for measure in (*names("ensemble"), *GAIN_PARTS))


def test_faults():
    p, q, y = drawn()
    with pytest.raises(InputError, check=fields(argument="probs_b", found=[200, 3])):
        diversity.ensemble_table(p, q[:, :3] / q[:, :3].sum(1, keepdims=True), y)
    with pytest.raises(InputError, check=fields(argument="probs_a")):
        diversity.ensemble_table(np.log(p), q, y)


def test_stays_on_the_stand_in_device():
    p, q, y = drawn()
    with Accelerator():
        remote = diversity.ensemble_table(upload(p), upload(q), upload(y))
    np.testing.assert_array_equal(remote.right, diversity.ensemble_table(p, q, y).right)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_on_each_device(device, dtype):
    p, q, y = drawn()
    p, q = (torch.from_numpy(x).to(device, dtype) for x in (p, q))
    table = diversity.ensemble_table(p, q, y)
    assert table.ensemble_accuracy == pytest.approx(((p.float() + q.float()).argmax(1).cpu().numpy() == y).mean())
