"""Where networks come from. A source is a module here and one line of this table, which is readable without loading it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """What is to be known of a source before its module, or even its library, is imported."""

    prefix: str | None = None  # of names that need no card, `timm` in `timm:resnet18`
    library: str | None = None  # as Hugging Face calls it on a card
    needs: tuple[str, ...] = ()  # fields of a card that others may leave out


_CONFIGURED = ("id", "transform")

SOURCES: dict[str, About] = {
    "timm": About("timm", "timm", _CONFIGURED),
    "open_clip": About("open_clip", "open_clip", _CONFIGURED),
    "transformers": About("hf", "transformers", _CONFIGURED),
    "torchvision": About("torchvision", "torchvision", _CONFIGURED),
    "packaged": About(needs=_CONFIGURED),
    "local": About("file"),
    "onnx": About("onnx", "onnx", _CONFIGURED),
    "recipe": About(),
    "ensemble": About(),
    "fitted": About(),
    "reference": About(),
    "own": About(),
}


def of_prefix(prefix: str) -> str | None:
    """The source whose models need no card and are called `PREFIX:id`.

    >>> of_prefix("hf"), of_prefix("keras")
    ('transformers', None)
    """
    return next((name for name, about in SOURCES.items() if about.prefix == prefix), None)


def prefixes() -> list[str]:
    """What may stand before the colon of a name."""
    return [about.prefix for about in SOURCES.values() if about.prefix is not None]
