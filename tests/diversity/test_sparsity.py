"""Shares of non-zero activations, whole and streamed."""

import numpy as np
import pytest
import torch
from raised import fields

from diversity.sparsity import SparsityMeter, nonzero_fraction
from zoo.errors import InputError


def test_share_over_examples_channels_and_positions() -> None:
    maps = torch.randn(50, 3, 4, 4, generator=torch.Generator().manual_seed(0)).relu()
    assert nonzero_fraction(maps) == pytest.approx(float((maps > 0).double().mean()), abs=1e-12)
    assert nonzero_fraction(maps.half()) == nonzero_fraction(maps)
    assert nonzero_fraction(np.zeros((3, 2))) == 0


def test_stream_of_unequal_batches_and_rectified() -> None:
    x = np.maximum(np.random.default_rng(0).normal(size=(100, 7)), 0)
    meter = SparsityMeter()
    for batch in np.split(x, [10, 11, 80]):
        meter.update(batch)
    assert meter.nonzero_fraction == pytest.approx(np.mean(x != 0), abs=1e-12)
    assert (meter.rows, meter.rectified) == (100, True)
    meter.update(-x[:1])
    assert not meter.rectified


def test_invalid_batches_are_named() -> None:
    with pytest.raises(InputError, check=fields(where="block1")):
        _ = SparsityMeter("block1").nonzero_fraction
    meter = SparsityMeter("block1")
    meter.update(np.ones((3, 2)))
    with pytest.raises(InputError, check=fields(where="block1: row 4")):
        meter.update(np.array([[1.0, 1], [np.nan, 1]]))
