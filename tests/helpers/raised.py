"""Check an error by its fields rather than by its wording: `pytest.raises(InputError, check=fields(argument="steps"))`."""

from collections.abc import Callable
from typing import Any


def fields(**expected: Any) -> Callable[[BaseException], bool]:
    """Return a check that an error has these fields.

    A text given for `where`, `problem`, `hint` or `expected` needs to be part of the field only; every other field is equal.
    A list stands for several such texts.
    """

    def check(error: BaseException) -> bool:
        for name, value in expected.items():
            found = getattr(error, name)
            if name in ("where", "problem", "hint", "expected"):
                wanted = [value] if isinstance(value, str) else value
                missing = [text for text in wanted if text not in str(found)]
                assert not missing, f"{name} is {found!r}, expected it to contain {missing}"
            else:
                assert found == value, f"{name} is {found!r}, expected {value!r}"
        return True

    return check
