"""The first study of `zoo demo` needs only shipped outputs: no images, weights or training."""

import numpy as np
import pytest
from PIL import Image
from raised import fields

from zoo.app.demo import STUDY, fetch_images, study
from zoo.cards import card_index
from zoo.errors import ZooError
from zoo.outputs import bundle
from zoo.outputs.outputs import Outputs


def test_the_study_needs_only_shipped_outputs(zoo_home, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(card_index, "shipped_folder", lambda: tmp_path)
    assert study() is None  # no shipped outputs
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 10
    strengths = {"weak": 1.0, "middle": 1.5, "strong": 2.0}
    runs = [
        Outputs.from_arrays(
            name, logits=rng.normal(size=(400, 10)) + size * np.eye(10)[labels], labels=labels, dataset=STUDY
        )
        for name, size in strengths.items()
    ]
    bundle.export_outputs(runs, tmp_path / "cifar10.outputs.safetensors")
    document = study()
    assert document is not None
    assert document.title.startswith("3 models on cifar10:test")
    assert document.findings
    assert {outputs.name for outputs in bundle.study(STUDY).values()} == {*strengths}
    best = max(runs, key=lambda outputs: outputs.accuracy)
    assert bundle.shipped(best.name, STUDY).accuracy == pytest.approx(best.accuracy)
    assert len(bundle.study("digits:test")) == 0


def test_missing_images_are_reported_before_any_work(zoo_home, tmp_path, monkeypatch, cli) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("ZOO_DATA", raising=False)
    page = tmp_path / "page.html"
    with pytest.raises(ZooError, check=fields(argument="images")):
        fetch_images()
    refused = cli("demo", "--images", "-o", page, code=1)
    assert "--images" in refused.err
    assert list(tmp_path.glob("*.html")) == []
    cli("demo", "resnet8-softmax", "--images", "-o", page, code=2)

    folder = tmp_path / "data" / "cifar10" / "test" / "cat"
    folder.mkdir(parents=True)
    Image.new("RGB", (32, 32)).save(folder / "0.png")
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    assert len(fetch_images()) == 1
