"""The number of threads for operations on the CPU."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

# An operation of up to this many multiplications gains nothing from a second thread: starting it takes as long as the work.
MAX_SINGLE_THREADED = 2**22


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """Use one thread inside the block if its operations are small, else as many as before.

    On an idle machine both are equally fast. On a busy one a single thread is many times faster, because threads that wait
    for each other thousands of times a second often wait for one that is not running. Only torch's operations use several
    threads: nothing is done as long as torch is not imported.

    Args:
        multiplications: size of one operation in the block.
    """
    torch = sys.modules.get("torch")
    before = 1 if torch is None else torch.get_num_threads()
    if torch is None or multiplications > MAX_SINGLE_THREADED or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
