"""Stratified splits: proportions, and independence of the order of rows and of the numbering of classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised import fields

from zoo.core.splits import hold_out, random_rank, stratified_split
from zoo.errors import InputError

labels_of_examples = st.lists(st.integers(0, 4), min_size=4, max_size=40)
fractions = st.sampled_from([0.1, 0.25, 0.4, 0.5, 0.8])


def split_or_none(labels, fraction, seed, ids):
    try:
        return stratified_split(labels, fraction, seed, ids)
    except InputError:  # one side is empty
        return None


@given(labels=labels_of_examples, fraction=fractions, seed=st.integers(0, 99), with_ids=st.booleans())
def test_every_class_is_within_one_example_of_the_fraction(labels, fraction, seed, with_ids):
    ids = [f"image {i}" for i in range(len(labels))] if with_ids else None
    mask = split_or_none(labels, fraction, seed, ids)
    if mask is None:
        return
    assert abs(mask.sum() - fraction * len(labels)) <= 1
    for label in set(labels):
        of_class = np.array(labels) == label
        assert abs(mask[of_class].sum() - fraction * of_class.sum()) < 1 + 1e-9


@given(labels=labels_of_examples, fraction=fractions, seed=st.integers(0, 99), data=st.data())
def test_with_ids_neither_the_order_of_rows_nor_the_names_of_classes_matter(labels, fraction, seed, data):
    ids = np.array([f"image {i}" for i in range(len(labels))])
    order = np.array(data.draw(st.permutations(range(len(labels)))))
    names = np.array(data.draw(st.permutations(["cat", "dog", "emu", "fox", "owl"])))
    mask = split_or_none(labels, fraction, seed, ids)
    other = split_or_none(names[labels][order], fraction, seed, ids[order])
    assert (mask is None) == (other is None)
    if mask is not None:
        assert set(ids[mask]) == set(ids[order][other])


@given(labels=labels_of_examples, seed=st.integers(0, 99), data=st.data())
def test_held_out_examples_with_ids_do_not_depend_on_order_and_numbering(labels, seed, data):
    labels, ids = np.array([*labels, 0, 0]), np.array([str(i) for i in range(len(labels) + 2)])
    order = np.array(data.draw(st.permutations(range(len(labels)))))
    numbers = np.array(data.draw(st.permutations(range(5))))
    kept, held = hold_out(labels, 0.3, seed, ids)
    other_kept, other_held = hold_out(numbers[labels][order], 0.3, seed, ids[order])
    assert set(ids[held]) == set(ids[order][other_held])
    assert set(ids[kept]) == set(ids[order][other_kept])


def test_the_split_depends_on_the_seed_and_on_the_ids():
    labels, ids = np.arange(100) % 2, [str(i) for i in range(100)]
    base = stratified_split(labels, 0.5, 0, ids)
    assert np.array_equal(base, stratified_split(labels, 0.5, 0, ids))
    assert not np.array_equal(base, stratified_split(labels, 0.5, 1, ids))
    assert not np.array_equal(base, stratified_split(labels, 0.5, 0, [f"x{i}" for i in ids]))


def test_splits_are_the_same_in_every_version():
    """Stored temperatures and probes refer to these rows."""
    labels = np.arange(12) % 3
    assert np.flatnonzero(stratified_split(labels, 0.25, 0)).tolist() == [2, 7, 9]
    assert np.flatnonzero(stratified_split(labels, 0.25, 0, range(12))).tolist() == [0, 2, 10]
    assert hold_out(labels, 0.25, 0)[1].tolist() == [2, 7, 9]
    assert random_rank(labels, 0).tolist() == [1, 3, 0, 2, 1, 1, 3, 0, 3, 0, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (([0, 1], 0.0), {"argument": "fraction", "found": 0.0}),
        (([0, 1], 1.0), {"argument": "fraction", "found": 1.0}),
        (([0, 1], 0.5, -1), {"argument": "seed", "found": -1}),
        (([0, 1], 0.1), {"argument": "fraction", "problem": "empty"}),
        (([0, 1], 0.5, 0, ["a"]), {"argument": "ids", "found": 1}),
        (([0, 1], 0.5, 0, ["a", "a"]), {"where": "ids", "problem": "'a'"}),
    ],
)
def test_impossible_splits_are_refused(arguments, facts):
    with pytest.raises(InputError, check=fields(**facts)):
        stratified_split(*arguments)


def test_a_class_with_one_example_is_never_held_out():
    kept, held = hold_out(np.array([0, 0, 0, 0, 0, 1, 1, 2]), 0.2, seed=3)
    assert 7 in kept
    assert sorted([*kept, *held]) == list(range(8))
    with pytest.raises(InputError, check=fields(argument="validation", problem="two examples")):
        hold_out(np.arange(4), 0.2, seed=0)
    with pytest.raises(InputError, check=fields(argument="validation", found=2)):
        hold_out(np.zeros(4, int), 2, seed=0)
