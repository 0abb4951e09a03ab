"""`Outputs` of one model on a dataset, and `Runs`: outputs of several models on the same examples."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from zoo.cards import names
from zoo.cards.card import Card
from zoo.cards.selection import select, suggest
from zoo.core import arrays, checks, hooks, limits
from zoo.core.arrays import Array
from zoo.core.backend import backend, is_floating, is_tensor, pick
from zoo.core.columns import Column
from zoo.core.text import check_unique as check_unique
from zoo.core.types import Link
from zoo.errors import InputError, UnknownName
from zoo.outputs.alignment import align as align
from zoo.outputs.alignment import common_rows
from zoo.outputs.kinds import Kind as Kind

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

_CHUNK = 8192  # rows read at a time


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of one model on N examples: logits, probabilities or predictions, and maybe embeddings.

    Data are attributes: `logits`, `probabilities`, `predictions`, `labels`, `embeddings`, `ids`. Stored outputs are
    memory-mapped. Two models are compared by example id and class name, never by position. A model may be run on a dataset
    with other classes than its own, to judge its embeddings; then `labels` are indices into `label_classes`, and
    `require_labels` refuses to score predictions with them.

    >>> outputs = Outputs.from_arrays("a", logits=[[2.0, 0.5], [0.1, 3.0]], labels=[0, 1], classes=["cat", "dog"])
    >>> outputs.predictions.tolist(), outputs.accuracy
    ([0, 1], 1.0)
    """

    name: str
    kind: Kind  # what `values` holds
    values: Column  # logits or probabilities [N, K], predictions [N], or embeddings [N, D] of a model without a head
    ids: np.ndarray  # [N] texts
    classes: tuple[str, ...]
    labels: np.ndarray | None = None  # [N] int64, indices into `label_classes` if that is given, else into `classes`
    embeddings: Column | None = None  # [N, D], readable some rows at a time; `np.asarray` loads all of them
    link: Link = "softmax"
    temperature: float | None = None  # None if not calibrated
    card: Card | None = None
    dataset: str | None = None
    path: Path | None = None
    details: dict[str, Any] = field(default_factory=dict)  # from the manifest: key, dataset, undecodable images
    targets: np.ndarray | None = None  # [N, K] of 0, 1 and -1 (ignored): classes of each example of a multi-label dataset
    label_classes: tuple[str, ...] | None = None  # the dataset's classes, if the model predicts others
    row_scale: np.ndarray | None = None  # [N] factors of cross-fitted temperatures that `values` contain already

    @classmethod
    def from_arrays(
        cls,
        name: str,
        logits: "ArrayLike | Array | None" = None,
        probabilities: "ArrayLike | Array | None" = None,
        predictions: "ArrayLike | Array | None" = None,
        labels: "ArrayLike | Array | None" = None,
        embeddings: "ArrayLike | Array | None" = None,
        ids: Iterable[object] | None = None,
        classes: Sequence[str] | None = None,
        link: Link = "softmax",
        temperature: float | None = None,
        card: Card | None = None,
        dataset: str | None = None,
        targets: "ArrayLike | Array | None" = None,
        label_classes: Sequence[str] | None = None,
    ) -> "Outputs":
        """Return outputs made from arrays in memory, after checking all of them.

        Args:
            name: the model's name.
            logits: [N, K]. Exactly one of logits, probabilities and predictions is given, or embeddings alone.
            probabilities: [N, K].
            predictions: [N] class indices; -1 for an example without a prediction.
            labels: [N] true class indices.
            embeddings: [N, D].
            ids: [N] names of the examples; default: row numbers.
            classes: [K] class names; default: class numbers.
            link: how logits become probabilities.
            temperature: divides the logits, if the outputs are calibrated already.
            card: the model's card.
            dataset: spec of the dataset.
            targets: [N, K] of 0, 1 and -1 (ignored), for a multi-label dataset.
            label_classes: [L] classes of the dataset, if the model predicts others; labels and targets then refer to these.
        """
        scores: dict[Kind, Any] = {"logits": logits, "probabilities": probabilities, "predictions": predictions}
        present: list[Kind] = [kind for kind, value in scores.items() if value is not None]
        if len(present) > 1 or (not present and embeddings is None):
            found = " and ".join(present) or "none"
            raise InputError(
                f"found {found}", where=name, expected="exactly one of logits, probabilities, predictions, embeddings"
            )
        if temperature is not None and not 0 < temperature < float("inf"):
            raise InputError(where=name, argument="temperature", expected="a finite number above 0", found=temperature)
        kind: Kind = present[0] if present else "embeddings"
        given = scores.get(kind, embeddings)
        try:
            if link not in get_args(Link):
                raise InputError(argument="link", expected=" or ".join(get_args(Link)), found=link)
            checked = _CHECKS[kind](given, kind)
            values = Column([_like(checked, given)])
            column: Column | None = values
            if kind != "embeddings":
                column = None if embeddings is None else Column([_like(_embeddings(embeddings, "embeddings"), embeddings)])
            rows = len(checked)
            if rows == 0:
                raise InputError(argument=kind, expected="at least one row", found=0)
            if column is not None and len(column) != rows:
                raise InputError(argument="embeddings", expected=f"{rows} rows, one per example", found=len(column))
            classes = _classes(classes, kind, checked, labels, targets)
            dataset_classes = classes if label_classes is None else tuple(map(str, label_classes))
            check_unique(dataset_classes, "label_classes")
            if kind == "predictions":
                checks.optional_predictions(checked, len(classes))
            y = None if labels is None else arrays.to_numpy(checks.labels(labels, len(dataset_classes), rows))
            return cls(
                name,
                kind,
                values=values,
                ids=_ids(ids, rows),
                classes=classes,
                labels=y,
                embeddings=column,
                link=link,
                temperature=temperature,
                card=card,
                dataset=dataset,
                targets=None if targets is None else _targets(targets, rows, len(dataset_classes)),
                label_classes=None if label_classes is None else dataset_classes,
            )
        except InputError as error:
            error.inside(name)
            raise

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self.values.shape)
        return f"<Outputs {self.name}: {self.kind} {shape}, dataset {self.dataset or 'unnamed'}>"

    @property
    def logits(self) -> Array:
        """[N, K]. For stored probabilities their logarithm, which equals a logit up to a constant per row."""
        if self.kind == "logits":
            return self.values.array()
        if self.kind == "probabilities":
            return _log(self.values.array())
        raise self._lacks("logits or probabilities")

    @property
    def calibration(self) -> str:
        """What the temperature was fitted on, in words; `none` for outputs without a temperature."""
        if self.temperature is None:
            return "none"
        record = self.details.get("calibration") or {"split": "given"}
        return f"{record['rows']:,} rows of {record['split']}" if "rows" in record else str(record["split"])

    def require_embeddings(self) -> Column:
        """Return the embeddings [N, D], or raise an error if none are stored."""
        if self.embeddings is None:
            raise InputError(
                f"no embeddings are stored for {self.dataset or 'its examples'}",
                where=self.name,
                hint="`zoo run` computes them, `zoo import` reads them from files",
            )
        return self.embeddings

    @property
    def probabilities(self) -> Array:
        """[N, K] through the model's link, at its temperature if it was calibrated, else at 1."""
        return self.probabilities_at(slice(None))

    def probabilities_at(self, rows: Any) -> Array:
        """Return the probabilities of some rows: a slice, indices or a mask."""
        if self.kind in ("predictions", "embeddings"):
            raise self._lacks("logits or probabilities")
        values = self.values[rows]
        if self.kind == "probabilities" and self.temperature is None:
            return values
        from zoo.core.links import to_probabilities

        # NumPy or torch is chosen by the number of all rows, so that a row's probabilities do not depend on the selection.
        z = arrays.by_size(checks.array(values, self.name), math.prod(self.values.shape))
        link = self.link
        if self.kind == "probabilities":
            z, link = _log(z), "softmax"
        p = to_probabilities(z, self.temperature or 1.0, link, name=self.name, ids=self.ids[rows])
        return arrays.like_input(p, values)

    @property
    def predictions(self) -> np.ndarray:
        """[N] top-1 classes, the first of equal maxima; -1 where there is none. They do not depend on the temperature."""
        if self.kind == "embeddings":
            raise self._lacks("predictions")
        if self.kind == "predictions":
            return arrays.to_numpy(checks.array(self.values.array(), self.name))
        chunks = (checks.array(chunk, self.name) for _, chunk in self.values.chunks(_CHUNK))
        return np.concatenate([arrays.to_numpy(chunk.argmax(1)) for chunk in chunks])

    def require_labels(self) -> np.ndarray:
        """Return the true classes [N] as indices into `classes`, or raise an error if predictions cannot be scored."""
        if self.labels is None and self.targets is not None:
            raise InputError(
                f"{self.dataset} has several classes per example; this measure needs exactly one", where=self.name
            )
        if self.labels is None:
            raise InputError(
                "no labels are stored; this measure needs them",
                where=self.name,
                hint="Import the outputs again with labels, or labelled outputs of another model on the same examples",
            )
        if self.label_classes is not None:
            raise InputError(
                f"predicts {len(self.classes)} classes that are not the {len(self.label_classes)} of "
                f"{self.dataset or 'the dataset'} ({self.label_classes[0]}, ...)",
                where=self.name,
                hint="Probe its embeddings, or choose another model",
            )
        return self.labels

    def _lacks(self, needed: str) -> InputError:
        return InputError(f"only {self.kind} are stored; this needs {needed}", where=self.name)

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy, between 0 and 1."""
        return float(self.correct.mean())

    @property
    def correct(self) -> np.ndarray:
        """[N] whether each prediction is the label."""
        return self.predictions == self.require_labels()

    def top_k_correct(self, k: int) -> np.ndarray:
        """Return [N] whether the label is among the k classes with the highest scores; of equal scores the first class wins.

        >>> three = Outputs.from_arrays("a", logits=[[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], labels=[1, 2])
        >>> three.correct.tolist(), three.top_k_correct(2).tolist(), three.top_k_accuracy(2)
        ([False, False], [True, False], 0.5)
        """
        y = self.require_labels()
        if self.kind == "embeddings" or (self.kind == "predictions" and k != 1):
            raise self._lacks("predictions" if self.kind == "embeddings" else "logits or probabilities")
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= len(self.classes):
            expected = f"a whole number from 1 to the number of classes, {len(self.classes)}"
            raise InputError(where=self.name, argument="k", expected=expected, found=k)
        if k == 1:
            return self.correct
        found = []
        for span, chunk in self.values.chunks(_CHUNK):
            values = checks.array(chunk, self.name)
            label = arrays.like(y[span], values)
            own = pick(values, label)[:, None]
            earlier = arrays.like(np.arange(values.shape[1]), values) < label[:, None]
            found.append(arrays.to_numpy(((values > own) | ((values == own) & earlier)).sum(1) < k))
        return np.concatenate(found)

    def top_k_accuracy(self, k: int) -> float:
        """Return the fraction of examples whose label is among the k highest-scored classes."""
        return float(self.top_k_correct(k).mean())

    @property
    def top5(self) -> float | None:
        """Top-5 accuracy; None if there are predictions only, or at most five classes."""
        return self.top_k_accuracy(5) if self.kind != "predictions" and len(self.classes) > 5 else None

    def select(self, rows: Any) -> "Outputs":
        """Return the outputs of some rows: a slice, indices or a mask."""
        rows = np.arange(len(self))[arrays.to_numpy(rows) if is_tensor(rows) else rows]
        return dataclasses.replace(
            self,
            values=Column([self.values[rows]]),
            embeddings=None if self.embeddings is None else Column([self.embeddings[rows]]),
            ids=self.ids[rows],
            labels=None if self.labels is None else self.labels[rows],
            targets=None if self.targets is None else self.targets[rows],
            row_scale=None if self.row_scale is None else self.row_scale[rows],
        )

    def save(self, replace: bool = False, home: str | Path | None = None) -> "Outputs":
        """Store the outputs, so that every function and command finds them by name, and return the stored ones.

        Args:
            replace: whether to replace outputs stored under this name for this dataset.
            home: where to store them; default `ZOO_HOME`.
        """
        stored: Outputs = hooks.save_outputs(self, replace=replace, home=home)
        return stored


class Runs(Mapping[str, Outputs]):
    """Outputs of several models by name, in order.

    >>> a = Outputs.from_arrays("a", predictions=[0, 1], labels=[0, 1], ids=["cat.png", "dog.png"])
    >>> b = Outputs.from_arrays("b", predictions=[1, 1], labels=[1, 0], ids=["dog.png", "cat.png"])
    >>> runs = Runs([a, b]).aligned()
    >>> runs.labels.tolist(), {name: outputs.predictions.tolist() for name, outputs in runs.items()}
    ([0, 1], {'a': [0, 1], 'b': [1, 1]})
    """

    def __init__(self, outputs: Iterable[Outputs] | Mapping[str, Outputs]) -> None:
        items = list(outputs.values() if isinstance(outputs, Mapping) else outputs)
        check_unique([o.name for o in items], "runs")
        self._outputs = {o.name: o for o in items}

    def __getitem__(self, name: str) -> Outputs:
        full = names.among(name, self._outputs)
        if full is None:
            raise UnknownName(kind="model among these runs", name=name, suggestions=suggest(name, self._outputs))
        return self._outputs[full]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and names.among(name, self._outputs) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def __repr__(self) -> str:
        return f"<Runs: {len(self)} models: {', '.join(self._outputs)}>"

    def _repr_html_(self) -> str:
        import pandas as pd

        from zoo.core import notebook

        columns = ["model", "dataset", "kind", "examples", "temperature", "accuracy"]
        rows = [
            [
                row["model"], row["dataset"], row["kind"], f"{row['examples']:,}",
                None if pd.isna(row["temperature"]) else f"{row['temperature']:.3g}",
                None if pd.isna(row["accuracy"]) else [row["accuracy"]],
            ]
            for row in Runs.to_frame(self).to_dict(orient="records")
        ]  # fmt: skip
        return f"<p>{len(self)} models</p>" + notebook.table(columns, rows)

    @property
    def names(self) -> list[str]:
        """The models' names, in order."""
        return list(self._outputs)

    @property
    def cards(self) -> dict[str, Card | None]:
        """The models' cards by name; None for a model without a card."""
        return {name: outputs.card for name, outputs in self._outputs.items()}

    def subset(self, models: str | Sequence[str]) -> "Runs":
        """Return the runs of some models: names, patterns, filters or a named set, as everywhere (`zoo.cards.selection`)."""
        return Runs(self._outputs[name] for name in select(models, self.cards))

    def aligned(self) -> "Runs":
        """Return the runs with rows in one order (by id) and columns in one order (by class name).

        Runs on different examples or classes are an error; `common` keeps the examples that all of them have.
        """
        return Runs(align(list(self.values())))

    def common(self) -> "Runs":
        """Return the runs on the examples that all models have, aligned."""
        outputs = list(self.values())
        return Runs(align([one.select(rows) for one, rows in zip(outputs, common_rows(outputs), strict=True)]))

    def select(self, rows: Any) -> "Runs":
        """Return the runs on some rows: a slice, indices or a mask."""
        return Runs(o.select(rows) for o in self.values())

    @property
    def labels(self) -> np.ndarray:
        """[N] the labels that all runs share. The runs must be aligned."""
        if not self._outputs:
            raise InputError(argument="runs", expected="outputs of at least one model", found=0)
        first, *rest = self.values()
        y = first.require_labels()
        for other in rest:
            if other.labels is not None and not np.array_equal(other.labels, y):
                raise InputError(
                    "labels differ", where=f"{first.name} and {other.name}", hint="Call .aligned() on the runs first"
                )
        return y

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per model: what is stored and, where labels allow, top-1 and top-5 accuracy."""
        import pandas as pd

        rows = []
        for outputs in self.values():
            scored = outputs.labels is not None and outputs.label_classes is None and outputs.kind != "embeddings"
            rows.append(
                {
                    "model": outputs.name,
                    "dataset": outputs.dataset,
                    "kind": outputs.kind,
                    "examples": len(outputs),
                    "classes": len(outputs.classes),
                    "embeddings": None if outputs.embeddings is None else outputs.embeddings.shape[1],
                    "temperature": outputs.temperature,
                    "accuracy": outputs.accuracy if scored else None,
                    "top5": outputs.top5 if scored else None,
                }
            )
        return pd.DataFrame(rows)


def _embeddings(values: Any, name: str) -> Any:
    x = checks.array(values, name)
    if x.ndim != 2 or x.shape[1] == 0:
        raise InputError(argument=name, expected="of shape [N, D]", found=list(x.shape))
    if not is_floating(x):
        raise InputError(argument=name, expected="floating-point numbers", found=x.dtype)
    xp = backend(x)
    bad = ~xp.isfinite(x).all(1)
    if bad.any():
        row = int(xp.where(bad)[0][0])
        raise InputError(f"row {row} is not finite ({int(bad.sum())} such rows)", argument=name)
    return x


_CHECKS: dict[Kind, Callable[[Any, str], Any]] = {
    "logits": checks.logits,
    "probabilities": checks.probabilities,
    "predictions": lambda values, name: checks.optional_predictions(values, name=name),
    "embeddings": _embeddings,
}


def _like(checked: Any, given: Any) -> Array:
    """Return checked values as the caller gave them; an array that was not converted is returned itself."""
    values = arrays.like_input(checked, given)
    same = isinstance(given, np.ndarray) and given.dtype == values.dtype and given.dtype.isnative
    return np.asarray(given) if same else values


def _classes(classes: Sequence[str] | None, kind: Kind, checked: Any, labels: Any, targets: Any) -> tuple[str, ...]:
    width = checked.shape[1] if kind in ("logits", "probabilities") else None
    if classes is None:
        predicted = checked if kind == "predictions" else ()
        classes = [str(k) for k in range(_observed_classes(predicted, labels, targets) if width is None else width)]
    names = tuple(str(name) for name in classes)
    check_unique(names, "classes")
    if width is not None and len(names) != width:
        raise InputError(argument="classes", expected=f"{width} names, one per column", found=len(names))
    return names


def _ids(ids: Iterable[object] | None, rows: int) -> np.ndarray:
    is_text = isinstance(ids, np.ndarray) and ids.dtype.kind == "U"
    row_ids = np.asarray(ids) if is_text else np.array([str(i) for i in (range(rows) if ids is None else ids)])
    if len(row_ids) != rows:
        raise InputError(argument="ids", expected=f"{rows} ids, one per example", found=len(row_ids))
    texts = row_ids.tolist()
    if len(set(texts)) < rows:
        check_unique(texts, "ids")
    return row_ids


def _targets(values: Any, rows: int, num_classes: int) -> np.ndarray:
    t = arrays.to_numpy(checks.array(values, "targets"))
    if tuple(t.shape) != (rows, num_classes) or not ((t == 0) | (t == 1) | (t == -1)).all():
        expected = f"zeros and ones (-1: ignored) of shape [{rows}, {num_classes}]"
        raise InputError(argument="targets", expected=expected, found=list(t.shape))
    return t.astype(np.int8)


def _observed_classes(predictions: Any, labels: Any, targets: Any) -> int:
    if targets is not None:
        return int(np.shape(targets)[1])
    seen = [predictions] if labels is None else [predictions, checks.labels(labels)]
    highest = max((int(part.max()) for part in seen if len(part)), default=-1)
    limits.check_classes(highest, "labels")
    return highest + 1


def _log(p: Any) -> Array:
    if is_tensor(p):
        return p.log()
    with np.errstate(divide="ignore"):
        return np.log(p)
