"""Memory that a network needs again for the next batch is kept until the last one.

The C library maps each large block anew and unmaps it when it is freed, and a page that is touched for the first time
costs a fault: with the activations of one batch of images after another that can take twice as long as the network.
"""

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# <malloc.h>: the size from which a block is mapped on its own, and the free memory from which it is given back.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = {_MMAP_THRESHOLD: 2**30, _TRIM_THRESHOLD: 2**31 - 1}
_USUAL = {_MMAP_THRESHOLD: 2**25, _TRIM_THRESHOLD: 2**26}  # where glibc's own rule arrives once large blocks were freed
_users, _lock = 0, threading.Lock()


@contextmanager
def kept_pages() -> Iterator[None]:
    """What the process frees inside is kept for what it asks for next, and given back at the end.

    A matter of speed alone, for networks on the CPU; it does nothing where the C library is not glibc, or where the
    environment has settings of its own for it. Blocks may lie within each other and in several threads.
    """
    library = _glibc()
    if library is None:
        yield
        return
    _enter(library, 1)
    try:
        yield
    finally:
        _enter(library, -1)


def _enter(library: Any, change: int) -> None:
    global _users
    with _lock:
        before, _users = _users, _users + change
        if before == 0 or _users == 0:
            for parameter, value in (_KEPT if _users else _USUAL).items():
                library.mallopt(parameter, value)
        if _users == 0:
            library.malloc_trim(0)


@functools.cache
def _glibc() -> Any:
    if sys.platform != "linux" or any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
