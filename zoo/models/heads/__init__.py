"""Heads for models that were not trained with a final layer for the classes at hand.

`linear` is fitted on embeddings, `zero_shot` compares images with class names as sentences, `class_mapping` pools the logits
of another label set.
"""

from zoo.models.heads.class_mapping import ClassMappingHead, map_classes
from zoo.models.heads.linear import fit_linear, save_linear
from zoo.models.heads.zero_shot import ZeroShotHead

__all__ = ["ClassMappingHead", "ZeroShotHead", "fit_linear", "map_classes", "save_linear"]
