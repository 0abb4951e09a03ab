"""The number of wrong labels from checked ones: against loops, exact coverage, and SciPy's binomial interval."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from raised import fields
from scipy.stats import binomtest, hypergeom

from diversity.label_checks import count_wrong_labels, read_checked
from zoo.errors import InputError, UnknownName

IDS = ["a", "b", "c", "d"]
LABELS = np.array([0, 1, 2, 1])
CLASSES = ["cat", "dog", "owl"]


@given(st.integers(1, 60), st.data())
def test_the_interval_equals_a_loop_over_all_totals(examples, data):
    checked = data.draw(st.integers(1, examples))
    wrong = data.draw(st.integers(0, checked))
    level = data.draw(st.sampled_from([0.8, 0.95]))
    tail = (1 - Fraction(str(level))) / 2
    kept = []
    for total in range(wrong, examples - checked + wrong + 1):
        ways = [comb(total, k) * comb(examples - total, checked - k) for k in range(checked + 1)]
        if min(sum(ways[wrong:]), sum(ways[: wrong + 1])) >= tail * comb(examples, checked):
            kept.append(total)
    found = count_wrong_labels(wrong, checked, examples, level)
    assert found.interval == (kept[0], kept[-1])
    assert found.interval[0] <= found.estimate <= found.interval[1]


@pytest.mark.parametrize(("examples", "checked"), [(60, 12), (500, 40)])
def test_intervals_cover_every_true_number(examples, checked):
    ends = np.array([count_wrong_labels(wrong, checked, examples).interval for wrong in range(checked + 1)])
    for total in range(0, examples + 1, max(1, examples // 60)):
        covering = (ends[:, 0] <= total) & (total <= ends[:, 1])
        assert hypergeom.pmf(np.arange(checked + 1), examples, total, checked)[covering].sum() >= 0.95


def test_a_large_population_gives_the_binomial_interval():
    found = count_wrong_labels(5, 1000, 10**8)
    expected = binomtest(5, 1000).proportion_ci(method="exact")
    assert np.array(found.interval) / 10**8 == pytest.approx([expected.low, expected.high], rel=1e-3)


def test_labels_that_were_all_checked_leave_no_doubt():
    assert count_wrong_labels(3, 10, 10).interval == (3, 3)


def test_the_text_names_the_estimate_and_its_ends():
    found = count_wrong_labels(2, 400, 10_000)
    assert found.estimate == 50
    assert all(number in str(found) for number in ("50", f"{found.interval[0]}", f"{found.interval[1]}", "400"))


@pytest.mark.parametrize(
    "checked",
    [
        {"a": "cat", "c": "dog"},
        {"a": 0, "c": 1.0},
        {"a": True, "c": False, "b": None, "d": ""},
        {"a": "yes", "c": "No"},
        [0, -1, 1, -1],
        np.array([0.0, np.nan, 1.0, np.nan]),
        torch.tensor([0, -1, 1, -1]),
        np.array(["cat", "", "dog", ""]),
        [True, None, "dog", float("nan")],
    ],
)
def test_checked_labels_are_read_from_classes_and_booleans(checked):
    assert read_checked(checked, IDS, LABELS, CLASSES) == {0: False, 2: True}


def test_a_class_may_be_called_yes_or_no():
    assert read_checked({"a": "no", "b": "no", "c": "yes"}, IDS, np.array([0, 1, 0, 1]), ["yes", "no", "?"]) == {
        0: True, 1: False, 2: False
    }  # fmt: skip


def test_invalid_arguments_are_named():
    for checked, expected in (
        ({"z": True}, {"problem": "'z'"}),
        ({"a": 3}, {"where": "'a'", "found": 3}),
        ({"a": 0.5}, {"where": "'a'", "found": 0.5}),
        ({"a": float("inf")}, {"where": "'a'"}),
        ({"a": ["cat"]}, {"where": "'a'"}),
        ({}, {"found": 0}),
        ({"a": None}, {"found": 0}),
        ([0, 1], {"expected": "4"}),
    ):
        with pytest.raises(InputError, check=fields(argument="checked", **expected)):
            read_checked(checked, IDS, LABELS, CLASSES)
    with pytest.raises(UnknownName, check=fields(name="cow", where="'a'")):
        read_checked({"a": "cow"}, IDS, LABELS, CLASSES)
    for arguments, name in (
        ((1, 0, 10), "checked"),
        ((1, 11, 10), "checked"),
        ((3, 2, 10), "wrong"),
        ((0, 1, 0), "examples"),
    ):
        with pytest.raises(InputError, check=fields(argument=name)):
            count_wrong_labels(*arguments)
