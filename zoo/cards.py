"""A model card: Markdown whose YAML front matter is the registry entry of one model, or of a sweep of models.

The front matter has the Hugging Face fields (licence, tags, datasets, ...) and one block of ours, `zoo:`, whose shape is
the dataclasses below: a field they do not name, one they need and do not find, or one of the wrong type is an error that
names the card and the field.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from zoo.errors import InputError

Source = Literal["timm", "open_clip", "transformers", "packaged", "local", "recipe", "ensemble", "reference"]
Framework = Literal["supervised", "contrastive", "self-supervised", "distilled", "pseudo-label"]
Link = Literal["softmax", "sigmoid"]
HeadType = Literal["trained", "fine-tuned", "linear", "zero-shot", "class-mapping", "none"]
Category = Literal["reinit", "hparam", "arch", "fwork", "dataset"]

SCHEMA = 1
HUGGING_FACE_FIELDS = {
    "license", "license_name", "license_link", "tags", "datasets", "library_name", "pipeline_tag",
    "base_model", "language", "metrics", "thumbnail", "model-index",
}  # fmt: skip


@dataclass(frozen=True)
class Transform:
    """From a picture to the network's input: resize, centre crop, scale to 0..1, normalise."""

    size: tuple[int, ...]  # channels, height, width
    resize: tuple[int, ...]  # one number: that shortest side; two: exactly that height and width
    interpolation: Literal["nearest", "bilinear", "bicubic", "box", "lanczos"]
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Training:
    """The training methodology, whose outermost difference gives a pair of models its category."""

    dataset: str
    framework: Framework
    objective: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None


@dataclass(frozen=True)
class Reference:
    """A row of a paper's table. Accuracies in percent; inconsistency and ensemble accuracy are against its ResNet-50."""

    paper: str
    table: str
    row: str
    accuracy: float | None = None
    temperature: float | None = None
    inconsistency: float | None = None
    ensemble_accuracy: float | None = None
    category: Category | None = None
    results: dict[str, float] = field(default_factory=dict)
    note: str | None = None


@dataclass(frozen=True)
class SweepMember:
    """One model of a sweep: its name and what it changes in the card's hyper-parameters."""

    name: str
    hyperparameters: dict[str, Any]
    reference: list[Reference] = field(default_factory=list)


@dataclass(frozen=True)
class EnsembleMember:
    """One model of an ensemble, with the temperature its logits are divided by and its share of the mean."""

    name: str
    weight: float
    temperature: float = 1.0


@dataclass(frozen=True)
class Card:
    """All that is known about one model before its weights are touched."""

    name: str
    source: Source
    family: str  # architecture family: depth and width of one family count as hyper-parameters
    architecture: str
    labels: str  # the label set the head predicts: `imagenet-1k`, `digits`, ...; `none` for a bare encoder
    link: Link
    head: HeadType
    training: Training
    transform: Transform | None = None
    id: str | None = None  # what the source library calls it
    revision: str | None = None
    sha256: str | None = None
    license: str = "unknown"
    reference: list[Reference] = field(default_factory=list)
    members: list[EnsembleMember] = field(default_factory=list)
    sweep: list[SweepMember] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)  # read by the card's own source: prompts, class map, scores
    title: str = ""
    body: str = ""  # the Markdown below the front matter
    path: Path | None = field(default=None, compare=False)

    @property
    def objective(self) -> str:
        return self.training.objective

    @property
    def dataset(self) -> str:
        return self.training.dataset

    @property
    def framework(self) -> str:
        return self.training.framework

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return self.training.hyperparameters

    @property
    def seed(self) -> int | None:
        return self.training.seed

    @property
    def input_size(self) -> tuple[int, ...] | None:
        return self.transform.size if self.transform else None

    @property
    def accuracy(self) -> float | None:
        """The first reference accuracy, in percent."""
        return next((row.accuracy for row in self.reference if row.accuracy is not None), None)

    def expand(self) -> Iterator["Card"]:
        """The models this card stands for: itself, or the members of its sweep."""
        if not self.sweep:
            yield self
        for member in self.sweep:
            training = dataclasses.replace(
                self.training, hyperparameters=self.training.hyperparameters | member.hyperparameters
            )
            yield dataclasses.replace(
                self, name=member.name, training=training, reference=member.reference, sweep=[], title=member.name
            )

    def matches(self, **fields: Any) -> bool:
        """Whether each named field has the value asked for; a name not on the card is looked for in its hyper-parameters."""
        return all(self.value(key) == wanted for key, wanted in fields.items())

    def value(self, key: str) -> Any:
        if key in FIELD_NAMES:
            return getattr(self, key)
        return self.hyperparameters.get(key)


FIELD_NAMES = {f.name for f in dataclasses.fields(Card)} | {
    "objective", "dataset", "framework", "hyperparameters", "seed", "input_size", "accuracy",
}  # fmt: skip
_NOT_IN_BLOCK = {"license", "title", "body", "path"}


def parse(text: str, where: str) -> Card:
    """The card in `text`; `where` names it in error messages."""
    front, body = _split(text, where)
    extra = set(front) - HUGGING_FACE_FIELDS - {"zoo"}
    if extra:
        raise InputError(f"{where}: unknown field {sorted(extra)[0]!r}; our own fields go under `zoo:`")
    for needed in ("license", "tags", "zoo"):
        if needed not in front:
            raise InputError(f"{where}: field {needed!r} is missing")
    block = front["zoo"]
    if not isinstance(block, Mapping):
        raise InputError(f"{where}: field 'zoo' must be a mapping, found {type(block).__name__}")
    block = dict(block)
    schema = block.pop("schema", None)
    if schema != SCHEMA:
        raise InputError(f"{where}: field 'zoo.schema' is {schema!r}, this version reads {SCHEMA}; upgrade the package")
    for name in _NOT_IN_BLOCK & set(block):
        raise InputError(f"{where}: field 'zoo.{name}' does not belong in the block")
    title = next((line[2:].strip() for line in body.splitlines() if line.startswith("# ")), "")
    block |= {"license": front["license"], "title": title, "body": body.strip()}
    return _build(Card, block, f"{where}: field 'zoo")


def read(path: Path) -> Card:
    """The card at `path`, whose name must be the file's."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable card: {error}") from error
    card = parse(text, str(path))
    if card.name != path.stem:
        raise InputError(f"{path}: field 'zoo.name' is {card.name!r}, expected the file's name {path.stem!r}")
    return dataclasses.replace(card, path=path)


def write(card: Card) -> str:
    """The card as Markdown text that `parse` reads back to an equal card."""
    block = {"schema": SCHEMA} | {
        f.name: _plain(getattr(card, f.name))
        for f in dataclasses.fields(Card)
        if f.name not in _NOT_IN_BLOCK and not _is_default(f, getattr(card, f.name))
    }
    front = {
        "license": card.license,
        "library_name": {"open_clip": "open_clip", "transformers": "transformers"}.get(card.source, "timm"),
        "pipeline_tag": "zero-shot-image-classification" if card.head == "zero-shot" else "image-classification",
        "tags": sorted({"image-classification", card.family, card.training.framework}),
        "datasets": [card.training.dataset],
        "zoo": block,
    }
    body = card.body or f"# {card.title or card.name}\n"
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=110)}---\n\n{body.strip()}\n"


def _split(text: str, where: str) -> tuple[dict[str, Any], str]:
    if not text.startswith("---\n") or "\n---" not in text[4:]:
        raise InputError(f"{where}: expected YAML front matter between two lines of ---")
    head, _, body = text[4:].partition("\n---")
    try:
        front = yaml.load(head, Loader=_Loader)
    except yaml.YAMLError as error:
        raise InputError(f"{where}: front matter is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(front, dict):
        raise InputError(f"{where}: front matter must be a mapping, found {type(front).__name__}")
    return front, body.lstrip("-").lstrip("\n")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML's safe loader, except that a key given twice is an error rather than a silent overwrite."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"key {key!r} is given twice")
        return super().construct_mapping(node, deep)


def _build(kind: type, values: Mapping[str, Any], where: str) -> Any:
    """A dataclass from plain values, checked field by field against its annotations."""
    known = {f.name: f for f in dataclasses.fields(kind)}
    for name in values:
        if name not in known:
            raise InputError(f"{where}.{name}' is unknown; known fields: {', '.join(sorted(known))}")
    for name, f in known.items():
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise InputError(f"{where}.{name}' is missing")
    hints = _hints(kind)
    return kind(**{name: _convert(hints[name], value, f"{where}.{name}") for name, value in values.items()})


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in args:
            return None
        return _convert(next(arg for arg in args if arg is not type(None)), value, where)
    if origin is Literal:
        if value not in args:
            raise InputError(f"{where}' is {value!r}, expected one of {', '.join(map(str, args))}")
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise InputError(f"{where}' must be a mapping, found {value!r}")
        return _build(hint, value, where)
    if origin in (list, tuple):
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{where}' must be a list, found {value!r}")
        return origin(_convert(args[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise InputError(f"{where}' must be a mapping, found {value!r}")
        return {str(key): _convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise InputError(f"{where}' must be {hint.__name__}, found {value!r}")
    return value


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: _plain(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if not _is_default(f, getattr(value, f.name))
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _is_default(f: dataclasses.Field[Any], value: Any) -> bool:
    if f.default is not dataclasses.MISSING:
        return bool(value == f.default)
    return f.default_factory is not dataclasses.MISSING and value == f.default_factory()
