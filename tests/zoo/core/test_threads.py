"""How many threads share an operation: one for small ones, as many as before for large ones and ever after."""

import numpy as np
import pytest
import torch

import probes
from zoo.core.threads import TOO_FEW_TO_SHARE, threads_for


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_small_operations_are_not_shared(two_threads):
    with threads_for(TOO_FEW_TO_SHARE):
        assert torch.get_num_threads() == 1
    with threads_for(TOO_FEW_TO_SHARE + 1):
        assert torch.get_num_threads() == 2
    with pytest.raises(KeyError), threads_for(1):
        raise KeyError
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("examples", "expected"), [(200, 1), (8000, 2)])
def test_a_probe_shares_its_products_where_they_are_large(two_threads, monkeypatch, examples, expected):
    """[examples, 64] features, 10 classes: 8,000 examples make more than five million multiplications."""
    seen = set()
    judge = probes.LinearProbe._judge

    def watched(*arguments):
        seen.add(torch.get_num_threads())
        return judge(*arguments)

    monkeypatch.setattr(probes.LinearProbe, "_judge", watched)
    x = np.random.default_rng(0).normal(size=(examples, 64)).astype(np.float32)
    probes.LinearProbe(strengths=[1e4, 1e3]).fit(x, np.arange(examples) % 10)
    assert (seen, torch.get_num_threads()) == ({expected}, 2)
