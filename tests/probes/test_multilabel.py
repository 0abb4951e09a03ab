"""Average precision and AUC against a table by hand, loops and scikit-learn; the multi-label probe against one-vs-rest."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from probes.multilabel import MultilabelProbe
from probes.ranking import auc, average_precision, mean_auc, voc_map
from zoo.errors import InputError, ZooWarning


class OfAnyTarget(MultilabelProbe):
    """The probe with the targets of scikit-learn's checks made into ones that it takes: above the median or not."""

    def fit(self, x, y, sample_weight=None):
        return super().fit(x, self._above(y), sample_weight)

    def score(self, x, y):
        return super().score(x, self._above(y))

    def _above(self, y):
        if y is None:
            return None
        y = np.real(np.asarray(y))
        y = y.reshape(len(y), -1)
        if len(y) > 1 and np.ptp(y) == 0:
            y = np.arange(len(y))[:, None] % 2
        above = y > np.median(y, 0)
        return (above if above.any() else y == np.median(y, 0)).astype(int)


# As for the linear probe: copies of a row may be held out, a row that counts twice not. Compared below without a choice.
BY_CHANCE = {"check_sample_weight_equivalence_on_dense_data": "another split, and another median of the targets"}


@parametrize_with_checks([OfAnyTarget()], expected_failed_checks=lambda _: BY_CHANCE)
def test_scikit_learns_contract(estimator, check) -> None:
    check(estimator)


def test_in_a_pipeline_and_a_search() -> None:
    x = np.random.default_rng(0).normal(size=(120, 4))
    y = (x[:, :2] > 0).astype(int)
    model = make_pipeline(StandardScaler(), MultilabelProbe(strengths=[1e4], validation=0))
    search = GridSearchCV(model, {"multilabelprobe__strengths": [[1e-3], [1e5]]}, cv=3).fit(x, y)
    assert search.best_score_ > 0.95


def test_voc_map_against_a_table_by_hand() -> None:
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
    """The definition, threshold by threshold and recall by recall, in whole numbers where it matters."""
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
def test_average_precision_and_auc_by_loops(given_rows: tuple[np.ndarray, np.ndarray]) -> None:
    """Ties everywhere, and in an order that must not matter."""
    scores, labels = given_rows
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
    """VOCevalcls.m of the VOC 2007 devkit, line by line: gt is 1, -1, or 0 for difficult."""
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
    np.testing.assert_allclose(average_precision(scores, gt == 1, mask=gt != 0), expected)
    assert voc_map(scores, gt == 1, mask=gt != 0) == pytest.approx(np.mean(expected))
    assert (average_precision(scores, gt == 1) != expected).any()  # counting them as absent is something else
    areas = [roc_auc_score(gt[gt[:, k] != 0, k], scores[gt[:, k] != 0, k]) for k in range(4)]
    np.testing.assert_allclose(auc(scores, labels), areas)
    assert mean_auc(scores, gt == 1, mask=gt != 0) == pytest.approx(np.mean(areas))


def test_what_is_ignored_has_no_part_in_a_classs_fit() -> None:
    x, y = tags(300)
    ignored = np.random.default_rng(1).random(y.shape) < 0.3
    probe = MultilabelProbe(strengths=[0.5], validation=0, tolerance=1e-8).fit(x, np.where(ignored, -1, y))
    for k in range(5):
        kept = ~ignored[:, k]
        theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(x[kept], y[kept, k])
        np.testing.assert_allclose(probe.coef_[k], theirs.coef_[0], atol=1e-3)
        np.testing.assert_allclose(probe.intercept_[k], theirs.intercept_[0], atol=1e-3)
    logits = probe.decision_function(x)
    assert probe.score(x, np.where(ignored, -1, y)) == pytest.approx(voc_map(logits, y, mask=~ignored))
    chosen = MultilabelProbe().fit(x, np.where(ignored, -1, y))
    assert len(set(chosen.strengths_)) > 1


def test_a_thousand_bins_come_close() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (4000, 2))
    scores = 1 / (1 + np.exp(-rng.normal(labels, 1.0)))
    np.testing.assert_allclose(auc(scores, labels, bins=1000), auc(scores, labels), atol=1e-4)
    assert (auc(scores, labels, bins=1000) != auc(scores, labels)).any()
    assert mean_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores))


def test_classes_that_cannot_be_scored_are_left_out_aloud() -> None:
    scores, labels = np.array([[0.9, 0.1], [0.2, 0.3]]), np.array([[1, 0], [0, 0]])
    with pytest.warns(ZooWarning, match="1 of 2 classes lack a positive example"):
        assert voc_map(scores, labels) == 1.0
    with pytest.raises(InputError, match="no class has a positive"):
        voc_map(scores[:, 1:], labels[:, 1:])


@pytest.mark.parametrize(
    ("scores", "labels", "words"),
    [
        (np.zeros((3, 2)), np.zeros((3, 1), int), "expected shape"),
        (np.zeros((3, 2)), np.full((3, 2), 2), "expected 0 .absent., 1 .present. or -1"),
        (np.zeros((3, 2)), np.zeros(3, int), r"\[N, K\]"),
        (np.array([[0.0], [np.nan]]), np.array([[1], [0]]), "row 1"),
    ],
)
def test_bad_scores_are_named(scores: np.ndarray, labels: np.ndarray, words: str) -> None:
    for measure in (voc_map, mean_auc):
        with pytest.raises(InputError, match=words):
            measure(scores, labels)


def test_a_mask_is_booleans_of_the_labels_shape() -> None:
    for mask in (np.ones((2, 2), bool), np.ones((2, 1), int)):
        with pytest.raises(InputError, match=r"mask: expected booleans of shape \[2, 1\]"):
            average_precision([[0.1], [0.2]], [[1], [0]], mask=mask)


def test_bins_take_probabilities_only() -> None:
    with pytest.raises(InputError, match="probabilities"):
        auc([[2.0], [0.0]], [[1], [0]], bins=10)


def tags(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 12))
    return x, (x @ rng.normal(size=(12, 5)) + rng.logistic(size=(rows, 5)) > [0, 1, 2, 3, -1]).astype(int)


def test_one_vs_rest_as_scikit_learn_solves_it() -> None:
    x, y = tags(300)
    probe = MultilabelProbe(strengths=[0.5], validation=0, tolerance=1e-8).fit(x, y)
    for k in range(5):
        theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(x, y[:, k])
        np.testing.assert_allclose(probe.coef_[k], theirs.coef_[0], atol=1e-3)
        np.testing.assert_allclose(probe.intercept_[k], theirs.intercept_[0], atol=1e-3)
        np.testing.assert_allclose(probe.predict_proba(x)[:, k], theirs.predict_proba(x)[:, 1], atol=1e-3)


def test_weights_as_scikit_learn_takes_them() -> None:
    x, y = tags(300)
    counts = np.random.default_rng(0).uniform(0, 3, 300) * (np.arange(300) % 4 > 0)
    probe = MultilabelProbe(strengths=[0.5], validation=0, tolerance=1e-8).fit(x, y, counts)
    for k in range(5):
        theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(x, y[:, k], counts)
        np.testing.assert_allclose(probe.coef_[k], theirs.coef_[0], atol=1e-3)
    repeated = MultilabelProbe([0.5], 0, tolerance=1e-8).fit(x.repeat(3, 0), y.repeat(3, 0))
    weighted = MultilabelProbe([0.5], 0, tolerance=1e-8).fit(x, y, np.full(300, 3))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


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


def test_rare_classes_stay_on_the_training_side() -> None:
    x, y = tags(60)
    y[:, 4] = 0
    y[7, 4] = 1
    probe = MultilabelProbe().fit(x, y)
    assert np.isfinite(probe.coef_).all()
    assert np.isnan(probe.path_.loc[probe.path_["class"] == 4, "score"]).all()  # its one example is not held out


def test_tensors_and_given_validation() -> None:
    x, y = (torch.from_numpy(part) for part in tags(200))
    probe = MultilabelProbe(validation=(x[150:], y[150:])).fit(x[:150], y[:150])
    assert isinstance(probe.predict(x), torch.Tensor)
    assert probe.predict_proba(x).shape == (200, 5)
    assert probe.decision_function(x).shape == (200, 5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": np.zeros((30, 5), int)}, "class 0 is absent from every row"),
        ({"y": np.ones((30, 5), int)}, "class 0 is in every row"),
        ({"y": np.ones((29, 5), int)}, r"expected shape \[30, 5\]"),
        ({"metric": "f1"}, "map, auc"),
        ({"validation": 0}, "nothing to choose"),
        ({"validation": (np.zeros((2, 12)), np.zeros((2, 3), int))}, r"expected shape \[2, 5\]"),
    ],
)
def test_bad_input_to_the_probe_is_named(change: dict, words: str) -> None:
    x, y = tags(30)
    given_rows = {"x": x, "y": y, **change}
    options = {key: value for key, value in given_rows.items() if key not in "xy"}
    with pytest.raises(InputError, match=words):
        MultilabelProbe(**options).fit(given_rows["x"], given_rows["y"])
