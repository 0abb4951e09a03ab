"""Files inside the package: the page's markup and styles, and its scripts joined into one."""

import re
from importlib import resources

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const|let) (\w+))", re.MULTILINE)


def asset(path: str) -> str:
    """Return the text of a file next to this module."""
    return resources.files(__package__).joinpath(path).read_text(encoding="utf-8")


def bundle(entry: str) -> str:
    """Return the script `entry` with everything it imports, directly or indirectly.

    Each ES module becomes a function that returns its exports, so that names do not collide. The entry stays at the top
    level, where it may use `await`.

    >>> [line for line in bundle("static").splitlines() if "$drawing" in line][:2]
    ['const $drawing = (() => {', 'const { datasets, imageOf, specs } = $drawing;']
    """
    texts: dict[str, str] = {}

    def visit(name: str) -> None:
        text = asset(f"scripts/{name}.js")
        for _, imported in _IMPORT.findall(text):
            if imported not in texts:
                visit(imported)
        body = _EXPORT.sub("", _IMPORT.sub(r"const {\1} = $\2;", text))
        exports = ", ".join(_EXPORT.findall(text))
        texts[name] = body if name == entry else f"const ${name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"

    visit(entry)
    return "\n".join(texts.values())
