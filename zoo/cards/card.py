"""A model card: Markdown whose YAML front matter is the registry entry of one model, or of a sweep of models.

The front matter has the Hugging Face fields (licence, tags, datasets, ...) and one block of ours, `zoo:`, whose shape is
the dataclasses below: a field they do not name, one they need and do not find, or one of the wrong type is an error that
names the card and the field.
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
from zoo.core import typed
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError

HeadType = Literal["trained", "fine-tuned", "linear", "zero-shot", "class-mapping", "none"]
Category = Literal["reinit", "hparam", "arch", "fwork", "dataset"]

SCHEMA = 1
LONGEST = 2**20  # bytes of a card; the longest shipped one has three thousand
_DEEPEST = 32  # lists and mappings inside each other
LIBRARIES = ("timm", "open_clip")  # which publish what their weights reach
HUGGING_FACE_FIELDS = {
    "license", "license_name", "license_link", "tags", "datasets", "library_name", "pipeline_tag",
    "base_model", "language", "metrics", "thumbnail", "model-index",
}  # fmt: skip


@dataclass(frozen=True)
class Transform:
    """From an image to the network's input: resize, centre crop, scale to 0..1, subtract the mean, divide by std."""

    size: tuple[int, ...]  # channels, height, width
    resize: tuple[int, ...]  # one number: that shortest side, aspect kept; two: height and width, reached as `fit` says
    interpolation: Literal["nearest", "bilinear", "bicubic", "box", "lanczos"]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    # Two numbers in `resize`: `squash` to exactly these; aspect kept, just large enough to `cover` them; aspect kept, just
    # small enough to lie `inside` them, the rest of the crop filled with the mean.
    fit: Literal["squash", "cover", "inside"] = "squash"
    grey: bool = False  # whether colours are taken out first: what a network that learnt from grey images can make sense of

    def __post_init__(self) -> None:
        channels = self.size[0] if self.size else 0
        if len(self.size) != 3 or min(self.size) < 1:
            raise InputError(f"has size {list(self.size)}, expected channels, height and width")
        if len(self.resize) not in (1, 2) or min(self.resize) < 1:
            raise InputError(f"has resize {list(self.resize)}, expected the shortest side, or height and width")
        if len(self.resize) == 1 and self.fit != "squash":
            raise InputError(f"has fit {self.fit}, which needs a resize of height and width")
        if len(self.mean) != channels or len(self.std) != channels or min(self.std) <= 0:
            raise InputError(f"needs one mean and one positive std for each of its {channels} channels")

    @property
    def settings(self) -> dict[str, Any]:
        """All of it as plain values; `grey` only where it is set, so that what older versions wrote is still the same."""
        values = dataclasses.asdict(self)
        return values if self.grey else {name: value for name, value in values.items() if name != "grey"}


@dataclass(frozen=True)
class Training:
    """The training methodology, whose outermost difference gives a pair of models its category."""

    dataset: str  # the largest data learnt from: `imagenet-21k` where ImageNet-1k only fine-tunes; `unknown` if not told
    framework: Framework
    objective: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    # What initial weights and batch order are derived from. None: the seed alone, as in every network trained before 0.2.
    initialisation: Literal["name and seed"] | None = None


@dataclass(frozen=True)
class Reference:
    """A row of a published table, or numbers that a figure or a section states.

    Accuracies in percent; inconsistency and ensemble accuracy are against the paper's ResNet-50.
    """

    paper: str
    table: str
    row: str
    accuracy: float | None = None
    temperature: float | None = None
    inconsistency: float | None = None
    ensemble_accuracy: float | None = None
    category: Category | None = None
    results: dict[str, float] = field(default_factory=dict)  # a name means one thing on a card, whatever the table
    errors: dict[str, float] = field(default_factory=dict)  # standard errors, of `results` by name and of `accuracy`
    note: str | None = None

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return self.table if self.table.startswith(("Fig.", "Section")) else f"Table {self.table}"


@dataclass(frozen=True)
class SweepMember:
    """One model of a sweep: its name and what it changes in the card's training."""

    name: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    objective: str | None = None
    link: Link | None = None
    sha256: str | None = None  # of its weights, where they are shipped beside the card
    reference: list[Reference] = field(default_factory=list)


@dataclass(frozen=True)
class EnsembleMember:
    """One model of an ensemble, with its share of the mean, its temperature and what that divides."""

    name: str
    weight: float
    temperature: float = 1.0
    temperature_space: TemperatureSpace = field(default="logits", metadata={"formerly": "reading"})


@dataclass(frozen=True)
class Card:
    """All that is known about one model before its weights are touched.

    >>> training = Training("imagenet-1k", "supervised", "cosine", {"tau": 0.05})
    >>> card = Card("mine", "local", "resnet", "resnet50", "imagenet-1k", "softmax", "trained", training)
    >>> card.objective, card.value("tau"), card.matches(family="resnet", tau=0.1)
    ('cosine', 0.05, False)
    """

    name: str
    source: str  # where its network comes from: one of `zoo.cards.sources.SOURCES`
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
        """In percent: measured on these weights, else their library's, else the paper's; `accuracy_by` says which."""
        return self._scored[0]

    @property
    def accuracy_by(self) -> Literal["measured", "library", "paper"] | None:
        """Where `accuracy` comes from."""
        return self._scored[1]

    @property
    def _scored(self) -> tuple[float | None, Literal["measured", "library", "paper"] | None]:
        results = self.details.get("results")  # of weights that were trained here and shipped
        if isinstance(results, dict) and isinstance(results.get("test_accuracy"), float):
            return round(100 * results["test_accuracy"], 4), "measured"
        rows = [row for row in self.reference if row.accuracy is not None]
        row = next((row for row in rows if row.paper in LIBRARIES), rows[0] if rows else None)
        return (None, None) if row is None else (row.accuracy, "library" if row.paper in LIBRARIES else "paper")

    def expand(self) -> Iterator["Card"]:
        """The models this card stands for: itself, or the members of its sweep."""
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
        """Whether each named field is what is asked for (`has`); others than the card's are looked for among its
        hyper-parameters."""
        return all(has(self.value(key), wanted) for key, wanted in fields.items())

    def value(self, key: str) -> Any:
        """A field of the card or of its training, or a hyper-parameter; None where the card says nothing."""
        if key in FIELD_NAMES:
            return getattr(self, key)
        return self.hyperparameters.get(key)


def has(found: Any, wanted: Any) -> bool:
    """Whether a value is the one asked for, one of a list or set, or a number in a range (low, high).

    Both ends of a range belong to it, and None leaves one open.

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
    """The card in `text`; `where` names it in error messages."""
    front, body = _split(text, where)
    for name in front:
        if name not in HUGGING_FACE_FIELDS and name != "zoo":
            raise InputError(f"{where}: unknown field {name!r}; our own fields go under `zoo:`")
    for name, kind, what in (("license", str, "text"), ("tags", list, "a list"), ("zoo", dict, "a mapping")):
        if name not in front:
            raise InputError(f"{where}: field {name!r} is missing")
        if not isinstance(front[name], kind):
            raise InputError(f"{where}: field {name!r} must be {what}, found {front[name]!r}")
    block = dict(front["zoo"])
    schema = block.pop("schema", None)
    if schema != SCHEMA:
        raise InputError(f"{where}: field 'zoo.schema' is {schema!r}, this version reads {SCHEMA}; upgrade the package")
    for name in _NOT_IN_BLOCK & set(block):
        raise InputError(f"{where}: field 'zoo.{name}' does not belong in the block")
    title = next((line[2:].strip() for line in body.splitlines() if line.startswith("# ")), "")
    card = typed.build(Card, block | {"license": front["license"], "title": title, "body": body}, where, "zoo")
    for name in (card.name, *(member.name for member in card.sweep)):
        check_safe(name, f"{where}: name")
    if card.source not in SOURCES:
        raise InputError(f"{where}: field 'zoo.source' is {card.source!r}, expected one of {', '.join(SOURCES)}")
    for name in SOURCES[card.source].needs:
        if getattr(card, name) is None:
            raise InputError(f"{where}: field 'zoo.{name}' is missing, which a model from {card.source} needs")
    return card


def read(path: Path) -> Card:
    """The card at `path`, whose name must be the file's."""
    card = parse(read_text(path), str(path))
    if card.name != path.stem:
        raise InputError(f"{path}: field 'zoo.name' is {card.name!r}, expected the file's name {path.stem!r}")
    return dataclasses.replace(card, path=path)


def read_text(path: Path) -> str:
    """The text of the card at `path`, unless it is longer than any card."""
    try:
        with open(path, "rb") as file:
            data = file.read(LONGEST + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable card: {error}") from error
    if len(data) > LONGEST:
        raise InputError(f"{path}: not a readable card: longer than {LONGEST} bytes")
    return text.replace("\r\n", "\n")


def write(card: Card) -> str:
    """The card as Markdown text that `parse` reads back to an equal card; its title stands in for a body it lacks."""
    import yaml

    fields = typed.plain(card)
    order = ["name", "source", "id", *fields]  # the library's own name belongs beside ours
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
    # A flow style of None writes the innermost lists and mappings on one line each, which is how a person would.
    header = yaml.dump(front, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    return f"---\n{header}---\n\n{card.body.strip() or f'# {card.title or card.name}'}\n"


_TASKS = {"zero-shot": "zero-shot-image-classification", "none": "image-feature-extraction"}


def _split(text: str, where: str) -> tuple[Mapping[str, Any], str]:
    """Front matter and the Markdown below it."""
    import yaml  # takes longer to load than all cards do from their cache

    opening, _, rest = text.partition("\n")
    head, closing, body = f"\n{rest}\n".partition("\n---\n")
    if opening.rstrip() != "---" or not closing:
        raise InputError(f"{where}: expected YAML front matter between two lines of ---")
    try:
        _check_shape(head)
        front = yaml.load(head, Loader=_loader())
    except MemoryError:
        raise
    except Exception as error:  # a date of the month 13 or a number of 5,000 digits is no YAMLError
        raise InputError(f"{where}: front matter is not valid YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(front, dict):
        raise InputError(f"{where}: front matter must be a mapping, found {type(front).__name__}")
    return front, body.strip()


def _check_shape(text: str) -> None:
    """An error where lists lie too deep within each other, or a part stands for another.

    The events come one after the other, whereas building the values calls itself for each level, in C without a limit.
    """
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"line {event.start_mark.line + 1} is nested deeper than {_DEEPEST} levels")
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"*{event.anchor} refers to another part; write its value out")


@functools.cache
def _dumper() -> Any:
    """YAML's safe dumper, except that a value that occurs twice is written twice."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Dumper


@functools.cache
def _loader() -> Any:
    """YAML's safe loader, except that a key given twice is an error rather than a silent overwrite."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            if len(mapping) < len(node.value):
                keys = [self.construct_object(key, deep=True) for key, _ in node.value]
                twice = next(key for key in keys if keys.count(key) > 1)
                raise yaml.YAMLError(f"key {twice!r} is given twice")
            return mapping

    return Loader
