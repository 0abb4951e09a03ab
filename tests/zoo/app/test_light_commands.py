"""Commands on stored outputs import neither torch nor other large libraries that they do not need."""

import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from zoo.outputs.outputs import Outputs

HEAVY = ("torch", "scipy.stats", "pandas", "sklearn", "altair", "matplotlib")
CHILD = """
import sys
from zoo.app.main import app
try:
    app(sys.argv[2:])
except SystemExit as done:
    assert not done.code, done.code
open(sys.argv[1], "w").write("\\n".join(sys.modules))
"""
TABLE = {"pandas"}  # what a command that prints or reads a table may import


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Store logits of two models and predictions of a third, and write files to import."""
    folder = tmp_path_factory.mktemp("light")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 300)
    for name, link in (("one", "softmax"), ("two", "sigmoid")):
        z = rng.normal(size=(300, 4)).astype(np.float32) + 2 * np.eye(4, dtype=np.float32)[y]
        Outputs.from_arrays(name, logits=z, labels=y, link=link, dataset="made").save(home=folder)
    votes = np.where(rng.random(300) < 0.8, y, (y + 1) % 4)
    Outputs.from_arrays("three", predictions=votes, labels=y, dataset="made").save(home=folder)
    np.save(folder / "new.npy", z)
    np.savez(folder / "new.npz", logits=z, labels=y)
    save_file({"logits": z, "labels": y}, folder / "new.safetensors")
    rows = "\n".join(f"{n},{label},{row[0]},{row[1]}" for n, (label, row) in enumerate(zip(y % 2, z, strict=True)))
    (folder / "new.csv").write_text(f"id,label,logit_0,logit_1\n{rows}\n")
    return folder


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("outputs", set()),
        ("verify", set()),
        ("import new.npy --kind logits --data of-npy --name npy", set()),
        ("import new.npz --data of-npz --name npz", set()),
        ("import new.safetensors --data of-safetensors --name safetensors", set()),
        ("import new.csv --data of-csv --name csv", TABLE),
        ("export one two --data made -o bundle.safetensors", set()),
        ("export one two --data made -o rows.csv", TABLE),
        ("compare one two --data made", TABLE),
        ("compare one two --data made --json", TABLE),
        ("compare one three --data made", TABLE),
        ("pairs one two three --data made", TABLE),
        ("pairs one two three --data made --significance", TABLE),
        ("calibrate one two --data made", TABLE),
        ("trust one two --data made --groups class", TABLE),
        ("triage one two three --data made", TABLE),
    ],
)
def test_no_heavy_import(command, allowed, home, tmp_path):
    words = [str(home / word) if word.startswith("new.") else word for word in command.split()]
    loaded = tmp_path / "loaded.txt"
    environment = os.environ | {"ZOO_HOME": str(home)}
    subprocess.run([sys.executable, "-c", CHILD, loaded, *words], cwd=tmp_path, env=environment, check=True)
    assert set(loaded.read_text().splitlines()) & set(HEAVY) <= allowed
