"""A model card: Markdown whose YAML front matter is the registry entry of one model, or of a sweep of models.

The front matter has the Hugging Face fields (licence, tags, datasets, ...) and the block `zoo:`, whose fields are those of
the dataclasses below. An unknown, missing or mistyped field is an error that names the card and the field.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from zoo.cards.names import check_safe
from zoo.cards.recipe_names import Framework as Framework
from zoo.cards.sources import SOURCES
from zoo.core import files, typed
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError, UnknownName, ZooError

HeadType = Literal["trained", "fine-tuned", "linear", "zero-shot", "class-mapping", "none"]
Category = Literal["reinit", "hparam", "arch", "fwork", "dataset"]

SCHEMA = 1
MAX_BYTES = 2**20  # of a card; the longest shipped card has about 3,000
_MAX_DEPTH = 32  # of nested lists and mappings
_LIBRARIES = ("timm", "open_clip")  # libraries that publish the accuracy of their weights
_HUGGING_FACE_FIELDS = {
    "license", "license_name", "license_link", "tags", "datasets", "library_name", "pipeline_tag",
    "base_model", "language", "metrics", "thumbnail", "model-index",
}  # fmt: skip


@dataclass(frozen=True)
class Transform:
    """From an image to the network's input: resize, centre crop, scale to 0..1, subtract the mean, divide by std."""

    size: tuple[int, ...]  # channels, height, width
    resize: tuple[int, ...]  # one number: the shortest side, aspect ratio kept; two: height and width, reached as `fit` says
    interpolation: Literal["nearest", "bilinear", "bicubic", "box", "lanczos"]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    # If `resize` has two numbers: `squash` ignores the aspect ratio. `cover` keeps it, with both sides at least as large.
    # `inside` keeps it, with both sides at most as large, and fills the rest of the crop with the mean.
    fit: Literal["squash", "cover", "inside"] = "squash"
    grey: bool = False  # whether to remove colours first, for a network that was trained on grey images

    def __post_init__(self) -> None:
        channels = self.size[0] if self.size else 0
        if len(self.size) != 3 or min(self.size) < 1:
            raise InputError(argument="size", expected="channels, height and width", found=list(self.size))
        if len(self.resize) not in (1, 2) or min(self.resize) < 1:
            expected = "the shortest side, or height and width"
            raise InputError(argument="resize", expected=expected, found=list(self.resize))
        if len(self.resize) == 1 and self.fit != "squash":
            raise InputError(argument="fit", expected="squash unless resize is height and width", found=self.fit)
        if len(self.mean) != channels:
            raise InputError(argument="mean", expected=f"{channels} numbers, one per channel", found=list(self.mean))
        if len(self.std) != channels or min(self.std) <= 0:
            raise InputError(argument="std", expected=f"{channels} numbers above 0, one per channel", found=list(self.std))

    @property
    def settings(self) -> dict[str, Any]:
        """All fields as plain values; `grey` only if it is set, so that fingerprints of older versions stay valid."""
        values = dataclasses.asdict(self)
        return values if self.grey else {name: value for name, value in values.items() if name != "grey"}


@dataclass(frozen=True)
class Training:
    """How a model was trained. Training and architecture decide the category of a pair of models (`diversity.category`)."""

    dataset: str  # the largest training set: `imagenet-21k` if ImageNet-1k was used for fine-tuning only; or `unknown`
    framework: Framework
    objective: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    # What determines initial weights and batch order. None: the seed alone, as in networks trained before version 0.2.
    initialisation: Literal["name and seed"] | None = None


@dataclass(frozen=True)
class Reference:
    """A row of a published table, or numbers from a figure or a section.

    Accuracies are in percent. Inconsistency and ensemble accuracy refer to the pair with the paper's ResNet-50.
    """

    paper: str
    table: str
    row: str
    accuracy: float | None = None
    temperature: float | None = None
    inconsistency: float | None = None
    ensemble_accuracy: float | None = None
    category: Category | None = None
    results: dict[str, float] = field(default_factory=dict)  # a name has the same meaning in all tables of a card
    errors: dict[str, float] = field(default_factory=dict)  # standard errors of `results`, by name, and of `accuracy`
    note: str | None = None

    @property
    def place(self) -> str:
        """Table, figure or section, such as `Table 3`."""
        return self.table if self.table.startswith(("Fig.", "Section")) else f"Table {self.table}"


@dataclass(frozen=True)
class SweepMember:
    """One model of a sweep: its name, and how its training differs from the card's."""

    name: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    objective: str | None = None
    link: Link | None = None
    sha256: str | None = None  # of its weights, if they are shipped
    reference: list[Reference] = field(default_factory=list)


@dataclass(frozen=True)
class EnsembleMember:
    """One model of an ensemble, with its weight in the mean, its temperature, and what the temperature divides."""

    name: str
    weight: float
    temperature: float = 1.0
    temperature_space: TemperatureSpace = field(default="logits", metadata={"formerly": "reading"})


@dataclass(frozen=True)
class Card:
    """Everything known about one model before its weights are loaded.

    >>> training = Training("imagenet-1k", "supervised", "cosine", {"tau": 0.05})
    >>> card = Card("mine", "local", "resnet", "resnet50", "imagenet-1k", "softmax", "trained", training)
    >>> card.objective, card.value("tau"), card.matches(family="resnet", tau=0.1)
    ('cosine', 0.05, False)
    """

    name: str
    source: str  # where the network comes from: a key of `zoo.cards.sources.SOURCES`
    family: str  # architecture family; depth and width within a family count as hyper-parameters
    architecture: str
    labels: str  # label set of the head: `imagenet-1k`, `digits`, ...; `none` for an encoder without a head
    link: Link
    head: HeadType
    training: Training
    transform: Transform | None = None
    id: str | None = None  # name in the source library
    revision: str | None = None
    sha256: str | None = None
    license: str = "unknown"
    reference: list[Reference] = field(default_factory=list)
    members: list[EnsembleMember] = field(default_factory=list)
    sweep: list[SweepMember] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)  # read by the card's source: prompts, class map, scores
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
        """Accuracy in percent: measured with these weights, else published by their library, else by the paper."""
        return self._accuracy_and_source[0]

    @property
    def accuracy_by(self) -> Literal["measured", "library", "paper"] | None:
        """Where `accuracy` comes from."""
        return self._accuracy_and_source[1]

    @property
    def _accuracy_and_source(self) -> tuple[float | None, Literal["measured", "library", "paper"] | None]:
        results = self.details.get("results")  # of weights that this package trained
        if isinstance(results, dict) and isinstance(results.get("test_accuracy"), float):
            return round(100 * results["test_accuracy"], 4), "measured"
        rows = [row for row in self.reference if row.accuracy is not None]
        row = next((row for row in rows if row.paper in _LIBRARIES), rows[0] if rows else None)
        return (None, None) if row is None else (row.accuracy, "library" if row.paper in _LIBRARIES else "paper")

    def summary(self) -> dict[str, Any]:
        """Return the facts that a notebook shows, by title. The accuracy is a list of one fraction, shown with a bar."""
        accuracy = None if self.accuracy is None else [self.accuracy / 100]
        return {
            "architecture": self.architecture, "trained on": self.dataset, "objective": self.objective,
            "framework": self.framework, "label set": self.labels, "licence": self.license,
            f"accuracy ({self.accuracy_by})": accuracy,
        }  # fmt: skip

    def _repr_html_(self) -> str:
        from zoo.core import notebook

        return f"<p>Card <b>{notebook.escaped(self.name)}</b></p>" + notebook.facts(self.summary())

    def expand(self) -> Iterator["Card"]:
        """Yield the card of each model: this card, or one card per member of its sweep."""
        if not self.sweep:
            yield self
        for member in self.sweep:
            training = dataclasses.replace(
                self.training,
                objective=member.objective or self.training.objective,
                hyperparameters=self.training.hyperparameters | member.hyperparameters,
            )
            yield dataclasses.replace(
                self, name=member.name, title=member.name, training=training, link=member.link or self.link,
                reference=member.reference, sha256=member.sha256, sweep=[],
                body=self.body.replace(f"# {self.title}", f"# {member.name}", 1),
            )  # fmt: skip

    def matches(self, **fields: Any) -> bool:
        """Return whether each field of the card, or hyper-parameter, has the wanted value (see `has`)."""
        return all(has(self.value(key), wanted) for key, wanted in fields.items())

    def value(self, key: str) -> Any:
        """Return a field of the card or of its training, or a hyper-parameter; None if the card does not have it."""
        if key in FIELD_NAMES:
            return getattr(self, key)
        return self.hyperparameters.get(key)


def has(found: Any, wanted: Any) -> bool:
    """Return whether a value equals the wanted one, is in a list or set, or is a number in a range (low, high).

    Both ends of a range are included; None leaves an end open.

    >>> has(78, (74, 78)), has(0.3, (None, 0.2)), has("sigmoid", ["cosine", "sigmoid"])
    (True, False, True)
    """
    if isinstance(found, (int, float)) and isinstance(wanted, tuple) and len(wanted) == 2:
        low, high = wanted
        return (low is None or found >= low) and (high is None or found <= high)
    if isinstance(wanted, (list, set, frozenset)) and not isinstance(found, list):
        return found in wanted
    return bool(found == wanted)


FIELD_NAMES = {f.name for f in dataclasses.fields(Card)} | {
    "objective", "dataset", "framework", "hyperparameters", "seed", "input_size", "accuracy", "accuracy_by",
}  # fmt: skip
_NOT_IN_BLOCK = {"license", "title", "body", "path"}


def parse(text: str, where: str) -> Card:
    """Return the card in a text; `where` names the text in errors."""
    front, body = _split(text, where)
    for name in front:
        if name not in _HUGGING_FACE_FIELDS and name != "zoo":
            raise InputError("unknown field", where=f"{where}: {name}", hint="Fields of this package belong under `zoo:`")
    for name, kind, expected in (("license", str, "text"), ("tags", list, "a list"), ("zoo", dict, "a mapping")):
        if name not in front:
            raise InputError("missing field", where=f"{where}: {name}")
        if not isinstance(front[name], kind):
            raise InputError(where=f"{where}: {name}", expected=expected, found=front[name])
    block = dict(front["zoo"])
    schema = block.pop("schema", None)
    if schema != SCHEMA:
        raise files.newer_schema(f"{where}: zoo.schema", schema, SCHEMA)
    for name in _NOT_IN_BLOCK & set(block):
        raise InputError("does not belong under `zoo:`", where=f"{where}: zoo.{name}")
    title = next((line[2:].strip() for line in body.splitlines() if line.startswith("# ")), "")
    card = typed.build(Card, block | {"license": front["license"], "title": title, "body": body}, where, "zoo")
    try:
        for name in (card.name, *(member.name for member in card.sweep)):
            check_safe(name)
    except InputError as error:
        raise error.inside(where) from None
    if card.source not in SOURCES:
        expected = f"one of {', '.join(SOURCES)}"
        raise UnknownName(kind="source", name=card.source, where=f"{where}: zoo.source", expected=expected)
    for name in SOURCES[card.source].needs:
        if getattr(card, name) is None:
            raise InputError(f"missing field, which a model from {card.source} needs", where=f"{where}: zoo.{name}")
    return card


def read(path: Path) -> Card:
    """Return the card in a file. The file must be named after the card."""
    card = parse(read_text(path), str(path))
    if card.name != path.stem:
        raise InputError(where=f"{path}: zoo.name", expected=f"the name of the file, {path.stem!r}", found=card.name)
    return dataclasses.replace(card, path=path)


def read_text(path: Path) -> str:
    """Return the text of a card's file of at most `MAX_BYTES`."""
    try:
        return files.read_text(path, MAX_BYTES).replace("\r\n", "\n")
    except ZooError as error:
        raise InputError(f"not a readable card: {error.problem}", where=path, expected=error.expected) from error


def write(card: Card) -> str:
    """Return the card as Markdown that `parse` reads back to an equal card. An empty body is replaced by the title."""
    import yaml

    fields = typed.plain(card)
    order = ["name", "source", "id", *fields]  # our name of the model, followed by the library's
    block = {"schema": SCHEMA} | {key: fields[key] for key in order if key in fields and key not in _NOT_IN_BLOCK}
    front: dict[str, Any] = {"license": card.license}
    if library := SOURCES[card.source].library:
        front["library_name"] = library
    task = _TASKS.get(card.head, "image-classification")
    front |= {
        "pipeline_tag": task,
        "tags": [task, card.family, card.training.framework],
        "datasets": [card.training.dataset],
        "zoo": block,
    }
    # A flow style of None writes the innermost lists and mappings on one line each, as a person would.
    header = yaml.dump(front, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    return f"---\n{header}---\n\n{card.body.strip() or f'# {card.title or card.name}'}\n"


_TASKS = {"zero-shot": "zero-shot-image-classification", "none": "image-feature-extraction"}


def _split(text: str, where: str) -> tuple[Mapping[str, Any], str]:
    """Return the front matter and the Markdown below it."""
    opening, _, rest = text.partition("\n")
    head, closing, body = f"\n{rest}\n".partition("\n---\n")
    if opening.rstrip() != "---" or not closing:
        raise InputError(where=where, expected="YAML front matter between two lines of ---")
    front = parse_yaml(head, f"{where}: front matter")
    if not isinstance(front, dict):
        raise InputError(where=f"{where}: front matter", expected="a mapping", found=type(front).__name__)
    return front, body.strip()


def parse_yaml(text: str, where: str) -> Any:
    """Return the value of YAML from a user's file; `where` names the file in errors."""
    import yaml  # its import takes longer than reading all cards from their cache

    try:
        _check_structure(text)
        return yaml.load(text, Loader=_loader())
    except MemoryError:
        raise
    except Exception as error:  # a month 13 or a number of 5,000 digits raises other errors than YAMLError
        raise InputError(f"not valid YAML: {' '.join(str(error).split())[:300]}", where=where) from error


def _check_structure(text: str) -> None:
    """Raise an error for YAML with too many nested levels, or with aliases.

    Parsing to events needs no recursion, whereas building the values recurses once per level, in C without a limit.
    """
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise yaml.YAMLError(f"line {event.start_mark.line + 1} is nested deeper than {_MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"alias *{event.anchor} is not supported; write its value out")


@functools.cache
def _dumper() -> Any:
    """Return YAML's safe dumper, changed to write a value that occurs twice in full, without an alias."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Dumper


@functools.cache
def _loader() -> Any:
    """Return YAML's safe loader, changed to refuse duplicate keys."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            if len(mapping) < len(node.value):
                keys = [self.construct_object(key, deep=True) for key, _ in node.value]
                twice = next(key for key in keys if keys.count(key) > 1)
                raise yaml.YAMLError(f"duplicate key {twice!r}")
            return mapping

    return Loader
