"""Conformal sets, risk-coverage areas and the smooth calibration error against other packages.

MAPIE runs in the tests. TorchCP, torch-uncertainty and relplot need packages that this project does not have, so the numbers
they gave for the same data are constants here. The data consist of products and quotients of whole numbers and square roots,
which are the same on every machine.
"""

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from mapie.conformity_scores import APSConformityScore, LACConformityScore, RAPSConformityScore
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedShuffleSplit

from zoo.calibration.conformal import fit_conformal, quantile
from zoo.calibration.selective import choose_threshold, judge_threshold, risk_coverage
from zoo.calibration.smooth import smooth_calibration_error
from zoo.core.prediction_sets import Score, label_places

CLASSES = 5
CALIBRATION, TEST = slice(0, 400), slice(400, 800)
SEED = 7


def irregular(examples=800, power=3):
    """Probabilities [N, 5] and labels, which a model with sharper probabilities would draw."""
    roots = np.sqrt(np.array([2.0, 3.0, 5.0, 7.0, 11.0, 13.0]))
    uniform = np.modf(np.outer(np.arange(1, examples + 1), roots) + 0.25)[0]
    weights = np.prod([uniform[:, :CLASSES]] * power, axis=0)
    p = weights / weights.sum(1, keepdims=True)
    sharper = p * p / (p * p).sum(1, keepdims=True)
    return p, np.minimum((sharper.cumsum(1) < uniform[:, CLASSES:]).sum(1), CLASSES - 1)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose input is the probabilities."""

    def fit(self, x, y=None):
        self.classes_ = np.arange(x.shape[1])
        return self

    def predict_proba(self, x):
        return np.asarray(x)

    def predict(self, x):
        return np.asarray(x).argmax(1)


def mapie(score, alpha=0.1, last=True, seed=SEED):
    """Return MAPIE's sets [n, K] of the test examples."""
    p, y = irregular()
    classifier = SplitConformalClassifier(
        Given().fit(p), confidence_level=1 - alpha, conformity_score=score, prefit=True, random_state=seed
    )
    classifier.conformalize(p[CALIBRATION], y[CALIBRATION])
    return classifier.predict_set(p[TEST], conformity_score_params={"include_last_label": last})[1][:, :, 0]


def uniforms(examples):
    """Return the u of our scores. MAPIE subtracts its random part from a sum that includes the class: it draws 1 - u."""
    return 1 - np.random.RandomState(SEED).uniform(size=examples)


@pytest.mark.parametrize("alpha", [0.03, 0.1, 0.35])
def test_lac_is_that_of_mapie(alpha):
    p, y = irregular()
    score = LACConformityScore()
    expected = mapie(score, alpha)
    predictor = fit_conformal(p[CALIBRATION], y[CALIBRATION], alpha, "lac")
    assert predictor.thresholds == pytest.approx(score.quantiles_.tolist(), abs=1e-12)
    assert (predictor.predict_sets(p[TEST]) == expected).all()
    assert 0 < expected.mean() < 1


@pytest.mark.parametrize("alpha", [0.03, 0.1, 0.35])
def test_randomised_aps_is_that_of_mapie_for_the_same_random_numbers(alpha):
    p, y = irregular()
    score = APSConformityScore()
    expected = mapie(score, alpha, "randomized")
    scores = Score("aps").of_labels(label_places(p[CALIBRATION], y[CALIBRATION]), uniforms(400))
    threshold = quantile(scores, alpha)
    assert threshold == pytest.approx(float(score.quantiles_[0]), abs=1e-12)
    assert (Score("aps").sets(p[TEST], threshold, uniforms(400)) == expected).all()
    other = Score("aps").sets(p[TEST], threshold, np.random.default_rng(0).random(400))
    assert (other != expected).any()  # the random numbers matter, so that the comparison could fail


@pytest.mark.parametrize("alpha", [0.1, 0.2])
def test_raps_is_that_of_mapie_with_the_penalty_that_mapie_chooses(alpha):
    """MAPIE sets examples aside to choose the penalty. It randomises by another formula, so other sets are compared."""
    p, y = irregular()
    score = RAPSConformityScore()
    expected = mapie(score, alpha, last=False)
    split = StratifiedShuffleSplit(1, test_size=score.size_raps, random_state=SEED)
    kept, _ = next(split.split(p[CALIBRATION], y[CALIBRATION]))
    ours = Score("raps", float(score.lambda_star), int(score.k_star[0]))
    assert ours.penalty > 0
    assert ours.free < CLASSES
    places = label_places(p[CALIBRATION][kept], y[CALIBRATION][kept])
    threshold = quantile(ours.of_labels(places, uniforms(len(kept))), alpha)
    assert threshold == pytest.approx(float(score.quantiles_[0]), abs=1e-12)
    sets = ours.sets(p[TEST], threshold, np.ones(400))
    filled = sets.any(1)  # MAPIE puts the most probable class into sets that would be empty
    assert (sets[filled] == expected[filled]).all()
    assert (expected[~filled].sum(1) == 1).all()
    assert filled.sum() > 200


@pytest.mark.parametrize("alpha", [0.1, 0.2])
def test_randomised_sets_have_the_coverage_and_the_mean_size_of_mapies(alpha):
    """By other random numbers, on average over 40 draws."""
    p, y = irregular()
    ours, expected = [], []
    for seed in range(40):
        report = fit_conformal(p[CALIBRATION], y[CALIBRATION], alpha, "aps", seed=seed).evaluate(p[TEST], y[TEST], seed)
        ours.append((report.coverage, report.mean_size))
        sets = mapie(APSConformityScore(), alpha, "randomized", seed)
        expected.append((sets[np.arange(400), y[TEST]].mean(), sets.sum(1).mean()))
    difference = np.mean(ours, 0) - np.mean(expected, 0)
    error = np.sqrt((np.var(ours, 0, ddof=1) + np.var(expected, 0, ddof=1)) / 40)
    assert (np.abs(difference) < 3 * error).all()
    assert (error < (0.004, 0.03)).all()


# TorchCP 1.2.1 on the same data, alpha 0.1, without randomisation: threshold, number of test sets that hold each class, and
# number of test sets that hold the label. RAPS with penalty 0.05 after the first 2 classes.
TORCHCP = {
    "lac": (0.7485722523, [137, 133, 132, 137, 140], 359),
    "aps": (0.9180532957, [159, 150, 163, 177, 161], 361),
    "raps": (0.9284822622, [158, 141, 154, 166, 149], 361),
}
# The same with a threshold for each class.
TORCHCP_BY_CLASS = {
    "lac": ([0.7577739421, 0.6978932947, 0.7478074698, 0.7830351577, 0.7579999834], [143, 104, 132, 150, 140], 357),
    "aps": ([0.9415048360, 0.8335821031, 0.9117865767, 0.9266297460, 0.9387983609], [178, 112, 158, 182, 174], 354),
    "raps": ([0.9690069408, 0.8335821031, 0.9241495837, 0.9717866634, 0.9616687146], [170, 111, 153, 187, 169], 354),
}


@pytest.mark.parametrize("conditioning", ["marginal", "class"])
@pytest.mark.parametrize("method", TORCHCP)
def test_sets_that_are_not_randomised_are_those_of_torchcp(method, conditioning):
    p, y = irregular()
    predictor = fit_conformal(
        p[CALIBRATION], y[CALIBRATION], 0.1, method, conditioning, penalty=0.05, free=2, randomised=False
    )
    sets = predictor.predict_sets(p[TEST])
    thresholds, sizes, covered = (TORCHCP if conditioning == "marginal" else TORCHCP_BY_CLASS)[method]
    # TorchCP computes part of the thresholds in float32.
    assert predictor.thresholds == pytest.approx(np.atleast_1d(thresholds).tolist(), abs=2e-7)
    assert sets.sum(0).tolist() == sizes
    assert sets[np.arange(400), y[TEST]].sum() == covered


# By power of the weights: AURC, AUGRC, coverage at 5% risk and risk at 80% coverage of torch-uncertainty 0.13.0, and the
# smooth calibration error of relplot 1.0.3.
PEERS = {
    1: ((0.42975684861409724, 0.24188282227784730, 0.00875, 0.5015625), 0.10318623087248831),
    3: ((0.15325826341994060, 0.10237875469336671, 0.21000, 0.2359375), 0.14959245288674938),
    9: ((0.02758077362058750, 0.02341598873591990, 0.77750, 0.0578125), 0.09821211559714098),
}


@pytest.mark.parametrize("power", PEERS)
def test_areas_and_points_of_the_curve_are_those_of_torch_uncertainty(power):
    """It integrates by trapezoids from the coverage 1/N to 1, and divides by the length; ours is the mean over coverages."""
    p, y = irregular(power=power)
    correct = p.argmax(1) == y
    curve = risk_coverage(p.max(1), correct, resamples=0)
    aurc, augrc, coverage, risk = PEERS[power][0]
    for ours, values, expected in (
        (curve.aurc, curve.risk, aurc),
        (curve.augrc, curve.risk * curve.coverage, augrc),
    ):
        ends = (values[0] + values[-1]) / 2
        assert (ours * 800 - ends) / 799 == pytest.approx(expected, abs=1e-9)
    assert 1 - curve.accuracy_at(0.8) == pytest.approx(risk, abs=1e-6)
    assert curve.coverage_at(0.95) == pytest.approx(coverage, abs=1e-6)
    threshold = choose_threshold(p.max(1), correct, coverage=0.8)
    assert 1 - judge_threshold(threshold, p.max(1), correct).accuracy == pytest.approx(risk, abs=1e-6)


@pytest.mark.parametrize("power", PEERS)
def test_the_smooth_calibration_error_is_that_of_relplot(power):
    p, y = irregular(power=power)
    error, _ = smooth_calibration_error(p.max(1), p.argmax(1) == y)
    assert error == pytest.approx(PEERS[power][1], abs=1e-3)  # relplot finds the bandwidth to 1/1024
