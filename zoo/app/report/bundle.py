"""The page's scripts as one: ES modules that import names from files beside them, each before those that need it.

A module becomes a function that gives back what it exports, so that each keeps its own names; the first one stands outside,
where it may wait for what it reads.
"""

import re
from importlib import resources

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const|let) (\w+))", re.MULTILINE)


def bundle(entry: str) -> str:
    """The script `entry` with all that it imports, directly or not.

    >>> [line for line in bundle("static").splitlines() if "$drawing" in line][:2]
    ['const $drawing = (() => {', 'const { datasets, specs, views } = $drawing;']
    """
    texts: dict[str, str] = {}

    def visit(name: str) -> None:
        text = asset(f"scripts/{name}.js")
        for _, needed in _IMPORT.findall(text):
            if needed not in texts:
                visit(needed)
        body = _EXPORT.sub("", _IMPORT.sub(r"const {\1} = $\2;", text))
        exported = ", ".join(_EXPORT.findall(text))
        texts[name] = body if name == entry else f"const ${name} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"

    visit(entry)
    return "\n".join(texts.values())


def asset(path: str) -> str:
    """The text of a file beside this module."""
    return resources.files(__package__).joinpath(path).read_text(encoding="utf-8")
