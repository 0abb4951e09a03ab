"""Types shared by cards, outputs and calibration, importable without torch."""

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16"]  # of the arithmetic of a network
Link = Literal["softmax", "sigmoid"]  # from logits to probabilities; sigmoids are divided by their sum over classes

# What the temperature of a sigmoid model divides; for a softmax model both are the same. `logits`: z, before the sigmoid, as
# in Guo et al. `distribution`: log(p) with p = sigmoid(z) over its sum, so that p^(1/T) is normalised again. The temperature
# "of the probability distribution" (Kornblith et al. 2021, Table C.3) can mean either.
TemperatureSpace = Literal["logits", "distribution"]
