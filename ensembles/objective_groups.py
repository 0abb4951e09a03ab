"""Ensembles over the seeds of several training objectives (Kornblith et al. 2021, Figs C.6 and C.7).

Does one objective's ensemble differ from another's, and does mixing two objectives help?
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ensembles.combination import vote
from ensembles.inputs import Labels
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError
from zoo.outputs.outputs import Runs

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

Groups: TypeAlias = "Runs | Mapping[str, ArrayLike | Array]"


def ensemble_agreement(groups: Groups) -> "pd.DataFrame":
    """Return the fraction of examples [O, O] on which the votes of two objectives' seeds agree.

    Args:
        groups: predictions [seeds, N] by objective, or Runs, which are grouped by their cards' objective.

    >>> float(ensemble_agreement({"softmax": [[0, 1], [0, 1]], "sigmoid": [[0, 0]]}).loc["softmax", "sigmoid"])
    0.5
    """
    predictions, _ = _by_objective(groups)
    votes = np.stack([np.asarray(vote(each)) for each in predictions.values()])
    return _square_frame((votes[:, None] == votes[None]).mean(2), predictions)


def mixed_ensembles(groups: Groups, labels: Labels = None) -> "pd.DataFrame":
    """Return the accuracy [O, O] of voting ensembles with half of their models from each of two objectives.

    All ensembles have the same size: the largest even number of seeds that every objective has (eight in Fig. C.7). The
    first half of one objective's seeds votes with the second half of the other's, and vice versa; the entry is the mean
    accuracy of both. On the diagonal all seeds of one objective vote.

    Args:
        groups: as in `ensemble_agreement`.
        labels: [N] class indices; default: the labels of the Runs.

    >>> softmax, sigmoid = [[0, 1], [0, 2]] * 2, [[1, 0], [2, 0]] * 2  # each is wrong where the other is certain
    >>> mixed_ensembles({"softmax": softmax, "sigmoid": sigmoid}, labels=[0, 0])
             softmax  sigmoid
    softmax      0.5      1.0
    sigmoid      1.0      0.5
    """
    predictions, run_labels = _by_objective(groups)
    half = min(map(len, predictions.values())) // 2
    if half == 0:
        objective = next(name for name, each in predictions.items() if len(each) < 2)
        raise InputError(where=objective, argument="groups", expected="at least 2 seeds of every objective", found=1)
    stacked = np.stack([each[: 2 * half] for each in predictions.values()])
    y = arrays.to_numpy(arrays.labels(run_labels if labels is None else labels, rows=stacked.shape[2]))
    accuracy = np.array(
        [[(np.asarray(vote(np.concatenate([a[:half], b[half:]]))) == y).mean() for b in stacked] for a in stacked]
    )
    return _square_frame((accuracy + accuracy.T) / 2, predictions)


def _by_objective(groups: Groups) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    if isinstance(groups, Runs):
        aligned = groups.aligned()
        by_objective: dict[str, list[np.ndarray]] = {}
        for one in aligned.values():
            if one.card is None:
                hint = "Pass predictions by objective"
                raise InputError("has no card, so its objective is unknown", where=one.name, argument="groups", hint=hint)
            by_objective.setdefault(one.card.objective, []).append(one.predictions)
        return {name: np.stack(parts) for name, parts in by_objective.items()}, aligned.labels
    if not isinstance(groups, Mapping) or not groups:
        expected = "Runs, or predictions [seeds, N] by objective"
        raise InputError(argument="groups", expected=expected, found=type(groups).__name__)
    predictions = {str(name): arrays.to_numpy(arrays.tensor(p, f"predictions of {name}")) for name, p in groups.items()}
    examples = next(iter(predictions.values())).shape[-1:]
    for name, each in predictions.items():
        if each.ndim != 2 or not each.size or each.shape[1:] != examples:
            expected = "predictions of shape [seeds, N], with the same N for all objectives"
            raise InputError(where=name, argument="groups", expected=expected, found=list(each.shape))
    return predictions, None


def _square_frame(values: np.ndarray, names: Mapping[str, object]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(values, index=list(names), columns=list(names))
