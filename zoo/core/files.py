"""Atomic writes, checked JSON, checksums and locks.

A file is written under a temporary name beside its place, flushed to disk and renamed. A reader therefore sees the old
contents or the new ones, even if the writer dies. Correctness depends on that rename alone. A lock only keeps two processes
from doing the same work; if locks do nothing on a file system, or a dead process left one behind, only time is lost.

Every file of ours contains a *seal*, the checksum of all its other bytes, so that reading detects a single changed byte.
`write_json` and `read_json` seal and check JSON, `zoo.core.tensorfile` tensors.
"""

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from zoo.errors import CorruptFile, InputError, ZooError

MAX_JSON = 256 * 2**20  # bytes
STALE_SECONDS = 24 * 3600  # age at which the temporary file of another machine counts as abandoned
SEAL_LENGTH = 64
_LOCK = ".lock"
_START = b'{\n "sha256": "'  # the first bytes of a sealed JSON file; the seal follows
_swept: set[Path] = set()  # folders that this process has cleared of abandoned temporary files
_PART = re.compile(r"\..+\.(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{16}\.part\Z")
_FREE_SPACE, _OTHER_FOLDER = "Free some space", "Use another folder (ZOO_HOME)"
_REASONS = {  # what is wrong, and what to do
    errno.ENOSPC: ("the disk is full", _FREE_SPACE),
    errno.EDQUOT: ("the disk quota is used up", _FREE_SPACE),
    errno.EFBIG: ("the file would exceed the allowed size", "Raise the limit or use another disk"),
    errno.EROFS: ("the file system is read-only", _OTHER_FOLDER),
    errno.EACCES: ("permission denied", f"{_OTHER_FOLDER} or change its owner"),
    errno.EPERM: ("permission denied", f"{_OTHER_FOLDER} or change its owner"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", _OTHER_FOLDER),
}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the operating system during a write into one that names the file and says what to do."""
    try:
        yield
    except OSError as error:
        reason, advice = _REASONS.get(error.errno or 0, (str(error.strerror or error), ""))
        resume = "Finished work is kept; repeat the command to continue"
        hint = f"{advice}. {resume}" if advice else resume
        raise ZooError(f"cannot be written: {reason}", where=path, hint=hint) from error


def _unreadable(path: Path, error: OSError) -> ZooError:
    return ZooError(f"cannot be read: {error.strerror or error}", where=path)


def make_folder(path: Path) -> Path:
    """Create a folder and its parents unless they exist, and return it."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def write(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically: to a temporary file, which is flushed and renamed; the rename is flushed too."""
    # Process ids are reused, in containers at every start. The random token makes the name unique to this write.
    part = path.with_name(f".{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(8)}.part")
    with writing(path):
        if path.parent not in _swept:
            _swept.add(path.parent)
            sweep(path.parent)
        file = open(part, "xb")  # noqa: SIM115  # outside the try: only a file that this call created may be removed
        try:
            with file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        _flush_folder(path.parent)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a sealed file of strict JSON. Its bytes depend on `value` only."""
    # ASCII, because the ids of files whose names are not UTF-8 contain surrogates, which UTF-8 cannot encode.
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False)
    rest = f'",{text.removeprefix("{")}\n'.encode()
    write(path, _START + hashlib.sha256(rest).hexdigest().encode() + rest)


def parse_json(text: bytes, where: str) -> Any:
    """Return the value of strict JSON: no duplicate keys, no NaN, no nesting that exhausts the stack."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"not valid JSON: {error or 'nested too deeply'}", where=where) from error


def read_json(path: Path, schema: int, limit: int = MAX_JSON) -> dict[str, Any]:
    """Return the contents of a file that `write_json` wrote, after checking its seal.

    Args:
        path: the file.
        schema: the highest value of the file's field `schema` that the caller can read.
        limit: the largest size in bytes.
    """
    text = _read(path, limit)
    if len(text) > limit:
        raise CorruptFile("is too large", where=path, expected=f"at most {limit} bytes")
    value = parse_json(text, str(path))
    if not isinstance(value, dict) or not isinstance(value.get("schema"), int):
        raise CorruptFile(where=path, expected="a JSON object with a whole-number field 'schema'")
    if value["schema"] > schema:
        raise newer_schema(path, value["schema"], schema)
    rest = text[len(_START) + SEAL_LENGTH :]
    if text != _START + hashlib.sha256(rest).hexdigest().encode() + rest:
        raise CorruptFile("does not match its checksum", where=path)
    del value["sha256"]
    return value


def newer_schema(where: object, found: object, supported: int) -> InputError:
    """Return the error for a file of a schema that only a newer version of the package reads."""
    return InputError(where=where, expected=f"schema {supported} or older", found=found, hint="Upgrade the package")


def read_text(path: Path, limit: int) -> str:
    """Return the text of a UTF-8 file of at most `limit` bytes."""
    data = _read(path, limit)
    if len(data) > limit:
        raise InputError("is too large", where=path, expected=f"at most {limit:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", where=path) from error


def _read(path: Path, limit: int) -> bytes:
    """Return the file's bytes, cut off one byte beyond `limit`."""
    try:
        with open(path, "rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise _unreadable(path, error) from error


def sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file's contents, in hexadecimal."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def digest(parts: Iterable[str | bytes | memoryview]) -> str:
    """Return one checksum of a sequence of texts or bytes. Lengths are hashed too, so ["ab"] and ["a", "b"] differ."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def set_aside(path: Path) -> Path:
    """Rename a damaged file to `NAME.corrupt-N` in its folder, and return the new path. Nothing is ever deleted."""
    for number in itertools.count(1):
        target = path.with_name(f"{path.name}.corrupt-{number}")
        if not target.exists():
            with writing(target), contextlib.suppress(FileNotFoundError):  # another process renamed it first
                os.replace(path, target)
            return target
    raise AssertionError("unreachable")


def sweep(folder: Path) -> None:
    """Remove temporary files in `folder` whose writers died; the file of a running writer stays.

    Whether a writer on another machine or in another container is alive is unknown, so its file is removed once it is a day
    old. If such a writer is running after all, its rename fails with an error; a half-written file cannot result.
    """
    for part in folder.glob(".*.part"):
        match = _PART.match(part.name)
        if match is None:
            continue
        with contextlib.suppress(OSError):
            dead = match["host"] == _host() and not _alive(int(match["pid"]))
            if dead or time.time() - part.stat().st_mtime > STALE_SECONDS:
                part.unlink()


@contextlib.contextmanager
def lock(place: Path) -> Iterator[bool]:
    """Lock a folder or a file for the duration of the block; yield whether this process is the first to hold the lock.

    The system releases the lock when a process dies; a lock file that it leaves behind does not matter. On file systems
    without locks every process is the first, which is safe (see the top of this module).
    """
    from filelock import FileLock, Timeout

    path = place / _LOCK if place.is_dir() else place
    held = FileLock(path, fallback_to_soft=False)
    try:
        held.acquire(blocking=False)
        first = True
    except Timeout:
        first = False
    except (OSError, NotImplementedError) as error:
        with writing(path):
            if isinstance(error, OSError) and error.errno in _REASONS:
                raise
        first = True
    try:
        yield first
    finally:
        if held.is_locked:
            with contextlib.suppress(OSError):
                path.unlink()
            held.release()


def _flush_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some network file systems and Windows cannot flush a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _host() -> str:
    """Return a hash of the machine and container, within which process ids are unique."""
    try:
        container = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not Linux
        container = 0
    return hashlib.sha256(f"{socket.gethostname()} {container}".encode()).hexdigest()[:8]


def _alive(pid: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 would end the process
        return True
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        (key, _) = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"duplicate key {key!r}")
    return result


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
