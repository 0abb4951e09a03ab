"""Temperature calibration: probabilities one can trust, and how far they can be trusted."""

from typing import TYPE_CHECKING, Any

from zoo.calibration.calibrated_runs import CalibratedRuns as CalibratedRuns
from zoo.calibration.calibrated_runs import calibrate as calibrate
from zoo.calibration.metrics import brier_score as brier_score
from zoo.calibration.metrics import expected_calibration_error as expected_calibration_error
from zoo.calibration.metrics import negative_log_likelihood as negative_log_likelihood
from zoo.calibration.metrics import reliability as reliability
from zoo.calibration.temperature import TemperatureFit as TemperatureFit
from zoo.calibration.temperature import fit_temperature as fit_temperature
from zoo.calibration.temperature import fit_temperatures as fit_temperatures
from zoo.core.links import to_probabilities as to_probabilities
from zoo.core.splits import stratified_rows as stratified_rows
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
    "stratified_rows",
    "to_probabilities",
]


def __getattr__(name: str) -> Any:
    """The estimator on first use, so that temperature_space probabilities does not wait for scikit-learn."""
    if name == "TemperatureCalibrator":
        from zoo.calibration.estimator import TemperatureCalibrator

        return TemperatureCalibrator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
