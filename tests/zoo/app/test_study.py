"""The study that `zoo demo` begins with: from shipped outputs alone, without images, weights or training."""

import numpy as np
import pytest

from zoo.app.demo import STUDY, study
from zoo.cards import card_index
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
