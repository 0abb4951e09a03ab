"""Change random bytes in files of every format. Each file must be read, or rejected with a one-line error that names it."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

from samples import Sample

from zoo.errors import ZooError


def trial(sample: Sample, seed: str, others: Sequence[Sample]) -> str | None:
    """Read a randomly changed copy of the file; return the problem, or None."""
    data = mutated(sample.data, random.Random(seed), others)
    sample.path.write_bytes(data)
    try:
        return check_read(sample, refuse=sample.sealed)
    finally:
        sample.path.write_bytes(sample.data)


def check_read(sample: Sample, refuse: bool) -> str | None:
    """Read the file; return the problem, or None. With `refuse`, reading it without an error is a problem."""
    try:
        sample.read(sample.path)
    except ZooError as error:
        message = str(error)
        named = any(part in message for part in (sample.path.name, str(sample.path.parent)))
        return None if named and "\n" not in message else f"expected a one-line error that names the file, got {message!r}"
    return "was changed, but read without an error" if refuse else None


def mutated(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    """Return `data` after one to four random changes; the result always differs from `data`."""
    changed = data
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        changed = rng.choice(_CHANGES)(changed, rng, others)
    return changed if changed != data else data + b"\0"


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 64, 1024)))


def _flip(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    if not data:
        return data
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def _replace(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + rng.randbytes(end - start) + data[end:]


def _truncate(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _extend(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    return data + rng.choice((rng.randbytes(rng.randrange(1, 200)), bytes(64), data))


def _zero(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + bytes(end - start) + data[end:]


def _remove(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _splice(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    source = rng.choice((data, rng.choice(others).data))
    start, end = _span(source, rng)
    place = rng.randrange(len(data) + 1)
    return data[:place] + source[start:end] + data[place:]


def _number(data: bytes, rng: random.Random, others: Sequence[Sample]) -> bytes:
    """Replace a number that is written in decimal digits."""
    found = list(re.finditer(rb"\d+", data[: 2**16]))
    if not found:
        return data
    match = rng.choice(found)
    return data[: match.start()] + rng.choice(_NUMBERS) + data[match.end() :]


_NUMBERS = (b"0", b"-1", b"65536", b"4294967296", str(2**62).encode(), b"1" * 400, b"1e999", b"NaN", b"null", b'"a"', b"[]",
            b"2020-01-01", b".inf", b"true")  # fmt: skip
_CHANGES = (_flip, _flip, _replace, _truncate, _extend, _zero, _remove, _splice, _number)


def cases(sample: Sample, seed: int, count: int) -> list[str]:
    return [f"{sample.name} {seed} {number}" for number in range(count)]


def scratch(folder: Path) -> Path:
    return folder / "failures.tsv"
