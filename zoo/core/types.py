"""Types shared by cards, outputs and calibration, importable without torch."""

from typing import Literal

Link = Literal["softmax", "sigmoid"]  # from logits to probabilities; sigmoids are divided by their sum over classes
Reading = Literal["logits", "distribution"]
