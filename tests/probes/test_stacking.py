"""Stacked generalization: which probes are fitted, on what, and what goes wrong."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probes.linear import LinearProbe
from probes.stacking import stack
from zoo.errors import InputError

DIGITS = load_digits()
X, Y = DIGITS.data[:800] / 16, DIGITS.target[:800]
TRAIN, TEST = slice(0, 500), slice(500, 800)
PARTS = {"top": slice(0, 20), "middle": slice(20, 45), "bottom": slice(45, 64)}
ONE = {"strengths": [1.0], "validation": 0}


def parts(rows: slice) -> dict[str, np.ndarray]:
    return {name: X[rows, columns] for name, columns in PARTS.items()}


def test_alone_and_in_pairs_against_scikit_learn() -> None:
    frame = stack(parts(TRAIN), Y[TRAIN], (parts(TEST), Y[TEST]), **ONE)
    assert list(frame) == ["first", "second", "dimensions", "metric", "score", "gain"]
    assert frame["first"].tolist() == ["top", "middle", "bottom", "top", "top", "middle"]
    assert frame["second"].tolist() == [None] * 3 + ["middle", "bottom", "bottom"]
    assert set(frame.metric) == {"accuracy"}
    for row in frame.itertuples():
        names = [name for name in (row.first, row.second) if name]
        fitted, test = (np.concatenate([parts(rows)[name] for name in names], 1) for rows in (TRAIN, TEST))
        peer = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, tol=1e-8, max_iter=5000)).fit(fitted, Y[TRAIN])
        assert row.score == pytest.approx(peer.score(test, Y[TEST]), abs=0.004)
        assert row.dimensions == fitted.shape[1]


def test_gain_is_over_the_better_of_the_two() -> None:
    frame = stack(parts(slice(None)), Y, **ONE)
    alone = frame.set_index("first")["score"][:3]
    for row in frame[3:].itertuples():
        assert row.gain == pytest.approx(row.score - max(alone[row.first], alone[row.second]))
        assert row.gain > 0
    assert frame.gain[:3].isna().all()


def test_scale_of_a_model_does_not_matter_nor_numpy_or_tensor() -> None:
    models = {"a": torch.from_numpy(X[:, :32]), "b": torch.from_numpy(1e-3 * X[:, 32:])}
    frames = [stack(m, Y, **ONE) for m in ({"a": X[:, :32], "b": X[:, 32:]}, models)]
    np.testing.assert_allclose(frames[0].score, frames[1].score, atol=0.01)


TARGETS = np.stack([Y % 2 == 0, Y > 4], 1).astype(int)  # several labels per example: even, above four


def eleven_points(scores: np.ndarray, truth: np.ndarray) -> float:
    """VOC 2007: the best precision at a recall of at least 0, 0.1, ..., 1, averaged."""
    hits = truth[np.argsort(-scores)].cumsum()
    precision, recall = hits / np.arange(1, len(hits) + 1), hits / truth.sum()
    return float(np.mean([precision[recall >= point / 10 - 1e-12].max() for point in range(11)]))


def test_several_labels_against_one_vs_rest_and_mean_average_precision() -> None:
    frame = stack(parts(TRAIN), TARGETS[TRAIN], (parts(TEST), TARGETS[TEST]), multilabel=True, **ONE)
    assert set(frame.metric) == {"map"}
    for row in frame.itertuples():
        names = [name for name in (row.first, row.second) if name]
        fitted, test = (np.concatenate([parts(rows)[name] for name in names], 1) for rows in (TRAIN, TEST))
        precisions = []
        for truth in TARGETS.T:
            peer = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, tol=1e-8, max_iter=5000)).fit(
                fitted, truth[TRAIN]
            )
            precisions.append(eleven_points(peer.decision_function(test), truth[TEST]))
        assert row.score == pytest.approx(np.mean(precisions), abs=0.004)


def test_what_is_ignored_is_passed_through() -> None:
    """Rows whose labels are all ignored might as well not be there, but for their part in standardising the features."""
    marked = TARGETS.copy()
    marked[TRAIN.stop - 100 : TRAIN.stop] = -1
    marked[TEST.stop - 50 : TEST.stop] = -1
    few, fewer = slice(0, TRAIN.stop - 100), slice(TEST.start, TEST.stop - 50)
    frame = stack(parts(TRAIN), marked[TRAIN], (parts(TEST), marked[TEST]), multilabel=True, **ONE)
    without = stack(parts(few), TARGETS[few], (parts(fewer), TARGETS[fewer]), multilabel=True, **ONE)
    np.testing.assert_allclose(frame["score"], without["score"], atol=0.005)


def test_a_probe_of_ones_own_is_copied() -> None:
    """Any estimator with fit and score will do."""
    probe = OneVsRestClassifier(LogisticRegression(C=0.5, max_iter=2000))
    frame = stack({"top": X[:, :32], "bottom": X[:, 32:]}, TARGETS, multilabel=True, probe=probe)
    assert set(frame.metric) == {"score"}
    assert frame.score[2] > frame.score[:2].max() > 0.5
    assert not hasattr(probe, "estimators_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": {"top": X}}, "two or more models"),
        ({"y": Y[:-1]}, "features of 'top': expected 799 rows"),
        ({"multilabel": True, "probe": LinearProbe()}, r"labels: expected shape \[N, K\] of zeros and ones, found \[800\]"),
        ({"probe": LinearProbe(), "strengths": [1.0]}, "probe: options are its own, found strengths"),
    ],
)
def test_bad_input(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        stack(**{"features": {"top": X[:, :32], "bottom": X[:, 32:]}, "y": Y, **change})


def test_features_as_they_are_or_of_one_scale():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    large, small = rng.normal(size=(120, 3)) * 50, (y + 0.4 * rng.normal(size=120))[:, None] * 0.01
    options = {"test": ({"large": large, "small": small}, y), "strengths": [1.0]}
    raw = stack({"large": large, "small": small}, y, standardised=False, **options)
    both = np.concatenate([large, small], 1)
    expected = LinearProbe(strengths=[1.0]).fit(both, y).score(both, y)
    assert raw["score"].iloc[-1] == expected
    assert stack({"large": large, "small": small}, y, **options)["score"].iloc[-1] > expected + 0.1
