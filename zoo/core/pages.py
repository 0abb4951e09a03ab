"""Keep freed memory for the next batch of a network on the CPU, instead of returning it to the system.

The C library maps each large block anew and unmaps it when it is freed, and the first access to each new page causes a page
fault. For the activations of one batch after another, that can take twice as long as the network itself.
"""

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# <malloc.h>: the amount of free memory above which it is returned, and the size above which a block is mapped on its own.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = {_MMAP_THRESHOLD: 2**30, _TRIM_THRESHOLD: 2**31 - 1}
_USUAL = {_MMAP_THRESHOLD: 2**25, _TRIM_THRESHOLD: 2**26}  # where glibc's own adaptation ends after large blocks were freed
_users, _lock = 0, threading.Lock()


@contextmanager
def kept_pages() -> Iterator[None]:
    """Keep memory that is freed inside the block for later allocations, and return it to the system at the end.

    This changes the speed only. It does nothing if the C library is not glibc, or if the environment configures malloc.
    Blocks may be nested and may run in several threads.
    """
    library = _glibc()
    if library is None:
        yield
        return
    _count_user(library, 1)
    try:
        yield
    finally:
        _count_user(library, -1)


def _count_user(library: Any, change: int) -> None:
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
