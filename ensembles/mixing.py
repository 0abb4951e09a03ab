"""Ensembles over seeds of several training objectives (Kornblith et al. 2021, Figs C.6 and C.7).

Is an ensemble of one objective's seeds different from another's, and does mixing two objectives help?
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ensembles.combine import vote
from zoo import arrays
from zoo.errors import InputError
from zoo.outputs import Runs

if TYPE_CHECKING:
    import pandas as pd


def ensemble_agreement(groups: Any) -> "pd.DataFrame":
    """[O, O] share of examples on which the votes of two objectives' seeds agree.

    `groups`: predictions [seeds, N] by objective, or Runs, grouped by their cards' objective.

    >>> float(ensemble_agreement({"softmax": [[0, 1], [0, 1]], "sigmoid": [[0, 0]]}).loc["softmax", "sigmoid"])
    0.5
    """
    predictions, _ = _grouped(groups)
    votes = np.stack([np.asarray(vote(p)) for p in predictions.values()])
    return _square((votes[:, None] == votes[None]).mean(2), predictions)


def half_and_half(groups: Any, labels: Any = None) -> "pd.DataFrame":
    """[O, O] accuracy of the vote of ensembles that take half their models from one objective and half from another.

    As many models in each, eight in Fig. C.7: the largest even number every objective has seeds for. The first half of
    one objective's seeds votes with the second half of the other's, and the other way round; the entry is the mean of both
    accuracies. On the diagonal all seeds of one objective vote. `groups` as in `ensemble_agreement`, `labels` [N]; Runs
    bring their own.

    >>> softmax, sigmoid = [[0, 1], [0, 2]] * 2, [[1, 0], [2, 0]] * 2  # each is wrong where the other is sure
    >>> half_and_half({"softmax": softmax, "sigmoid": sigmoid}, labels=[0, 0])
             softmax  sigmoid
    softmax      0.5      1.0
    sigmoid      1.0      0.5
    """
    predictions, own_labels = _grouped(groups)
    half = min(len(p) for p in predictions.values()) // 2
    if half == 0:
        few = next(name for name, p in predictions.items() if len(p) < 2)
        raise InputError(f"{few}: half and half needs at least 2 seeds of every objective, found {len(predictions[few])}")
    stacked = np.stack([p[: 2 * half] for p in predictions.values()])
    y = arrays.host(arrays.labels(own_labels if labels is None else labels, rows=stacked.shape[2]))
    accuracy = np.array(
        [[(np.asarray(vote(np.concatenate([a[:half], b[half:]]))) == y).mean() for b in stacked] for a in stacked]
    )
    return _square((accuracy + accuracy.T) / 2, predictions)


def _grouped(groups: Any) -> tuple[dict[str, np.ndarray], Any]:
    if isinstance(groups, Runs):
        aligned = groups.aligned()
        by_objective: dict[str, list[np.ndarray]] = {}
        for one in aligned.values():
            if one.card is None:
                raise InputError(f"{one.name}: no card says what it was trained with; pass predictions by objective")
            by_objective.setdefault(one.card.objective, []).append(one.predictions())
        return {name: np.stack(parts) for name, parts in by_objective.items()}, aligned.labels
    if not isinstance(groups, Mapping) or not groups:
        raise InputError("groups: expected predictions [seeds, N] by objective, or Runs")
    checked = {str(name): arrays.host(arrays.tensor(p, f"predictions of {name}")) for name, p in groups.items()}
    examples = {p.shape[-1] for p in checked.values()}
    for name, p in checked.items():
        if p.ndim != 2 or not p.size or len(examples) > 1:
            raise InputError(f"predictions of {name}: expected [seeds, N] with the same N for all, found {list(p.shape)}")
    return checked, None


def _square(values: np.ndarray, names: Mapping[str, Any]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(values, index=list(names), columns=list(names))
