"""How many threads share one operation on the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Multiplications in one operation up to which a second thread gains nothing: handing a share over takes as long as doing it.
TOO_FEW_TO_SHARE = 2**22


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """One thread inside for many small operations of this size, all of them for larger ones.

    Alone on a machine that is as fast; beside other work it is many times faster, because threads that wait for each other
    thousands of times a second wait for one that is not running.
    """
    before = torch.get_num_threads()
    if multiplications > TOO_FEW_TO_SHARE or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
