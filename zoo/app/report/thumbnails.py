"""Images small enough to travel inside the page."""

import base64
import io

from PIL import Image

LARGEST = 160  # pixels; smaller images keep their size, and the page enlarges them without blur


def data_uri(image: Image.Image) -> str:
    """The image as a data URI: PNG where it is tiny, JPEG where that is smaller."""
    image = image.convert("RGB")
    tiny = max(image.size) <= 64
    image.thumbnail((LARGEST, LARGEST))
    buffer = io.BytesIO()
    kind = "png" if tiny else "jpeg"
    image.save(buffer, kind, **({} if tiny else {"quality": 80}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
