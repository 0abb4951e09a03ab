"""Each benchmark script imports existing names, and `--help` prints its usage without running the benchmark."""

import ast
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))
PACKAGES = ("zoo", "diversity", "ensembles", "probes")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_help(script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if script.stem == "explorer":
        pytest.importorskip("selenium")
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(script), run_name="__main__")
    assert not stopped.value.code
    assert f"usage: {script.name}" in capsys.readouterr().out


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_imported_names_exist(script: Path) -> None:
    """Includes imports inside functions."""
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            module = import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or import_module(f"{node.module}.{name.name}"), ast.unparse(node)
