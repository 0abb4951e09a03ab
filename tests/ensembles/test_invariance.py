"""Results do not depend on the order of models, rows or classes, or on how the classes are numbered."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import softmax
from numpy.testing import assert_allclose

import ensembles
from zoo.outputs.outputs import Outputs, Runs

pytestmark = pytest.mark.filterwarnings("ignore:the gain in:zoo.errors.ZooWarning")
quick = settings(max_examples=25, deadline=None)


def make_runs(z, labels, ids, classes, models, rows, columns):
    """Return runs with models, rows and columns in these orders; labels are renumbered with the columns."""
    renumbered = np.argsort(columns)[labels]
    return Runs(
        Outputs.from_arrays(
            f"m{model}", logits=z[model][rows][:, columns], labels=renumbered[rows], ids=[ids[row] for row in rows],
            classes=[classes[k] for k in columns], temperature=1.0,
        )
        for model in models
    )  # fmt: skip


@st.composite
def two_orders(draw):
    """Return the same runs in two orders of models, rows and classes, and a seed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    models, examples, classes = draw(st.integers(2, 6)), draw(st.integers(8, 150)), draw(st.integers(2, 5))
    labels = rng.integers(0, classes, examples)
    z = rng.standard_normal((models, examples, classes)) + np.eye(classes)[labels]
    ids = [f"image-{number}.png" for number in rng.permutation(10 * examples)[:examples]]
    names = [f"class {k}" for k in range(classes)]
    orders = [[range(count) for count in z.shape], [rng.permutation(count) for count in z.shape]]
    first, second = (make_runs(z, labels, ids, names, *map(np.asarray, order)) for order in orders)
    return first, second, draw(st.integers(0, 3))


@given(two_orders())
@quick
def test_greedy_search(runs):
    first, second, seed = runs
    for options in ({}, {"replace": True, "bags": 2}, {"objective": "nll"}):
        one, other = (ensembles.greedy(each, steps=4, seed=seed, resamples=2, **options) for each in (first, second))
        assert one.members == other.members
        assert one.weights == other.weights
        assert_allclose(one.score, other.score, rtol=1e-9)
        assert_allclose(one.test_score, other.test_score, rtol=1e-9)
        assert_allclose(one.ece, other.ece, atol=1e-6)
        if one.temperature is not None:
            assert_allclose(one.temperature, other.temperature, rtol=1e-3)


@given(two_orders())
@quick
def test_subsets_and_cascades(runs):
    first, second, seed = runs
    one, other = (ensembles.Search(each, seed=seed) for each in (first, second))
    costs = {name: 1 + int(name[1:]) for name in first}
    size = min(3, len(first))
    assert one.best_subset(size) == other.best_subset(size)
    assert one.best_within(4, costs) == other.best_within(4, costs)
    assert one.random_subsets(size, draws=3).equals(other.random_subsets(size, draws=3))
    a, b = (each.cascade(members=first.names, cost=costs, resamples=2) for each in (one, other))
    assert (a.members, a.rule) == (b.members, b.rule)
    assert_allclose([a.score, a.cost, a.test_score, a.test_cost], [b.score, b.cost, b.test_score, b.test_cost])


@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
@quick
def test_the_split_of_arrays_does_not_depend_on_the_numbering_of_classes(draw, seed):
    rng = np.random.default_rng(draw)
    labels, order = rng.integers(0, 4, 60), rng.permutation(4)
    probs = softmax(rng.standard_normal((4, 60, 4)) + np.eye(4)[labels])
    first = ensembles.greedy(probs, labels, steps=3, seed=seed, resamples=2)
    second = ensembles.greedy(probs[:, :, order], np.argsort(order)[labels], steps=3, seed=seed, resamples=2)
    assert first.members == second.members
    assert first.score == second.score
    assert first.test_score == second.test_score


def test_row_numbers_are_the_ids_of_arrays():
    labels = np.random.default_rng(0).integers(0, 3, 50)
    for ids in (range(50), [str(i) for i in range(50)]):
        for one, other in zip(ensembles.stratified_split(labels), ensembles.stratified_split(labels, ids=ids), strict=True):
            assert np.array_equal(one, other)
