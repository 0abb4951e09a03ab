"""What a model is made of, through the ensembles within it: never itself, and no more networks than can be held.

Each member is loaded wherever it is named, so an ensemble of two ensembles of two ensembles... doubles at every level.
"""

import os
from collections.abc import Callable, Iterable, Sequence

from zoo.errors import InputError

DEEPEST = 16


def most_networks() -> int:
    """`ZOO_MAX_NETWORKS`: how many networks one ensemble may load, ensembles within it included. Default: 256."""
    value = os.environ.get("ZOO_MAX_NETWORKS") or "256"
    if not value.isdecimal() or int(value) < 1:
        raise InputError(f"ZOO_MAX_NETWORKS: expected a whole number above 0, found {value!r}")
    return int(value)


def check(name: str, members: Iterable[str], parts_of: Callable[[str], Sequence[str]]) -> int:
    """How many networks a model of these members loads, or an error: it contains itself, or is too large or too deep.

    `parts_of` names what a member is itself made of: `zoo.models.registry.parts`.

    >>> check("pair of pairs", ["pair", "pair"], lambda member: ["a", "b"] if member == "pair" else [])
    4
    """
    counted: dict[str, int] = {}  # so that what is named a million times is looked at once

    def count(member: str, chain: tuple[str, ...]) -> int:
        if member in chain:
            raise InputError(f"{name}: a model cannot be its own member ({' > '.join([*chain, member])})")
        if len(chain) > DEEPEST:
            raise InputError(f"{name}: ensembles within ensembles {len(chain)} deep, at most {DEEPEST} are loaded")
        if member not in counted:
            counted[member] = sum(count(part, (*chain, member)) for part in parts_of(member)) or 1
        return counted[member]

    networks = sum(count(member, (name,)) for member in members)
    if networks > most_networks():
        raise InputError(
            f"{name}: {networks} networks, those of ensembles within it included, but at most {most_networks()} are loaded; "
            "name fewer members or set ZOO_MAX_NETWORKS"
        )
    return networks
