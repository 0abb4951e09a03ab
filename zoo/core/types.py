"""Types shared by cards, outputs and calibration, importable without torch."""

from typing import Literal

Link = Literal["softmax", "sigmoid"]  # from logits to probabilities; sigmoids are divided by their sum over classes

# What a sigmoid model's temperature divides; for a softmax model both are the same. `logits`: z, before the sigmoid.
# `distribution`: log(p) with p = sigmoid(z) over its sum, so that p^(1/T) is normalised again. The temperature "of the
# probability distribution" (Kornblith et al. 2021, Table C.3) can be read either way; `logits` is what Guo et al. divide.
TemperatureSpace = Literal["logits", "distribution"]
