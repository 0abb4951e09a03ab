"""Class separation after each epoch, from the log of a training run (Kornblith et al. 2021, Fig. E.4)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.cards.names import check_safe
from zoo.errors import InputError
from zoo.models import trained
from zoo.models.registry import resolve

if TYPE_CHECKING:
    import pandas as pd

SPLITS = {"train": "class_separation", "holdout": "holdout_class_separation"}


def separation_over_training(models: str | Sequence[str] | Mapping[str, Iterable[Mapping[str, Any]]]) -> "pd.DataFrame":
    """Return the cosine class separation of the embeddings after each epoch: columns `model`, `split`, `epoch`, `r2`.

    The split `train` is measured on the batches during training, `holdout` at the end of an epoch if there is a holdout.

    Args:
        models: names of locally trained models, whose logs are read; or logs by name, as `zoo.train` returns them.

    >>> log = [{"epoch": 1, "class_separation": 0.3}, {"epoch": 2, "class_separation": 0.4}]
    >>> separation_over_training({"resnet8-softmax": log}).r2.tolist()
    [0.3, 0.4]
    """
    import pandas as pd

    if not isinstance(models, Mapping):
        models = {name: _read_log(name) for name in ([models] if isinstance(models, str) else models)}
    rows = [
        (name, split, entry["epoch"], entry[field])
        for name, log in models.items()
        for entry in log
        for split, field in SPLITS.items()
        if field in entry
    ]
    return pd.DataFrame(rows, columns=["model", "split", "epoch", "r2"])


def _read_log(name: str) -> list[Any]:
    folder = trained.path(check_safe(resolve(name))).parent
    log = trained.log(folder)
    if not log:
        raise InputError(
            f"no training log at {folder / trained.LOG}", where=name, hint="`zoo train` writes the log of a local model"
        )
    return log
