"""Accuracy against scikit-learn; average precision and AUC by hand, by loops, in the VOC devkit and in scikit-learn."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from raised import fields
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

from probes.metrics import accuracy, auc, average_precision, mean_auc, mean_per_class_accuracy, tally, voc_map
from zoo.errors import InputError, ZooWarning


@pytest.mark.parametrize("weighted", [False, True])
def test_accuracies_equal_scikit_learns(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 5, (2, 200))
    weights = rng.uniform(0, 3, 200) if weighted else None
    assert accuracy(predictions, labels, weights) == pytest.approx(
        accuracy_score(labels, predictions, sample_weight=weights)
    )
    expected = balanced_accuracy_score(labels, predictions, sample_weight=weights)
    assert mean_per_class_accuracy(predictions, labels, weights) == pytest.approx(expected)


def test_tallies_of_parts_add_up() -> None:
    labels, predictions = np.random.default_rng(0).integers(0, 5, (2, 200))
    parts = [tally(predictions[part], labels[part], num_classes=5) for part in (slice(0, 70), slice(70, 200))]
    for total, *summands in zip(tally(predictions, labels), *parts, strict=True):
        torch.testing.assert_close(total, sum(summands))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([], np.array([], int)), {"argument": "labels", "found": 0}),
        (([0, 1], [0]), {"argument": "predictions"}),
        (([0], [0], [1.0, 2.0]), {"argument": "weights", "found": [2]}),
        (([0], [2**40]), {"where": "labels", "problem": str(2**40)}),
    ],
)
def test_bad_predictions_are_named(arguments: tuple, error: dict) -> None:
    for measure in (accuracy, mean_per_class_accuracy):
        with pytest.raises(InputError, check=fields(**error)):
            measure(*arguments)


def test_voc_map_equals_a_table_by_hand() -> None:
    """Ten images, three classes.

    Class 0: positives at ranks 1, 3, 6, 10 of ten. Recall 1/4 at precision 1, 2/4 at 2/3, 3/4 at 1/2, 4/4 at 2/5.
        Recalls 0 to 0.2 -> 1; 0.3 to 0.5 -> 2/3; 0.6, 0.7 -> 1/2; 0.8 to 1 -> 2/5: (3 + 2 + 1 + 1.2) / 11.
    Class 1: the only positive is last: precision 1/10 everywhere.
    Class 2: all positives first: 1.
    """
    scores = np.tile(np.linspace(1, 0.1, 10)[:, None], 3)
    labels = np.zeros((10, 3), int)
    labels[[0, 2, 5, 9], 0] = 1
    labels[9, 1] = 1
    labels[:3, 2] = 1
    np.testing.assert_allclose(average_precision(scores, labels), [7.2 / 11, 0.1, 1.0])
    assert voc_map(scores, labels) == pytest.approx((7.2 / 11 + 1.1) / 3)


def slow_average_precision(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the average precision by its definition, threshold by threshold and recall by recall."""
    points = []
    for threshold in set(scores.tolist()):
        passed = scores >= threshold
        points.append((int(labels[passed].sum()), labels[passed].mean()))
    positives = int(labels.sum())
    return float(np.mean([max(p for hits, p in points if 10 * hits >= j * positives) for j in range(11)]))


eighths = st.integers(0, 8).map(lambda v: v / 8)
rows_of_scores = st.integers(1, 30).flatmap(
    lambda n: st.tuples(hnp.arrays(np.float64, n, elements=eighths), hnp.arrays(np.int64, n, elements=st.integers(0, 1)))
)


@settings(deadline=None)
@given(rows_of_scores)
def test_average_precision_and_auc_of_tied_scores_equal_loops(rows: tuple[np.ndarray, np.ndarray]) -> None:
    scores, labels = rows
    found = average_precision(scores[:, None], labels[:, None])[0]
    if labels.sum() == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(slow_average_precision(scores, labels))
        assert found == average_precision(scores[::-1][:, None].copy(), labels[::-1][:, None].copy())[0]
    area = auc(scores[:, None], labels[:, None])[0]
    if 0 < labels.sum() < len(labels):
        assert area == pytest.approx(roc_auc_score(labels, scores))
        assert auc(scores[:, None], labels[:, None], bins=1000)[0] == pytest.approx(
            area
        )  # eighths fall into bins of their own
    else:
        assert np.isnan(area)


def devkit(out: np.ndarray, gt: np.ndarray) -> float:
    """Return the average precision by VOCevalcls.m of the VOC 2007 devkit; gt is 1, -1, or 0 for difficult."""
    si = np.argsort(-out)
    tp, fp = np.cumsum(gt[si] > 0), np.cumsum(gt[si] < 0)
    rec = tp / (gt > 0).sum()
    with np.errstate(invalid="ignore"):
        prec = tp / (fp + tp)
    ap = 0.0
    for t in range(11):
        passed = prec[(rec >= t / 10 - 1e-12) & ~np.isnan(prec)]
        ap += (passed.max() if len(passed) else 0) / 11
    return ap


@pytest.mark.parametrize("seed", range(5))
def test_difficult_objects_are_ignored_as_the_devkit_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gt = rng.choice([-1, -1, 0, 1], (60, 4))
    scores = rng.permutation(240).reshape(60, 4) / 240 + 0.203 * gt  # no two the same
    scores[0, 0], gt[0, 0] = 9.0, 0  # a difficult one on top
    labels = np.where(gt == 0, -1, gt == 1).astype(int)
    expected = [devkit(scores[:, k], gt[:, k]) for k in range(4)]
    np.testing.assert_allclose(average_precision(scores, labels), expected)
    assert voc_map(scores, labels) == pytest.approx(np.mean(expected))
    assert (average_precision(scores, gt == 1) != expected).any()  # counting them as absent is something else
    areas = [roc_auc_score(gt[gt[:, k] != 0, k], scores[gt[:, k] != 0, k]) for k in range(4)]
    np.testing.assert_allclose(auc(scores, labels), areas)
    assert mean_auc(scores, labels) == pytest.approx(np.mean(areas))


def test_auc_of_a_thousand_bins_is_close_to_the_exact_one() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (4000, 2))
    scores = 1 / (1 + np.exp(-rng.normal(labels, 1.0)))
    np.testing.assert_allclose(auc(scores, labels, bins=1000), auc(scores, labels), atol=1e-4)
    assert (auc(scores, labels, bins=1000) != auc(scores, labels)).any()
    assert mean_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores))


def test_classes_without_positives_are_left_out_with_a_warning() -> None:
    scores, labels = np.array([[0.9, 0.1], [0.2, 0.3]]), np.array([[1, 0], [0, 0]])
    with pytest.warns(ZooWarning, match="1 of 2"):
        assert voc_map(scores, labels) == 1.0
    with pytest.raises(InputError, check=fields(argument="labels", problem="positive")):
        voc_map(scores[:, 1:], labels[:, 1:])


@pytest.mark.parametrize(
    ("scores", "labels", "error"),
    [
        (np.zeros((3, 2)), np.zeros((3, 1), int), {"argument": "scores", "expected": "[3, 1]", "found": [3, 2]}),
        (np.zeros((3, 2)), np.full((3, 2), 2), {"argument": "labels", "problem": "row 0, class 0 is 2"}),
        (np.zeros((3, 2)), np.zeros(3, int), {"argument": "labels", "found": [3]}),
        (np.array([[0.0], [np.nan]]), np.array([[1], [0]]), {"argument": "scores", "problem": "row 1"}),
    ],
)
def test_bad_scores_are_named(scores: np.ndarray, labels: np.ndarray, error: dict) -> None:
    for measure in (voc_map, mean_auc):
        with pytest.raises(InputError, check=fields(**error)):
            measure(scores, labels)


def test_bins_take_probabilities_only() -> None:
    with pytest.raises(InputError, check=fields(argument="scores")):
        auc([[2.0], [0.0]], [[1], [0]], bins=10)
    with pytest.raises(InputError, check=fields(argument="bins", found=0)):
        auc([[0.5], [0.0]], [[1], [0]], bins=0)
