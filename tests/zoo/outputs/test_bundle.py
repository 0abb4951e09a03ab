"""One file of many models' outputs: what comes back is what went in, and anybody can read it."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

import zoo
from zoo.errors import CorruptFile, InputError
from zoo.outputs import bundle
from zoo.outputs.outputs import Outputs, Runs


def made_runs(rows: int = 50, classes: int = 5, seed: int = 0) -> Runs:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    logits = rng.normal(0, 4, (2, rows, classes)).astype(np.float32) + 3 * np.eye(classes, dtype=np.float32)[y]
    ids = [f"image {i}.png" for i in range(rows)]
    names = [f"class {k}" for k in range(classes)]
    shared = {"labels": y, "ids": ids, "classes": names, "dataset": "mine:test"}
    card = zoo.card("resnet50-cosine.in1k")
    return Runs(
        [
            Outputs.from_arrays("a", logits=logits[0], embeddings=rng.normal(size=(rows, 7)), card=card, **shared),
            Outputs.from_arrays("b", logits=logits[1], link="sigmoid", **shared),
            Outputs.from_arrays("c", predictions=logits[0].argmax(1), **shared),
        ]
    )


def test_what_comes_back_is_what_went_in(tmp_path: Path) -> None:
    runs = made_runs()
    bundle.export_outputs(runs, tmp_path / "all.safetensors", embeddings=["a"])
    back = bundle.read(tmp_path / "all.safetensors")
    assert back.names == runs.names
    for name, outputs in runs.items():
        assert (back[name].predictions == outputs.predictions).all()
        assert (back[name].labels == outputs.labels).all()
        assert back[name].ids.tolist() == outputs.ids.tolist()
        assert (back[name].classes, back[name].link, back[name].kind) == (outputs.classes, outputs.link, outputs.kind)
        assert (back[name].card, back[name].dataset) == (outputs.card, "mine:test")
    np.testing.assert_allclose(back["a"].embeddings, runs["a"].embeddings, rtol=1e-3, atol=1e-3)
    assert back["b"].embeddings is None


def test_the_stated_loss_bounds_every_probability(tmp_path: Path) -> None:
    runs = made_runs(rows=500)
    note = bundle.export_outputs(runs, tmp_path / "all.safetensors")
    back = bundle.read(tmp_path / "all.safetensors")
    for about in note["models"][:2]:
        moved = np.abs(back[about["name"]].probabilities - runs[about["name"]].probabilities).max()
        assert 0 < moved <= about["largest_change"] * (1 + 1e-6) < 0.005


@given(
    seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-4, 1.0, 1000.0]), link=st.sampled_from(["softmax", "sigmoid"])
)
def test_near_ties_keep_their_winner(tmp_path_factory: pytest.TempPathFactory, seed: int, scale: float, link: str) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=(40, 3)) * scale).astype(np.float32)
    logits[:, 1] = np.nextafter(logits[:, 0], np.float32(np.inf))  # rounding makes them equal
    outputs = Outputs.from_arrays("a", logits=logits, labels=[0] * 40, link=link)  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("ties") / "a.safetensors"
    bundle.export_outputs([outputs], path)
    assert (bundle.read(path)["a"].predictions == logits.argmax(1)).all()


def test_ten_lines_of_numpy_read_it(tmp_path: Path) -> None:
    """As the module's docstring says, without this package."""
    runs = made_runs()
    bundle.export_outputs(runs, tmp_path / "all.safetensors")
    with safe_open(tmp_path / "all.safetensors", "numpy") as file:
        about = json.loads(file.metadata()["zoo"])
        ids = json.loads(file.get_tensor("ids").tobytes())
        labels = file.get_tensor("labels")
        values = {model["name"]: file.get_tensor(f"{model['kind']}/{model['name']}") for model in about["models"]}
    assert ids == runs["a"].ids.tolist()
    assert about["classes"] == list(runs["a"].classes)
    assert (values["a"].argmax(1) == labels).mean() == pytest.approx(runs["a"].accuracy)


def test_one_changed_byte_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "all.safetensors"
    bundle.export_outputs(made_runs(rows=5), path)
    whole = path.read_bytes()
    for place in range(8, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CorruptFile, match=r"all\.safetensors"):
            bundle.read(path)


def test_refusals(tmp_path: Path) -> None:
    runs = made_runs()
    with pytest.raises(InputError, match="b has no embeddings"):
        bundle.export_outputs(runs, tmp_path / "x.safetensors", embeddings=["b"])
    large = Outputs.from_arrays("large", logits=[[1e6, 0.0]], labels=[0])
    with pytest.raises(InputError, match="large: one of its logits is 1e"):
        bundle.export_outputs([large], tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="at least one"):
        bundle.export_outputs([], tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()
    assert not bundle.is_bundle(Path(__file__))
