"""Files mapped into memory and streamed: pages that were read need not stay with the process."""

import mmap
from typing import Any

import numpy as np


def is_mapped(rows: Any) -> bool:
    """Whether `rows` is an array in a file that is mapped for reading only."""
    return _map(rows) is not None


def let_go(rows: Any) -> None:
    """Give back the pages of `rows`, a view of a file mapped for reading; of anything else nothing happens.

    They stay in the system's cache of the file, and are mapped again when they are read again: nothing is lost, but a pass
    over a file larger than memory does not count as memory that the process uses.
    """
    owner = _map(rows)
    if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
        with memoryview(owner) as whole:
            start = np.frombuffer(whole, np.uint8).__array_interface__["data"][0]
        low, high = np.lib.array_utils.byte_bounds(rows)
        first = (low - start) // mmap.PAGESIZE * mmap.PAGESIZE
        owner.madvise(mmap.MADV_DONTNEED, first, high - start - first)


def _map(rows: Any) -> mmap.mmap | None:
    owner = rows
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, mmap.mmap):
        return None
    with memoryview(owner) as whole:  # a map that may be written to can hold what is in no file
        return owner if whole.readonly else None
