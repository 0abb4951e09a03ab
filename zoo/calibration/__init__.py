"""Temperature calibration, metrics of probabilities, and what calibrated probabilities are good for.

How do I calibrate models?
    calibrate, CalibratedRuns                                       models by name, with the one rule of `policy`
    fit_temperature, fit_temperatures, TemperatureFit               arrays of logits
    TemperatureCalibrator                                           scikit-learn
    to_probabilities                                                from logits to probabilities at a temperature
How good are probabilities?
    expected_calibration_error, reliability, negative_log_likelihood, brier_score
    `smooth.smooth_calibration_error`                               without bins
When should a model abstain?            `selective`: risk-coverage curves, thresholds
Which classes are possible?             `conformal`: prediction sets
Is an example out of distribution?      `ood`: scores and detection
"""

from typing import TYPE_CHECKING

from zoo.calibration.calibrated_runs import CalibratedRuns as CalibratedRuns
from zoo.calibration.calibrated_runs import calibrate as calibrate
from zoo.calibration.metrics import brier_score as brier_score
from zoo.calibration.metrics import expected_calibration_error as expected_calibration_error
from zoo.calibration.metrics import negative_log_likelihood as negative_log_likelihood
from zoo.calibration.metrics import reliability as reliability
from zoo.calibration.temperature import TemperatureFit as TemperatureFit
from zoo.calibration.temperature import fit_temperature as fit_temperature
from zoo.calibration.temperature import fit_temperatures as fit_temperatures
from zoo.core.lazy import lazy_exports
from zoo.core.links import to_probabilities as to_probabilities
from zoo.core.types import TemperatureSpace as TemperatureSpace

if TYPE_CHECKING:
    from zoo.calibration.estimator import TemperatureCalibrator as TemperatureCalibrator

__all__ = [
    "CalibratedRuns",
    "TemperatureCalibrator",
    "TemperatureFit",
    "brier_score",
    "calibrate",
    "expected_calibration_error",
    "fit_temperature",
    "fit_temperatures",
    "negative_log_likelihood",
    "reliability",
    "to_probabilities",
]

# Loaded on first use, so that calibration does not wait for scikit-learn.
__getattr__, __dir__ = lazy_exports(__name__, {"TemperatureCalibrator": "zoo.calibration.estimator"})
