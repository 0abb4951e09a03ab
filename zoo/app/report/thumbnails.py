"""Pictures small enough to travel inside the page."""

import base64
import io

from PIL import Image

LARGEST = 160  # pixels; smaller pictures keep their size, and the page enlarges them without blur


def data_uri(picture: Image.Image) -> str:
    """The picture as a data URI: PNG where it is tiny, JPEG where that is smaller."""
    picture = picture.convert("RGB")
    tiny = max(picture.size) <= 64
    picture.thumbnail((LARGEST, LARGEST))
    buffer = io.BytesIO()
    kind = "png" if tiny else "jpeg"
    picture.save(buffer, kind, **({} if tiny else {"quality": 80}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
