"""The names that users import are those that the packages declare, and each is the object that its module defines."""

import ast
import importlib
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["zoo", "diversity", "ensembles", "probes"]


def imported(package: str) -> dict[str, tuple[str, str]]:
    """Return the module and the attribute behind each name that a package's `__init__` imports."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_the_object_of_its_module(package: str) -> None:
    module, sources = importlib.import_module(package), imported(package)
    assert len(module.__all__) > 10
    for name in module.__all__:
        source, attribute = sources[name]
        inner = sys.modules.get(f"{source}.{attribute}")
        assert getattr(module, name) is (inner or getattr(importlib.import_module(source), attribute)), name
    assert {*module.__all__} <= {*dir(module)}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_star_import_gives_the_public_names(package: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)
    assert {*names} - {"__builtins__"} == {*importlib.import_module(package).__all__}


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_raises_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'laod'"):
        _ = importlib.import_module(package).laod


def test_the_version_is_the_same_everywhere() -> None:
    import zoo

    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert zoo.__version__ == version("model-zoo-diversity") == stated
    printed = subprocess.run([sys.executable, "-m", "zoo", "--version"], capture_output=True, text=True, check=True)
    assert printed.stdout == f"zoo {stated}\n"
