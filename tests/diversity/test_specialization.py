"""The specialization angle: its geometry, and the tables made of it."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from accelerator import DEVICES, Accelerator, download, upload
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.stats import binomtest

import diversity
from diversity.specialization import OUTCOMES, extremes, prevalence_band, specialization_by_class, theta_histogram
from zoo.errors import InputError

QUARTER = math.pi / 4


def drawn(seed=0, rows=300, classes=4):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(classes), rows), rng.dirichlet(np.ones(classes), rows), rng.integers(0, classes, rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 50), st.integers(1, 9))
def test_angle(seed, rows, classes):
    a, b, _ = drawn(seed, rows, classes)
    theta = diversity.specialization_angle(a, b)
    for t, p, q in zip(theta, a, b, strict=True):
        assert t == pytest.approx(math.atan2(p.max(), q.max()) - QUARTER)
    np.testing.assert_allclose(theta, -diversity.specialization_angle(b, a), atol=1e-12)
    assert (np.abs(theta) <= QUARTER).all()
    assert (diversity.specialization_angle(a, a) == 0).all()
    assert ((theta > 0) == (a.max(1) > b.max(1))).all()


def test_kinds_of_input():
    a, b, _ = drawn()
    expected = diversity.specialization_angle(a, b)
    assert isinstance(diversity.specialization_angle(torch.from_numpy(a), torch.from_numpy(b)), torch.Tensor)
    half = diversity.specialization_angle(a.astype(np.float16), b.astype(np.float16))
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, expected, atol=2e-3)


def test_histogram_counts_every_example_once():
    a, b, y = drawn()
    theta = diversity.specialization_angle(a, b)
    right, right_b = a.argmax(1) == y, b.argmax(1) == y
    frame = theta_histogram(theta, right, right_b, bins=8)
    assert frame["count"].sum() == 300
    assert frame["share"].sum() == pytest.approx(1)
    masks = [right & right_b, right & ~right_b, ~right & right_b, ~right & ~right_b]
    for outcome, mask in zip(OUTCOMES, masks, strict=True):
        expected, edges = np.histogram(theta[mask], bins=8, range=(-QUARTER, QUARTER))
        rows = frame[frame["outcome"] == outcome]
        assert rows["count"].tolist() == expected.tolist()
        np.testing.assert_allclose(rows["low"], edges[:-1])


def test_extreme_angles_fall_in_the_outer_bins():
    frame = theta_histogram(np.array([QUARTER, -QUARTER]), np.array([True] * 2), np.array([True] * 2), bins=4)
    assert frame["count"].tolist()[:4] == [1, 0, 0, 1]


def test_prevalence_band_is_where_winning_becomes_likely():
    rng = np.random.default_rng(0)
    theta = rng.uniform(-QUARTER, QUARTER, 40_000)
    # The chance that the first model's class wins is a logistic curve: 0.9 is reached at log(9)/20.
    chance = 1 / (1 + np.exp(-20 * theta))
    draw = rng.random(40_000)
    third = rng.random(40_000) < 0.02
    first, second = np.zeros(40_000, int), np.ones(40_000, int)
    joint = np.where(draw < chance, 0, 1)
    band = prevalence_band(theta, first, second, joint)
    assert band.upper == pytest.approx(math.log(9) / 20, abs=0.03)
    assert band.lower == pytest.approx(-math.log(9) / 20, abs=0.03)
    narrow = prevalence_band(theta, first, second, joint, level=0.6)
    assert narrow.lower > band.lower
    assert narrow.upper < band.upper
    # Examples the two agree on say nothing, and a third class winning widens the band.
    same = np.concatenate([joint, np.zeros(1000, int)])
    padded = prevalence_band(
        np.concatenate([theta, rng.uniform(-QUARTER, QUARTER, 1000)]), np.concatenate([first, np.zeros(1000, int)]),
        np.concatenate([second, np.zeros(1000, int)]), same,
    )  # fmt: skip
    assert padded == band
    wider = prevalence_band(theta, first, second, np.where(third, 2, joint))
    assert wider.upper > band.upper
    mirrored = prevalence_band(-theta, second, first, joint)
    assert (mirrored.lower, mirrored.upper) == pytest.approx((-band.upper, -band.lower))


def test_no_band_where_nobody_prevails():
    theta = np.linspace(-0.5, 0.5, 20)
    never = prevalence_band(theta, np.zeros(20, int), np.ones(20, int), np.full(20, 2))
    assert (never.lower, never.upper) == (None, None)
    agreed = prevalence_band(theta, np.zeros(20, int), np.zeros(20, int), np.zeros(20, int))
    assert (agreed.lower, agreed.upper) == (None, None)


def test_by_class_is_what_a_loop_counts():
    a, b, y = drawn()
    y[y == 3] = 0  # a class that never occurs
    theta = diversity.specialization_angle(a, b)
    right, right_b = a.argmax(1) == y, b.argmax(1) == y
    frame = specialization_by_class(theta, right, right_b, y, ["p", "q", "r", "s"])
    assert set(frame["class"]) == {"p", "q", "r"}
    for row in frame.itertuples():
        inside = y == ["p", "q", "r"].index(row._1)
        assert row.count == inside.sum()
        assert row.theta == pytest.approx(theta[inside].mean())
        assert row.accuracy_first == pytest.approx(right[inside].mean())
        assert row.advantage == pytest.approx(right[inside].mean() - right_b[inside].mean())
        only = int((right & ~right_b)[inside].sum()), int((right_b & ~right)[inside].sum())
        assert row.mcnemar == pytest.approx(binomtest(only[0], sum(only)).pvalue)
        ends = binomtest(int(right[inside].sum()), int(inside.sum())).proportion_ci(method="wilson")
        assert (row.accuracy_first_low, row.accuracy_first_high) == pytest.approx(tuple(ends))
    assert frame["advantage"].is_monotonic_decreasing


def test_a_class_is_owned_where_holms_test_says_so():
    """Of ten classes the first wins by 20, 9, 7 and 1 to 0 and loses one by 15 to 0; the others are level."""
    wins = [20, 9, 7, 1, -15, 0, 0, 0, 0, 0]
    y = np.repeat(np.arange(10), 20)
    row = np.tile(np.arange(20), 10)
    first = row >= np.repeat(np.maximum(-np.array(wins), 0), 20)
    second = row >= np.repeat(np.maximum(wins, 0), 20)
    frame = specialization_by_class(None, first, second, y).set_index("class")
    p = {k: 2.0 ** (1 - abs(n)) if n else 1.0 for k, n in enumerate(wins)}
    ranked = sorted(p.values())
    for k, n in enumerate(wins):
        before = [value * (10 - rank) for rank, value in enumerate(ranked) if value <= p[k]]
        assert frame.loc[str(k), "p_holm"] == pytest.approx(min(1, max(before)))
        owner = "either" if max(before) >= 0.05 else "first" if n > 0 else "second"
        assert frame.loc[str(k), "owner"] == owner
    assert frame["owner"].value_counts().to_dict() == {"either": 7, "first": 2, "second": 1}
    assert p[2] < 0.05  # alone it would be significant
    assert "theta" not in frame


def test_groups_of_classes():
    a, b, y = drawn()
    theta = diversity.specialization_angle(a, b)
    right, right_b = a.argmax(1) == y, b.argmax(1) == y
    groups = {"0": "nature", "1": "nature", "2": "made", "3": "made"}
    frame = specialization_by_class(theta, right, right_b, y, groups=groups).set_index("group")
    assert frame.loc["nature", "count"] == (y < 2).sum()
    assert frame.loc["made", "accuracy_second"] == pytest.approx(right_b[y >= 2].mean())
    with pytest.raises(InputError, check=fields(argument="groups", problem="'3'")):
        specialization_by_class(theta, right, right_b, y, groups={"0": "x", "1": "x", "2": "x"})


def test_extremes():
    theta = np.array([0.1, -0.7, 0.6, 0.0, -0.2])
    first, second = extremes(theta, 2)
    assert (first.tolist(), second.tolist()) == ([2, 0], [1, 4])
    first, second = extremes(theta, 2, mask=np.array([True, False, False, True, True]))
    assert (first.tolist(), second.tolist()) == ([0, 3], [4, 3])
    assert len(extremes(theta, 100)[0]) == 5


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda a, b, y: diversity.specialization_angle(4 * a, b), "probs_a"),
        (lambda a, b, y: diversity.specialization_angle(a, b[:-1]), "probs_b"),
        (lambda a, b, y: theta_histogram(a[:, 0], y == 0, y), "correct_b"),
        (lambda a, b, y: theta_histogram(a, y == 0, y == 1), "theta"),
        (lambda a, b, y: theta_histogram(a[:, 0], y == 0, y == 1, bins=0), "bins"),
        (lambda a, b, y: theta_histogram(a[:, 0], y == 0, y == 1, bins=2.5), "bins"),
        (lambda a, b, y: prevalence_band(a[:, 0], y, y, y, level=2), "level"),
        (lambda a, b, y: specialization_by_class(a[:, 0], y == 0, y == 1, y, ["p"]), "labels"),
    ],
)
def test_invalid_arguments_are_named(call, argument):
    with pytest.raises(InputError, check=fields(argument=argument)):
        call(*drawn())


def test_a_label_beyond_the_largest_number_of_classes_is_refused():
    with pytest.raises(InputError, match=str(2**40)):
        specialization_by_class(None, np.array([True]), np.array([False]), [2**40])


def test_equal_angles_are_on_the_same_side_of_the_prevalence_band():
    """The first wins at angle 0.5, and one of two times at angle 0; the order of those two rows makes no difference."""
    theta, first, second = np.array([0.5, 0.5, 0.0, 0.0]), np.zeros(4, int), np.ones(4, int)
    bands = [prevalence_band(theta, first, second, joint, level=0.7) for joint in ([0, 0, 0, 1], [0, 0, 1, 0])]
    assert bands[0] == bands[1]
    assert bands[0].upper == 0.25


def test_stays_on_the_stand_in_device():
    a, b, y = drawn()
    theta = diversity.specialization_angle(a, b)
    right, right_b = a.argmax(1) == y, b.argmax(1) == y
    joint = (a + b).argmax(1)
    groups = dict(zip("0123", "xxyy", strict=True))
    with Accelerator():
        remote = diversity.specialization_angle(upload(a), upload(b))
        histogram = theta_histogram(remote, upload(right), upload(right_b))
        band = prevalence_band(remote, upload(a.argmax(1)), upload(b.argmax(1)), upload(joint))
        classes = specialization_by_class(remote, upload(right), upload(right_b), upload(y), groups=groups)
        ends = extremes(remote, 5, upload(right != right_b))
    np.testing.assert_allclose(download(remote), theta)
    assert histogram.equals(theta_histogram(theta, right, right_b))
    assert band == prevalence_band(theta, a.argmax(1), b.argmax(1), joint)
    expected = specialization_by_class(theta, right, right_b, y, groups=groups)
    pd.testing.assert_frame_equal(classes, expected, rtol=1e-12)
    for found, expected in zip(ends, extremes(theta, 5, right != right_b), strict=True):
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_on_each_device(device):
    a, b, _ = drawn()
    p, q = (torch.from_numpy(x).float().to(device) for x in (a, b))
    theta = diversity.specialization_angle(p, q)
    assert theta.device.type == device
    np.testing.assert_allclose(theta.cpu(), diversity.specialization_angle(a, b), atol=1e-5)
