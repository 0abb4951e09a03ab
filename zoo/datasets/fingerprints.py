"""Fingerprints of files' contents, so that outputs are never reused for data that changed.

Contents are hashed whole. For large data the result is kept under the size, times and inode of every file: what is hashed
again then is only what was touched. Small data is always hashed, which costs nothing and trusts no clock.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from zoo.core import files, home
from zoo.errors import ZooError

REMEMBER_ABOVE = 256 * 2**20  # bytes; a fraction of a second of hashing


def of_files(root: Path, names: Sequence[str], extra: Sequence[str] = ()) -> str:
    """One fingerprint of the files `root/name`, their names and contents, and of the texts `extra`."""
    try:
        stats = [(root / name).stat() for name in names]
    except OSError as error:
        raise ZooError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def compute() -> str:
        with ThreadPoolExecutor(4) as pool:
            sums = list(pool.map(lambda name: files.sha256(root / name), names))
        return files.digest([*extra, *(part for pair in zip(names, sums, strict=True) for part in pair)])

    if sum(stat.st_size for stat in stats) <= REMEMBER_ABOVE:
        return compute()
    times = (f"{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}" for s in stats)
    stamp = files.digest([*extra, *names, *times])
    return _remembered(str(root.absolute()), stamp, compute)


def _remembered(place: str, stamp: str, compute: Callable[[], str]) -> str:
    path = home.folder("fingerprints") / f"{files.digest([place])[:16]}.json"
    try:
        record = files.read_json(path, schema=1, limit=2**16)
        if record.get("stamp") == stamp and isinstance(record.get("fingerprint"), str):
            return str(record["fingerprint"])
    except ZooError:
        pass  # absent or damaged: it is made anew below
    fingerprint = compute()
    files.make_folder(path.parent)
    files.write_json(path, {"schema": 1, "place": place, "stamp": stamp, "fingerprint": fingerprint})
    return fingerprint
