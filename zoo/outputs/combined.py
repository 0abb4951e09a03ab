"""Outputs of saved ensembles and cascades, combined from outputs of their members that exist already.

The code that combines them is that of the model itself (`zoo.models.sources.ensemble_networks`), so the numbers are those of
running the ensemble on the images, up to the precision of the stored numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.cards import labels
from zoo.cards.card import Card
from zoo.core import arrays
from zoo.core.columns import Column
from zoo.core.stop_rules import Stopping
from zoo.errors import InputError
from zoo.models.sources.ensemble import SOURCE, stopping_of
from zoo.models.sources.ensemble_networks import Combination, stopped_mean, temperature_of, weights_hash
from zoo.outputs.alignment import align
from zoo.outputs.outputs import Outputs
from zoo.outputs.store.layout import IMPORTED, RANDOM

_ROWS = 8192  # combined at a time
_SAME = ("transform", "precision", "fingerprint")  # details that an ensemble has if all members agree


def combine(card: Card, members: Sequence[Outputs]) -> Outputs | None:
    """Return the outputs of an ensemble, without embeddings, or None if those of its members do not determine them.

    Members must have logits or probabilities for the same examples and for all classes: on a dataset with a part of the
    classes, columns are dropped after the members have been averaged.

    Args:
        card: of the ensemble or cascade.
        members: outputs of the members, in the order of the card.
    """
    known = card.labels in labels.known()
    for outputs in members:
        if outputs.kind not in ("logits", "probabilities") or (
            known and len(outputs.classes) < len(labels.classes(card.labels))
        ):
            return None
    SOURCE.prepare(card, pretrained=True)  # raises an error for an invalid card
    try:
        members = align(members)
    except InputError:  # other examples, classes or labels
        return None
    first, stopping = members[0], stopping_of(card)
    links = [one.link if one.kind == "logits" else "softmax" for one in members]
    combination = Combination(card.members, links, [one.classes for one in members], temperature_of(card))
    spans = [slice(start, start + _ROWS) for start in range(0, len(first), _ROWS)]
    logits = np.concatenate([_combined(members, combination, stopping, span) for span in spans])
    details: dict[str, Any] = {"undecodable": first.details.get("undecodable", [])}
    for field in _SAME:
        values = {one.details.get(field) for one in members}
        details |= {field: values.pop()} if len(values) == 1 and None not in values else {}
    hashes = [str(one.details.get("weights", IMPORTED)) for one in members]
    if not any(one.startswith(IMPORTED) for one in hashes):
        mark = RANDOM if hashes[0].startswith(RANDOM) else ""
        details["weights"] = mark + weights_hash(card, [one.removeprefix(RANDOM) for one in hashes], stopping)
    return Outputs(
        name=card.name,
        kind="logits",
        values=Column([logits]),
        ids=first.ids,
        classes=first.classes,
        labels=first.labels,
        card=card,
        dataset=first.dataset,
        targets=first.targets,
        label_classes=first.label_classes,
        details=details,
    )


def _combined(members: Sequence[Outputs], combination: Combination, stopping: Stopping | None, rows: slice) -> np.ndarray:
    """Return the ensemble's logits [n, K] on some rows."""
    logits = [_logits(one, rows) for one in members]
    if stopping is None:
        mean = combination.mean(logits)
    else:
        everything = torch.arange(len(logits[0]))
        mean = stopped_mean(combination, stopping, everything, lambda number, remaining: logits[number][remaining])
    return combination.logits(mean).numpy()


def _logits(outputs: Outputs, rows: slice) -> Tensor:
    values = arrays.tensor(outputs.values[rows], outputs.name).float()
    return values if outputs.kind == "logits" else values.log()
