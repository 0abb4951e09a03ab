"""Progress: a bar in a terminal, lines where there is none."""

import io
import re
from types import SimpleNamespace

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


def test_without_a_terminal_short_work_prints_nothing_and_computes_no_state(capsys):
    with progress.Bar("title", 2) as bar:
        bar.advance(1, lambda speed: pytest.fail("called"))
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets: `clock.now`."""
    fake = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: fake.now))
    return fake


def test_without_a_terminal_a_line_every_ten_seconds_has_percent_rate_and_time_left(capsys, clock):
    with progress.Bar("train", 200, done=20) as bar:
        for clock.now in range(1, 31):
            bar.advance(2)
    printed = capsys.readouterr()
    assert printed.out == ""
    percent_rate_left = [re.findall(r"(\d+)%.*?(\d+)/s.*?(\d+:\d\d:\d\d)", line) for line in printed.err.splitlines()]
    assert percent_rate_left == [[("20", "2", "0:01:20")], [("30", "2", "0:01:10")], [("40", "2", "0:01:00")]]
    assert all(line.startswith("train") for line in printed.err.splitlines())


def test_a_line_has_the_state_or_else_the_rate(capsys, clock):
    with progress.Bar("train", 100) as bar:
        clock.now = 10
        bar.advance(30, lambda rate: f"loss 0.5 at {rate:.0f}")
        clock.now = 20
        bar.advance(20, lambda rate: "")
    first, second = capsys.readouterr().err.splitlines()
    assert "loss 0.5 at 3" in first
    assert "2.0/s" in second


def test_progress_that_is_not_shown_prints_no_line(capsys, clock):
    with progress.Bar("train", 100, shown=False) as bar:
        clock.now = 60
        bar.advance(30, lambda rate: pytest.fail("called"))
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
