"""The progress bar: silent where nobody watches, counting where somebody does."""

import io

import pytest
from rich.console import Console

from zoo.core import progress


@pytest.fixture
def terminal(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **options: Console(file=screen, force_terminal=True, width=100))
    monkeypatch.setattr(progress, "REFRESH", 0.0)
    return screen


def test_a_terminal_sees_counts_and_the_state(terminal):
    with progress.Bar("[b]ild", 10, done=2) as bar:
        bar.advance(3, lambda speed: f"loss {0.25:.2f}")
        bar.bar.refresh()
    assert "[b]ild" in terminal.getvalue()  # a title is text, not markup
    assert "5/10" in terminal.getvalue()
    assert "loss 0.25" in terminal.getvalue()


def test_where_nobody_watches_nothing_is_drawn_and_no_state_is_asked_for(capsys):
    with progress.Bar("title", 2) as bar:
        bar.advance(1, lambda speed: pytest.fail("asked"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shown", [True, False])
def test_the_line_at_the_end(capsys, shown):
    with progress.counted("title", 4, shown, "images") as report:
        report(1)
        report(3)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("title: 4 images in ") == shown


def test_a_bar_that_nobody_asked_for_waits_until_the_work_takes_long(terminal, monkeypatch):
    with progress.in_time("fit", 3, True) as report:
        report(1)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.in_time("fit", 3, False) as report:
        report(1)
    assert terminal.getvalue() == ""
    with progress.in_time("fit", 3, True) as report:
        report(1)
        report(1)
    assert "2/3" in terminal.getvalue()
