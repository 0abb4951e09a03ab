"""`ModelHints`: the user's facts about a bare weights file, which contains neither classes nor a transform."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from zoo.cards import labels
from zoo.cards.card import Transform
from zoo.cards.names import label_set, unknown
from zoo.errors import InputError

_EXAMPLES = {
    "architecture": "resnet18", "classes": "classes.txt", "size": "224", "mean": "0.485,0.456,0.406",
    "std": "0.229,0.224,0.225",
}  # fmt: skip


@dataclass(frozen=True)
class ModelHints:
    """Facts about a weights file that the file does not contain; also options of `zoo card new`."""

    architecture: str | None = None
    classes: str | Sequence[str] | None = None  # class names, or the name of a label set
    size: int | None = None  # side of the square input, in pixels
    mean: float | Sequence[float] | None = None  # subtracted from the input; one number stands for all channels
    std: float | Sequence[float] | None = None  # the input is divided by it
    kind: Literal["logits", "probabilities"] | None = None  # what the network returns
    embedding: str | None = None  # name of the tensor of embeddings in an ONNX graph

    def __post_init__(self) -> None:
        if self.kind not in (None, "logits", "probabilities"):
            raise InputError(argument="kind", expected="logits or probabilities", found=self.kind)
        if self.size is not None and self.size < 1:
            raise InputError(argument="size", expected="a number of pixels", found=self.size)
        if self.classes is not None and not len(self.classes):
            raise InputError(argument="classes", expected="at least one name", found=0)

    @classmethod
    def of(cls, hints: Mapping[str, Any]) -> "ModelHints":
        """Return the hints of keyword arguments."""
        known = [one.name for one in fields(cls)]
        for key in hints:
            if key not in known:
                raise unknown("model hint", key, known, list_known=True)
        return cls(**hints)

    @property
    def stated(self) -> list[str]:
        """The names of the hints that are given."""
        return [one.name for one in fields(self) if getattr(self, one.name) is not None]

    def require(self, name: str, *needed: str) -> None:
        """Raise an error that lists all needed hints that are missing."""
        missing = [one for one in needed if one not in self.stated]
        if missing:
            examples = ", ".join(f"{{{one}={_EXAMPLES[one]}}}" for one in missing)
            raise InputError(
                f"the file does not say its {', '.join(missing)}",
                where=name,
                argument=missing[0],
                hint=f"Pass {examples}, or write a card next to the file",
            )

    def over(self, usual: Transform) -> Transform:
        """Return a transform with the size, mean and std of these hints, where given."""
        side = self.size
        return replace(
            usual,
            size=usual.size if side is None else (usual.size[0], side, side),
            resize=usual.resize if side is None else (side,),
            fit=usual.fit if side is None else "squash",
            mean=usual.mean if self.mean is None else _per_channel(self.mean, usual.size[0]),
            std=usual.std if self.std is None else _per_channel(self.std, usual.size[0]),
        )

    def labels(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the label set of the card, and its details if the classes are the user's own."""
        from zoo.core.text import check_unique

        if isinstance(self.classes, str):
            labels.classes(self.classes)  # raises an error for an unknown label set
            return label_set(self.classes), {}
        names = [str(one) for one in self.classes or ()]
        check_unique(names, f"{name}: classes")
        return "own", {"classes": names}


def _per_channel(values: float | Sequence[float], channels: int) -> tuple[float, ...]:
    return (float(values),) * channels if isinstance(values, int | float) else tuple(map(float, values))
