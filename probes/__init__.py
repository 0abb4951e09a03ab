"""Probes of models' embeddings, and statistics for the results.

Whose features transfer?
    `probe` scores models by linear or kNN probes of their stored embeddings. `LinearProbe`, `KNNProbe` and
    `MultilabelProbe` are the scikit-learn estimators behind it, for any arrays. `finetune` trains whole networks instead.
    `relearn` probes a model for its own classes. `class_overlap` scores a model's predictions on a dataset of other classes.
What do two models' features give together?
    `concatenate`, `compress`, `stack`.
How robust is a model?
    `robustness`: ImageNet V2, A, R, Sketch and C.
How good are predictions?
    `accuracy`, `mean_per_class_accuracy`; for several classes per example `voc_map`, `mean_auc`.
Is a difference more than noise?
    `mean_and_error`, `indistinguishable_from_best`, `indistinguishable_on_average`, `spearman`, `holm`.

Everything else is imported from its module, such as `probes.probe_charts`, `probes.statistics.table` or
`probes.accuracy_line.accuracy_line`.
"""

from probes.compression import compress
from probes.concatenation import concatenate, stack
from probes.distribution_shift import robustness
from probes.finetuning import finetune
from probes.knn import KNNProbe
from probes.linear import LinearProbe
from probes.metrics import accuracy, mean_auc, mean_per_class_accuracy, voc_map
from probes.model_probes import probe, relearn
from probes.multilabel import MultilabelProbe
from probes.overlap import class_overlap
from probes.statistics import holm, indistinguishable_from_best, indistinguishable_on_average, mean_and_error, spearman

__all__ = [
    "KNNProbe",
    "LinearProbe",
    "MultilabelProbe",
    "accuracy",
    "class_overlap",
    "compress",
    "concatenate",
    "finetune",
    "holm",
    "indistinguishable_from_best",
    "indistinguishable_on_average",
    "mean_and_error",
    "mean_auc",
    "mean_per_class_accuracy",
    "probe",
    "relearn",
    "robustness",
    "spearman",
    "stack",
    "voc_map",
]
