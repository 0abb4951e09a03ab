"""What people call their arrays and columns, and what these names mean, whatever their case and punctuation."""

import re

KINDS = ("logits", "probabilities", "predictions", "embeddings")
# By meaning, the likeliest name first: of several columns that could be ids or models, the first found here is taken.
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
_WIDE = sorted((s for kind in ("logits", "probabilities", "embeddings") for s in _SPELLINGS[kind].split()), key=len)
_CLASS_COLUMN = re.compile(rf"(?P<kind>{'|'.join(reversed(_WIDE))})(?:[._:/ -]+|(?=\d))(?P<name>.+)", re.IGNORECASE)
_OF_MODEL = re.compile(r"(?P<model>.+)[/.:](?P<what>[^/.:]+)\Z")


def meaning(name: str) -> str | None:
    """What an array or column of that name holds, if the name says so.

    >>> meaning("Y True"), meaning("imageId"), meaning("cat")
    ('labels', 'ids', None)
    """
    return _MEANING.get(_plain(name))


def rank(name: str) -> int:
    """How likely the name is among those of its meaning; the lowest is taken."""
    return list(_MEANING).index(_plain(name))


def class_column(name: str) -> tuple[str, str] | None:
    """The kind and the class of a column that holds one class of many.

    >>> class_column("prob_0"), class_column("logits.cat"), class_column("problem")
    (('probabilities', '0'), ('logits', 'cat'), None)
    """
    found = _CLASS_COLUMN.match(name)
    return None if found is None else (_MEANING[found["kind"].lower()], found["name"])


def of_model(name: str) -> tuple[str, str] | None:
    """The model and the meaning in a name such as `resnet18/logits`.

    >>> of_model("vit-b.16/Logits"), of_model("learning/rate")
    (('vit-b.16', 'logits'), None)
    """
    found = _OF_MODEL.match(name)
    what = found and meaning(found["what"])
    return (found["model"], what) if found and what and what != "model" else None


def _plain(name: str) -> str:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"[\W_]+", "_", apart).strip("_").casefold()
