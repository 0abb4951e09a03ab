"""Fixtures that run commands and store outputs for them."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from zoo.app import main as command_line
from zoo.app.main import app
from zoo.outputs import store
from zoo.outputs.outputs import Outputs


@dataclass(frozen=True)
class Printed:
    """The exit code and printed text of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def remarks(self) -> str:
        """Standard error with all whitespace, line breaks included, replaced by single spaces."""
        return " ".join(self.err.split())


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Printed]:
    """Run a command as if from a shell; check the exit code (`code=None`: any failure) and that text fits 80 columns."""

    def call(*arguments: object, code: int | None = 0) -> Printed:
        monkeypatch.setattr(sys, "argv", ["zoo", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        captured = capsys.readouterr()
        printed = Printed(int(ended.value.code or 0), captured.out, captured.err)
        assert printed.code == code or (code is None and printed.code > 0), printed.err
        if code == 2:
            assert printed.out == ""
        if "--json" not in arguments:
            assert max(map(len, printed.out.splitlines()), default=0) <= 80
        return printed

    return call


@pytest.fixture
def invoke() -> Callable[..., Any]:
    """Run a command without catching its exceptions."""
    return lambda *arguments: CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


@pytest.fixture
def store_outputs(zoo_home: object) -> Callable[..., Outputs]:
    """Store random outputs of a model; the seed determines which examples it misclassifies."""

    def save(
        name: str,
        seed: int,
        data: str = "cifar10:test",
        kind: str = "logits",
        rows: int = 400,
        skill: float = 1.5,
        **more: Any,
    ) -> Outputs:
        labels = np.random.default_rng(len(data)).integers(0, 4, rows)
        logits = 3 * (np.random.default_rng(seed).normal(size=(rows, 4)) + skill * np.eye(4)[labels])
        values = {kind: logits if kind == "logits" else logits.argmax(1)}
        ids = [f"{data}/{row}" for row in range(rows)]
        return store.save(Outputs.from_arrays(name, **values, labels=labels, dataset=data, ids=ids, **more))

    return save
