"""Memory-mapped files: pages that were read can be released again."""

import mmap
from typing import Any

import numpy as np


def is_mapped(rows: Any) -> bool:
    """Return whether `rows` is an array in a file that is mapped read-only."""
    return _map(rows) is not None


def let_go(rows: Any) -> None:
    """Release the pages of `rows` if it is a view of a file that is mapped read-only; otherwise do nothing.

    The pages stay in the system's file cache and are mapped again on the next read. Without this, a pass over a file larger
    than memory counts as memory of the process.
    """
    owner = _map(rows)
    if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
        with memoryview(owner) as view:
            start = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
        low, high = np.lib.array_utils.byte_bounds(rows)
        first = (low - start) // mmap.PAGESIZE * mmap.PAGESIZE
        owner.madvise(mmap.MADV_DONTNEED, first, high - start - first)


def _map(rows: Any) -> mmap.mmap | None:
    """Return the read-only map that owns the memory of an array. A writable map may hold data that no file has."""
    owner = rows
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, mmap.mmap):
        return None
    with memoryview(owner) as view:
        return owner if view.readonly else None
