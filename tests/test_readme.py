"""What the README says works as it stands there."""

import re
from pathlib import Path

import numpy as np
import pytest

from zoo.app.main import app

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.slow
def test_ten_lines_of_python(zoo_home, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(BLOCKS[0], names)
    assert names["model"].card.objective == "cosine"
    assert names["path"].best_test_score > 0.9


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # made-up models gain nothing
def test_measures_take_plain_arrays():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    logits = rng.normal(size=(200, 3)) + 2 * np.eye(3)[labels]
    probabilities = np.stack([np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in (logits, logits[:, ::-1])])
    names = {
        "logits": logits, "labels": labels, "probabilities": probabilities, "embeddings": rng.normal(size=(200, 5)),
        "pred_a": logits.argmax(1), "pred_b": rng.integers(0, 3, 200),
    }  # fmt: skip
    exec("import zoo, diversity, ensembles\n" + BLOCKS[1], names)


def test_commands_and_benchmarks_exist():
    known = {command.name for command in app.registered_commands}
    said = set(re.findall(r"(?:^|\s)zoo ([a-z]+)", README)) - {"of"}
    assert said <= known
    folder = Path(__file__).parent / "benchmarks"
    assert all((folder / name).exists() for name in re.findall(r"`([a-z_]+\.py)[^`]*`", README))
