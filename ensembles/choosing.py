"""Which models a search may pick: by name, pattern, card field or accuracy."""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ensembles.library import Library
from zoo import arrays
from zoo.errors import InputError


def choose(library: Library, candidates: Any, accuracies: Sequence[float]) -> list[int]:
    """The indices of the models meant by `candidates`, in the library's order.

    `None`: all. A name, an index or a pattern (`clip-*`), or a list of them. A boolean mask [M]. A mapping of card fields
    to a value or a list of values (`{"framework": "contrastive"}`), all of which must hold; its key `name` takes names
    and patterns, and `accuracy` a band (low, high) of the accuracy measured on the selection split, as fractions, `None`
    for no limit: `{"accuracy": (None, 0.78)}` is below 78%.
    """
    if candidates is None:
        return list(range(len(library)))
    if isinstance(candidates, Mapping):
        found = [m for m in range(len(library)) if _matches(library, m, candidates, accuracies[m])]
    else:
        found = sorted({m for one in _listed(candidates, library) for m in _named(library, one)})
    if not found:
        raise InputError(f"candidates: none of the {len(library)} models matches {candidates!r}")
    return found


def _listed(candidates: Any, library: Library) -> list[Any]:
    if isinstance(candidates, (str, int)):
        return [candidates]
    if isinstance(candidates, torch.Tensor):
        candidates = arrays.host(candidates)
    candidates = candidates.tolist() if isinstance(candidates, np.ndarray) else list(candidates)
    if candidates and all(isinstance(one, bool) for one in candidates):
        if len(candidates) != len(library):
            raise InputError(f"candidates: the mask has {len(candidates)} entries for {len(library)} models")
        return [library.names[m] for m, wanted in enumerate(candidates) if wanted]
    return candidates


def _named(library: Library, one: Any) -> list[int]:
    if isinstance(one, str) and any(sign in one for sign in "*?["):
        return [m for m, name in enumerate(library.names) if fnmatch.fnmatchcase(str(name), one)]
    return [library.position(one, "candidate")]


def _matches(library: Library, model: int, fields: Mapping[str, Any], accuracy: float) -> bool:
    for key, wanted in fields.items():
        if key == "accuracy":
            low, high = _band(wanted)
            if not low <= accuracy < high:
                return False
            continue
        if key == "name":
            if not any(model in _named(library, one) for one in _listed(wanted, library)):
                return False
            continue
        card = None if library.runs is None else library.runs[str(library.names[model])].card
        if card is None:
            raise InputError(
                f"candidates: {library.title(model)} has no card, so its {key!r} is not known; give names instead"
            )
        value = card.value(key)
        if value not in wanted if isinstance(wanted, (list, set, frozenset)) else value != wanted:
            return False
    return True


def _band(wanted: Any) -> tuple[float, float]:
    try:
        low, high = (-np.inf if wanted[0] is None else float(wanted[0])), (np.inf if wanted[1] is None else float(wanted[1]))
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(f"candidates: expected an accuracy band (low, high), found {wanted!r}") from error
    if any(np.isfinite(end) and not 0 <= end <= 1 for end in (low, high)):
        raise InputError(f"candidates: accuracies are fractions between 0 and 1, found the band {wanted!r}")
    return low, high
