"""Checks of arguments that several measures share."""

from typing import Any

from zoo.core import checks, limits
from zoo.core.checks import whole_number as whole_number


def class_indices(values: Any, rows: int | None = None, name: str = "labels") -> Any:
    """Return class indices [N] as int64, after checking that each is below `ZOO_MAX_CLASSES`.

    For measures that do not know the number of classes. Some of them allocate memory for every class.
    """
    y = checks.labels(values, rows=rows, name=name)
    if len(y):
        limits.check_classes(int(y.max()), name)
    return y
