"""The page's scripts as one: modules that import each other, each after those it needs.

They are plain ES modules with named imports from files beside them and unique names, so that joining them is leaving out
the words `import` and `export`. A name that two of them declare is an error in the browser, which the tests would see.
"""

import re
from importlib import resources

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async function|function|class|const|let)\b)", re.MULTILINE)


def bundle(entry: str) -> str:
    """The text of the script `entry` with all that it imports before it."""
    order: list[str] = []

    def visit(name: str) -> None:
        for needed in _IMPORT.findall(asset(f"scripts/{name}")):
            if needed not in order:
                visit(needed)
        if name not in order:
            order.append(name)

    visit(entry)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", asset(f"scripts/{name}"))) for name in order)


def asset(path: str) -> str:
    """The text of a file beside this module."""
    return resources.files(__package__).joinpath(path).read_text(encoding="utf-8")
