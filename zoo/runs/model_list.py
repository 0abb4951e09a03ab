"""`zoo.list`: models by name, pattern, card field, and by what is on this machine."""

import builtins
from collections.abc import Collection, Sequence
from typing import Any

from zoo.models import registry
from zoo.models.sources.base import Availability

ON_THIS_MACHINE: tuple[Availability, ...] = ("shipped", "local")


def list(
    models: str | Sequence[str] = "*",
    available: bool | Availability | Collection[Availability] | None = None,
    data: str | None = None,
    **fields: Any,
) -> builtins.list[str]:
    """Return the names of models, sorted; an empty list if none matches.

    Args:
        models: names, patterns such as `resnet50-*`, filters or a named set such as `@cifar10` (`zoo.cards.selection`).
            A pattern with an `@` matches snapshots: `resnet8-*@epoch*`.
        available: where the weights must be: "shipped", "local", "to download", "to train" or "never published", or
            several of these. True means on this machine: shipped or local.
        data: a dataset on which outputs must exist already: stored, imported or shipped.
        fields: values that cards must have: a field of the card or its training (`objective="cosine"`) or a
            hyper-parameter (`tau=0.05`). A tuple is a range (`accuracy=(74, 78)`; None leaves a side open), a list any of
            its values.

    >>> list("resnet50-cosine.in1k"), list("resnet8-*", tau=0.15)
    (['resnet50-cosine.in1k'], ['resnet8-cosine.digits'])
    """
    found = registry.matching(models, **fields)
    if available is not None:
        states = _states(available)
        found = {name: card for name, card in found.items() if registry.available(card) in states}
    if data is not None:
        from zoo.datasets import canonical

        named = with_outputs(canonical(data))
        found = {name: card for name, card in found.items() if name in named}
    return sorted(found)


def with_outputs(spec: str) -> set[str]:
    """Return the names of the models that have outputs on a dataset: stored, imported or shipped."""
    from zoo.datasets.loading import split_rows
    from zoo.outputs.stored_names import shipped_names, stored_names

    whole = split_rows(spec)[0]  # outputs on a whole dataset serve for a slice of it
    stored = {name for name, runs in stored_names().items() if any(run.dataset in (spec, whole) for run in runs)}
    return stored | shipped_names(whole)


def _states(available: bool | Availability | Collection[Availability]) -> Collection[str]:
    if isinstance(available, bool):
        return ON_THIS_MACHINE if available else ("to download", "to train", "never published")
    return [available] if isinstance(available, str) else available
