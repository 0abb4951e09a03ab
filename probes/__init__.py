"""Whose features transfer, and what two models' features give together."""

from probes.compression import Compression as Compression
from probes.compression import compress as compress
from probes.concatenation import concatenate as concatenate
from probes.distribution_shift import corruption_errors as corruption_errors
from probes.distribution_shift import mean_corruption_error as mean_corruption_error
from probes.distribution_shift import robustness as robustness
from probes.finetuning import FineTuning as FineTuning
from probes.finetuning import finetune as finetune
from probes.knn import KNNProbe as KNNProbe
from probes.linear import LinearProbe as LinearProbe
from probes.metrics import accuracy as accuracy
from probes.metrics import mean_per_class_accuracy as mean_per_class_accuracy
from probes.multilabel import MultilabelProbe as MultilabelProbe
from probes.overlap import assign_classes as assign_classes
from probes.overlap import assignment_accuracy as assignment_accuracy
from probes.overlap import class_overlap as class_overlap
from probes.ranking import auc as auc
from probes.ranking import average_precision as average_precision
from probes.ranking import mean_auc as mean_auc
from probes.ranking import voc_map as voc_map
from probes.relearning import relearn as relearn
from probes.stacking import stack as stack
from probes.statistics import Anova as Anova
from probes.statistics import Effect as Effect
from probes.statistics import mean_and_error as mean_and_error
from probes.statistics import not_worse_on_average as not_worse_on_average
from probes.statistics import not_worse_than_best as not_worse_than_best
from probes.statistics import spearman as spearman
from probes.statistics import table as table
from probes.statistics import two_way_anova as two_way_anova
from probes.transfer import probe as probe

__all__ = [
    "Anova",
    "Compression",
    "Effect",
    "FineTuning",
    "KNNProbe",
    "LinearProbe",
    "MultilabelProbe",
    "accuracy",
    "assign_classes",
    "assignment_accuracy",
    "auc",
    "average_precision",
    "class_overlap",
    "compress",
    "concatenate",
    "corruption_errors",
    "finetune",
    "mean_and_error",
    "mean_auc",
    "mean_corruption_error",
    "mean_per_class_accuracy",
    "not_worse_on_average",
    "not_worse_than_best",
    "probe",
    "relearn",
    "robustness",
    "spearman",
    "stack",
    "table",
    "two_way_anova",
    "voc_map",
]
