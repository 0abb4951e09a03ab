"""Files that are never half written, JSON that is never trusted, locks that nothing depends on.

A file is written beside its place, flushed to disk and renamed, so a reader sees the old state or the new, whenever the
writer dies. Correctness rests on that rename alone: a lock here only saves two processes from doing the same work, so a
file system whose locks do nothing, or a lock left by a dead process, costs time and nothing else.

Every file of ours carries a *seal*, the checksum of all its other bytes, so that one changed byte anywhere is noticed when
it is read: JSON by `write_json` and `read_json`, tensors by `zoo.core.tensorfile`.
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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from zoo.errors import CorruptFile, InputError, ZooError

MAX_JSON = 256 * 2**20
STALE_SECONDS = 24 * 3600
LOCK = ".lock"
SEAL_LENGTH = 64
_SEALED = b'{\n "sha256": "'  # how a JSON file of ours begins; the seal of what follows it comes next
_swept: set[Path] = set()  # folders this process has cleared of what dead writers left
_PART = re.compile(r"\..+\.(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{16}\.part\Z")
_REASONS = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EFBIG: "the file would be larger than allowed here; raise the limit or use another disk",
    errno.EROFS: "the file system is read-only; use another folder (ZOO_HOME)",
    errno.EACCES: "permission denied; use another folder (ZOO_HOME) or change its owner",
    errno.EPERM: "permission denied; use another folder (ZOO_HOME) or change its owner",
    errno.ENOTDIR: "a part of the path is a file, not a folder; use another folder (ZOO_HOME)",
}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an operating system error during a write into one sentence that names the file and what to do."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"{error.strerror or error}")
        raise ZooError(f"{path}: cannot be written: {reason}; what is finished is kept, the same command goes on") from error


def make_folder(path: Path) -> Path:
    """The folder, created with its parents where it is missing."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def write(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: written beside it, flushed, renamed over it, the rename flushed too."""
    # Process ids come again, in containers at every start; the token makes the file this writer's own.
    part = path.with_name(f".{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(8)}.part")
    with writing(path):
        if path.parent not in _swept:
            _swept.add(path.parent)
            sweep(path.parent)
        file = open(part, "xb")  # noqa: SIM115  # what follows removes the file, so it must be ours already
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
    """A sealed file of strict JSON whose bytes depend on `value` alone."""
    # In ASCII, since ids of files whose names are not UTF-8 hold surrogates, which UTF-8 cannot write.
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False)
    rest = f'",{text.removeprefix("{")}\n'.encode()
    write(path, _SEALED + hashlib.sha256(rest).hexdigest().encode() + rest)


def parse_json(text: bytes, where: str) -> Any:
    """Strict JSON: no key twice, no NaN, no nesting that exhausts the stack."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{where}: not valid JSON: {error or 'nested too deeply'}") from error


def read_json(path: Path, schema: int, limit: int = MAX_JSON) -> dict[str, Any]:
    """What `write_json` put into a file of at most `limit` bytes, whose seal is whole and whose `schema` is at most ours."""
    try:
        with open(path, "rb") as file:
            text = file.read(limit + 1)
    except OSError as error:
        raise ZooError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(text) > limit:
        raise CorruptFile(f"{path}: larger than the {limit} bytes expected at most of such a file")
    value = parse_json(text, str(path))
    if not isinstance(value, dict) or not isinstance(value.get("schema"), int):
        raise CorruptFile(f"{path}: expected a JSON object with a whole-number field 'schema'")
    if value["schema"] > schema:
        found = value["schema"]
        raise InputError(f"{path}: field 'schema' is {found}, this version reads up to {schema}; upgrade the package")
    rest = text[len(_SEALED) + SEAL_LENGTH :]
    if text != _SEALED + hashlib.sha256(rest).hexdigest().encode() + rest:
        raise CorruptFile(f"{path}: its contents do not match its checksum")
    del value["sha256"]
    return value


def read_text(path: Path, limit: int) -> str:
    """Return the text of a UTF-8 file of at most `limit` bytes."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise ZooError(f"cannot be read: {error.strerror or error}", where=path) from error
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", where=path) from error
    if len(data) > limit:
        raise InputError("is too large", where=path, expected=f"at most {limit:,} bytes")
    return text


def sha256(path: Path) -> str:
    """The checksum of a file's contents, in hexadecimal."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ZooError(f"{path}: cannot be read: {error.strerror or error}") from error


def digest(parts: Iterable[str | bytes | memoryview]) -> str:
    """One checksum of a sequence of texts; each is preceded by its length, so no two sequences run together."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def set_aside(path: Path) -> Path:
    """Rename a damaged file to `NAME.corrupt-N` beside it, and return where it went. Nothing is ever deleted."""
    for number in itertools.count(1):
        target = path.with_name(f"{path.name}.corrupt-{number}")
        if not target.exists():
            with writing(target), contextlib.suppress(FileNotFoundError):  # another process was first
                os.replace(path, target)
            return target
    raise AssertionError("unreachable")


def sweep(folder: Path) -> None:
    """Remove what writers that died in the middle of a write left in `folder`; a live writer's file stays.

    A writer on another machine or in another container cannot be asked, so its file goes only when a day old. Should a
    live one lose its file all the same, its rename fails with an error; nothing half written can come of it.
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
    """Whether this process is the first one at work in a folder, or at a lock file, which is made for it.

    The system drops the lock when a process dies, however it dies; a file that it leaves behind is no obstacle. Where
    locks are not supported every process is told it is the first; the top of this file says why that is safe.
    """
    from filelock import FileLock, Timeout

    path = place / LOCK if place.is_dir() else place
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
    """Where a process id means something: this machine, and in it this container."""
    try:
        container = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not Linux
        container = 0
    return hashlib.sha256(f"{socket.gethostname()} {container}".encode()).hexdigest()[:8]


def _alive(pid: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is not a mere question
        return True
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice!r} is given twice")
    return result


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
