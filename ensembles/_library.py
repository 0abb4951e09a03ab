"""The models to choose from: probabilities [M, N, K] that may lie in memory, on an accelerator, or in files; or votes.

Nothing is loaded beyond the rows asked for, so a library may be larger than memory. All searches read through it.
A vote is a distribution too: all of it on the class predicted. So a search by votes is a search like any other.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch

from zoo.core import arrays
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

Name: TypeAlias = str | int
Kind: TypeAlias = Literal["probabilities", "predictions"]
Rows: TypeAlias = "slice | torch.Tensor"

# Numbers in a chunk: on a processor it should stay in the last cache between the several looks a pass takes at it, and be
# long enough to make the calls cheap; an accelerator wants longer stretches of work.
CACHE_ELEMENTS = 2**20
ACCELERATOR_ELEMENTS = 2**26
# A column behind the classes of votes in which every model has this much. Its sum stays below one vote for a million
# members, and is the greatest where nobody votes: then the ensemble's answer is none of the classes, which is wrong.
NO_VOTE = 2.0**-20


class Source(Protocol):
    """Where probabilities are read from."""

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        """[n, K] in the precision they are stored in."""

    def at_least(self, model: int, rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor | float:
        """[n] numbers not above the probability of each (row, class), without reading whole rows."""


@dataclass(frozen=True, eq=False)
class Library:
    """M models' probabilities on the same N labelled examples of K classes.

    `examples` says which of the source's rows are meant, so that a part of a library is a library.
    """

    source: Source
    names: tuple[Name, ...]
    labels: torch.Tensor  # [N] int64, on the device where everything is computed
    num_classes: int
    dtype: torch.dtype  # float32, or float64 where a model is stored so
    examples: torch.Tensor | None = None  # None: all of them
    runs: Runs | None = None  # what the models came from, where they have cards and temperatures
    array_like: Any = None  # an input array, whose kind a user's own function is given
    kind: Kind = "probabilities"
    outside: dict[str, int] = dataclasses.field(default_factory=dict)  # models' answers that are none of the classes

    def __len__(self) -> int:
        return len(self.names)

    @property
    def device(self) -> torch.device:
        return self.labels.device

    def position(self, name: Name, what: str = "model") -> int:
        """The index of a name, or an error that offers the near ones."""
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and self.runs is None:
            name = int(name)
        if name not in self.names:
            from zoo.cards.names import among, near

            if isinstance(name, str) and (full := among(name, map(str, self.names))):
                return self.names.index(full)
            known = [str(known) for known in self.names]
            hint = near(str(name), known) if isinstance(self.names[0], str) else f"; expected 0..{len(self) - 1}"
            raise InputError(f"{what} {name!r} is not among these {len(self)} models{hint}")
        return self.names.index(name)

    def take(self, examples: torch.Tensor) -> "Library":
        """Some of the examples."""
        examples = examples.to(self.device)
        of_source = examples if self.examples is None else self.examples[examples]
        return dataclasses.replace(self, labels=self.labels[examples], examples=of_source)

    def stretch(self, together: int = 1) -> int:
        """How many examples of `together` models fit the cache at once."""
        elements = CACHE_ELEMENTS if self.device.type == "cpu" else ACCELERATOR_ELEMENTS
        return max(1, elements // (self.num_classes * together))

    def spans(self, together: int = 1) -> Iterator[slice]:
        """Consecutive stretches of examples."""
        length = self.stretch(together)
        for start in range(0, len(self.labels), length):
            yield slice(start, min(start + length, len(self.labels)))

    def stored(self, model: int, rows: Rows) -> torch.Tensor:
        """[n, K] as the source keeps it: maybe float16, maybe a view that must not be written to."""
        if self.examples is not None:
            rows = self.examples[rows]
        return self.source.rows(model, rows)

    def read(self, model: int, rows: Rows) -> torch.Tensor:
        """[n, K] probabilities of one model."""
        return self.stored(model, rows).to(self.dtype)

    def at_least(self, model: int, rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor | float:
        """[n] lower bounds of single probabilities; exact where the source can look one up."""
        return self.source.at_least(model, rows if self.examples is None else self.examples[rows], classes)

    def check(self, model: int, totals: torch.Tensor, least: float, start: int = 0) -> None:
        """An error unless rows are distributions: `totals` are the sums of those from `start` on, `least` their minimum."""
        if self.kind == "predictions":  # checked as they were read
            return
        low, high = totals.aminmax()
        # NaN makes every one of these comparisons false.
        if least >= 0 and low >= 1 - arrays.SUM_TOLERANCE and high <= 1 + arrays.SUM_TOLERANCE:
            return
        rows = torch.arange(start, start + len(totals), device=self.device)
        for part, sums in zip(rows.split(self.stretch()), totals.split(self.stretch()), strict=True):
            lowest = self.read(model, part).amin(1)
            bad = ~((sums - 1).abs() <= arrays.SUM_TOLERANCE) | ~(lowest >= 0)
            if bad.any():
                at = int(bad.nonzero()[0])
                example = int(part[at] if self.examples is None else self.examples[part[at]])
                raise InputError(
                    f"{self.title(model)}: row {example} is not a distribution (sum {float(sums[at]):.4g}, least "
                    f"{float(lowest[at]):.4g}); expected probabilities, pass logits through their link first"
                )

    def title(self, model: int) -> str:
        """What error messages and tables call a model."""
        name = self.names[model]
        return name if isinstance(name, str) else f"model {name}"


def take_rows(values: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Some rows of [N, K]: a view for a slice, a copy for indices."""
    if isinstance(rows, slice) or values.device.type != "cpu" or type(values) is not torch.Tensor:
        return values[rows]
    if values.dtype == torch.bfloat16:
        return values[rows]
    # NumPy copies row by row, torch's indexing number by number, which takes twice to four times as long.
    return torch.from_numpy(values.numpy()[rows.numpy()])


def library(given: Any, labels: Any = None, kind: Kind = "probabilities", device: Any = None) -> Library:
    """A library from arrays (one array [M, ...], a list, or a mapping by name) or from outputs (Runs, a list of them).

    Arrays are probabilities [M, N, K] or predictions [M, N], as `kind` says, and stay on their device. Outputs are aligned
    by example and class, read through their link at their temperature, and computed on `device`, or where they lie; their
    own labels are used unless `labels` are given.
    """
    if kind not in ("probabilities", "predictions"):
        raise InputError(f"kind: expected probabilities or predictions, found {kind!r}")
    values = list(given.values()) if isinstance(given, Mapping) else given
    if isinstance(given, Runs) or (isinstance(values, (list, tuple)) and values and isinstance(values[0], Outputs)):
        runs = (given if isinstance(given, Runs) else Runs(values)).aligned()
        build = _votes_of_runs if kind == "predictions" else _from_runs
        return build(runs, runs.labels if labels is None else labels, None if device is None else torch.device(device))
    if device is not None:
        raise InputError("device: arrays are searched where they lie; move the array instead")
    if labels is None:
        raise InputError(f"labels: expected class indices [N] beside arrays of {kind}, found none")
    parts = _parts(values, kind, [str(name) for name in given] if isinstance(given, Mapping) else None)
    if kind == "predictions":
        return _votes(parts, labels, None)
    first = next(iter(parts.values()))
    return Library(
        source=_Arrays(list(parts.values())),
        names=tuple(parts),
        labels=arrays.labels(labels, first.shape[1], len(first)).to(first.device),
        num_classes=first.shape[1],
        dtype=_precision(part.dtype for part in parts.values()),
        array_like=values[0] if isinstance(values, (list, tuple)) else values,
    )


def _parts(values: Any, kind: Kind, names: Sequence[Name] | None) -> dict[Name, torch.Tensor]:
    """Arrays by name, all of the first one's shape and on its device."""
    shape = "[N]" if kind == "predictions" else "[N, K]"
    if isinstance(values, (list, tuple)):
        if not values:
            raise InputError(f"{kind}: expected at least one model, found none")
        called = names or range(len(values))
        tensors = [arrays.tensor(one, f"{kind} of {name}") for name, one in zip(called, values, strict=True)]
    else:
        stack = arrays.tensor(values, kind)
        if stack.ndim != len(shape.split(",")) + 1 or 0 in stack.shape:
            raise InputError(f"{kind}: expected shape [M, {shape[1:]} with none of them 0, found {list(stack.shape)}")
        tensors = list(stack.unbind(0))
    first = tensors[0]
    parts: dict[Name, torch.Tensor] = dict(zip(names or range(len(tensors)), tensors, strict=True))
    for name, part in parts.items():
        if part.ndim != len(shape.split(",")) or 0 in part.shape or part.shape != first.shape:
            raise InputError(
                f"{kind} of {name}: expected shape {shape} like the first model's {list(first.shape)}, "
                f"found {list(part.shape)}"
            )
        if kind == "probabilities" and not part.is_floating_point():
            raise InputError(f"{kind} of {name}: expected floating-point numbers, found dtype {part.dtype}")
        if part.device != first.device:
            raise InputError(f"{kind} of {name}: on {part.device}, the first model's on {first.device}")
    return parts


def _from_runs(runs: Runs, labels: Any, device: torch.device | None) -> Library:
    outputs = list(runs.values())
    for one in outputs:
        if not len(one):
            raise InputError(f"{one.name}: expected at least one example, found none")
    blocks = [arrays.tensor(one.values.blocks[0], one.name) for one in outputs]
    device = device or blocks[0].device
    plain = all(
        one.kind == "probabilities" and one.temperature is None and len(one.values.blocks) == 1 and block.device == device
        for one, block in zip(outputs, blocks, strict=True)
    )
    kept = {arrays.tensor(one.probabilities_at(slice(0, 1)), one.name).dtype for one in outputs}
    return Library(
        source=_Arrays(blocks) if plain else _Stored(outputs, device),
        names=tuple(runs.names),
        labels=arrays.labels(labels, len(outputs[0].classes), len(outputs[0])).to(device),
        num_classes=len(outputs[0].classes),
        dtype=_precision(kept),
        runs=runs,
    )


def _votes_of_runs(runs: Runs, labels: Any, device: torch.device | None) -> Library:
    parts: dict[Name, torch.Tensor] = {}
    for name, one in runs.items():
        parts[name] = arrays.tensor(one.predictions, name).to(device or "cpu")
    num_classes = len(next(iter(runs.values())).classes)
    return dataclasses.replace(_votes(parts, labels, num_classes), runs=runs)


def _votes(parts: Mapping[Name, torch.Tensor], labels: Any, num_classes: int | None) -> Library:
    """A library of predictions, in which the last column is that of no vote."""
    first = next(iter(parts.values()))
    y = arrays.labels(labels, num_classes, len(first)).to(first.device)
    found = {name: answers(part, num_classes, f"predictions of {name}") for name, part in parts.items()}
    classes = num_classes or 1 + max(int(one.max()) for one in (y, *found.values()))
    outside = {str(name): int((one < 0).sum()) for name, one in found.items()}
    return Library(
        source=_Votes([torch.where(one < 0, classes, one) for one in found.values()], classes),
        names=tuple(parts),
        labels=y,
        num_classes=classes + 1,
        dtype=torch.float32,
        kind="predictions",
        outside={name: count for name, count in outside.items() if count},
    )


def answers(values: Any, num_classes: int | None, name: str, rows: int | None = None) -> torch.Tensor:
    """Predictions [N] as int64: class indices, or -1 for an answer that is none of the classes."""
    given = arrays.tensor(values, name)
    outside = given == -1
    checked = arrays.labels(torch.where(outside, torch.zeros_like(given), given), num_classes, rows, name)
    return torch.where(outside, -1, checked)


def _precision(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    return torch.float64 if torch.float64 in set(dtypes) else torch.float32


@dataclass(frozen=True, eq=False)
class _Arrays:
    """Probabilities as they are, in memory, in a mapped file, or on an accelerator."""

    parts: list[torch.Tensor]

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        return take_rows(self.parts[model], rows)

    def at_least(self, model: int, rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return self.parts[model][rows, classes]


@dataclass(frozen=True, eq=False)
class _Stored:
    """Outputs of any kind, memory-mapped or not, made calibrated probabilities as they are read."""

    outputs: list[Outputs]
    device: torch.device

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        one = self.outputs[model]
        return arrays.tensor(one.probabilities_at(rows), one.name).to(self.device)

    def at_least(self, model: int, rows: torch.Tensor, classes: torch.Tensor) -> float:
        return 0.0  # one probability of calibrated logits needs its whole row


@dataclass(frozen=True, eq=False)
class _Votes:
    """Predicted classes [N], each one vote; K stands for none of the K classes."""

    predicted: list[torch.Tensor]
    classes: int

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        predicted = self.predicted[model][rows]
        votes = torch.zeros((len(predicted), self.classes + 1), device=predicted.device)
        votes.scatter_(1, predicted[:, None], 1)
        votes[:, -1] = NO_VOTE
        return votes

    def at_least(self, model: int, rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return ((self.predicted[model][rows] == classes) & (classes < self.classes)).float()
