"""Python code inside a model or a dataset is never run, and users are never asked whether it may be."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from raised import fields

import zoo
from zoo.errors import InputError

ROOT = Path(__file__).parents[3]
# The argument that each call must pass. timm, open_clip and `datasets` from version 4 on have no such switch.
SWITCHES = {
    "from_pretrained": ("trust_remote_code", False),
    "from_config": ("trust_remote_code", False),
    "pipeline": ("trust_remote_code", False),
    "torch.load": ("weights_only", True),
    "torch.hub.load": ("trust_repo", False),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
    "open_clip.create_model": ("weights_only", True),
}


def calls(path: Path) -> list[tuple[int, str, dict[str, object]]]:
    """Return line, dotted name and constant keyword arguments of every call in a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            known = {k.arg: k.value.value for k in node.keywords if k.arg and isinstance(k.value, ast.Constant)}
            found.append((node.lineno, ast.unparse(node.func), known))
    return found


def wrong(path: Path) -> list[str]:
    """Return the calls of a file that leave a switch at the library's default."""
    bad = []
    for line, name, keywords in calls(path):
        for suffix, (switch, value) in SWITCHES.items():
            if (name == suffix or name.endswith(f".{suffix}")) and keywords.get(switch) is not value:
                bad.append(f"{path.name}:{line}: {name} without {switch}={value}")
    return bad


def test_every_call_that_could_run_foreign_code_has_its_switch_off() -> None:
    paths = [
        path for package in ("zoo", "diversity", "ensembles", "probes") for path in sorted((ROOT / package).rglob("*.py"))
    ]
    assert [line for path in paths for line in wrong(path)] == []
    assert any(name.endswith("from_pretrained") for path in paths for _, name, _ in calls(path))


def test_the_scan_finds_calls_without_the_switch(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("AutoConfig.from_pretrained(x)\nk.from_pretrained(x, trust_remote_code=True)\ntorch.load(p)\n")
    assert len(wrong(path)) == 3
    path.write_text("k.from_pretrained(x, trust_remote_code=False)\ntorch.load(p, weights_only=True)\n")
    assert wrong(path) == []


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder whose configuration names classes in a Python file next to it, which creates a file when it runs."""
    folder = tmp_path / "model"
    folder.mkdir()
    own = {"AutoConfig": "trap.Config", "AutoModelForImageClassification": "trap.Model", "AutoImageProcessor": "trap.Look"}
    config = {"model_type": "trap", "architectures": ["Model"], "auto_map": own}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "Look", "auto_map": own}))
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "trap.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
        "from transformers import PretrainedConfig, PreTrainedModel\n"
        "class Config(PretrainedConfig):\n    model_type = 'trap'\n"
        "class Model(PreTrainedModel):\n    config_class = Config\n"
        "class Look: pass\n"
    )
    return folder


@pytest.mark.parametrize("function", [zoo.load, zoo.card])
def test_a_folder_with_python_code_is_refused(trap: Path, function: Callable[[str], object]) -> None:
    with pytest.raises(InputError, check=fields(where=str(trap), problem="transformers")) as caught:
        function(f"file:{trap}")
    assert not (trap.parent / "ran").exists()
    assert "trust_remote_code" not in str(caught.value)  # the library's advice is not passed on


def test_answering_yes_on_standard_input_runs_no_code(trap: Path) -> None:
    """`yes | zoo show file:FOLDER --json`."""
    command = [sys.executable, "-m", "zoo", "show", f"file:{trap}", "--json"]
    result = subprocess.run(command, input="y\n" * 100, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert not (trap.parent / "ran").exists()
    assert len(result.stderr.strip().splitlines()) == 1
