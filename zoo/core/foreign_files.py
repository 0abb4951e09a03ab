"""Files of other programs: whatever their readers meet a damaged one with, it becomes one sentence that names the file."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoo.core import limits
from zoo.errors import CorruptFile, ZooError


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Inside, an exception is an error that says the file is not a readable `what`; the system's own say why."""
    try:
        yield
    except ZooError:
        raise
    except MemoryError as error:  # what it asks for need not be what it holds
        reason = " ".join(str(error).split())[:300]
        raise ZooError(f"{path}: asks for more memory than there is, or is not a readable {what}: {reason}") from error
    # pandas, pyarrow, zipfile, gzip and NumPy have a dozen kinds of them between them, and add others with each version.
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: sent to a place before the file
            raise ZooError(f"{path}: cannot be read: {error.strerror}") from error
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CorruptFile(f"{path}: not a readable {what}: {reason}") from error


def check_unpacked(path: Path, unpacked: int, what: str = "bytes") -> None:
    """An error where a file stands for far more than its size, which only one made for it does."""
    packed = path.stat().st_size
    if unpacked > max(limits.bound("ZOO_MAX_UNPACKED"), limits.HONEST_RATIO * packed):
        raise CorruptFile(
            f"{path}: {packed} bytes that would unpack to {unpacked} {what}; refused, unless ZOO_MAX_UNPACKED is raised"
        )
