"""The table of model sources. Each source has a module in `zoo.models.sources`, which is not imported here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """Facts about a source that are available before its module or its library is imported."""

    prefix: str | None = None  # of model names without a card, such as `timm` in `timm:resnet18`
    library: str | None = None  # the library's name on a Hugging Face card
    needs: tuple[str, ...] = ()  # optional fields of a card that this source requires


_ID_AND_TRANSFORM = ("id", "transform")

SOURCES: dict[str, About] = {
    "timm": About("timm", "timm", _ID_AND_TRANSFORM),
    "open_clip": About("open_clip", "open_clip", _ID_AND_TRANSFORM),
    "transformers": About("hf", "transformers", _ID_AND_TRANSFORM),
    "torchvision": About("torchvision", "torchvision", _ID_AND_TRANSFORM),
    "packaged": About(needs=_ID_AND_TRANSFORM),
    "local": About("file"),
    "onnx": About("onnx", "onnx", _ID_AND_TRANSFORM),
    "recipe": About(),
    "ensemble": About(),
    "fitted": About(),
    "reference": About(),
    "own": About(),
}


def of_prefix(prefix: str) -> str | None:
    """Return the source whose models are called `PREFIX:id` and need no card; None if there is none."""
    return next((name for name, about in SOURCES.items() if about.prefix == prefix), None)


def prefixes() -> list[str]:
    """Return the prefixes that may stand before the colon of a model's name."""
    return [about.prefix for about in SOURCES.values() if about.prefix is not None]
