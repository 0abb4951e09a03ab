"""Images inside a page: single ones as data URIs, many as tiles of a few large sheets."""

import base64
import io
from collections.abc import Iterable

import numpy as np
from PIL import Image

from zoo.datasets import Dataset
from zoo.errors import ZooError

MAX_SIDE = 160  # pixels of a single image; the page enlarges smaller ones without blur
MAX_LOSSLESS = 64  # pixels up to which an image is stored as PNG
MAX_TILE = 48  # pixels of a tile
TILES_PER_ROW = 32
PER_SHEET = TILES_PER_ROW**2  # tiles


def data_uri(image: Image.Image) -> str:
    """Return an image as a data URI: PNG if it is tiny, otherwise JPEG."""
    image = image.convert("RGB")
    tiny = max(image.size) <= MAX_LOSSLESS
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    return _encoded(image, tiny)


def data_uris(images: Dataset | None, ids: Iterable[str]) -> dict[str, str]:
    """Return data URIs by id, without images that are missing or cannot be decoded."""
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
    """Return the layout of the tiles (their side, and the row of each tile), and the sheets as data URIs.

    Args:
        images: the dataset. Images that are missing or cannot be decoded have no tile.
        ids: [N] ids of the report's examples.
        wanted: rows of the examples to show.
    """
    row_of = {row_id: row for row, row_id in enumerate(images.ids)}
    tiles: list[tuple[int, Image.Image]] = []
    side = 1
    for row in wanted.tolist():
        try:
            image = images[row_of[ids[row]]].convert("RGB")
        except (KeyError, ZooError):
            continue
        image.thumbnail((MAX_TILE, MAX_TILE))
        side = max(side, *image.size)
        tiles.append((row, image))
    found = []
    for start in range(0, len(tiles), PER_SHEET):
        part = tiles[start : start + PER_SHEET]
        sheet = Image.new("RGB", (side * min(len(part), TILES_PER_ROW), side * -(-len(part) // TILES_PER_ROW)))
        for place, (_, image) in enumerate(part):
            sheet.paste(image, (place % TILES_PER_ROW * side, place // TILES_PER_ROW * side))
        found.append(_encoded(sheet, side < 16))
    return {"side": side, "across": TILES_PER_ROW, "rows": [row for row, _ in tiles]}, found


def _encoded(image: Image.Image, exact: bool) -> str:
    buffer = io.BytesIO()
    kind = "png" if exact else "jpeg"
    image.save(buffer, kind, **({} if exact else {"quality": 80}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
