"""The commands that the campaign kills: every command that writes, on inputs small enough to rerun a hundred times.

Each command runs in a forked child of a process that has already imported everything; each child has its own `ZOO_HOME`.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A command, and the function that prepares the home on which it runs."""

    name: str
    act: Callable[[Path], None]
    prepare: Callable[[Path], None] = lambda home: None


def _run(home: Path) -> None:
    from zoo.runs import runner

    runner.run(
        "timm:test_vit", data="digits:test[:40]", pretrained=False, home=home, shard_rows=4, batch_size=3, workers=0,
        progress=False,
    )  # fmt: skip


def _train(home: Path, restart: bool = False, tau: float = 0.2, snapshots_every: int = 0) -> None:
    from zoo.training import train

    train(
        "resnet8-cosine", data="digits[:64]", epochs=2, home=home, save_as="small", tau=tau, checkpoint_every=0,
        progress=False, restart=restart, snapshots_every=snapshots_every,
    )  # fmt: skip


def _outputs(name: str, split: str, seed: int):
    from zoo.models import registry
    from zoo.outputs.outputs import Outputs

    y = np.random.default_rng(len(split)).integers(0, 3, 40)
    rng = np.random.default_rng(seed)
    z = 4 * (rng.normal(size=(40, 3)) + 2 * np.eye(3)[y]).astype(np.float32)
    card = dataclasses.replace(registry.card("timm:test_vit"), name=name)
    ids = [f"{split}-{k}" for k in range(40)]
    return Outputs.from_arrays(name, logits=z, labels=y, ids=ids, dataset=f"mine:{split}", card=card)


def _import(home: Path, replace: bool = False, seed: int = 1) -> None:
    from zoo.outputs import store

    store.save(_outputs("imported", "test", seed), home, replace=replace)


def _import_all(home: Path) -> None:
    from zoo.outputs import store

    for split in ("val", "test"):
        for seed, name in enumerate(("timm:test_vit", "timm:test_resnet")):
            store.save(_outputs(name, split, seed + 10 * len(split)), home)


def _calibrate(home: Path) -> None:
    from zoo import calibration
    from zoo.outputs import store

    calibration.calibrate(
        store.open_runs(data="mine:test", home=home), temperatures_from=store.open_runs(data="mine:val", home=home)
    )


def _ensemble(home: Path) -> None:
    import ensembles
    from zoo.outputs import store

    runs = store.open_runs(data="mine:test", home=home)
    ensembles.greedy(runs, steps=2).to_model("both", overwrite=True)


def _cascade(home: Path) -> None:
    import ensembles
    from zoo.outputs import store

    runs = store.open_runs(data="mine:test", home=home)
    ensembles.cascade(runs, members=runs.names, cost=[1, 2], resamples=10).to_model("cheap", overwrite=True)


def _head(home: Path) -> None:
    from zoo.models import registry
    from zoo.models.heads import fit_linear, save_linear

    model = registry.load("timm:test_vit", pretrained=False, device="cpu")
    x = np.random.default_rng(0).normal(size=(12, model.num_features))
    save_linear(fit_linear(model, x, np.arange(12) % 3, ["cat", "dog", "owl"], name="pets"))


def _export(home: Path) -> None:
    from zoo.outputs import bundle, store

    bundle.export_outputs(store.open_runs(data="mine:test", home=home), home / "study.safetensors")


def _export_bundle(home: Path) -> None:
    from zoo.outputs import bundle

    runs = [_outputs(name, "test", seed) for seed, name in enumerate(("timm:test_vit", "mine@epoch3"))]
    bundle.export_outputs(runs, home / "study.safetensors")


def _import_bundle(home: Path) -> None:
    from zoo.outputs import store
    from zoo.outputs.importing.importer import import_outputs

    for outputs in import_outputs(home / "study.safetensors").values():
        store.save(outputs, home)


SCENARIOS = [
    Scenario("run", _run),
    Scenario("train", _train),
    Scenario("train --restart", lambda home: _train(home, restart=True, tau=0.4), _train),
    Scenario("train --snapshots-every", lambda home: _train(home, snapshots_every=1)),
    Scenario("import", _import),
    Scenario("import of a bundle", _import_bundle, _export_bundle),
    Scenario("import --replace", lambda home: _import(home, replace=True, seed=2), _import),
    Scenario("calibrate", _calibrate, _import_all),
    Scenario("ensemble --save", _ensemble, _import_all),
    Scenario("ensemble --cascade --save", _cascade, _import_all),
    Scenario("head", _head),
    Scenario("export", _export, _import_all),
]


def warm_up() -> None:
    """Run every scenario once, so that child processes need not import anything."""
    import tempfile

    import torch

    torch.set_num_threads(1)
    for one in SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["ZOO_HOME"] = folder
            one.prepare(Path(folder))
            one.act(Path(folder))


_TIMES = re.compile(r'"(seconds|images_per_second)": [0-9.e+-]+')
_BY_PLACE = ("cache/", "models/", "fingerprints/")  # contain paths and times, which differ between homes


def contents(home: Path) -> dict[str, str | bytes]:
    """Return the contents of every file of a home, except locks and parts that depend on the time or on the home's path.

    A lock left by a dead process is an empty file and blocks no other process.
    """
    found: dict[str, str | bytes] = {}
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if path.is_file() and not name.startswith(_BY_PLACE) and path.name.lstrip(".") != "lock":
            found[name] = _TIMES.sub(r'"\1": 0', path.read_text()) if name.endswith(".jsonl") else path.read_bytes()
    return found


def differing(found: dict[str, str | bytes], expected: dict[str, str | bytes]) -> str:
    """Describe the files that differ; return an empty string if none do."""
    names = sorted(name for name in {**found, **expected} if found.get(name) != expected.get(name))
    logs = [f"{name}: {found.get(name)!r}, expected {expected.get(name)!r}" for name in names if name.endswith(".jsonl")]
    return json.dumps(logs + [name for name in names if not name.endswith(".jsonl")]) if names else ""
