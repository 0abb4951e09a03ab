"""How models differ.

Do two models make different mistakes?
    compare, Comparison, error_table, error_inconsistency, error_consistency, agreement, capa, mcnemar, ensemble_table,
    specialization_angle, category
Which of many models are similar?
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
from its module: `charts`, `intervals`, `specialization`, `separation`, `spectra`, `densities`, ...

Names load their modules on first use, so that comparing stored outputs does not import torch.
"""

from typing import TYPE_CHECKING

# Imported eagerly: these functions share their module's name, and the name must mean the function.
from diversity.groups import Groups as Groups
from diversity.groups import groups as groups
from diversity.significance import Significance as Significance
from diversity.significance import significance as significance
from zoo.core.lazy import lazy_exports

if TYPE_CHECKING:
    from diversity.categories import CATEGORIES as CATEGORIES
    from diversity.categories import category as category
    from diversity.chance_adjusted import capa as capa
    from diversity.clustering import cluster as cluster
    from diversity.collapse import neural_collapse as neural_collapse
    from diversity.comparison import Comparison as Comparison
    from diversity.comparison import compare as compare
    from diversity.label_triage import Triage as Triage
    from diversity.label_triage import triage as triage
    from diversity.layerwise import cka as cka
    from diversity.layerwise import layer_cka as layer_cka
    from diversity.layerwise import layer_separation as layer_separation
    from diversity.layerwise import layer_sparsity as layer_sparsity
    from diversity.measures import MEASURES as MEASURES
    from diversity.pair_ensembles import ensemble_table as ensemble_table
    from diversity.pairs import Pairwise as Pairwise
    from diversity.pairs import pairwise as pairwise
    from diversity.separation import class_separation as class_separation
    from diversity.similarity import kernel_cka as kernel_cka
    from diversity.similarity import linear_cka as linear_cka
    from diversity.specialization import specialization_angle as specialization_angle
    from diversity.summary import by_category as by_category
    from diversity.summary import pair_frame as pair_frame
    from diversity.summary import regression as regression
    from diversity.tables import agreement as agreement
    from diversity.tables import error_consistency as error_consistency
    from diversity.tables import error_inconsistency as error_inconsistency
    from diversity.tables import error_table as error_table
    from diversity.tables import mcnemar as mcnemar
    from diversity.unlabelled_accuracy import UnlabelledAccuracy as UnlabelledAccuracy
    from diversity.unlabelled_accuracy import accuracy_without_labels as accuracy_without_labels

_MODULES = {
    "categories": ("CATEGORIES", "category"),
    "chance_adjusted": ("capa",),
    "clustering": ("cluster",),
    "collapse": ("neural_collapse",),
    "comparison": ("Comparison", "compare"),
    "label_triage": ("Triage", "triage"),
    "layerwise": ("cka", "layer_cka", "layer_separation", "layer_sparsity"),
    "measures": ("MEASURES",),
    "pair_ensembles": ("ensemble_table",),
    "pairs": ("Pairwise", "pairwise"),
    "separation": ("class_separation",),
    "similarity": ("kernel_cka", "linear_cka"),
    "specialization": ("specialization_angle",),
    "summary": ("by_category", "pair_frame", "regression"),
    "tables": ("agreement", "error_consistency", "error_inconsistency", "error_table", "mcnemar"),
    "unlabelled_accuracy": ("UnlabelledAccuracy", "accuracy_without_labels"),
}
_NAMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
__all__ = sorted([*_NAMES, "Groups", "Significance", "groups", "significance"])
__getattr__, __dir__ = lazy_exports(__name__, _NAMES | {module: f"{__name__}.{module}.*" for module in _MODULES})
