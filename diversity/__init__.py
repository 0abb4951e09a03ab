"""How models differ.

Do two models make different mistakes?
    compare, Comparison, error_table, error_inconsistency, error_consistency, agreement, capa, mcnemar, ensemble_table,
    specialization_angle, category
Which of many models are alike?
    pairwise, Pairwise, cluster, pair_frame, by_category, regression
Is a difference in accuracy real, and for which examples are the models worse?
    significance, Significance, groups, Groups
How do their features differ?
    cka, layer_cka, linear_cka, kernel_cka, class_separation, layer_separation, layer_sparsity, neural_collapse
Which labels are wrong?
    triage, Triage
How accurate are models on data without labels?
    accuracy_without_labels, UnlabelledAccuracy

`MEASURES` describes every measure of two models, and `CATEGORIES` lists the training categories. Everything else is imported
from its module: `charts`, `intervals`, `specialization`, `separation`, `spectra`, `densities`, `hardness`, ...
"""

from diversity.categories import CATEGORIES, category
from diversity.chance_adjusted import capa
from diversity.clustering import cluster
from diversity.collapse import neural_collapse
from diversity.comparison import Comparison, compare
from diversity.groups import Groups, groups
from diversity.label_triage import Triage, triage
from diversity.layerwise import cka, layer_cka, layer_separation, layer_sparsity
from diversity.measures import MEASURES
from diversity.pair_ensembles import ensemble_table
from diversity.pairs import Pairwise, pairwise
from diversity.separation import class_separation
from diversity.significance import Significance, significance
from diversity.similarity import kernel_cka, linear_cka
from diversity.specialization import specialization_angle
from diversity.summary import by_category, pair_frame, regression
from diversity.tables import agreement, error_consistency, error_inconsistency, error_table, mcnemar
from diversity.unlabelled_accuracy import UnlabelledAccuracy, accuracy_without_labels

__all__ = [
    "CATEGORIES",
    "MEASURES",
    "Comparison",
    "Groups",
    "Pairwise",
    "Significance",
    "Triage",
    "UnlabelledAccuracy",
    "accuracy_without_labels",
    "agreement",
    "by_category",
    "capa",
    "category",
    "cka",
    "class_separation",
    "cluster",
    "compare",
    "ensemble_table",
    "error_consistency",
    "error_inconsistency",
    "error_table",
    "groups",
    "kernel_cka",
    "layer_cka",
    "layer_separation",
    "layer_sparsity",
    "linear_cka",
    "mcnemar",
    "neural_collapse",
    "pair_frame",
    "pairwise",
    "regression",
    "significance",
    "specialization_angle",
    "triage",
]
