"""What users import is what the packages declare, and each name is the object that its module defines."""

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


def declared(package: str) -> dict[str, str]:
    """The public names of a package and the module each comes from: every `from x import y as y`."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == package:
            found |= {alias.name: str(node.module) for alias in node.names if alias.asname == alias.name}
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_every_declared_name_is_there_and_is_the_modules_own(package: str) -> None:
    module, names = importlib.import_module(package), declared(package)
    assert len(names) > 10
    for name, source in names.items():
        inner = f"{source}.{name}"
        own = sys.modules.get(inner) or getattr(importlib.import_module(source), name)
        assert getattr(module, name) is own, f"{package}.{name}"
    assert {*names} <= {*dir(module)}


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_star_gives_is_public_and_there(package: str) -> None:
    module = importlib.import_module(package)
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)
    assert {*names} - {"__builtins__"} == {*module.__all__}
    assert {*module.__all__} <= {*declared(package)}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'laod'"):
        _ = importlib.import_module(package).laod


def test_the_version_is_said_in_one_place() -> None:
    import zoo

    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert zoo.__version__ == version("model-zoo-diversity") == stated
    said = subprocess.run([sys.executable, "-m", "zoo", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"zoo {stated}\n"
