"""Common names of arrays and columns and what they mean, regardless of case and punctuation."""

import re
from collections.abc import Sequence

from zoo.errors import InputError

# Names by meaning, the likeliest first: of several columns that could be ids or models, the first in this order is used.
_SPELLINGS = {
    "logits": "logits logit",
    "probabilities": "probabilities probability probs prob probas proba predict_proba y_prob y_proba y_probs softmax",
    "predictions": "prediction predictions pred preds y_pred y_preds ypred y_hat yhat predicted predicted_label "
    "predicted_class pred_label pred_class response object_response decision answer top1",
    "embeddings": "embeddings embedding emb features feature",
    "labels": "label labels y_true ytrue y true truth true_label true_class ground_truth groundtruth gt gt_label target "
    "target_label actual actual_label correct_label correct_class class",
    "ids": "id ids image_id img_id sample_id example_id row_id filename file_name image_name imagename image_file image img "
    "file filepath file_path path image_path img_path key uid uuid index idx unnamed_0 index_level_0",
    "classes": "classes class_names",
    "targets": "targets",
    "model": "model model_name network net classifier estimator subj subject participant observer",
}
_MEANING = {spelling: meaning for meaning, spellings in _SPELLINGS.items() for spelling in spellings.split()}
MEANINGS = tuple(_SPELLINGS)
_ONE_COLUMN_PER_CLASS = ("logits", "probabilities", "embeddings", "labels", "predictions")
# `class` is not among them: columns class_0, class_1, ... may hold anything.
_PREFIXES = sorted((s for kind in _ONE_COLUMN_PER_CLASS for s in _SPELLINGS[kind].split() if s != "class"), key=len)
_CLASS_COLUMN = re.compile(rf"(?P<kind>{'|'.join(reversed(_PREFIXES))})(?:[._:/ -]+|(?=\d))(?P<name>.+)", re.IGNORECASE)
_OF_MODEL = re.compile(r"(?P<model>.+)[/.:](?P<what>[^/.:]+)\Z")


def meaning(name: str) -> str | None:
    """Return what an array or column with this name holds, or None if the name does not say it.

    >>> meaning("Y True"), meaning("imageId"), meaning("cat")
    ('labels', 'ids', None)
    """
    return _MEANING.get(_normalised(name))


def rank(name: str) -> int:
    """Return a rank among the names with the same meaning; lower is more common."""
    return list(_MEANING).index(_normalised(name))


def class_column(name: str) -> tuple[str, str] | None:
    """Return the kind and the class of a column that holds the values of one class.

    >>> class_column("prob_0"), class_column("logits.cat"), class_column("label_dog"), class_column("problem")
    (('probabilities', '0'), ('logits', 'cat'), ('labels', 'dog'), None)
    """
    match = _CLASS_COLUMN.match(name)
    return None if match is None else (_MEANING[match["kind"].lower()], match["name"])


def of_model(name: str) -> tuple[str, str] | None:
    """Return the model and the meaning in a name such as `resnet18/logits`.

    >>> of_model("vit-b.16/Logits"), of_model("learning/rate")
    (('vit-b.16', 'logits'), None)
    """
    match = _OF_MODEL.match(name)
    what = match and meaning(match["what"])
    return (match["model"], what) if match and what and what != "model" else None


def check_unique(names: Sequence[str], where: object) -> None:
    """Raise an error if two columns have the same name."""
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InputError(f"has two columns {duplicate!r}", where=where)


def _normalised(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"[\W_]+", "_", words).strip("_").casefold()
