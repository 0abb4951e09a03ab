"""What a model said about a dataset: one `Outputs` a model, and `Runs`, several of them on the same examples."""

import dataclasses
import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from zoo.cards import names
from zoo.cards.card import Card
from zoo.core import arrays, limits
from zoo.core.arrays import Array
from zoo.core.columns import Column
from zoo.core.text import check_unique as check_unique
from zoo.core.types import Link
from zoo.errors import InputError, UnknownName
from zoo.outputs.alignment import align as align

Kind = Literal["logits", "probabilities", "predictions", "embeddings"]


@dataclass(frozen=True, eq=False)
class Outputs:
    """Predictions, and where they were kept embeddings, of one model on N examples.

    `values` holds what `kind` declares: logits or probabilities [N, K], predicted classes [N], or, for a model that has no
    head, just the embeddings [N, D]. `ids` name the rows; two outputs are compared only row by same id and class by same
    name. A model may be run on a dataset of other classes than its own, to judge its features: then `labels` speak of the
    dataset's classes, and `require_labels` refuses to score predictions with them. Made by `from_arrays`, by importing a
    file, or by `zoo.run`, where columns are memory-mapped.

    >>> outputs = Outputs.from_arrays("a", logits=[[2.0, 0.5], [0.1, 3.0]], labels=[0, 1], classes=["cat", "dog"])
    >>> outputs.predictions().tolist(), outputs.accuracy
    ([0, 1], 1.0)
    """

    name: str
    kind: Kind
    values: Column
    ids: np.ndarray
    classes: tuple[str, ...]
    labels: np.ndarray | None = None  # [N] int64, the dataset's, as indices into `label_classes`, or `classes` without it
    features: Column | None = None
    link: Link = "softmax"
    temperature: float | None = None  # None until calibrated, also for outputs from disk; `calibration` says by what
    card: Card | None = None
    dataset: str | None = None
    path: Path | None = None
    details: dict[str, Any] = field(default_factory=dict)  # manifest: key, dataset, undecodable images
    targets: np.ndarray | None = None  # [N, K] of 0, 1, and -1 to ignore: the classes of each example of a multi-label set
    label_classes: tuple[str, ...] | None = None  # the dataset's classes, where the model predicts others

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
        targets: Any = None,
    ) -> "Outputs":
        """Outputs from arrays in memory: one of `logits`, `probabilities` [N, K], `predictions` [N], or `embeddings` alone.

        `ids` default to the row numbers, `classes` to the class numbers. Everything is checked: rows that are not
        finite or not distributions, labels out of range, lengths that differ, ids or classes given twice.
        """
        given: dict[Kind, Any] = {"logits": logits, "probabilities": probabilities, "predictions": predictions}
        present: list[Kind] = [kind for kind, value in given.items() if value is not None]
        if len(present) > 1 or (not present and embeddings is None):
            found = " and ".join(present) or "none"
            raise InputError(
                f"{name}: expected exactly one of logits, probabilities, predictions, embeddings; found {found}"
            )
        if temperature is not None and not 0 < temperature < float("inf"):
            raise InputError(f"{name}: temperature is {temperature}, expected a finite number above 0")
        features = None if embeddings is None else _embeddings(embeddings, name)
        kind = present[0] if present else "embeddings"
        if kind == "predictions":
            checked = arrays.optional_predictions(predictions, name=f"{name} predictions")
        elif kind == "embeddings":
            checked = arrays.tensor(embeddings, f"{name} embeddings")
        else:
            checked = getattr(arrays, kind)(given[kind], f"{name} {kind}")
        rows = len(checked)
        if rows == 0:
            raise InputError(f"{name} {kind}: expected at least one row, found none")
        if features is not None and len(features) != rows:
            raise InputError(f"{name} embeddings: expected {rows} rows, one per example, found {len(features)}")
        wide = kind in ("logits", "probabilities")
        if classes is None:
            seen = checked if kind == "predictions" else checked.new_zeros(0, dtype=torch.int64)
            width = checked.shape[1] if wide else _observed_classes(seen, labels, targets, name)
            classes = [str(k) for k in range(width)]
        classes = tuple(str(c) for c in classes)
        check_unique(classes, f"{name} classes")
        if wide and len(classes) != checked.shape[1]:
            raise InputError(f"{name}: {len(classes)} class names for {checked.shape[1]} columns of {kind}")
        if kind == "predictions":
            arrays.optional_predictions(checked, len(classes), name=f"{name} predictions")
        y = None if labels is None else arrays.labels(labels, len(classes), rows, f"{name} labels").cpu().numpy()
        ids = np.array([str(i) for i in (range(rows) if ids is None else ids)])
        if len(ids) != rows:
            raise InputError(f"{name}: {len(ids)} ids for {rows} rows")
        check_unique(ids.tolist(), f"{name} ids")
        values = features if not present else Column([arrays.like_input(checked, given[kind])])
        assert values is not None  # one of the two was given
        return cls(
            name, kind, values, ids, classes, y, features, link, temperature, card, dataset,
            targets=None if targets is None else _targets(targets, rows, len(classes), name),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self.values.shape)
        return f"<Outputs {self.name}: {self.kind} {shape}, dataset {self.dataset or 'unnamed'}>"

    @property
    def logits(self) -> Array:
        """[N, K]. For stored probabilities their logarithm, which is a logit up to a constant a row."""
        if self.kind == "logits":
            return self.values.array()
        if self.kind == "probabilities":
            return _log(self.values.array())
        raise self._lacking("logits or probabilities")

    @property
    def calibration(self) -> str:
        """What the temperature was fitted on, in words: `none` for outputs that nobody calibrated."""
        if self.temperature is None:
            return "none"
        record = self.details.get("calibration") or {"split": "given"}
        return f"{record['rows']:,} rows of {record['split']}" if "rows" in record else str(record["split"])

    @property
    def embeddings(self) -> Array:
        """[N, D], loaded where they lie in several files."""
        return self.embedding_column.array()

    @property
    def embedding_column(self) -> Column:
        """[N, D] to be read some rows at a time, as probes and class separation do."""
        if self.features is None:
            raise InputError(f"{self.name}: no embeddings are stored; `zoo run` makes them, `zoo import` takes them")
        return self.features

    def probabilities(self, rows: Any = slice(None)) -> Array:
        """[N, K] through the model's link, at its temperature if it was calibrated, else at 1."""
        if self.kind in ("predictions", "embeddings"):
            raise self._lacking("logits or probabilities")
        values = self.values[rows]
        if self.kind == "probabilities" and self.temperature is None:
            return values
        from zoo.core.links import to_probabilities

        if self.kind == "probabilities":
            return to_probabilities(_log(values), self.temperature or 1.0, "softmax", name=self.name, ids=self.ids[rows])
        return to_probabilities(values, self.temperature or 1.0, self.link, name=self.name, ids=self.ids[rows])

    def predictions(self) -> np.ndarray:
        """[N] top-1 classes; the first of equal maxima. The same at every temperature."""
        if self.kind == "embeddings":
            raise self._lacking("predictions")
        if self.kind == "predictions":
            return arrays.tensor(self.values.array(), self.name).cpu().numpy()
        parts = [arrays.tensor(chunk, self.name).argmax(1).cpu() for _, chunk in self.values.chunks(8192)]
        return torch.cat(parts).numpy()

    def require_labels(self) -> np.ndarray:
        """[N] true classes as indices into `classes`, to score predictions with; an error where there are none."""
        if self.labels is None and self.targets is not None:
            raise InputError(f"{self.name}: several classes per example ({self.dataset}); this measure needs exactly one")
        if self.labels is None:
            raise InputError(f"{self.name}: no labels are stored; this measure needs them")
        if self.label_classes is not None:
            raise InputError(
                f"{self.name}: predicts {len(self.classes)} classes that are not the {len(self.label_classes)} of "
                f"{self.dataset or 'the dataset'} ({self.label_classes[0]}, ...); probe its embeddings or choose another"
            )
        return self.labels

    def _lacking(self, needed: str) -> InputError:
        return InputError(f"{self.name}: only {self.kind} are stored, this needs {needed}; choose a model that has them")

    @property
    def accuracy(self) -> float:
        return float((self.predictions() == self.require_labels()).mean())

    def correct(self, k: int = 1) -> np.ndarray:
        """[N] whether the true class is among the `k` first; of equal ones the earlier class is first, as in `predictions`.

        >>> three = Outputs.from_arrays("a", logits=[[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], labels=[1, 2])
        >>> three.correct().tolist(), three.correct(2).tolist(), three.top_k_accuracy(2)
        ([False, False], [True, False], 0.5)
        """
        y = self.require_labels()
        if self.kind == "embeddings" or (self.kind == "predictions" and k != 1):
            raise self._lacking("predictions" if self.kind == "embeddings" else "logits or probabilities")
        if not isinstance(k, int) or not 1 <= k <= len(self.classes):
            raise InputError(f"{self.name}: k is {k!r}, expected a whole number from 1 to its {len(self.classes)} classes")
        if k == 1:
            return self.predictions() == y
        found = []
        for span, chunk in self.values.chunks(8192):
            values = arrays.tensor(chunk, self.name)
            label = torch.as_tensor(y[span], device=values.device)[:, None]
            own = values.gather(1, label)
            earlier = torch.arange(values.shape[1], device=values.device) < label
            found.append((((values > own) | ((values == own) & earlier)).sum(1) < k).cpu())
        return torch.cat(found).numpy()

    def top_k_accuracy(self, k: int) -> float:
        """The share of examples whose true class is among the `k` first."""
        return float(self.correct(k).mean())

    @property
    def top5(self) -> float | None:
        """Top-5 accuracy; None where just the first is known, or five are all the classes there are."""
        return self.top_k_accuracy(5) if self.kind != "predictions" and len(self.classes) > 5 else None

    def select(self, rows: Any) -> "Outputs":
        """The outputs of some rows: a slice, indices or a mask."""
        rows = np.arange(len(self))[np.asarray(rows.cpu()) if isinstance(rows, torch.Tensor) else rows]
        return dataclasses.replace(
            self,
            values=Column([self.values[rows]]),
            features=None if self.features is None else Column([self.features[rows]]),
            ids=self.ids[rows],
            labels=None if self.labels is None else self.labels[rows],
            targets=None if self.targets is None else self.targets[rows],
        )


class Runs(Mapping[str, Outputs]):
    """Outputs of several models, by name, in order.

    >>> a = Outputs.from_arrays("a", predictions=[0, 1], labels=[0, 1], ids=["cat.png", "dog.png"])
    >>> b = Outputs.from_arrays("b", predictions=[1, 1], labels=[1, 0], ids=["dog.png", "cat.png"])
    >>> runs = Runs([a, b]).aligned()
    >>> runs.labels.tolist(), {name: outputs.predictions().tolist() for name, outputs in runs.items()}
    ([0, 1], {'a': [0, 1], 'b': [1, 1]})
    """

    def __init__(self, outputs: Iterable[Outputs] | Mapping[str, Outputs]) -> None:
        items = list(outputs.values() if isinstance(outputs, Mapping) else outputs)
        check_unique([o.name for o in items], "runs")
        self._outputs = {o.name: o for o in items}

    def __getitem__(self, name: str) -> Outputs:
        full = names.among(name, self._outputs)
        if full is None:
            raise UnknownName(f"no outputs of {name!r} among these runs{names.near(name, self._outputs)}")
        return self._outputs[full]

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
        if not self._outputs:
            raise InputError("expected at least one model's outputs, found none")
        first, *rest = self.values()
        y = first.require_labels()
        for other in rest:
            if other.labels is not None and not np.array_equal(other.labels, y):
                raise InputError(f"{first.name} and {other.name}: labels differ; call .aligned() first")
        return y


def _embeddings(values: Any, name: str) -> Column:
    x = arrays.tensor(values, f"{name} embeddings")
    if x.ndim != 2 or x.shape[1] == 0:
        raise InputError(f"{name} embeddings: expected shape [N, D], found {list(x.shape)}")
    if not x.is_floating_point():
        raise InputError(f"{name} embeddings: expected floating-point numbers, found dtype {x.dtype}")
    bad = ~torch.isfinite(x).all(1)
    if bad.any():
        raise InputError(f"{name} embeddings: row {int(bad.nonzero()[0])} is not finite ({int(bad.sum())} such rows)")
    return Column([arrays.like_input(x, values)])


def _targets(values: Any, rows: int, num_classes: int, name: str) -> np.ndarray:
    t = arrays.tensor(values, f"{name} targets").cpu()
    if tuple(t.shape) != (rows, num_classes) or not ((t == 0) | (t == 1) | (t == -1)).all():
        raise InputError(
            f"{name} targets: expected zeros and ones (-1: ignored) of shape [{rows}, {num_classes}], found {list(t.shape)}"
        )
    return t.to(torch.int8).numpy()


def _observed_classes(predictions: torch.Tensor, labels: Any, targets: Any, name: str) -> int:
    if targets is not None:
        return int(np.shape(targets)[1])
    seen = [predictions] if labels is None else [predictions, arrays.labels(labels)]
    highest = max((int(part.max()) for part in seen if len(part)), default=-1)
    limits.check_classes(highest, name)
    return highest + 1


def _log(p: Array) -> Array:
    if isinstance(p, torch.Tensor):
        return p.log()
    with np.errstate(divide="ignore"):
        return np.log(p)
