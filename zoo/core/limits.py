"""Checks against the limits of `zoo.core.settings`."""

from zoo.core import settings
from zoo.errors import InputError


def check_classes(highest: int, where: str) -> None:
    """Raise an error if the highest label, `highest`, stands for more classes than `ZOO_MAX_CLASSES`."""
    if highest >= settings.max_classes():
        raise InputError(
            f"label {highest} stands for {highest + 1} classes",
            where=where,
            expected=f"at most {settings.max_classes()}",
            hint="Pass class names, or raise ZOO_MAX_CLASSES",
        )
