"""All pairs at once: equal to the pairs one by one, in every kind of input."""

import numpy as np
import pytest
import torch
from accelerator import DEVICES, Accelerator, download, upload
from deslib.util import diversity as deslib
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import cohen_kappa_score

import diversity
from diversity import measures, pairs
from diversity.intervals import interval
from zoo.errors import InputError, UnknownName
from zoo.outputs.outputs import Outputs, Runs

MEASURES = measures.names("errors")


def drawn(seed=0, models=5, rows=300, classes=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    skill = rng.uniform(0.3, 0.9, (models, 1))
    return np.where(rng.random((models, rows)) < skill, y, rng.integers(0, classes, (models, rows))), y


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 40), st.integers(1, 5))
def test_matrices_are_the_pairs_one_by_one(seed, models, rows, classes):
    p, y = drawn(seed, models, rows, classes)
    p[np.random.default_rng(seed).random(p.shape) < 0.1] = -1  # no prediction
    matrices = diversity.pairwise(p, y)
    assert matrices.unanswered == tuple((p == -1).sum(1))
    for i in range(models):
        for j in range(models):
            table = diversity.error_table(p[i], p[j], y)
            np.testing.assert_array_equal(matrices.cells[i, j], table.cells)
            for measure in MEASURES:
                found = matrices.measure(measure)[i, j]
                assert found == pytest.approx(getattr(table, measure), nan_ok=True), (measure, i, j)
    np.testing.assert_allclose(matrices.accuracy, (p == y).mean(1))


@pytest.mark.parametrize("classes", [2, 120, 200, 40_000, 10**6])  # that fit into integers of 8, 16 and 32 bits, or do not
def test_every_number_of_classes(classes):
    p, y = drawn(models=12, rows=400, classes=classes)
    p[3] = p[7] = classes - 1  # equally wrong nearly everywhere
    matrices = diversity.pairwise(p, y)
    wrong = p != y
    same_wrong = ((p[:, None] == p[None]) & wrong[:, None] & wrong[None]).sum(2)
    np.testing.assert_array_equal(matrices.cells[..., 3], same_wrong)


def test_blocks_of_examples_add_up(monkeypatch):
    p, y = drawn(rows=1000)
    whole = diversity.pairwise(p, y).cells
    monkeypatch.setattr(pairs, "BLOCK", 77)
    np.testing.assert_array_equal(diversity.pairwise(p, y).cells, whole)


def test_against_deslib():
    p, y = drawn(models=4)
    matrices = diversity.pairwise(p, y)
    for theirs, ours in (
        (deslib.double_fault, matrices.double_fault),
        (deslib.disagreement_measure, matrices.inconsistency),
        (deslib.Q_statistic, matrices.q),
        (deslib.correlation_coefficient, matrices.correlation),
    ):
        off_diagonal = ours - np.diag(np.diag(ours))
        np.testing.assert_allclose(deslib.compute_pairwise_diversity(y, p.T, theirs), off_diagonal.sum(1), rtol=1e-9)


def test_symmetry():
    p, y = drawn()
    m = diversity.pairwise(p, y)
    for measure in set(MEASURES) - {"dominance", "dominated", "accuracy_first", "accuracy_second"}:
        np.testing.assert_allclose(m.measure(measure), m.measure(measure).T, rtol=1e-12)
    np.testing.assert_array_equal(m.dominance, m.dominated.T)
    np.testing.assert_array_equal(np.diag(m.inconsistency), 0)
    np.testing.assert_array_equal(np.diag(m.kappa), 1)


def test_kinds_of_input():
    p, y = drawn()
    expected = diversity.pairwise(p, y).kappa
    assert isinstance(expected, np.ndarray)
    tensor = diversity.pairwise(torch.from_numpy(p), torch.from_numpy(y)).kappa
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float64
    np.testing.assert_array_equal(tensor, expected)
    np.testing.assert_array_equal(diversity.pairwise(list(p), y).kappa, expected)
    np.testing.assert_array_equal(diversity.pairwise(p.astype(np.int16), y.tolist()).kappa, expected)


def test_runs_are_aligned_by_id_and_class():
    p, y = drawn(classes=3)
    names = ("cat", "dog", "eel")
    straight = Outputs.from_arrays("a", predictions=p[0], labels=y, classes=names)
    turned = np.array([2, 0, 1])  # eel, cat, dog
    other = Outputs.from_arrays("b", predictions=np.argsort(turned)[p[1]], labels=np.argsort(turned)[y],
                                classes=[names[k] for k in turned]).select(np.arange(299, -1, -1))  # fmt: skip
    m = diversity.pairwise(Runs([straight, other]))
    np.testing.assert_array_equal(m.cells, diversity.pairwise(p[:2], y).cells)
    assert m.names == ("a", "b")


def test_frames():
    p, y = drawn(models=3)
    m = diversity.pairwise(p, y, names=["a", "b", "c"])
    frame = m.to_frame()
    assert frame[["first", "second"]].to_numpy().tolist() == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert frame["kappa"].tolist() == [m.kappa[0, 1], m.kappa[0, 2], m.kappa[1, 2]]
    assert m.matrix("agreement").loc["a", "c"] == m.agreement[0, 2]


def test_trees_by_symmetric_measures():
    p, y = drawn()
    m = diversity.pairwise(p, y, list("abcde"))
    right = p == y
    apart = {
        "inconsistency": [np.mean(right[i] != right[j]) for i in range(5) for j in range(i + 1, 5)],
        "agreement": [np.mean(p[i] != p[j]) for i in range(5) for j in range(i + 1, 5)],
        "kappa": [1 - cohen_kappa_score(right[i], right[j]) for i in range(5) for j in range(i + 1, 5)],
    }
    for measure, distances in apart.items():
        np.testing.assert_allclose(m.tree(measure).linkage[:, 2], linkage(distances, "average")[:, 2], err_msg=measure)
    assert m.tree("kappa", "single").names == tuple("abcde")
    perfect = diversity.pairwise(np.stack([y, p[0]]), y)  # of a model without errors its own kappa is undefined
    assert perfect.tree("kappa").linkage[0, 2] == 1
    for measure in ("dominance", "mcnemar", "accuracy_first"):
        with pytest.raises(InputError, check=fields(argument="measure", found=measure)):
            m.tree(measure)


@pytest.mark.parametrize(
    ("p", "y", "more", "expected"),
    [
        ([[0, 1], [0]], [0, 1], {}, {"argument": "preds", "found": [1, 2]}),
        (np.zeros((0, 3), int), [0, 1, 1], {}, {"argument": "preds", "found": [0, 3]}),
        (np.zeros((2, 0), int), np.zeros(0, int), {}, {"argument": "preds", "found": [2, 0]}),
        (np.zeros(3, int), [0, 1, 1], {}, {"argument": "preds", "found": [3]}),
        (np.zeros((2, 3), int), [0, 1], {}, {"argument": "labels"}),
        (np.zeros((2, 3), int), None, {}, {"argument": "labels"}),
        (np.zeros((2, 3)), [0, 1, 1], {}, {"argument": "preds"}),
        (np.zeros((2, 3), int), [0, 1, 1], {"names": ["a"]}, {"argument": "names", "found": 1}),
    ],
)
def test_invalid_arguments_are_named(p, y, more, expected):
    with pytest.raises(InputError, check=fields(**expected)):
        diversity.pairwise(p, y, **more)


def test_names_must_be_unique():
    with pytest.raises(InputError, match="'a'"):
        diversity.pairwise(np.zeros((2, 3), int), [0, 1, 1], ["a", "a"])


def test_a_label_beyond_the_largest_number_of_classes_is_refused():
    with pytest.raises(InputError, match=str(2**40)):
        diversity.pairwise([[0, 1], [0, 1]], [0, 2**40])


def test_unknown_measure():
    with pytest.raises(UnknownName, check=fields(argument="measure", name="kapa", suggestions=("kappa",))):
        diversity.pairwise(*drawn()).measure("kapa")


def test_stays_on_the_stand_in_device():
    p, y = drawn()
    here = diversity.pairwise(p, y)
    with Accelerator():
        remote = diversity.pairwise(upload(p), upload(y))
        found = {measure: remote.measure(measure) for measure in MEASURES}
        frame = remote.to_frame()
        ends = interval(remote, "kappa", resamples=20)
    for measure, matrix in found.items():
        np.testing.assert_allclose(download(matrix), here.measure(measure), err_msg=measure)
    assert frame.equals(here.to_frame())
    np.testing.assert_allclose(download(ends[0]), interval(here, "kappa", resamples=20)[0])


@pytest.mark.parametrize("device", DEVICES)
def test_on_each_device(device):
    p, y = drawn()
    found = diversity.pairwise(torch.from_numpy(p).to(device), torch.from_numpy(y).to(device))
    assert found.kappa.device.type == device
    np.testing.assert_allclose(found.kappa.cpu(), diversity.pairwise(p, y).kappa, rtol=1e-5)
