"""Temperature calibration: probabilities one can trust, and how far they can be trusted."""

from zoo.calibration.links import to_probabilities as to_probabilities

__all__ = ["to_probabilities"]
