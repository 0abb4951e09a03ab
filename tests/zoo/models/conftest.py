"""Fixtures shared by the tests of models and their sources."""

import pytest
import torch


@pytest.fixture
def images() -> torch.Tensor:
    """Return three images of random noise, uint8 [3, 3, 40, 50]."""
    return torch.randint(0, 256, (3, 3, 40, 50), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
