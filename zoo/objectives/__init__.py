"""Training objectives by name: each defines its logits, its loss and its penalties. Users can register their own.

Importing these names does not load torch; using an objective does.
"""

from typing import TYPE_CHECKING

from zoo.core.lazy import lazy_exports

if TYPE_CHECKING:
    from zoo.cards.tuned import defaults
    from zoo.objectives.base import Objective, ObjectiveHead, bounded
    from zoo.objectives.catalogue import get, list, options, register

__all__ = ["Objective", "ObjectiveHead", "bounded", "defaults", "get", "list", "options", "register"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "defaults": "zoo.cards.tuned",
        **dict.fromkeys(("Objective", "ObjectiveHead", "bounded"), "zoo.objectives.base"),
        **dict.fromkeys(("get", "list", "options", "register"), "zoo.objectives.catalogue"),
    },
)
