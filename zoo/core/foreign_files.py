"""Files written by other programs: whatever exception their reader raises, the user gets an error that names the file."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoo.core import settings
from zoo.errors import CorruptFile, ZooError

_ALLOWED_RATIO = 100  # of unpacked to packed size; model outputs compress by a small factor only


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn any exception in the block into an error that says why the file at `path` is not a readable `what`."""
    try:
        yield
    except ZooError:
        raise
    except MemoryError as error:  # a damaged file may ask for more than it holds
        reason = " ".join(str(error).split())[:300]
        raise ZooError(f"needs more memory than is free, or is not a readable {what}: {reason}", where=path) from error
    # pandas, pyarrow, zipfile, gzip and NumPy raise a dozen kinds of exceptions, and new versions add others.
    except Exception as error:
        # EINVAL: a damaged file made its reader seek to a position before the start.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise ZooError(f"cannot be read: {error.strerror}", where=path) from error
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CorruptFile(f"not a readable {what}: {reason}", where=path) from error


def check_unpacked(path: Path, unpacked: int, what: str = "bytes") -> None:
    """Raise an error if a file would unpack to far more than its size, which only a malicious file does.

    Args:
        path: the packed file.
        unpacked: its claimed size once unpacked, or the number of its parts.
        what: the unit of `unpacked`.
    """
    packed = path.stat().st_size
    if unpacked > max(settings.max_unpacked(), _ALLOWED_RATIO * packed):
        problem = f"{packed} bytes would unpack to {unpacked} {what}"
        raise CorruptFile(problem, where=path, hint="Raise ZOO_MAX_UNPACKED if the file is genuine")
