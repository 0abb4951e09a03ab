"""What only the user can say about a bare file: a state dictionary or a graph that names no classes and no transform."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from zoo.cards import labels
from zoo.cards.card import Transform
from zoo.cards.names import label_set, near
from zoo.errors import InputError


@dataclass(frozen=True)
class ModelHints:
    """What a user says about a file that does not say it itself. The options of `zoo card new` have the same meaning."""

    architecture: str | None = None
    classes: str | Sequence[str] | None = None  # names, or a label set's
    size: int | None = None  # of the square input, in pixels
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    kind: Literal["logits", "probabilities"] | None = None  # what it gives
    embedding: str | None = None  # what the embeddings are called inside

    def __post_init__(self) -> None:
        if self.kind not in (None, "logits", "probabilities"):
            raise InputError(f"kind {self.kind!r}: expected logits or probabilities")
        if self.size is not None and self.size < 1:
            raise InputError(f"size {self.size}: expected a number of pixels")
        if self.classes is not None and not len(self.classes):
            raise InputError("classes: expected at least one name, found none")

    @classmethod
    def of(cls, hints: Mapping[str, Any]) -> "ModelHints":
        """What keyword arguments say."""
        known = [one.name for one in fields(cls)]
        for key in hints:
            if key not in known:
                raise InputError(f"{key!r} cannot be told of a model{near(key, known)}; expected {', '.join(known)}")
        return cls(**hints)

    @property
    def stated(self) -> list[str]:
        return [one.name for one in fields(self) if getattr(self, one.name) is not None]

    def require(self, name: str, *needed: str) -> None:
        """An error that names all that is needed and was not said."""
        lacking = [f"{one} ({_OPTIONS[one]})" for one in needed if one not in self.stated]
        if lacking:
            raise InputError(f"{name}: the file does not say its {', '.join(lacking)}; say so, or write a card beside it")

    def over(self, usual: Transform) -> Transform:
        """The usual transform with what is told of it instead."""
        side = self.size
        return replace(
            usual,
            size=usual.size if side is None else (usual.size[0], side, side),
            resize=usual.resize if side is None else (side,),
            fit=usual.fit if side is None else "squash",
            mean=usual.mean if self.mean is None else tuple(self.mean),
            std=usual.std if self.std is None else tuple(self.std),
        )

    def labels(self, name: str) -> tuple[str, dict[str, Any]]:
        """The label set and the details of a card whose classes are the ones told."""
        from zoo.core.text import check_unique

        if isinstance(self.classes, str):
            labels.classes(self.classes)  # known, or an error
            return label_set(self.classes), {}
        own = [str(one) for one in self.classes or ()]
        check_unique(own, f"{name}: classes")
        return "own", {"classes": own}


_OPTIONS = {
    "architecture": "--arch, e.g. resnet18", "classes": "--classes FILE, one name per line, or a label set",
    "size": "--size, e.g. 224", "mean": "--mean, e.g. 0.485,0.456,0.406", "std": "--std, e.g. 0.229,0.224,0.225",
}  # fmt: skip
