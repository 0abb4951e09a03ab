"""All measures of representations in one place; `diversity` re-exports them."""

from diversity.class_sums import ClassSums as ClassSums
from diversity.collapse import NeuralCollapse as NeuralCollapse
from diversity.collapse import neural_collapse as neural_collapse
from diversity.densities import distance_densities as distance_densities
from diversity.densities import kernel_density as kernel_density
from diversity.hardness import angular_visual_hardness as angular_visual_hardness
from diversity.layerwise import cka as cka
from diversity.layerwise import layer_separation as layer_separation
from diversity.layerwise import layer_sparsity as layer_sparsity
from diversity.ordered_separation import OrderedSeparation as OrderedSeparation
from diversity.over_training import separation_over_training as separation_over_training
from diversity.separation import ClassVariances as ClassVariances
from diversity.separation import class_separation as class_separation
from diversity.separation import class_variances as class_variances
from diversity.similarity import MinibatchCKA as MinibatchCKA
from diversity.similarity import kernel_cka as kernel_cka
from diversity.similarity import linear_cka as linear_cka
from diversity.sparsity import SparsityMeter as SparsityMeter
from diversity.sparsity import nonzero_share as nonzero_share
from diversity.spectra import SpectrumMeter as SpectrumMeter
from diversity.spectra import singular_spectra as singular_spectra
from diversity.spectra import singular_values as singular_values

__all__ = [
    "ClassSums", "ClassVariances", "MinibatchCKA", "NeuralCollapse", "OrderedSeparation", "SparsityMeter", "SpectrumMeter",
    "angular_visual_hardness", "cka", "class_separation", "class_variances", "distance_densities", "kernel_cka",
    "kernel_density", "layer_separation", "layer_sparsity", "linear_cka", "neural_collapse", "nonzero_share",
    "separation_over_training", "singular_spectra", "singular_values",
]  # fmt: skip
