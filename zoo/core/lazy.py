"""Lazy exports: a package whose public names load their module on first use, so that importing the package is fast."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package.

    Args:
        package: name of the package, `__name__`.
        modules: full module name of each public name. If it ends in `.*`, the public name is itself a module.
            `module:attribute` is for an attribute that has another name in its module.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = modules[name].partition(":")
        return import_module(module[:-2]) if module.endswith(".*") else getattr(import_module(module), attribute or name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *modules})

    return get, names
