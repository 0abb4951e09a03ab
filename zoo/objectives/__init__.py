"""Nine training objectives, each a rule for logits, a loss and its regularizers; and a user's own beside them.

Reading this package's names does not load torch; using an objective does.
"""

from typing import TYPE_CHECKING, Any

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

_HOME = {
    "Objective": "base", "bounded": "base", "get": "catalogue", "list": "catalogue", "options": "catalogue",
    "register": "catalogue", "defaults": "tuned", "ObjectiveHead": "base",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
