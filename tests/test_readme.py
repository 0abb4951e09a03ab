"""What the README says works as it stands there."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from zoo.app.main import app

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    command.strip()
    for block in re.findall(r"## The command line\n\n```\n(.*?)```", README, re.DOTALL)
    for command in re.split(r"\n|\s{2,}", block)
    if command.strip()
]
STANDS_FOR = {
    "NAMES": "resnet8-softmax resnet8-cosine", "'resnet8-*'": "resnet8-cosine",
    "A": "resnet8-softmax", "B": "resnet8-cosine", "SPEC": "digits:test", "FILES": "made/one.npz", "FOLDER": "made",
    "FILE": "plan.yaml",
    "my-ensemble": "our-ensemble",  # the ten lines of Python have made one of that name
}  # fmt: skip
LONG = ("train", "concat", "compress", "demo")  # have tests of their own; here they are run by `make test-all`


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all of the README, so that each network is built once."""
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(autouse=True)
def elsewhere(zoo_home: Path, built: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOO_HOME", str(built))
    monkeypatch.chdir(tmp_path)


def test_ten_lines_of_python() -> None:
    names: dict[str, object] = {}
    exec(BLOCKS[0], names)
    assert names["model"].card.objective == "cosine"
    assert names["path"].best_test_score > 0.9


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # made-up models gain nothing
def test_measures_take_plain_arrays() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    logits = rng.normal(size=(200, 3)) + 2 * np.eye(3)[labels]
    probabilities = np.stack([np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in (logits, logits[:, ::-1])])
    names = {
        "logits": logits, "labels": labels, "probabilities": probabilities, "embeddings": rng.normal(size=(200, 5)),
        "pred_a": logits.argmax(1), "pred_b": rng.integers(0, 3, 200),
    }  # fmt: skip
    exec("import zoo, diversity, ensembles\n" + BLOCKS[1], names)


def alternatives(command: str) -> list[str]:
    """`probe NAMES --kind linear|knn` as one command for each kind."""
    choice = re.search(r"\S+\|\S+", command)
    return [command.replace(choice[0], one) for one in choice[0].split("|")] if choice else [command]


def marked(command: str) -> object:
    return pytest.param(command, marks=[pytest.mark.slow] if set(command.split()) & set(LONG) else [])


@pytest.mark.parametrize("command", [marked(one) for command in COMMANDS for one in alternatives(command)])
def test_commands(command: str) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    Path("made").mkdir()
    for name in ("one", "two"):
        np.savez(f"made/{name}.npz", logits=rng.normal(size=(60, 3)) + 2 * np.eye(3)[labels], labels=labels)
    Path("plan.yaml").write_text("models: [resnet8-softmax]")
    program, *words = command.split(" ")
    assert program == "zoo"
    arguments = shlex.split(" ".join(STANDS_FOR.get(word, word) for word in words))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{command}: {result.output} {result.exception!r}"
    assert result.output


def test_commands_and_benchmarks_exist() -> None:
    known = {command.name for command in app.registered_commands}
    said = set(re.findall(r"(?:^|\s)zoo ([a-z]+)", README)) - {"of"}
    assert said <= known
    assert {command.split()[1] for command in COMMANDS} <= known
    assert len(COMMANDS) > 10
    folder = Path(__file__).parent / "benchmarks"
    assert all((folder / name).exists() for name in re.findall(r"`([a-z_]+\.py)[^`]*`", README))
