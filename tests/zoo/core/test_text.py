"""Texts from files are safe to print, store and export."""

import csv
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised import fields

from zoo.core.text import as_text, check_storable, check_unique, csv_bytes, csv_cell
from zoo.errors import InputError

ANYTHING = st.text(st.characters(exclude_categories=()))


@given(ANYTHING)
def test_printed_text_has_no_control_characters(text):
    shown = as_text(text)
    assert shown.encode().decode() == shown
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown)
    if text.isprintable():
        assert shown == text


def test_escape_sequences_and_direction_marks_are_escaped():
    assert as_text("\x1b]0;owned\x07 \u202egnp.exe") == "\\x1b]0;owned\\x07 \\u202egnp.exe"
    assert as_text("[/b] [red]x[/red] é") == "[/b] [red]x[/red] é"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")))
def test_no_cell_begins_as_a_formula_does(text):
    file = io.StringIO(newline="")
    csv.writer(file).writerow([csv_cell(text)])
    (cell,) = next(csv.reader(io.StringIO(file.getvalue(), newline="")), [""])
    assert not cell.startswith(("=", "+", "-", "@", "\t"))
    assert cell.removeprefix("'") == text or cell == text


def test_an_exported_table_has_no_formulas():
    frame = pd.DataFrame({"=model": ["=cmd()", "+1", "@sum", "vit"], "drop": [-0.5, 0.25, 0.0, 1.0]})
    back = pd.read_csv(io.BytesIO(csv_bytes(frame)))
    assert back["'=model"].tolist() == ["'=cmd()", "'+1", "'@sum", "vit"]
    assert back["drop"].tolist() == frame["drop"].tolist()


def test_texts_that_cannot_be_stored_are_refused(monkeypatch):
    check_storable(["é", "x" * 4096], "file")
    with pytest.raises(InputError, check=fields(where="file", problem=r"caf\udce9 is not UTF-8")):
        check_storable(["fine", "caf\udce9"], "file")
    with pytest.raises(InputError, check=fields(where="file", problem="4097", expected="4096", hint="ZOO_MAX_ID_BYTES")):
        check_storable(["x" * 4097], "file")
    monkeypatch.setenv("ZOO_MAX_ID_BYTES", "5000")
    check_storable(["x" * 4097], "file")


def test_the_first_duplicate_is_named():
    check_unique(["a", "b"], "classes")
    with pytest.raises(InputError, check=fields(where="classes", problem="'b'")):
        check_unique(["a", "b", "c", "b", "c"], "classes")
