"""Run every docstring example as a test, with an empty home and a clean environment.

The examples are collected here and not by `--doctest-modules`, because the fixtures of `tests/conftest.py` apply only to
tests under `tests/`.
"""

import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import zoo

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("zoo", "diversity", "ensembles", "probes")


def modules_with_examples() -> list[str]:
    """Return the dotted names of all modules whose source contains a doctest prompt."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")) if ">>> " in path.read_text()]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.failed == 0, f"{results.failed} of {results.attempted} examples failed; see the captured output"


def test_examples_do_not_depend_on_the_users_home_or_settings(zoo_home: Path) -> None:
    """Run all examples again, with unusual settings and a home that contains a trained network and an invalid card."""
    zoo.load("resnet8-softmax", device="cpu")  # trained in this test's home, which the examples must not use
    (zoo_home / "cards").mkdir()
    (zoo_home / "cards" / "mine.md").write_text("not a card")
    unusual = {
        "ZOO_HOME": str(zoo_home), "HOME": str(zoo_home), "ZOO_DATASET": "cifar10", "ZOO_DATA": "/nowhere",
        "ZOO_AUTOTRAIN": "0", "ZOO_DEBUG": "1", "ZOO_MAX_CLASSES": "2", "ZOO_MAX_PIXELS": "1", "ZOO_MAX_ID_BYTES": "1",
        "ZOO_MAX_NETWORKS": "1", "ZOO_MAX_UNPACKED": "1", "COLUMNS": "20", "FORCE_COLOR": "1", "HF_HOME": "/nowhere",
        "HTTPS_PROXY": "http://127.0.0.1:9", "OMP_NUM_THREADS": "2",
    }  # fmt: skip
    chosen = ["-k", "test_examples and not settings", __file__]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | unusual, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-4000:]
