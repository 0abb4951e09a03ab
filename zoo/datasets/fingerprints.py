"""Fingerprints of the contents of files, so that stored outputs are never reused after the data changed.

All bytes are hashed. For large data the result is cached with the size, times and inode of every file, and computed again
when one of them changes. Small data is always hashed, which is fast and does not rely on the clock.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from zoo.core import files, home
from zoo.errors import ZooError

CACHED_ABOVE = 256 * 2**20  # bytes, which take a fraction of a second to hash


def of_files(root: Path, names: Sequence[str], extra: Sequence[str] = ()) -> str:
    """Return one fingerprint of the names and contents of files.

    Args:
        root: folder of the files.
        names: their paths relative to `root`.
        extra: texts to include in the fingerprint.
    """
    try:
        stats = [(root / name).stat() for name in names]
    except OSError as error:
        raise ZooError(f"cannot be read: {error.strerror}", where=error.filename) from error

    def compute() -> str:
        with ThreadPoolExecutor(4) as pool:
            sums = list(pool.map(lambda name: files.sha256(root / name), names))
        return files.digest([*extra, *(part for pair in zip(names, sums, strict=True) for part in pair)])

    if sum(stat.st_size for stat in stats) <= CACHED_ABOVE:
        return compute()
    states = (f"{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}" for s in stats)
    return _cached(str(root.absolute()), files.digest([*extra, *names, *states]), compute)


def _cached(place: str, stamp: str, compute: Callable[[], str]) -> str:
    path = home.folder("fingerprints") / f"{files.digest([place])[:16]}.json"
    try:
        record = files.read_json(path, schema=1, limit=2**16)
        if record.get("stamp") == stamp and isinstance(record.get("fingerprint"), str):
            return str(record["fingerprint"])
    except ZooError:
        pass  # missing or damaged
    fingerprint = compute()
    files.make_folder(path.parent)
    files.write_json(path, {"schema": 1, "place": place, "stamp": stamp, "fingerprint": fingerprint})
    return fingerprint
