"""Temperature calibration: probabilities one can trust, and how far they can be trusted."""

from zoo.calibration.fitting import TemperatureFit as TemperatureFit
from zoo.calibration.fitting import fit_temperature as fit_temperature
from zoo.calibration.fitting import fit_temperatures as fit_temperatures
from zoo.calibration.links import to_probabilities as to_probabilities
from zoo.calibration.metrics import brier_score as brier_score
from zoo.calibration.metrics import expected_calibration_error as expected_calibration_error
from zoo.calibration.metrics import negative_log_likelihood as negative_log_likelihood
from zoo.calibration.metrics import reliability as reliability

__all__ = [
    "TemperatureFit",
    "brier_score",
    "expected_calibration_error",
    "fit_temperature",
    "fit_temperatures",
    "negative_log_likelihood",
    "reliability",
    "to_probabilities",
]
