"""Arrays as text inside a page: planes of bytes, compressed, in base64. The page's script `blocks.js` reads them."""

import base64
import zlib

import numpy as np


def packed(values: np.ndarray, planes: int) -> str:
    """Whole numbers of `planes` bytes each, the least significant bytes of all first.

    >>> import base64, zlib
    >>> list(zlib.decompress(base64.b64decode(packed(np.array([1, 258]), 2))))
    [1, 2, 0, 1]
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    parts = [(flat >> (8 * plane) & 255).astype(np.uint8).tobytes() for plane in range(planes)]
    return packed_bytes(b"".join(parts))


def packed_bytes(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def planes_for(most: int) -> int:
    """How many bytes a number up to `most` takes.

    >>> planes_for(255), planes_for(256)
    (1, 2)
    """
    return max(1, -(-most.bit_length() // 8))


def roots(p: np.ndarray, planes: int) -> np.ndarray:
    """Shares as whole numbers: their square roots, of which small ones lose least."""
    return np.rint(np.sqrt(np.clip(p, 0, 1)) * (256**planes - 1)).astype(np.uint32)
