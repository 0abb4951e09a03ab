"""Clustering: against SciPy, on models that have groups, and drawn."""

import numpy as np
import pytest
from accelerator import Accelerator, upload
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform

import diversity
from zoo.errors import InputError


def similarity(seed=0, models=6):
    a = np.random.default_rng(seed).uniform(0.2, 0.95, (models, models))
    a = (a + a.T) / 2
    np.fill_diagonal(a, 1)
    return a


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from(["average", "single", "complete"]))
def test_equals_scipy(seed, models, method):
    s = similarity(seed, models)
    tree = diversity.cluster(s, method=method)
    expected = linkage(squareform(1 - s, checks=False), method)
    np.testing.assert_allclose(np.sort(tree.linkage[:, 2]), np.sort(expected[:, 2]))
    np.testing.assert_allclose(cophenet(tree.linkage), cophenet(expected))
    assert sorted(tree.order) == list(range(models))
    order = np.random.default_rng(seed).permutation(models)
    turned = diversity.cluster(s[np.ix_(order, order)], method=method)
    np.testing.assert_allclose(turned.linkage[:, 2], tree.linkage[:, 2])


def test_finds_models_that_share_their_errors():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 2000)
    families = [np.where(rng.random(2000) < 0.7, y, rng.integers(0, 10, 2000)) for _ in range(3)]
    models = [np.where(rng.random(2000) < 0.9, family, rng.integers(0, 10, 2000)) for family in families for _ in range(4)]
    names = [f"family{i // 4}-s{i % 4}" for i in range(12)]
    m = diversity.pairwise(models, y, names)
    for measure in ("agreement", "error_agreement", "wrong_agreement"):
        tree = diversity.cluster(m.measure(measure), names)
        groups = tree.groups(3)
        assert {name: name[:7] for name in names} == {
            name: next(n for n in names if groups[n] == groups[name])[:7] for name in names
        }
        assert [leaf[:7] for leaf in tree.leaves] == sorted(
            (leaf[:7] for leaf in tree.leaves), key=[leaf[:7] for leaf in tree.leaves].index
        )


def test_segments_connect_every_leaf():
    tree = diversity.cluster(similarity())
    segments = tree.segments()
    assert len(segments) == 3 * 5
    feet = set(segments[segments["y"] == 0]["x"]) | set(segments[segments["y2"] == 0]["x2"])
    assert feet == {0, 1, 2, 3, 4, 5}
    assert segments[["y", "y2"]].to_numpy().max() == pytest.approx(tree.linkage[-1, 2])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(30, 120))
def test_in_text_neighbours_join_at_their_distance(seed, models, width):
    tree = diversity.cluster(similarity(seed, models))
    *rows, scale = tree.to_text(width).splitlines()
    assert max(map(len, [*rows, scale])) <= width
    assert [row.split()[0] for row in rows] == list(tree.leaves)
    margin = scale.index("0")
    distances = squareform(cophenet(tree.linkage))
    last = width - margin - 2
    for row, (i, j) in zip(rows, zip(tree.order, tree.order[1:], strict=False), strict=False):
        first_way_down = next(column for column, mark in enumerate(row[margin:]) if mark in "┐┬│┤├┼╷┌")
        assert first_way_down == round(last * distances[i, j] / distances.max())


def test_in_text_long_names_are_cut_and_equal_models_join_at_once():
    rows = diversity.cluster(np.ones((3, 3)), names=["a" * 100, "b", "c"]).to_text(40).splitlines()
    assert max(map(len, rows)) <= 40
    assert "a" * 19 + "…" in "\n".join(rows)


def test_groups():
    tree = diversity.cluster(similarity())
    assert set(tree.groups(1).values()) == {0}
    assert sorted(tree.groups(6).values()) == list(range(6))
    with pytest.raises(InputError, check=fields(argument="count", found=7)):
        tree.groups(7)


@pytest.mark.parametrize(
    ("s", "more", "expected"),
    [
        (np.ones((1, 1)), {}, {"argument": "similarity", "found": [1, 1]}),
        (np.ones((2, 3)), {}, {"argument": "similarity", "found": [2, 3]}),
        (
            np.array([[1, np.nan], [np.nan, 1]]),
            {"names": ["a", "b"]},
            {"argument": "similarity", "problem": "nan for a and b"},
        ),
        (np.array([[1.0, 0.3], [0.5, 1.0]]), {}, {"argument": "similarity", "problem": "symmetric"}),
        (np.array([[1.0, 3.0], [3.0, 1.0]]), {}, {"argument": "similarity", "found": 3.0}),
        (np.eye(2), {"names": ["a"]}, {"argument": "names", "found": 1}),
        (np.eye(2), {"method": "ward"}, {"argument": "method", "found": "ward"}),
    ],
)
def test_invalid_arguments_are_named(s, more, expected):
    with pytest.raises(InputError, check=fields(**expected)):
        diversity.cluster(s, **more)


def test_takes_a_tensor_of_the_stand_in_device():
    s = similarity()
    with Accelerator():
        remote = diversity.cluster(upload(s))
    np.testing.assert_allclose(remote.linkage, diversity.cluster(s).linkage)
