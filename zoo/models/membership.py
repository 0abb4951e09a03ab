"""Checks of the members of ensembles: no ensemble contains itself, and none loads too many networks.

A member is loaded each time it is named, so the number of networks can double at every level of nesting.
"""

from collections.abc import Callable, Iterable, Sequence

from zoo.core import settings
from zoo.errors import InputError

MAX_DEPTH = 16


def check(name: str, members: Iterable[str], parts_of: Callable[[str], Sequence[str]]) -> int:
    """Return how many networks an ensemble loads; raise an error if it contains itself, or is too large or too deep.

    Args:
        name: the ensemble's name.
        members: names of its members.
        parts_of: returns the names of the models that a member consists of, as `zoo.models.registry.parts` does.

    >>> check("pair of pairs", ["pair", "pair"], lambda member: ["a", "b"] if member == "pair" else [])
    4
    """
    counted: dict[str, int] = {}  # each model is counted once, even if it is named a million times

    def count(member: str, chain: tuple[str, ...]) -> int:
        if member in chain:
            raise InputError(f"an ensemble cannot contain itself ({' > '.join([*chain, member])})", where=name)
        if len(chain) > MAX_DEPTH:
            raise InputError(f"ensembles are nested {len(chain)} deep; at most {MAX_DEPTH} levels are allowed", where=name)
        if member not in counted:
            counted[member] = sum(count(part, (*chain, member)) for part in parts_of(member)) or 1
        return counted[member]

    networks = sum(count(member, (name,)) for member in members)
    if networks > settings.max_networks():
        raise InputError(
            f"has {networks} networks, nested ensembles included; at most {settings.max_networks()} are allowed",
            where=name,
            hint="Use fewer members, or set ZOO_MAX_NETWORKS",
        )
    return networks
