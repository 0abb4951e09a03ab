"""Ids of examples inside longer texts: `0002_subject7_dog1.png` contains the id `dog1.png`, which observers share."""

import re
from typing import Any

import numpy as np

from zoo.errors import InputError


def compiled(pattern: str) -> "re.Pattern[str]":
    """Return a regular expression with a group, or raise an error."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise InputError(f"is not a regular expression: {error}", argument="id_pattern", found=pattern) from error
    if found.groups < 1:
        raise InputError(argument="id_pattern", expected="a group in parentheses, such as .*_(.+)", found=pattern)
    return found


def identifying_parts(ids: Any, pattern: str, where: str) -> np.ndarray:
    """Return the part [N] of each id that the first group of the pattern matches; `where` names the file in errors.

    >>> identifying_parts(["0001_s01_dog1.png", "dog2.png"], "(?:.*_)?(.+)", "file").tolist()
    ['dog1.png', 'dog2.png']
    """
    if ids is None:
        raise InputError("has no ids", where=where, argument="id_pattern")
    expression, parts = compiled(pattern), []
    for text in map(str, ids):
        match = expression.fullmatch(text)
        if not (match and match[1]):
            raise InputError(f"does not match the id {text!r}", where=where, argument="id_pattern", found=pattern)
        parts.append(match[1])
    return np.array(parts, object)
