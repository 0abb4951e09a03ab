"""The table of faults in this folder's README names tests that exist."""

import re
from pathlib import Path

FAULTS = 29


def test_every_fault_names_tests_that_exist():
    text = (Path(__file__).parent / "README.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and ".py::" in line]
    assert len(rows) == FAULTS
    root = Path(__file__).parents[2]
    for row in rows:
        for file, name in re.findall(r"`([\w/.]+)::(\w+)`", row):
            assert re.search(rf"^ *def {name}\(", (root / file).read_text(), re.MULTILINE), f"{file}::{name} does not exist"
