"""Checks against the limits of `zoo.core.settings`."""

from zoo.core import settings
from zoo.errors import InputError


def check_classes(highest: int, where: str) -> None:
    """Raise an error if the highest label, `highest`, implies more classes than `ZOO_MAX_CLASSES`."""
    if highest >= settings.max_classes():
        raise InputError(
            f"label {highest} implies {highest + 1} classes",
            where=where,
            expected=f"at most {settings.max_classes()}",
            hint="Pass class names, or raise ZOO_MAX_CLASSES",
        )
