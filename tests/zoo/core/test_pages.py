"""Memory kept from batch to batch: fewer page faults inside the block, and all memory is returned after it."""

import os
import resource
import sys
from pathlib import Path

import pytest
import torch

from zoo.core import pages
from zoo.core.pages import kept_pages

LARGE = 64 * 2**20  # bytes; above any threshold that the C library arrives at by itself

pytestmark = pytest.mark.skipif(pages._glibc() is None, reason="the C library is not glibc, or malloc is configured")


def faults(times: int) -> int:
    """Return the page faults of so many blocks, each filled and freed before the next."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.ones(LARGE // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    pages_held = int(Path("/proc/self/statm").read_text().split()[1])
    return pages_held * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_freed_memory_is_reused_and_returned_at_the_end() -> None:
    anew = faults(8)
    start = resident()
    with kept_pages():
        faults(12)  # blocks are aligned, so it takes a few until each fits into the space of a freed one
        with kept_pages():
            assert faults(8) < anew / 4
        assert faults(1) < anew / 32  # the inner block ended, the outer one did not
        assert resident() > start + LARGE / 2
    assert resident() < start + LARGE / 2


def test_memory_is_returned_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="inside"), kept_pages():
        raise RuntimeError("inside")
    assert pages._users == 0
