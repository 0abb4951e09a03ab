"""Images inside a page: single ones as data URIs, many of them as tiles of a few sheets."""

import base64
import io
from collections.abc import Iterable

import numpy as np
from PIL import Image

from zoo.datasets import Dataset
from zoo.errors import ZooError

LARGEST = 160  # pixels; smaller images keep their size, and the page enlarges them without blur
TINY = 64  # pixels up to which an image is stored without loss
TILE = 48  # pixels at most of a side of a tile
ACROSS = 32  # tiles side by side, and rows of them, on a sheet


def data_uri(image: Image.Image) -> str:
    """The image as a data URI: PNG where it is tiny, JPEG where that is smaller."""
    image = image.convert("RGB")
    tiny = max(image.size) <= TINY
    image.thumbnail((LARGEST, LARGEST))
    return _encoded(image, tiny)


def data_uris(images: Dataset | None, ids: Iterable[str]) -> dict[str, str]:
    """Data URIs by id; an image that is not in the dataset, not here, or cannot be decoded has none."""
    if images is None:
        return {}
    row_of = {row_id: row for row, row_id in enumerate(images.ids)}
    found = {}
    for row_id in ids:
        try:
            found[row_id] = data_uri(images[row_of[row_id]])
        except (KeyError, ZooError):
            continue
    return found


def sheets(images: Dataset, ids: list[str], wanted: np.ndarray) -> tuple[dict[str, object], list[str]]:
    """Tiles of the `wanted` examples: their side, which row each place shows, and the sheets as data URIs.

    An image that is not in the dataset or cannot be decoded has none.
    """
    row_of = {row_id: row for row, row_id in enumerate(images.ids)}
    tiles: list[tuple[int, Image.Image]] = []
    side = 1
    for row in wanted.tolist():
        try:
            image = images[row_of[ids[row]]].convert("RGB")
        except (KeyError, ZooError):
            continue
        image.thumbnail((TILE, TILE))
        side = max(side, *image.size)
        tiles.append((row, image))
    found = []
    for start in range(0, len(tiles), ACROSS * ACROSS):
        part = tiles[start : start + ACROSS * ACROSS]
        sheet = Image.new("RGB", (side * min(len(part), ACROSS), side * -(-len(part) // ACROSS)))
        for place, (_, image) in enumerate(part):
            sheet.paste(image, (place % ACROSS * side, place // ACROSS * side))
        found.append(_encoded(sheet, side < 16))
    return {"side": side, "across": ACROSS, "rows": [row for row, _ in tiles]}, found


def _encoded(image: Image.Image, exact: bool) -> str:
    buffer = io.BytesIO()
    kind = "png" if exact else "jpeg"
    image.save(buffer, kind, **({} if exact else {"quality": 80}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
