"""Small operations use one thread, large ones as many as before."""

import numpy as np
import pytest
import torch

import probes
from zoo.core.threads import MAX_SINGLE_THREADED, threads_for


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_small_operations_use_one_thread(two_threads):
    with threads_for(MAX_SINGLE_THREADED):
        assert torch.get_num_threads() == 1
    with threads_for(MAX_SINGLE_THREADED + 1):
        assert torch.get_num_threads() == 2
    with pytest.raises(KeyError), threads_for(1):
        raise KeyError
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("examples", "expected"), [(200, 1), (8000, 2)])
def test_a_probe_uses_several_threads_for_large_products(two_threads, monkeypatch, examples, expected):
    """[examples, 64] features, 10 classes: 8,000 examples make more than five million multiplications."""
    seen = set()
    evaluate = probes.LinearProbe._evaluate

    def watched(*arguments):
        seen.add(torch.get_num_threads())
        return evaluate(*arguments)

    monkeypatch.setattr(probes.LinearProbe, "_evaluate", watched)
    x = np.random.default_rng(0).normal(size=(examples, 64)).astype(np.float32)
    probes.LinearProbe(strengths=[1e4, 1e3]).fit(x, np.arange(examples) % 10)
    assert (seen, torch.get_num_threads()) == ({expected}, 2)
