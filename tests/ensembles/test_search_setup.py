"""The setup of a search: cross-fitted temperatures are refitted on the selection split."""

import numpy as np
import pytest
import torch

import ensembles
from zoo.calibration import calibrate
from zoo.outputs.outputs import Outputs, Runs


@pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # wrong test labels make the gain vanish
def test_test_labels_do_not_affect_a_search_on_cross_fitted_runs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    ids = [f"image-{i}" for i in range(300)]
    logits = {f"m{i}": (i + 1) * (rng.normal(size=(300, 3)) + 1.5 * np.eye(3)[y]) for i in range(4)}
    selection, test = ensembles.stratified_split(y, 0.5, 0, ids)
    paths = []
    for labels in (y, np.where(np.isin(np.arange(300), test), (y + 1) % 3, y)):
        runs = Runs(Outputs.from_arrays(name, logits=z, labels=labels, ids=ids) for name, z in logits.items())
        search = ensembles.Search(calibrate(runs), split=(selection, test))
        paths.append((search.greedy(steps=3), search))
    (first, one), (second, two) = paths
    assert first.members == second.members
    everything = torch.arange(len(test))
    for model in range(4):
        np.testing.assert_allclose(one.test.rows(model, everything), two.test.rows(model, everything), atol=1e-6)
    assert first.gain != second.gain
