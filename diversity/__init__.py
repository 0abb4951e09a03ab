"""Do these models make different mistakes? Errors, agreement, categories, specialization; and how their features differ."""

from diversity.categories import CATEGORIES as CATEGORIES
from diversity.categories import category as category
from diversity.chance_adjusted import capa as capa
from diversity.chance_adjusted import capa_matrix as capa_matrix
from diversity.chance_adjusted import capa_of_predictions as capa_of_predictions
from diversity.class_sums import ClassSums as ClassSums
from diversity.clustering import Dendrogram as Dendrogram
from diversity.clustering import cluster as cluster
from diversity.collapse import NeuralCollapse as NeuralCollapse
from diversity.collapse import neural_collapse as neural_collapse
from diversity.comparison import Comparison as Comparison
from diversity.comparison import compare as compare
from diversity.comparison import joint_histogram as joint_histogram
from diversity.densities import distance_densities as distance_densities
from diversity.densities import kernel_density as kernel_density
from diversity.ensembled import EnsembleTable as EnsembleTable
from diversity.ensembled import ensemble_table as ensemble_table
from diversity.hardness import angular_visual_hardness as angular_visual_hardness
from diversity.intervals import interval as interval
from diversity.label_triage import Triage as Triage
from diversity.label_triage import triage as triage
from diversity.layerwise import cka as cka
from diversity.layerwise import layer_cka as layer_cka
from diversity.layerwise import layer_separation as layer_separation
from diversity.layerwise import layer_sparsity as layer_sparsity
from diversity.measures import MEASURES as MEASURES
from diversity.measures import Measure as Measure
from diversity.over_training import separation_over_training as separation_over_training
from diversity.pairs import Pairwise as Pairwise
from diversity.pairs import pairwise as pairwise
from diversity.separation import ClassVariances as ClassVariances
from diversity.separation import OrderedSeparation as OrderedSeparation
from diversity.separation import class_separation as class_separation
from diversity.separation import class_variances as class_variances
from diversity.similarity import MinibatchCKA as MinibatchCKA
from diversity.similarity import kernel_cka as kernel_cka
from diversity.similarity import linear_cka as linear_cka
from diversity.sparsity import SparsityMeter as SparsityMeter
from diversity.sparsity import nonzero_share as nonzero_share
from diversity.specialization import PrevalenceBand as PrevalenceBand
from diversity.specialization import extremes as extremes
from diversity.specialization import prevalence_band as prevalence_band
from diversity.specialization import specialization_angle as specialization_angle
from diversity.specialization import specialization_by_class as specialization_by_class
from diversity.specialization import theta_histogram as theta_histogram
from diversity.spectra import SpectrumMeter as SpectrumMeter
from diversity.spectra import singular_spectra as singular_spectra
from diversity.spectra import singular_values as singular_values
from diversity.summary import Line as Line
from diversity.summary import by_category as by_category
from diversity.summary import by_condition as by_condition
from diversity.summary import pair_frame as pair_frame
from diversity.summary import regression as regression
from diversity.tables import ErrorTable as ErrorTable
from diversity.tables import agreement as agreement
from diversity.tables import error_consistency as error_consistency
from diversity.tables import error_inconsistency as error_inconsistency
from diversity.tables import error_table as error_table
from diversity.tables import mcnemar as mcnemar
from diversity.without_labels import UnlabelledAccuracy as UnlabelledAccuracy
from diversity.without_labels import accuracy_without_labels as accuracy_without_labels
from diversity.without_labels import agreement_line as agreement_line

__all__ = [
    "CATEGORIES",
    "MEASURES",
    "ClassSums",
    "ClassVariances",
    "Comparison",
    "Dendrogram",
    "EnsembleTable",
    "ErrorTable",
    "Line",
    "Measure",
    "MinibatchCKA",
    "NeuralCollapse",
    "OrderedSeparation",
    "Pairwise",
    "PrevalenceBand",
    "SparsityMeter",
    "SpectrumMeter",
    "Triage",
    "UnlabelledAccuracy",
    "accuracy_without_labels",
    "agreement",
    "agreement_line",
    "angular_visual_hardness",
    "by_category",
    "by_condition",
    "capa",
    "capa_matrix",
    "capa_of_predictions",
    "category",
    "cka",
    "class_separation",
    "class_variances",
    "cluster",
    "compare",
    "distance_densities",
    "ensemble_table",
    "error_consistency",
    "error_inconsistency",
    "error_table",
    "extremes",
    "interval",
    "joint_histogram",
    "kernel_cka",
    "kernel_density",
    "layer_cka",
    "layer_separation",
    "layer_sparsity",
    "linear_cka",
    "mcnemar",
    "neural_collapse",
    "nonzero_share",
    "pair_frame",
    "pairwise",
    "prevalence_band",
    "regression",
    "separation_over_training",
    "singular_spectra",
    "singular_values",
    "specialization_angle",
    "specialization_by_class",
    "theta_histogram",
    "triage",
]
