"""Run every code block of the documentation and compare its output with the output shown.

The blocks of a file run in order, in one folder with an empty home. `python` blocks share their variables; those with `>>>`
are doctests, in which `...` matches any text. In `console` blocks a line that starts with `$ ` is a command, and the lines
below it are its expected output; without such lines the command only has to succeed. A block after
`<!-- not run: reason -->` is skipped.

`make docs` runs the same blocks and writes their output into the files, except where the output shown contains `...`.
"""

import doctest
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import torchvision
from PIL import Image
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from torchvision import transforms
from typer.testing import CliRunner

from zoo.app.main import app

ROOT = Path(__file__).resolve().parents[1]
FILES = ["README.md", *(f"{package}/README.md" for package in ("zoo", "diversity", "ensembles", "probes", "model_cards"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
UPDATE = bool(os.environ.get("UPDATE_DOCUMENTATION"))


@dataclass(frozen=True)
class Block:
    """A fenced block of a document: its language, text and line number."""

    language: str
    text: str
    line: int
    changes: list[tuple[str, str]] = field(default_factory=list)  # (old, new) text, written by `make docs`

    def differs(self, command: str, shown: str, printed: str) -> bool:
        """Return whether a difference is a failure; `make docs` records it as a change instead."""
        if UPDATE and "..." not in shown:
            ending = shown[len(shown.rstrip()) :]
            lines = [line.rstrip() for line in printed.rstrip().splitlines()]
            self.changes.append((f"{command}\n{shown}", f"{command}\n" + "\n".join(lines) + ending))
            return False
        return True


def blocks(file: str) -> list[Block]:
    text = (ROOT / file).read_text()
    found = re.finditer(r"(?P<skip><!-- not run: .+? -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```", text, re.M | re.S)
    return [
        Block(one["language"], one["text"], text[: one.start()].count("\n") + 2)
        for one in found
        if one["skip"] is None and one["language"] in ("python", "console")
    ]


@pytest.fixture
def values(zoo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Create the files and variables that the documents use: predictions, images, weights, a network and a classifier."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    classes = ["cat", "dog", "owl"]
    y = np.arange(60) % 3
    Path("predictions").mkdir()
    for seed, name in enumerate(("resnet", "vit", "clip")):
        logits = np.random.default_rng(seed).normal(size=(60, 3)) + 2 * np.eye(3)[y]
        np.savez(f"predictions/{name}.npz", logits=logits, labels=y, classes=np.array(classes))
    Path("classes.txt").write_text("\n".join(classes))
    for name in classes:
        Path("images", name).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(f"images/{name}/{number}.png")
    torch.save(torchvision.models.resnet18(num_classes=3).state_dict(), "weights.pth")
    x, labels = load_iris(return_X_y=True)
    dataset = torch.utils.data.TensorDataset(torch.rand(6, 3, 32, 32), torch.arange(6) % 3)
    logits = 3 * (rng.normal(size=(60, 3)) + 1.5 * np.eye(3)[y])
    return {
        "network": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 3)),
        "transform": transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()]),
        "classes": classes,
        "loader": torch.utils.data.DataLoader(dataset, batch_size=4),
        "forest": RandomForestClassifier(10, random_state=0).fit(x, labels),
        "x": x,
        "y": labels,
        "frame": pd.DataFrame({"id": range(60), "y_pred": np.array(classes)[y]}),
        "logits": logits,
        "labels": y,
        "predictions_a": logits.argmax(1),
        "predictions_b": rng.integers(0, 3, 60),
        "probabilities": np.stack([np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in (logits, logits[:, ::-1])]),
        "embeddings": rng.normal(size=(60, 5)) + y[:, None],
    }


@pytest.mark.parametrize("file", FILES)
@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # untrained networks and tiny datasets
def test_blocks_print_the_output_shown(file: str, values: dict[str, object]) -> None:
    found = blocks(file)
    assert found
    for block in found:
        where = f"{file}, line {block.line}"
        if block.language == "console":
            _run_commands(block, where)
        elif ">>> " in block.text:
            _run_doctest(block, where, values)
        else:
            exec(compile(block.text, where, "exec"), values)
    if changes := [change for block in found for change in block.changes]:
        text = (ROOT / file).read_text()
        for shown, printed in changes:
            text = text.replace(shown, printed, 1)
        (ROOT / file).write_text(text)


def test_mentioned_commands_exist() -> None:
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    mentioned = {verb for file in FILES for verb in re.findall(r"`zoo ([a-z]+)", (ROOT / file).read_text())}
    assert mentioned
    assert mentioned <= known


def test_benchmarks_and_links_exist() -> None:
    others = ["CONTRIBUTING.md", "tests/benchmarks/README.md", "tests/campaign/README.md", "zoo/app/figures/README.md"]
    for file in [*FILES, *others]:
        text = (ROOT / file).read_text()
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (ROOT / file).parent.joinpath(target).exists(), f"{file}: {target}"
        for test in re.findall(r"`(tests/[\w/]+\.py)`", text):
            assert (ROOT / test).is_file(), f"{file}: {test}"
        for script in re.findall(r"tests/benchmarks/([a-z_]+\.py)", text):
            assert (ROOT / "tests/benchmarks" / script).exists(), f"{file}: {script}"


class _Runner(doctest.DocTestRunner):
    """A doctest runner that lets the block decide whether a difference is a failure."""

    def __init__(self, block: Block) -> None:
        super().__init__(optionflags=FLAGS)
        self.block = block

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        if self.block.differs(example.source.splitlines()[-1], example.want, got):
            super().report_failure(out, test, example, got)


def _run_doctest(block: Block, where: str, values: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, values, where, where, 0)
    output: list[str] = []
    result = _Runner(block).run(test, out=output.append, clear_globs=False)
    assert result.failed == 0 or not output, "".join(output)
    values.update(test.globs)


def _run_commands(block: Block, where: str) -> None:
    checker = doctest.OutputChecker()
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        program, *words = shlex.split(command.split("  #")[0])
        assert program == "zoo", where
        result = CliRunner(env={"COLUMNS": "80"}).invoke(app, words)
        assert result.exit_code == 0, f"{where}: {command}: {result.output} {result.exception!r}"
        if expected.strip() and not checker.check_output(expected, result.stdout, FLAGS):
            assert not block.differs(command, expected, result.stdout), f"{where}: {command}:\n{result.stdout}"
