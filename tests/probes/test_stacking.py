"""Stacked generalisation against scikit-learn, with one and with several labels per example."""

import numpy as np
import pytest
import torch
from raised import fields
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probes.concatenation import stack
from probes.linear import LinearProbe
from zoo.errors import InputError

DIGITS = load_digits()
X, Y = DIGITS.data[:800] / 16, DIGITS.target[:800]
TRAIN, TEST = slice(0, 500), slice(500, 800)
PARTS = {"top": slice(0, 20), "middle": slice(20, 45), "bottom": slice(45, 64)}
ONE = {"strengths": [1.0], "validation": 0}


def parts(rows: slice) -> dict[str, np.ndarray]:
    return {name: X[rows, columns] for name, columns in PARTS.items()}


def test_scores_of_models_and_pairs_equal_scikit_learns() -> None:
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


def test_gain_is_over_the_better_model() -> None:
    frame = stack(parts(slice(None)), Y, **ONE)
    alone = frame.set_index("first")["score"][:3]
    for row in frame[3:].itertuples():
        assert row.gain == pytest.approx(row.score - max(alone[row.first], alone[row.second]))
        assert row.gain > 0
    assert frame.gain[:3].isna().all()


def test_scores_do_not_depend_on_scale_or_array_type() -> None:
    models = {"a": torch.from_numpy(X[:, :32]), "b": torch.from_numpy(1e-3 * X[:, 32:])}
    frames = [stack(m, Y, **ONE) for m in ({"a": X[:, :32], "b": X[:, 32:]}, models)]
    np.testing.assert_allclose(frames[0].score, frames[1].score, atol=0.01)


TARGETS = np.stack([Y % 2 == 0, Y > 4], 1).astype(int)  # two labels per example: even, above four


def eleven_points(scores: np.ndarray, truth: np.ndarray) -> float:
    """VOC 2007: the best precision at a recall of at least 0, 0.1, ..., 1, averaged."""
    hits = truth[np.argsort(-scores)].cumsum()
    precision, recall = hits / np.arange(1, len(hits) + 1), hits / truth.sum()
    return float(np.mean([precision[recall >= point / 10 - 1e-12].max() for point in range(11)]))


def test_multilabel_scores_equal_one_vs_rest_in_scikit_learn() -> None:
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


def test_rows_with_ignored_labels_only_affect_the_standardisation() -> None:
    marked = TARGETS.copy()
    marked[TRAIN.stop - 100 : TRAIN.stop] = -1
    marked[TEST.stop - 50 : TEST.stop] = -1
    few, fewer = slice(0, TRAIN.stop - 100), slice(TEST.start, TEST.stop - 50)
    frame = stack(parts(TRAIN), marked[TRAIN], (parts(TEST), marked[TEST]), multilabel=True, **ONE)
    without = stack(parts(few), TARGETS[few], (parts(fewer), TARGETS[fewer]), multilabel=True, **ONE)
    np.testing.assert_allclose(frame["score"], without["score"], atol=0.005)


def test_a_custom_probe_is_copied() -> None:
    probe = OneVsRestClassifier(LogisticRegression(C=0.5, max_iter=2000))
    frame = stack({"top": X[:, :32], "bottom": X[:, 32:]}, TARGETS, multilabel=True, probe=probe)
    assert set(frame.metric) == {"score"}
    assert frame.score[2] > frame.score[:2].max() > 0.5
    assert not hasattr(probe, "estimators_")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"features": {"top": X}}, {"argument": "features", "found": ["top"]}),
        ({"labels": Y[:-1]}, {"argument": "features", "where": "top", "expected": "799", "found": 800}),
        ({"multilabel": True, "probe": LinearProbe()}, {"argument": "labels", "expected": "[N, K]", "found": [800]}),
        ({"probe": LinearProbe(), "strengths": [1.0]}, {"argument": "probe", "problem": "strengths"}),
    ],
)
def test_bad_input_is_named(change: dict, error: dict) -> None:
    with pytest.raises(InputError, check=fields(**error)):
        stack(**{"features": {"top": X[:, :32], "bottom": X[:, 32:]}, "labels": Y, **change})


def test_standardisation_is_optional() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    large, small = rng.normal(size=(120, 3)) * 50, (y + 0.4 * rng.normal(size=120))[:, None] * 0.01
    options = {"test": ({"large": large, "small": small}, y), "strengths": [1.0]}
    raw = stack({"large": large, "small": small}, y, standardised=False, **options)
    both = np.concatenate([large, small], 1)
    expected = LinearProbe(strengths=[1.0]).fit(both, y).score(both, y)
    assert raw["score"].iloc[-1] == expected
    assert stack({"large": large, "small": small}, y, **options)["score"].iloc[-1] > expected + 0.1
