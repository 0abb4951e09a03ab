"""The models to choose from: probabilities [M, N, K] that may lie in memory, on an accelerator, or in files.

Nothing is loaded beyond the rows asked for, so a library may be larger than memory. All searches read through it.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from zoo import arrays
from zoo.errors import InputError
from zoo.outputs import Outputs, Runs

Name: TypeAlias = str | int
Rows: TypeAlias = "slice | torch.Tensor"

# Numbers in a chunk: on a processor it should stay in the last cache between the several looks a pass takes at it, and be
# long enough to make the calls cheap; an accelerator wants longer stretches of work.
CACHE_ELEMENTS = 2**20
ACCELERATOR_ELEMENTS = 2**26


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
            from zoo.names import among, near

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


def library(probs: Any, labels: Any = None, device: Any = None) -> Library:
    """A library from arrays [M, N, K] (one array, a list, or a mapping by name) or from outputs (Runs, a list of them).

    Arrays stay on their device. Outputs are aligned by example and class, read through their link at their temperature,
    and computed on `device`, or where they lie; their own labels are used unless `labels` are given.
    """
    values = list(probs.values()) if isinstance(probs, Mapping) else probs
    if isinstance(probs, Runs) or (isinstance(values, (list, tuple)) and values and isinstance(values[0], Outputs)):
        runs = probs if isinstance(probs, Runs) else Runs(values)
        return _from_runs(runs.aligned(), labels, None if device is None else torch.device(device))
    if device is not None:
        raise InputError("device: arrays are searched where they lie; move the array instead")
    names: Sequence[Name] | None = [str(name) for name in probs] if isinstance(probs, Mapping) else None
    return _from_arrays(values, labels, names)


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
    kept = {arrays.tensor(one.probabilities(slice(0, 1)), one.name).dtype for one in outputs}
    y = runs.labels if labels is None else labels
    return Library(
        source=_Arrays(blocks) if plain else _Stored(outputs, device),
        names=tuple(runs.names),
        labels=arrays.labels(y, len(outputs[0].classes), len(outputs[0])).to(device),
        num_classes=len(outputs[0].classes),
        dtype=_precision(kept),
        runs=runs,
    )


def _from_arrays(values: Any, labels: Any, names: Sequence[Name] | None) -> Library:
    if labels is None:
        raise InputError("labels: expected class indices [N] beside arrays of probabilities, found none")
    if isinstance(values, (list, tuple)):
        if not values:
            raise InputError("probabilities: expected at least one model, found none")
        called = names or range(len(values))
        parts = [arrays.tensor(p, f"probabilities of {name}") for name, p in zip(called, values, strict=True)]
    else:
        stack = arrays.tensor(values, "probabilities")
        if stack.ndim != 3 or 0 in stack.shape:
            raise InputError(f"probabilities: expected shape [M, N, K] with none of them 0, found {list(stack.shape)}")
        parts = list(stack.unbind(0))
    names = tuple(names if names is not None else range(len(parts)))
    first = parts[0]
    for name, part in zip(names, parts, strict=True):
        if part.ndim != 2 or 0 in part.shape or part.shape != first.shape:
            raise InputError(
                f"probabilities of {name}: expected shape [N, K] like the first model's {list(first.shape)}, "
                f"found {list(part.shape)}"
            )
        if not part.is_floating_point():
            raise InputError(f"probabilities of {name}: expected floating-point numbers, found dtype {part.dtype}")
        if part.device != first.device:
            raise InputError(f"probabilities of {name}: on {part.device}, the first model's on {first.device}")
    rows, num_classes = first.shape
    like = values[0] if isinstance(values, (list, tuple)) else values
    return Library(
        source=_Arrays(parts),
        names=names,
        labels=arrays.labels(labels, num_classes, rows).to(first.device),
        num_classes=num_classes,
        dtype=_precision(part.dtype for part in parts),
        array_like=like,
    )


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
        return arrays.tensor(one.probabilities(rows), one.name).to(self.device)

    def at_least(self, model: int, rows: torch.Tensor, classes: torch.Tensor) -> float:
        return 0.0  # one probability of calibrated logits needs its whole row
