"""CAPA against the authors' package."""

from fractions import Fraction

import numpy as np
import pytest
from accelerator import Accelerator, download, upload
from hypothesis import given, settings
from hypothesis import strategies as st
from lmsim.metrics import CAPA
from raised import fields

import diversity
from diversity import chance_adjusted
from diversity.chance_adjusted import adjusted, capa_matrix, misses_of
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs


def drawn(seed=0, models=2, rows=40, classes=5):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(classes, 0.5), (models, rows)), rng.integers(0, classes, rows)


def capa_of_predictions(a, b, labels, classes):
    return float(adjusted(*misses_of(diversity.error_table(a, b, labels)), classes))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(2, 8))
def test_probabilities(seed, rows, classes):
    p, y = drawn(seed, 2, rows, classes)
    expected = CAPA(prob=True).compute_k(list(p[0]), list(p[1]), y.tolist())
    assert diversity.capa(p[0], p[1], y) == pytest.approx(expected, abs=1e-10)
    assert diversity.capa(p[1], p[0], y) == pytest.approx(expected, abs=1e-10)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(2, 8))
def test_predictions(seed, rows, classes):
    p, y = drawn(seed, 2, rows, classes)
    a, b = p.argmax(2)
    certain = (a == y).all() and (b == y).all(), classes == 2 and not (a == y).any() and not (b == y).any()
    if any(certain):  # agreement cannot be other than it is: theirs divides by zero
        assert capa_of_predictions(a, b, y, classes) == 1
        return
    hot = np.eye(classes)
    expected = CAPA(prob=False).compute_k(list(hot[a]), list(hot[b]), y.tolist())
    assert capa_of_predictions(a, b, y, classes) == pytest.approx(expected, abs=1e-10)


def test_matrix_is_the_pairs_in_any_chunks(monkeypatch):
    p, y = drawn(models=4)
    whole = capa_matrix(p, y)
    monkeypatch.setattr(chance_adjusted, "CHUNK_VALUES", 50)
    np.testing.assert_allclose(capa_matrix(list(p), y), whole, rtol=1e-12)
    for i in range(4):
        for j in range(4):
            assert whole[i, j] == pytest.approx(diversity.capa(p[i], p[j], y))


def exactly(p, q, y):
    """The definition in rational numbers, from which floating point has taken nothing."""
    rows, classes = p.shape
    p, q = ([[Fraction(float(x)) for x in row] for row in side] for side in (p, q))
    observed = sum(a * b for one, two in zip(p, q, strict=True) for a, b in zip(one, two, strict=True)) / rows
    first, second = (sum(side[n][t] for n, t in enumerate(y.tolist())) / rows for side in (p, q))
    expected = first * second + (1 - first) * (1 - second) / (classes - 1)
    return float((observed - expected) / (1 - expected))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sure", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("classes", [2, 10])
def test_exact_where_agreement_is_expected_anyway(dtype, sure, classes):
    """Models that miss a share `sure` of the label's probability: expected agreement is 1 less about twice that."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, classes, 200)
    p, q = ((1 - sure) * np.eye(classes)[y] + sure * rng.dirichlet(np.ones(classes), 200) for _ in range(2))
    p, q = p.astype(dtype), q.astype(dtype)
    expected = exactly(p, q, y)
    # The rows of float32 sum to 1 up to 6e-8, which the definition multiplies as much as an error of ours would be.
    assert diversity.capa(p, q, y) == pytest.approx(expected, abs=1e-9, rel=1e-9)
    a, b = (Outputs.from_arrays(n, probabilities=x, labels=y) for n, x in (("a", p), ("b", q)))
    assert diversity.compare(a, b).capa == pytest.approx(expected, abs=1e-9, rel=1e-9)


def test_models_that_are_always_correct_and_confident():
    p = np.eye(3)
    assert diversity.capa(p, p, [0, 1, 2]) == 1
    assert capa_of_predictions([0, 1], [0, 1], [0, 1], 2) == 1


def test_faults():
    p, y = drawn()
    with pytest.raises(InputError, check=fields(argument="probs[0]")):
        diversity.capa(3 * p[0], p[1], y)
    with pytest.raises(InputError, check=fields(argument="probs[1]", expected="[40, 5]", found=[39, 5])):
        diversity.capa(p[0], p[1][:-1], y)
    with pytest.raises(InputError, check=fields(argument="num_classes", found=1)):
        diversity.capa(np.ones((2, 1)), np.ones((2, 1)), [0, 0])
    with pytest.raises(InputError, check=fields(argument="probs", found=0)):
        capa_matrix([], y)


def test_stays_on_the_stand_in_device():
    p, y = drawn(models=3)
    with Accelerator():
        one = diversity.capa(upload(p[0]), upload(p[1]), upload(y))
        matrix = capa_matrix(upload(p), y)
        hard = capa_of_predictions(upload(p[0].argmax(1)), upload(p[1].argmax(1)), upload(y), 5)
    assert one == pytest.approx(diversity.capa(p[0], p[1], y))
    assert hard == pytest.approx(capa_of_predictions(p[0].argmax(1), p[1].argmax(1), y, 5))
    np.testing.assert_allclose(download(matrix), capa_matrix(p, y))
