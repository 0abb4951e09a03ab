"""Accuracy or class separation over the epochs of training, from its log (Kornblith et al. 2021, Fig. C.1 to C.3 and E.4).

A point of a curve is measured on images without augmentation, with the weights that training would return after that epoch,
such as their moving average. A curve ends at the epoch of the final weights: the best on the holdout, if there is one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.cards.names import check_safe, split_snapshot
from zoo.errors import InputError
from zoo.models import trained
from zoo.models.registry import resolve

if TYPE_CHECKING:
    import pandas as pd

# Prefixes of the log fields of training and of validation images. The first prefix that a log contains is used.
TRAINING, VALIDATION = ("train",), ("test", "holdout")
RECORD = "train with `zoo train --measure-every 8`"  # how a log gets these fields

Log = Iterable[Mapping[str, Any]]  # one entry per epoch


def curve(log: Log, quantity: str, splits: Sequence[str]) -> list[tuple[str, int, float]]:
    """Return the split, epoch and value of each measurement up to the epoch of the final weights; empty if there is none.

    Args:
        log: the log of a training run.
        quantity: the quantity's name in the log, such as `accuracy` or `class_separation`.
        splits: `TRAINING` or `VALIDATION`.

    >>> log = [{"epoch": epoch, "holdout_accuracy": accuracy} for epoch, accuracy in enumerate([0.6, 0.9, 0.8], 1)]
    >>> curve(log, "accuracy", VALIDATION)
    [('holdout', 1, 0.6), ('holdout', 2, 0.9)]
    """
    entries = _until_best(list(log))
    for split in splits:
        field = f"{split}_{quantity}"
        if found := [(split, int(entry["epoch"]), float(entry[field])) for entry in entries if field in entry]:
            return found
    return []


def separation_over_training(models: str | Sequence[str] | Mapping[str, Log]) -> "pd.DataFrame":
    """Return the cosine class separation of the embeddings over training: columns `model`, `split`, `epoch`, `r2`.

    The split `train` stands for training images without augmentation, `test` for validation images. If a log has no
    validation images, `holdout` stands for held-out training images. A log must have values for `train`.

    Args:
        models: names of locally trained models, whose logs are read; or logs by name, as `zoo.train` returns them.

    >>> log = [{"epoch": 8, "train_class_separation": 0.3}, {"epoch": 16, "train_class_separation": 0.4}]
    >>> separation_over_training({"resnet8-softmax": log}).r2.tolist()
    [0.3, 0.4]
    """
    import pandas as pd

    if not isinstance(models, Mapping):
        models = {name: _read_log(name) for name in ([models] if isinstance(models, str) else models)}
    rows = []
    for name, log in models.items():
        entries = list(log)
        parts = [curve(entries, "class_separation", splits) for splits in (TRAINING, VALIDATION)]
        if not parts[0]:
            raise InputError(
                "the log has no class separation of plain training images", where=name, hint=RECORD.capitalize()
            )
        rows += [(name, *point) for part in parts for point in part]
    return pd.DataFrame(rows, columns=["model", "split", "epoch", "r2"])


def read_log(name: str) -> list[dict[str, Any]]:
    """Return the log of a locally trained model, or of a snapshot up to its epoch; empty if there is none."""
    model, epoch = split_snapshot(name)
    log = trained.log(trained.path(check_safe(model)).parent)
    return [entry for entry in log if epoch is None or entry["epoch"] <= epoch]


def _read_log(name: str) -> list[dict[str, Any]]:
    full = resolve(name)
    log = read_log(full)
    if not log:
        file = trained.path(full).parent / trained.LOG
        raise InputError(f"no training log at {file}", where=name, hint="`zoo train` writes the log of a local model")
    return log


def _until_best(log: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the entries up to the best epoch on the holdout, whose weights training returns; without a holdout all."""
    scores = {
        n: (entry["holdout_accuracy"], -entry.get("holdout_nll", 0))
        for n, entry in enumerate(log)
        if "holdout_accuracy" in entry
    }
    return log[: max(scores, key=scores.__getitem__) + 1] if scores else log
