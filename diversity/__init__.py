"""Do these models make different mistakes? Errors, agreement, categories, specialization; and how their features differ."""

from diversity.bootstrap import interval as interval
from diversity.categories import CATEGORIES as CATEGORIES
from diversity.categories import category as category
from diversity.chance_adjusted import capa as capa
from diversity.chance_adjusted import capa_matrix as capa_matrix
from diversity.chance_adjusted import capa_of_predictions as capa_of_predictions
from diversity.clustering import Dendrogram as Dendrogram
from diversity.clustering import cluster as cluster
from diversity.comparison import Comparison as Comparison
from diversity.comparison import compare as compare
from diversity.ensembled import EnsembleTable as EnsembleTable
from diversity.ensembled import ensemble_table as ensemble_table
from diversity.pairs import Pairwise as Pairwise
from diversity.pairs import pairwise as pairwise
from diversity.specialization import PrevalenceBand as PrevalenceBand
from diversity.specialization import extremes as extremes
from diversity.specialization import prevalence_band as prevalence_band
from diversity.specialization import specialization_angle as specialization_angle
from diversity.specialization import specialization_by_class as specialization_by_class
from diversity.specialization import theta_histogram as theta_histogram
from diversity.summary import Line as Line
from diversity.summary import by_category as by_category
from diversity.summary import pair_frame as pair_frame
from diversity.summary import regression as regression
from diversity.tables import ErrorTable as ErrorTable
from diversity.tables import agreement as agreement
from diversity.tables import error_consistency as error_consistency
from diversity.tables import error_inconsistency as error_inconsistency
from diversity.tables import error_table as error_table
from diversity.tables import mcnemar as mcnemar

__all__ = [
    "CATEGORIES",
    "Comparison",
    "Dendrogram",
    "EnsembleTable",
    "ErrorTable",
    "Line",
    "Pairwise",
    "PrevalenceBand",
    "agreement",
    "by_category",
    "capa",
    "capa_matrix",
    "capa_of_predictions",
    "category",
    "cluster",
    "compare",
    "ensemble_table",
    "error_consistency",
    "error_inconsistency",
    "error_table",
    "extremes",
    "interval",
    "mcnemar",
    "pair_frame",
    "pairwise",
    "prevalence_band",
    "regression",
    "specialization_angle",
    "specialization_by_class",
    "theta_histogram",
]
