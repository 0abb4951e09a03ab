"""Shell completion of models, datasets, figures and measures, and its speed."""

import os
import subprocess
import sys

import pytest

import zoo
from diversity import MEASURES
from zoo.app import completion
from zoo.app.figures import FIGURES


def test_models_and_sets(store_outputs):
    store_outputs("mine", 0)
    assert completion.complete_models("r7x") == ["r7x2.cifar10"]
    assert completion.complete_models("min") == ["mine"]
    assert "@cifar10" in completion.complete_models("@")
    assert set(zoo.list()) <= set(completion.complete_models(""))


def test_datasets_figures_and_measures(store_outputs):
    store_outputs("mine", 0, data="my-set")
    assert completion.complete_datasets("digits:") == ["digits:calibration", "digits:test", "digits:train"]
    assert completion.complete_datasets("my") == ["my-set"]
    assert completion.complete_figures("") == sorted(FIGURES)
    assert completion.complete_measures("") == sorted(name for name, one in MEASURES.items() if one.source == "errors")


def test_an_error_means_no_suggestions(monkeypatch):
    def fail() -> list[str]:
        raise OSError("disk failed")

    assert completion._completer(fail)("") == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("zoo compare r7x", "r7x2.cifar10"),
        ("zoo compare a --data digits:t", "digits:test"),
        ("zoo figure loss/5", "loss/5a"),
        ("zoo pairs a --measure kap", "kappa"),
        ("zoo ensemble partners --base r7x", "r7x2.cifar10"),
    ],
)
def test_completion_from_the_shell_imports_no_large_library(words, expected):
    """Completion takes about half a second of CPU time; the limit leaves room for slow machines."""
    code = (
        "import sys, time\n"
        "from zoo.app.main import app\n"
        "try:\n"
        "    app(prog_name='zoo')\n"
        "finally:\n"
        "    print(time.process_time(), sorted({'torch', 'pandas', 'altair'} & {*sys.modules}), file=sys.stderr)\n"
    )
    shell = {"_ZOO_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **shell})
    assert expected in result.stdout.split(), result.stderr
    seconds, loaded = result.stderr.splitlines()[-1].split(" ", 1)
    assert loaded == "[]"
    assert float(seconds) < 3
