"""The calibrator as scikit-learn sees it."""

import pickle

import numpy as np
import pytest
from raised import fields
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from zoo.calibration import TemperatureCalibrator, fit_temperature, to_probabilities
from zoo.errors import InputError, ZooWarning

# A column of logits stands for exactly one class, and these checks make an X of any other width. What they look at is tested
# below on logits.
NOT_LOGITS = dict.fromkeys(
    [
        "check_estimators_overwrite_params",
        "check_estimators_fit_returns_self",
        "check_readonly_memmap_input",
        "check_n_features_in_after_fitting",
        "check_positive_only_tag_during_fit",
        "check_estimators_dtypes",
        "check_dtype_object",
        "check_pipeline_consistency",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_classifiers_classes",
        "check_classifiers_train",
        "check_fit2d_1feature",
        "check_sample_weight_equivalence_on_dense_data",
    ],
    "the check's X has not as many columns as y has classes",
)


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # the checks' data are not logits: many end at a bound
@parametrize_with_checks([TemperatureCalibrator()], expected_failed_checks=lambda _: NOT_LOGITS)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    return 4 * (rng.normal(size=(200, 3)) + np.eye(3)[y]), y


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_fits_the_temperature(data, dtype):
    z, y = data[0].astype(dtype), data[1]
    calibrator = TemperatureCalibrator().fit(z, y)
    assert calibrator.temperature_ == calibrator.fit_.temperature == fit_temperature(z, y).temperature
    np.testing.assert_array_equal(calibrator.predict_proba(z), to_probabilities(z, calibrator.temperature_))
    np.testing.assert_array_equal(calibrator.predict(z), z.argmax(1))
    assert calibrator.score(z, y) == (z.argmax(1) == y).mean()


def test_names_of_classes(data):
    z, y = data
    names = np.array(["cat", "dog", "eel"])
    calibrator = TemperatureCalibrator().fit(z, names[y])
    assert calibrator.predict(z)[0] in names
    assert calibrator.temperature_ == fit_temperature(z, y).temperature


def test_an_absent_class_is_named_in_classes(data):
    z, y = data
    with pytest.raises(InputError, check=fields(argument="classes", found="2 classes")):
        TemperatureCalibrator().fit(z, y % 2)
    calibrator = TemperatureCalibrator(classes=[0, 1, 2]).fit(z, y % 2)
    assert calibrator.predict_proba(z).shape == (200, 3)
    with pytest.raises(InputError, check=fields(argument="y", found=7)):
        TemperatureCalibrator(classes=[0, 1, 2]).fit(z, np.where(y == 0, 7, y))


def test_read_only_memory_pickling_and_cloning(data):
    z, y = data
    z.flags.writeable = y.flags.writeable = False
    calibrator = TemperatureCalibrator(link="sigmoid").fit(z, y)
    again = pickle.loads(pickle.dumps(calibrator))
    np.testing.assert_array_equal(again.predict_proba(z), calibrator.predict_proba(z))
    assert clone(calibrator).get_params() == {"link": "sigmoid", "classes": None, "temperature_space": "logits"}
    with pytest.raises(NotFittedError):
        clone(calibrator).predict(z)


def test_faults(data):
    z, y = data
    bad = z.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        TemperatureCalibrator().fit(bad, y)
    with pytest.raises(ValueError, match="2 features"):
        TemperatureCalibrator().fit(z, y).predict_proba(z[:, :2])


@pytest.mark.parametrize("options", [{}, {"link": "sigmoid"}, {"link": "sigmoid", "temperature_space": "distribution"}])
def test_weights_stand_for_repeated_rows(data, options):
    """As many rows as the weight says, none for a weight of 0; in the fit as in the metrics it gives."""
    z, y = data
    counts = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = TemperatureCalibrator(**options).fit(z, y, counts)
    repeated = TemperatureCalibrator(**options).fit(z.repeat(counts, 0), y.repeat(counts))
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-6)
    for name in ("nll_before", "nll_after", "ece_before", "ece_after", "brier_before", "brier_after"):
        assert getattr(weighted.fit_, name) == pytest.approx(getattr(repeated.fit_, name), rel=1e-5)
    assert weighted.temperature_ != pytest.approx(TemperatureCalibrator(**options).fit(z, y).temperature_, rel=1e-3)


def test_weights_where_every_label_is_on_top():
    """How far down the temperature may go depends on how many examples vouch for it: weights count."""
    z, y = np.eye(3).repeat(4, 0), np.arange(3).repeat(4)
    with pytest.warns(ZooWarning, match="36 examples without an error"):
        weighted = TemperatureCalibrator().fit(z, y, np.full(12, 3))
    with pytest.warns(ZooWarning, match="36 examples without an error"):
        repeated = TemperatureCalibrator().fit(z.repeat(3, 0), y.repeat(3))
    assert weighted.temperature_ == pytest.approx(repeated.temperature_)


def test_weights_of_a_thinned_sample():
    """Enough rows for the search to begin on a sample of them: the weights are those of its rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 100, 30_000)
    z = (3 * (rng.normal(size=(30_000, 100)) + 3 * np.eye(100)[y])).astype(np.float32)
    counts = np.where(np.arange(30_000) < 15_000, 1.0, 2.0)
    weighted = fit_temperature(z, y, weights=counts)
    repeated = fit_temperature(np.concatenate([z, z[15_000:]]), np.concatenate([y, y[15_000:]]))
    assert weighted.temperature == pytest.approx(repeated.temperature, rel=1e-4)


@pytest.mark.parametrize("bad", [np.zeros(200), np.full(200, -1.0), np.ones(3), np.full(200, np.nan)])
def test_weights_that_cannot_be(data, bad):
    with pytest.raises(ValueError, match=r"weight|samples"):
        TemperatureCalibrator().fit(*data, bad)
    with pytest.raises(InputError, check=fields(argument="weights")):
        fit_temperature(*data, weights=bad)
