"""Training objectives by name: each defines its logits, its loss and its penalties. Users can register their own.

Importing these names does not load torch; using an objective does.
"""

from typing import TYPE_CHECKING

from zoo.core.lazy import lazy_exports

if TYPE_CHECKING:
    from zoo.cards.tuned import defaults as defaults
    from zoo.objectives.base import Objective as Objective
    from zoo.objectives.base import ObjectiveHead as ObjectiveHead
    from zoo.objectives.base import bounded as bounded
    from zoo.objectives.catalogue import get as get
    from zoo.objectives.catalogue import list as list
    from zoo.objectives.catalogue import options as options
    from zoo.objectives.catalogue import register as register

__all__ = ["Objective", "ObjectiveHead", "bounded", "defaults", "get", "list", "options", "register"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Objective": "zoo.objectives.base",
        "ObjectiveHead": "zoo.objectives.base",
        "bounded": "zoo.objectives.base",
        "defaults": "zoo.cards.tuned",
        "get": "zoo.objectives.catalogue",
        "list": "zoo.objectives.catalogue",
        "options": "zoo.objectives.catalogue",
        "register": "zoo.objectives.catalogue",
    },
)
