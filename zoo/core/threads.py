"""The number of threads for operations on the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Multiplications in one operation up to which a second thread gains nothing: starting it takes as long as the work itself.
MAX_SINGLE_THREADED = 2**22


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """Use one thread inside the block if its operations are small, else as many as before.

    On an idle machine both are equally fast. On a busy one a single thread is many times faster, because threads that wait
    for each other thousands of times a second often wait for one that is not running.

    Args:
        multiplications: size of one operation in the block.
    """
    before = torch.get_num_threads()
    if multiplications > MAX_SINGLE_THREADED or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
