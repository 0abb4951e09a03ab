"""A library of M models to select from: their probabilities [M, N, K], in memory, on an accelerator or on disk.

Every search reads through a `ModelLibrary`, a chunk of rows at a time, so that a library may be larger than memory. A vote
is a distribution with all its mass on the predicted class, so a search by votes is a search like any other.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch

from ensembles.inputs import EnsembleInput, Labels, Name, read_members
from zoo.cards.names import among
from zoo.cards.selection import suggest
from zoo.core import arrays
from zoo.core.backend import backend
from zoo.errors import InputError, UnknownName
from zoo.outputs.outputs import Outputs, Runs

SearchKind: TypeAlias = Literal["probabilities", "predictions"]
Rows: TypeAlias = "slice | torch.Tensor"

# Numbers in a chunk. On a CPU a chunk should stay in a core's own cache while several passes read it, and be long enough to
# make the calls cheap. An accelerator needs longer chunks.
CACHE_ELEMENTS = 2**17
ACCELERATOR_ELEMENTS = 2**26
# With votes, every model has this value in an additional column after the classes. The sum of up to a million members stays
# below one vote. Without any vote it is the maximum: the ensemble then predicts no class, which counts as wrong.
NO_VOTE = 2.0**-20


class ProbabilitySource(Protocol):
    """Where probabilities are read from."""

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        """Return rows [n, K] as stored: possibly float16, possibly a view that must not be written to."""

    def entries(self, model: int, rows: Any, classes: Any) -> Any:
        """Return the probability of each (row, class) [n], all as `fast_view`; None if that would read whole rows."""


@dataclass(frozen=True, eq=False)
class ModelLibrary:
    """Probabilities of M models on the same N labelled examples of K classes."""

    source: ProbabilitySource
    names: tuple[Name, ...]
    labels: torch.Tensor  # [N] int64, on the device where everything is computed
    num_classes: int
    dtype: torch.dtype  # float32, or float64 if a model is stored in float64
    examples: torch.Tensor | None = None  # [N] rows of the source that this library consists of; None: all
    runs: Runs | None = None  # the models' outputs, with cards and temperatures; None for arrays
    array_like: Any = None  # an input array: a custom objective is called with arrays of its type
    kind: SearchKind = "probabilities"
    without_prediction: dict[str, int] = dataclasses.field(
        default_factory=dict
    )  # by model: examples that have no prediction

    @classmethod
    def read(
        cls,
        runs: EnsembleInput,
        labels: Labels = None,
        kind: SearchKind = "probabilities",
        device: str | torch.device | None = None,
    ) -> "ModelLibrary":
        """Return the library of any ensemble input.

        Args:
            runs: see `ensembles.inputs`. Arrays stay on their device. Outputs are read at their temperature.
            labels: [N] class indices; default: the labels of the runs.
            kind: the kind of values that arrays hold, or that are read from outputs.
            device: where to compute with outputs; default: where they are stored.
        """
        if kind not in ("probabilities", "predictions"):
            raise InputError(argument="kind", expected="probabilities or predictions", found=kind)
        members = read_members(runs, kind)
        if members.runs is not None:
            labels = members.runs.labels if labels is None else labels
            build = _votes_of_runs if kind == "predictions" else _probabilities_of_runs
            return build(members.runs, labels, None if device is None else torch.device(device))
        if device is not None:
            raise InputError(
                "arrays are searched on the device that holds them", argument="device", found=device, hint="Move the array"
            )
        if labels is None:
            raise InputError(argument="labels", expected=f"class indices [N] if runs is an array of {kind}", found="none")
        if kind == "predictions":
            return _votes(dict(zip(members.names, members.tensors, strict=True)), labels, None)
        first = members.tensors[0]
        return cls(
            source=_ArraySource(members.tensors),
            names=members.names,
            labels=arrays.labels(labels, first.shape[1], len(first)).to(first.device),
            num_classes=first.shape[1],
            dtype=_precision(tensor.dtype for tensor in members.tensors),
            array_like=members.array_like,
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def device(self) -> torch.device:
        return self.labels.device

    @property
    def ids(self) -> np.ndarray:
        """[N] the examples' ids as text; row numbers for arrays."""
        examples = slice(None) if self.examples is None else arrays.to_numpy(self.examples)
        if self.runs is not None:
            return next(iter(self.runs.values())).ids[examples]
        rows = np.arange(len(self.labels)) if self.examples is None else examples
        return np.asarray(rows).astype(str)

    def position(self, name: Name, argument: str) -> int:
        """Return the position of a model, given by its name, its name without dataset, or its number in an array."""
        if isinstance(name, np.integer):
            name = int(name)
        if name in self.names and not isinstance(name, bool):
            return self.names.index(name)
        known = [str(each) for each in self.names]
        if isinstance(self.names[0], int):
            raise UnknownName(
                kind="model", name=str(name), argument=argument, hint=f"Use a number from 0 to {len(self) - 1}"
            )
        if isinstance(name, str) and (full := among(name, known)):
            return known.index(full)
        raise UnknownName(kind="model", name=str(name), argument=argument, suggestions=suggest(str(name), known))

    def select(self, examples: torch.Tensor) -> "ModelLibrary":
        """Return the library of some examples."""
        examples = examples.to(self.device)
        source_rows = examples if self.examples is None else self.examples[examples]
        return dataclasses.replace(self, labels=self.labels[examples], examples=source_rows)

    def chunk_rows(self) -> int:
        """Return how many rows [n, K] to work on at a time."""
        elements = CACHE_ELEMENTS if self.device.type == "cpu" else ACCELERATOR_ELEMENTS
        return max(1, elements // self.num_classes)

    def chunks(self) -> Iterator[slice]:
        """Iterate over all rows, a chunk at a time."""
        length = self.chunk_rows()
        for start in range(0, len(self.labels), length):
            yield slice(start, min(start + length, len(self.labels)))

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        """Return the probabilities [n, K] of one model, possibly as a view that must not be written to."""
        return self.source.rows(model, rows if self.examples is None else self.examples[rows]).to(self.dtype)

    def entries(self, model: int, rows: Any, classes: Any) -> Any:
        """Return single probabilities [n], or None if the source would have to read whole rows for them."""
        return self.source.entries(model, rows if self.examples is None else fast_view(self.examples)[rows], classes)

    def check(self, model: int, sums: torch.Tensor, minimum: float, start: int = 0) -> None:
        """Raise an error unless rows from `start` on are distributions, given their `sums` [n] and smallest entry."""
        if self.kind == "predictions":  # checked as they were read
            return
        low, high = sums.aminmax()
        # With NaN each of these comparisons is false.
        if minimum >= 0 and low >= 1 - arrays.SUM_TOLERANCE and high <= 1 + arrays.SUM_TOLERANCE:
            return
        rows = torch.arange(start, start + len(sums), device=self.device)
        for part, part_sums in zip(rows.split(self.chunk_rows()), sums.split(self.chunk_rows()), strict=True):
            lowest = self.rows(model, part).amin(1)
            bad = ~((part_sums - 1).abs() <= arrays.SUM_TOLERANCE) | ~(lowest >= 0)
            if bad.any():
                at = int(bad.nonzero()[0])
                example = int(part[at] if self.examples is None else self.examples[part[at]])
                raise InputError(
                    f"not a distribution: sum {float(part_sums[at]):.4g}, minimum {float(lowest[at]):.4g}",
                    where=f"{self.describe(model)}: row {example}",
                    argument="runs",
                    hint="Pass probabilities; logits become probabilities through the model's link",
                )

    def describe(self, model: int) -> str:
        """Return a model's name for error messages."""
        name = self.names[model]
        return name if isinstance(name, str) else f"model {name}"


def fast_view(values: torch.Tensor) -> Any:
    """Return a CPU tensor as a NumPy array, and any other tensor unchanged.

    NumPy's argmax is vectorised, it copies rows in one piece, and its calls cost less: two to five times as fast as torch
    on chunks that stay in the cache. Indexing, `@` and `argmax` are written the same way for both.
    """
    if values.device.type == "cpu" and type(values) is torch.Tensor:
        return values.float().numpy() if values.dtype == torch.bfloat16 else values.numpy()
    return values


def take_rows(values: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Return some rows of [N, K]: a view for a slice, a copy for indices."""
    if isinstance(rows, slice) or values.dtype == torch.bfloat16:
        return values[rows]
    return torch.as_tensor(fast_view(values)[fast_view(rows)])


def _probabilities_of_runs(runs: Runs, labels: Labels, device: torch.device | None) -> ModelLibrary:
    outputs = list(runs.values())
    for one in outputs:
        if not len(one):
            raise InputError(where=one.name, argument="runs", expected="outputs on at least one example", found=0)
    blocks = [arrays.tensor(one.values.blocks[0], one.name) for one in outputs]
    device = device or blocks[0].device
    readable_in_place = all(
        one.kind == "probabilities" and one.temperature is None and len(one.values.blocks) == 1 and block.device == device
        for one, block in zip(outputs, blocks, strict=True)
    )
    dtypes = {arrays.tensor(one.probabilities_at(slice(0, 1)), one.name).dtype for one in outputs}
    return ModelLibrary(
        source=_ArraySource(blocks) if readable_in_place else _OutputsSource(outputs, device),
        names=tuple(runs.names),
        labels=arrays.labels(labels, len(outputs[0].classes), len(outputs[0])).to(device),
        num_classes=len(outputs[0].classes),
        dtype=_precision(dtypes),
        runs=runs,
    )


def _votes_of_runs(runs: Runs, labels: Labels, device: torch.device | None) -> ModelLibrary:
    predictions: dict[Name, torch.Tensor] = {
        name: arrays.tensor(one.predictions, name).to(device or "cpu") for name, one in runs.items()
    }
    num_classes = len(next(iter(runs.values())).classes)
    return dataclasses.replace(_votes(predictions, labels, num_classes), runs=runs)


def _votes(predictions: Mapping[Name, torch.Tensor], labels: Labels, num_classes: int | None) -> ModelLibrary:
    """Return the library of predictions [N] by model; the last of its columns stands for no vote."""
    first = next(iter(predictions.values()))
    y = arrays.labels(labels, num_classes, len(first)).to(first.device)
    checked = [
        arrays.optional_predictions(each, num_classes, name=f"predictions of {name}") for name, each in predictions.items()
    ]
    classes = num_classes or 1 + max(int(each.max()) for each in (y, *checked))
    missing = {str(name): int((each < 0).sum()) for name, each in zip(predictions, checked, strict=True)}
    return ModelLibrary(
        source=_VoteSource([torch.where(each < 0, classes, each) for each in checked], classes),
        names=tuple(predictions),
        labels=y,
        num_classes=classes + 1,
        dtype=torch.float32,
        kind="predictions",
        without_prediction={name: count for name, count in missing.items() if count},
    )


def _precision(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    return torch.float64 if torch.float64 in set(dtypes) else torch.float32


@dataclass(frozen=True, eq=False)
class _ArraySource:
    """Probabilities [N, K] by model, in memory, in a mapped file or on an accelerator."""

    tensors: list[torch.Tensor]

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        return take_rows(self.tensors[model], rows)

    def entries(self, model: int, rows: Any, classes: Any) -> Any:
        values = self.tensors[model]
        return fast_view(values[rows, classes]) if values.dtype == torch.bfloat16 else fast_view(values)[rows, classes]


@dataclass(frozen=True, eq=False)
class _OutputsSource:
    """Outputs of any kind, memory-mapped or not; rows become calibrated probabilities as they are read."""

    outputs: list[Outputs]
    device: torch.device

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        one = self.outputs[model]
        return arrays.tensor(one.probabilities_at(rows), one.name).to(self.device)

    def entries(self, model: int, rows: Any, classes: Any) -> None:
        return None  # one probability of calibrated logits takes its whole row


@dataclass(frozen=True, eq=False)
class _VoteSource:
    """Predicted classes [N] by model, each of them one vote; class K stands for no prediction."""

    predictions: list[torch.Tensor]
    classes: int

    def rows(self, model: int, rows: Rows) -> torch.Tensor:
        predicted = self.predictions[model][rows]
        votes = torch.zeros((len(predicted), self.classes + 1), device=predicted.device)
        votes.scatter_(1, predicted[:, None], 1)
        votes[:, -1] = NO_VOTE
        return votes

    def entries(self, model: int, rows: Any, classes: Any) -> Any:
        voted = fast_view(self.predictions[model])[rows] == classes
        return backend(voted).where(classes == self.classes, NO_VOTE, 1.0 * voted)
