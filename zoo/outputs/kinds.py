"""The kinds of outputs, importable without torch."""

from typing import Literal, get_args

Kind = Literal["logits", "probabilities", "predictions", "embeddings"]
KINDS: tuple[Kind, ...] = get_args(Kind)
