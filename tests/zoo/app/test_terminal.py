"""Printed tables, numbers and JSON, on terminals of any width and encoding."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from zoo.app import terminal
from zoo.app.terminal import plain, print_json, print_table, print_text
from zoo.core import units
from zoo.core.units import percent, points


def lines(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


class TestTables:
    def test_numbers_are_right_aligned_and_missing_values_are_dashes(self, capsys):
        print_table([{"model": "a", "x": 0.123456, "n": 7}, {"model": "bcd", "x": None, "n": np.int64(12)}])
        assert lines(capsys) == ["model       x   n", "a      0.1235   7", "bcd         –  12"]

    def test_formats_columns_and_frames(self, capsys):
        frame = pd.DataFrame({"model": ["a"], "gain": [0.023], "accuracy": [0.9123], "other": [1]})
        print_table(frame, ["model", "accuracy", "gain"], title="Title", formats={"accuracy": percent, "gain": points})
        assert lines(capsys) == ["Title", "", "model  accuracy  gain", "a         91.2%  +2.3"]

    def test_a_common_suffix_is_printed_once(self, capsys):
        rows = [{"model": f"resnet7-{name}.cifar10", "accuracy": 0.5} for name in ("softmax", "cosine")]
        print_table(rows)
        assert lines(capsys) == ["model (.cifar10)  accuracy", "resnet7-softmax        0.5", "resnet7-cosine         0.5"]
        print_table([*rows, {"model": "(ensemble)", "accuracy": 0.6}])
        assert lines(capsys)[2:] == ["resnet7-cosine         0.5", "(ensemble)             0.6"]
        print_table([*rows, {"model": "r.digits", "accuracy": 0.6}])
        assert "resnet7-cosine.cifar10" in lines(capsys)[2]

    def test_long_texts_are_wrapped_and_the_last_columns_omitted(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "24")
        print_table([{"name": "a", "text": "many words that do not fit", "number": 12}])
        assert lines(capsys) == [
            "name  text        number", "a     many words      12", "      that do", "      not fit"
        ]  # fmt: skip
        print_table([{f"column {number}": 1.0 for number in range(6)}])
        captured = capsys.readouterr()
        assert captured.out.splitlines()[0] == "column 0  column 1"
        assert "column 5" in captured.err

    def test_cut_columns_stay_on_one_line(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "20")
        print_table([{"name": "a-long-name", "text": "many words", "n": 1}], cut=("text",))
        assert lines(capsys) == ["name        text   n", "a-long-name many … 1"]

    def test_an_empty_table(self, capsys):
        print_table([])
        assert lines(capsys) == []


def test_texts_are_escaped(capsys):
    nasty = "\x1b[31m[bold]x[/bold]\r\u202e"
    print_table([{nasty: nasty}])
    print_text(f"{nasty}\n{nasty}")
    terminal.note(nasty)
    terminal.wrote(nasty)
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert not {"\x1b", "\r", "\u202e"} & set(text)
        assert "[bold]x[/bold]" in text


def test_intervals():
    assert units.interval((0.9, 0.9224)) == "95% CI 90.0 to 92.2"
    assert units.interval((-0.004, 0.032), 0.9) == "90% CI -0.4 to 3.2"
    assert units.interval((np.nan, 0.9)) == units.interval(None) == units.MISSING


def test_estimates():
    assert units.estimate(0.9123, (0.9, 0.9224)) == "91.2% (90.0 to 92.2)"
    assert units.estimate(0.01234, (0.01, 0.015), digits=2) == "1.23% (1.00 to 1.50)"
    assert units.estimate(0.5, None) == units.estimate(0.5, (np.nan, np.nan)) == "50.0%"
    assert units.estimate(None, (0, 1)) == units.estimate(np.nan, (0, 1)) == units.MISSING


def test_plain_values():
    value = {"a": np.arange(2), "b": (np.float32(1.5), float("nan")), "c": pd.DataFrame({"x": [1]}), 3: {True}}
    assert plain(value) == {"a": [0, 1], "b": [1.5, None], "c": [{"x": 1}], "3": [True]}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_json_on_any_terminal(encoding):
    value = {"name": "größe \udce9 \U0001f600"}  # \udce9 stands for a byte that is not UTF-8
    code = f"from zoo.app.terminal import print_json; print_json({value!r})"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.decode(encoding)) == value


def test_json_is_readable_where_possible(capsys):
    print_json({"name": "größe"})
    assert "größe" in capsys.readouterr().out


def test_text_on_an_ascii_terminal(tmp_path):
    """Printing a table with dashes and ± does not fail."""
    code = "import sys; from zoo.app.main import main; sys.argv = ['zoo', 'list', 'clip-vit-b16-dfn']; main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert b"\\u2013" in result.stdout
