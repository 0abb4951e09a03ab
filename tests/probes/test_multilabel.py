"""The multi-label probe against one-vs-rest in scikit-learn, and its choice of strengths."""

import numpy as np
import pytest
import torch
from raised import fields
from sklearn.linear_model import LogisticRegression

from probes.metrics import voc_map
from probes.multilabel import MultilabelProbe
from zoo.errors import InputError


def tags(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 12))
    return x, (x @ rng.normal(size=(12, 5)) + rng.logistic(size=(rows, 5)) > [0, 1, 2, 3, -1]).astype(int)


def test_coefficients_equal_scikit_learns_one_vs_rest() -> None:
    x, y = tags(300)
    probe = MultilabelProbe(strengths=[0.5], validation=0, tolerance=1e-8).fit(x, y)
    for k in range(5):
        theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(x, y[:, k])
        np.testing.assert_allclose(probe.coef_[k], theirs.coef_[0], atol=1e-3)
        np.testing.assert_allclose(probe.intercept_[k], theirs.intercept_[0], atol=1e-3)
        np.testing.assert_allclose(probe.predict_proba(x)[:, k], theirs.predict_proba(x)[:, 1], atol=1e-3)


def test_weighted_coefficients_equal_scikit_learns_and_weights_equal_copies() -> None:
    x, y = tags(300)
    counts = np.random.default_rng(0).uniform(0, 3, 300) * (np.arange(300) % 4 > 0)
    probe = MultilabelProbe(strengths=[0.5], validation=0, tolerance=1e-8).fit(x, y, counts)
    for k in range(5):
        theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(x, y[:, k], counts)
        np.testing.assert_allclose(probe.coef_[k], theirs.coef_[0], atol=1e-3)
    repeated = MultilabelProbe([0.5], 0, tolerance=1e-8).fit(x.repeat(3, 0), y.repeat(3, 0))
    weighted = MultilabelProbe([0.5], 0, tolerance=1e-8).fit(x, y, np.full(300, 3))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


def test_ignored_targets_have_no_part_in_the_fit_of_their_class() -> None:
    x, y = tags(300)
    ignored = np.random.default_rng(1).random(y.shape) < 0.3
    probe = MultilabelProbe(strengths=[0.5], validation=0, tolerance=1e-8).fit(x, np.where(ignored, -1, y))
    for k in range(5):
        kept = ~ignored[:, k]
        theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(x[kept], y[kept, k])
        np.testing.assert_allclose(probe.coef_[k], theirs.coef_[0], atol=1e-3)
        np.testing.assert_allclose(probe.intercept_[k], theirs.intercept_[0], atol=1e-3)
    logits = probe.decision_function(x)
    assert probe.score(x, np.where(ignored, -1, y)) == pytest.approx(voc_map(logits, np.where(ignored, -1, y)))
    chosen = MultilabelProbe().fit(x, np.where(ignored, -1, y))
    assert len(set(chosen.strengths_)) > 1


@pytest.mark.parametrize("metric", ["map", "auc"])
def test_each_class_takes_its_own_best_strength(metric: str) -> None:
    x, y = tags(400)
    probe = MultilabelProbe(metric=metric).fit(x, y)
    assert len(probe.path_) == 45 * 5
    for k, table in probe.path_.groupby("class"):
        best = table[table["score"] == table["score"].max()]
        assert probe.strengths_[k] == best.loc[best["log_loss"].idxmin(), "strength"]
    assert len(set(probe.strengths_)) > 1
    x2, y2 = tags(400, seed=0)
    assert probe.score(x2, y2) > 0.8


def test_a_class_with_one_example_is_trained_and_not_scored() -> None:
    x, y = tags(60)
    y[:, 4] = 0
    y[7, 4] = 1
    probe = MultilabelProbe().fit(x, y)
    assert np.isfinite(probe.coef_).all()
    assert np.isnan(probe.path_.loc[probe.path_["class"] == 4, "score"]).all()  # its one example is not held out


def test_tensors_return_tensors_with_a_validation_pair() -> None:
    x, y = (torch.from_numpy(part) for part in tags(200))
    probe = MultilabelProbe(validation=(x[150:], y[150:])).fit(x[:150], y[:150])
    assert isinstance(probe.predict(x), torch.Tensor)
    assert probe.predict_proba(x).shape == (200, 5)
    assert probe.decision_function(x).shape == (200, 5)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"y": np.zeros((30, 5), int)}, {"argument": "y", "problem": ["class 0", "no row"]}),
        ({"y": np.ones((30, 5), int)}, {"argument": "y", "problem": ["class 0", "every row"]}),
        ({"y": np.ones((29, 5), int)}, {"argument": "y", "expected": "[30, 5]", "found": [29, 5]}),
        ({"metric": "f1"}, {"argument": "metric", "expected": "map, auc", "found": "f1"}),
        ({"validation": 0}, {"argument": "validation", "problem": "45"}),
        (
            {"validation": (np.zeros((2, 12)), np.zeros((2, 3), int))},
            {"argument": "validation", "expected": "[2, 5]", "found": [2, 3]},
        ),
        ({"strengths": [1e300]}, {"argument": "strengths", "found": 1e300}),
    ],
)
def test_bad_input_to_the_probe_is_named(change: dict, error: dict) -> None:
    x, y = tags(30)
    arguments = {"X": x, "y": y, **change}
    options = {key: value for key, value in arguments.items() if key not in "Xy"}
    with pytest.raises(InputError, check=fields(**error)):
        MultilabelProbe(**options).fit(arguments["X"], arguments["y"])
