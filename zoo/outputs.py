"""What a model said about a dataset: one `Outputs` a model, and `Runs`, several of them on the same examples."""

import dataclasses
import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from zoo import arrays
from zoo.arrays import Array
from zoo.cards import Card, Link
from zoo.columns import Column
from zoo.errors import InputError, UnknownName

Kind = Literal["logits", "probabilities", "predictions"]


@dataclass(frozen=True, eq=False)
class Outputs:
    """Predictions, and where they were kept embeddings, of one model on N examples.

    `values` holds what `kind` declares: logits or probabilities [N, K], or predicted classes [N]. `ids` name the rows;
    two outputs are compared only row by same id and class by same name. Made by `from_arrays`, by importing a file, or
    by `zoo.run`, where the columns are memory-mapped.
    """

    name: str
    kind: Kind
    values: Column
    ids: np.ndarray
    classes: tuple[str, ...]
    labels: np.ndarray | None = None  # [N] int64 in the order of `classes`
    features: Column | None = None
    link: Link = "softmax"
    temperature: float | None = None
    card: Card | None = None
    dataset: str | None = None
    path: Path | None = None
    details: dict[str, Any] = field(default_factory=dict)  # manifest: fingerprints, precision, versions

    @classmethod
    def from_arrays(
        cls,
        name: str,
        logits: Any = None,
        probabilities: Any = None,
        predictions: Any = None,
        labels: Any = None,
        embeddings: Any = None,
        ids: Any = None,
        classes: Sequence[str] | None = None,
        link: Link = "softmax",
        temperature: float | None = None,
        card: Card | None = None,
        dataset: str | None = None,
    ) -> "Outputs":
        """Outputs from arrays in memory; exactly one of `logits`, `probabilities`, `predictions` is given.

        `ids` default to the row numbers, `classes` to the class numbers. Everything is checked: rows that are not
        finite or not distributions, labels out of range, lengths that differ, ids or classes given twice.
        """
        given: dict[Kind, Any] = {"logits": logits, "probabilities": probabilities, "predictions": predictions}
        present: list[Kind] = [kind for kind, value in given.items() if value is not None]
        if len(present) != 1:
            raise InputError(f"{name}: expected exactly one of logits, probabilities, predictions, found {len(present)}")
        kind = present[0]
        if kind == "predictions":
            checked = arrays.predictions(given[kind], name=f"{name} predictions")
        else:
            checked = getattr(arrays, kind)(given[kind], f"{name} {kind}")
        rows = len(checked)
        if classes is None:
            width = checked.shape[1] if kind != "predictions" else _observed_classes(checked, labels)
            classes = [str(k) for k in range(width)]
        classes = tuple(str(c) for c in classes)
        check_unique(classes, f"{name} classes")
        if kind != "predictions" and len(classes) != checked.shape[1]:
            raise InputError(f"{name}: {len(classes)} class names for {checked.shape[1]} columns of {kind}")
        if kind == "predictions":
            arrays.labels(checked, len(classes), name=f"{name} predictions")
        y = None if labels is None else arrays.labels(labels, len(classes), rows, f"{name} labels").cpu().numpy()
        ids = np.array([str(i) for i in (range(rows) if ids is None else ids)])
        if len(ids) != rows:
            raise InputError(f"{name}: {len(ids)} ids for {rows} rows")
        check_unique(ids, f"{name} ids")
        features = None
        if embeddings is not None:
            x = arrays.tensor(embeddings, f"{name} embeddings")
            if x.ndim != 2 or len(x) != rows:
                raise InputError(f"{name} embeddings: expected shape [{rows}, D], found {list(x.shape)}")
            features = Column([arrays.give_back(x, embeddings)])
        values = Column([arrays.give_back(checked, given[kind])])
        return cls(name, kind, values, ids, classes, y, features, link, temperature, card, dataset)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        width = f" x {len(self.classes)}" if self.kind != "predictions" else ""
        return f"<Outputs {self.name}: {self.kind} {len(self)}{width}, dataset {self.dataset or 'unnamed'}>"

    @property
    def logits(self) -> Array:
        """[N, K]. For stored probabilities their logarithm, which is a logit up to a constant a row."""
        if self.kind == "logits":
            return self.values.array()
        if self.kind == "probabilities":
            p = self.values.array()
            return torch.log(p) if isinstance(p, torch.Tensor) else _log(p)
        raise InputError(f"{self.name}: only predictions are stored; this needs logits or probabilities")

    @property
    def embeddings(self) -> Array:
        """[N, D]."""
        if self.features is None:
            raise InputError(f"{self.name}: no embeddings are stored; run the model with embeddings=True")
        return self.features.array()

    def probabilities(self, rows: Any = slice(None)) -> Array:
        """[N, K] through the model's link, at its stored temperature if it was calibrated."""
        if self.kind == "predictions":
            raise InputError(f"{self.name}: only predictions are stored; this needs logits or probabilities")
        values = self.values[rows]
        if self.kind == "probabilities" and self.temperature is None:
            return values
        from zoo.calibration import to_probabilities

        z = arrays.tensor(values, self.name)
        z = z.log() if self.kind == "probabilities" else z
        link = self.link if self.kind == "logits" else "softmax"
        return arrays.give_back(to_probabilities(z, self.temperature or 1.0, link), values)  # type: ignore[no-any-return]

    def predictions(self) -> np.ndarray:
        """[N] top-1 classes; the first of equal maxima. The same at every temperature."""
        if self.kind == "predictions":
            return arrays.tensor(self.values.array(), self.name).cpu().numpy()
        parts = [arrays.tensor(chunk, self.name).argmax(1).cpu() for _, chunk in self.values.chunks(8192)]
        return torch.cat(parts).numpy()

    def require_labels(self) -> np.ndarray:
        if self.labels is None:
            raise InputError(f"{self.name}: no labels are stored; this measure needs them")
        return self.labels

    @property
    def accuracy(self) -> float:
        return float((self.predictions() == self.require_labels()).mean())

    def select(self, rows: Any) -> "Outputs":
        """The outputs of some rows: a slice, indices or a mask."""
        rows = np.arange(len(self))[rows]
        return dataclasses.replace(
            self,
            values=Column([self.values[rows]]),
            features=None if self.features is None else Column([self.features[rows]]),
            ids=self.ids[rows],
            labels=None if self.labels is None else self.labels[rows],
        )


class Runs(Mapping[str, Outputs]):
    """Outputs of several models, by name, in order."""

    def __init__(self, outputs: Iterable[Outputs] | Mapping[str, Outputs]) -> None:
        items = list(outputs.values() if isinstance(outputs, Mapping) else outputs)
        check_unique([o.name for o in items], "runs")
        self._outputs = {o.name: o for o in items}

    def __getitem__(self, name: str) -> Outputs:
        if name not in self._outputs:
            from zoo.names import near

            raise UnknownName(f"no outputs of {name!r} among these runs{near(name, self._outputs)}")
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def __repr__(self) -> str:
        return f"<Runs: {len(self)} models: {', '.join(self._outputs)}>"

    @property
    def names(self) -> list[str]:
        return list(self._outputs)

    def matching(self, *patterns: str) -> "Runs":
        """The runs whose name matches any of the patterns, in the order of these runs."""
        return Runs(o for o in self.values() if any(fnmatch.fnmatchcase(o.name, p) for p in patterns))

    def aligned(self) -> "Runs":
        """The same runs with rows in one order (by id) and columns in one order (by class name), or an error."""
        return Runs(align(list(self.values())))

    def select(self, rows: Any) -> "Runs":
        return Runs(o.select(rows) for o in self.values())

    @property
    def labels(self) -> np.ndarray:
        """The labels all runs share; the runs must be aligned."""
        first, *rest = self.values()
        y = first.require_labels()
        for other in rest:
            if other.labels is not None and not np.array_equal(other.labels, y):
                raise InputError(f"{first.name} and {other.name}: labels differ; call .aligned() first")
        return y


def align(outputs: Sequence[Outputs]) -> list[Outputs]:
    """Outputs on the rows and columns of the first one: matched by id and by class name, never by position.

    Different sets of ids or of classes, and labels that contradict each other, are errors.
    """
    if not outputs:
        raise InputError("expected at least one model's outputs, found none")
    first = outputs[0]
    row_of = {row_id: row for row, row_id in enumerate(first.ids)}
    aligned = [first]
    for other in outputs[1:]:
        if other.classes != first.classes:
            other = _reorder_classes(other, first)
        if not np.array_equal(other.ids, first.ids):
            missing = set(row_of) - set(other.ids.tolist())
            extra = set(other.ids.tolist()) - set(row_of)
            if missing or extra:
                example = sorted(missing or extra)[0]
                raise InputError(
                    f"{first.name} and {other.name}: different examples ({len(missing)} ids only in the first, "
                    f"{len(extra)} only in the second, e.g. {example!r}); run both on the same dataset"
                )
            position = {row_id: row for row, row_id in enumerate(other.ids)}
            other = other.select(np.array([position[row_id] for row_id in first.ids]))
        if first.labels is not None and other.labels is not None:
            wrong = np.flatnonzero(first.labels != other.labels)
            if len(wrong):
                raise InputError(
                    f"{first.name} and {other.name}: labels differ on {len(wrong)} examples, first {first.ids[wrong[0]]!r}"
                )
        if first.labels is not None and other.labels is None:
            other = dataclasses.replace(other, labels=first.labels)
        aligned.append(other)
    return aligned


def _reorder_classes(other: Outputs, first: Outputs) -> Outputs:
    missing, extra = set(first.classes) - set(other.classes), set(other.classes) - set(first.classes)
    if missing or extra:
        example = sorted(missing or extra)[0]
        raise InputError(
            f"{first.name} and {other.name}: different classes ({len(first.classes)} and {len(other.classes)}; "
            f"{len(missing)} only in the first, {len(extra)} only in the second, e.g. {example!r})"
        )
    column = {name: k for k, name in enumerate(other.classes)}
    order = np.array([column[name] for name in first.classes])  # new column -> old column
    back = np.argsort(order)  # old class index -> new
    if other.kind == "predictions":
        values = Column([back[np.asarray(other.predictions())]])
    else:
        whole = other.values.array()
        values = Column([whole[:, torch.from_numpy(order)] if isinstance(whole, torch.Tensor) else whole[:, order]])
    labels = None if other.labels is None else back[other.labels]
    return dataclasses.replace(other, values=values, classes=first.classes, labels=labels)


def check_unique(names: Iterable[str], where: str) -> None:
    """An error that names the first entry given twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{where}: {name!r} is given twice")
        seen.add(name)


def _observed_classes(predictions: torch.Tensor, labels: Any) -> int:
    most = int(predictions.max()) if len(predictions) else -1
    if labels is not None and len(labels):
        most = max(most, int(arrays.labels(labels).max()))
    return most + 1


def _log(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(p)  # type: ignore[no-any-return]
