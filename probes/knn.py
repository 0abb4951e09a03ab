"""The nearest-neighbour probe: a vote of the k most similar training rows, k chosen by leaving each of them out."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from probes._inputs import classes, features, handed_back, named, paired, weights
from probes._neighbours import TILE, nearest, nearest_others, nearest_streamed
from probes._rows import Rows, spans
from probes.metrics import metric, tallied, tally
from zoo.core.progress import in_time
from zoo.errors import InputError

DISTANCES = ("cosine", "euclidean")


class KNNProbe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """k-nearest-neighbours classification with k chosen by leave-one-out on the training set ([K] Table 1).

    One list of the `most` nearest others of each training row gives the votes for every k at once. Of equally good k the
    smallest is taken; of classes with equally many votes the first in `classes_` wins, as in scikit-learn. Which of several
    rows at exactly the same distance are counted is not defined. A zero vector has cosine 0 with everything.

    Parameters
    ----------
    k: the number of neighbours; default: chosen.
    distance: "cosine" or "euclidean".
    most: the largest k considered, or as many as there are other rows.
    metric: "accuracy" or "mean-per-class"; decides the choice, and what `score` returns.
    memory: gigabytes that may be held. Training rows that do not fit are read anew in blocks for every search: a memory map,
        or a column of stored outputs, is never copied. The choice of k then takes twice the time, a tile no longer serving
        rows and columns alike.
    progress: whether to show a bar on a terminal once a fit has taken a few seconds.

    Attributes
    ----------
    k_: the number chosen. classes_ [K].
    path_: a frame, one row per k: its leave-one-out score (empty where `k` was given).

    NumPy arrays give NumPy arrays back, tensors tensors; everything runs where x is, in float32.

    >>> x, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), ["east", "east", "north", "north"]
    >>> probe = KNNProbe().fit(x, y)
    >>> probe.k_, probe.predict([[2.0, 0.5]]).tolist()
    (1, ['east'])
    """

    def __init__(
        self,
        k: int | None = None,
        distance: str = "cosine",
        most: int = 200,
        metric: str = "accuracy",
        memory: float = 2.0,
        progress: bool = True,
    ) -> None:
        self.k = k
        self.distance = distance
        self.most = most
        self.metric = metric
        self.memory = memory
        self.progress = progress

    def fit(self, x: Any, y: Any) -> "KNNProbe":
        """Keep the rows x [N, D] and their labels y [N] of any type, and choose k."""
        if self.distance not in DISTANCES:
            raise InputError(f"distance: expected one of {', '.join(DISTANCES)}, found {self.distance!r}")
        if not self.memory > 0:
            raise InputError(f"memory: expected gigabytes above 0, found {self.memory!r}")
        tallied(self.metric)
        rows = features(self, x, fitting=True)
        self.classes_, self._labels = classes(self, y, rows)
        if self.distance == "euclidean":
            self._measure(rows)
        most = min(_positive("most", self.most), len(rows) - 1)
        self._rows: Rows | None = rows
        self._held: tuple[Tensor, Tensor] | None = None  # in memory, the two sides of their similarities stand for the rows
        sides = 1 if self.distance == "cosine" else 2
        if len(rows) * (4 * sides * rows.shape[1] + _searched(most)) <= self.memory * 1e9:
            # Random order serves the search, whose guesses rest on the first rows being like all.
            order = np.random.default_rng(0).permutation(len(rows))
            self._labels = self._labels[torch.from_numpy(order).to(rows.device)]
            self._rows, self._held = None, self._sides(rows.rows(order))
        if self.k is None:
            scores = self._leave_one_out(most)
            self.k_ = int(np.argmax(scores)) + 1
            self.path_ = pd.DataFrame({"k": np.arange(1, most + 1), "score": scores})
        else:
            self.k_ = _positive("k", self.k)
            if self.k_ > len(rows):
                raise InputError(f"k: expected at most the number of training rows, {len(rows)}, found {self.k_}")
            self.path_ = pd.DataFrame({"k": [], "score": []})
        return self

    def predict(self, x: Any) -> Any:
        """The labels [N] with the most votes."""
        winners = [votes.argmax(1) for votes in self._votes(x)]  # the first of equal ones
        return named(torch.cat(winners), self.classes_, x)

    def predict_proba(self, x: Any) -> Any:
        """[N, K] the share of votes, columns in the order of `classes_`."""
        dtype = x.dtype if isinstance(x, Tensor) and x.is_floating_point() else torch.float64
        return handed_back(torch.cat([votes.to(dtype) / self.k_ for votes in self._votes(x)]), x)

    def score(self, x: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy or mean per-class accuracy, as `metric` says; a label that training never saw counts as wrong."""
        predicted, labels = paired(self.predict(x), y)
        return metric(self.metric)(predicted, labels, weights(sample_weight, len(labels)))

    def _leave_one_out(self, most: int) -> list[float]:
        """The score of k = 1 to `most`, of each training row by its nearest others."""
        rows = len(self._labels)
        size = self._strip(most) if self._held is None else rows
        sums: list[Any] = [0.0] * most
        with in_time("KNNProbe", rows, self.progress) as report:
            for span in spans(rows, size):
                others = self._others(span, most)
                labels = self._labels[span]
                for k, winners in enumerate(winners_by_k(self._labels[others], len(self.classes_))):
                    sums[k] = sums[k] + torch.stack(tally(winners, labels, num_classes=len(self.classes_)))
                report(len(labels))
        return [tallied(self.metric)(*both) for both in sums]

    def _votes(self, x: Any) -> Iterator[Tensor]:
        """[n, K] after [n, K], how many of the k nearest are of each class."""
        check_is_fitted(self)
        rows = features(self, x)
        for span in spans(len(rows), self._strip(self.k_)):
            queries, _ = self._embed(rows.read(span).to(self._labels.device))
            if self._held is not None:
                found = nearest(queries, self._held[1], self.k_)
            else:
                found = nearest_streamed(queries, self._base(), self.k_)
            voters = self._labels[found]
            count = torch.zeros(len(voters), len(self.classes_), dtype=torch.int32, device=voters.device)
            yield count.scatter_add_(1, voters, torch.ones_like(voters, dtype=torch.int32))

    def _strip(self, k: int) -> int:
        """How many queries to search for at a time: with what is kept of each, at most half of the memory."""
        return max(1, int(self.memory * 5e8 / (8 * self.n_features_in_ + _searched(k) + 12 * len(self.classes_))))

    def _sides(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """All rows in memory, as `_embed` makes them."""
        sides: list[Tensor] = []
        for span, block in rows.blocks():
            made = self._embed(block)[: 1 if self.distance == "cosine" else 2]
            sides = sides or [part.new_empty(len(rows), part.shape[1]) for part in made]
            for side, part in zip(sides, made, strict=True):
                side[span] = part
        return sides[0], sides[-1]

    def _others(self, span: slice, k: int) -> Tensor:
        """[n, k] the nearest others of these training rows; of all of them if they are in memory."""
        if self._held is not None:
            return nearest_others(*self._held, k)
        assert self._rows is not None
        queries, _ = self._embed(self._rows.read(span))
        return nearest_streamed(queries, self._base(), k, span.start)

    def _base(self) -> Iterator[tuple[slice, Tensor]]:
        assert self._rows is not None
        for span in spans(len(self._rows), TILE):
            yield span, self._embed(self._rows.read(span))[1]

    def _measure(self, rows: Rows) -> None:
        """Centre and scale for Euclidean distances, so that float32 can tell them apart far from the origin."""
        self._centre, _, _ = rows.extent()
        square = sum(float((block.double() - self._centre).square().sum()) for _, block in rows.blocks())
        self._scale = (square / (len(rows) * rows.shape[1])) ** 0.5 or 1.0

    def _embed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(left, right) such that left @ right.T is the cosine, or minus half the squared distance."""
        if self.distance == "cosine":
            norm = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float64).to(x.dtype)
            unit = torch.where(norm > 0, x / norm, 0.0).float()
            return unit, unit
        x = ((x.double() - self._centre) / self._scale).float()
        half = -x.square().sum(1, keepdim=True) / 2
        one = torch.ones_like(half)
        return torch.cat([x, half, one], 1), torch.cat([x, one, half], 1)


def winners_by_k(labels: Tensor, num_classes: int) -> Iterator[Tensor]:
    """For k = 1, 2, …: the class [N] most of the first k of each row's labels [N, most] are of.

    One more vote can only make its own class the winner, so the winner is kept up to date without looking at the rest.
    """
    count = torch.zeros(len(labels), num_classes, dtype=torch.int32, device=labels.device)
    winner = torch.full_like(labels[:, 0], num_classes)
    most = torch.zeros_like(count[:, 0])
    one = torch.ones_like(count[:, :1])
    for voter in labels.T.contiguous():
        count.scatter_add_(1, voter[:, None], one)
        mine = count.gather(1, voter[:, None])[:, 0]
        winner = torch.where((mine > most) | ((mine == most) & (voter < winner)), voter, winner)
        most = torch.maximum(most, mine)
        yield winner


def _searched(k: int) -> int:
    """Bytes kept of each query while its k nearest are looked for, and of what is found."""
    return 8 * (3 * k + 32) + 8 * k


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise InputError(f"{name}: expected a whole number of at least 1, found {value!r}")
    return int(value)
