"""The nearest-neighbour probe: a vote of the k most similar training rows, with k chosen by leave-one-out."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from probes._inputs import ProbeClassifier, check_positive, decode, encode, features, like_input
from probes._neighbours import TILE, nearest, nearest_others, nearest_streamed
from probes._rows import Features, Rows, Values, spans
from probes.metrics import tallied, tally
from zoo.core.arrays import Array
from zoo.core.checks import whole_number
from zoo.core.progress import in_time
from zoo.errors import InputError

DISTANCES = ("cosine", "euclidean")


class KNNProbe(ProbeClassifier, BaseEstimator):  # type: ignore[misc]
    """k-nearest-neighbours classifier with k chosen by leave-one-out on the training rows (Kornblith et al. 2021, Table 1).

    One list of the `most` nearest other rows of each training row gives the votes for every k at once. Ties between values
    of k go to the smallest; ties between classes go to the first in `classes_`, as in scikit-learn. If several rows are at
    exactly the same distance, it is undefined which of them count. A zero vector has cosine 0 with every vector.

    Results are NumPy arrays for NumPy arrays and tensors for tensors. All work is done on the device of X, in float32.

    Args:
        k: the number of neighbours; default: chosen by leave-one-out.
        distance: "cosine" or "euclidean".
        most: the largest k to consider, capped at the number of other rows.
        metric: "accuracy" or "mean-per-class". The value of k is chosen by this metric, and `score` returns it.
        memory: gigabytes that may be used. Training rows that do not fit are read again in blocks for every search; memory
            maps and columns of stored outputs are never copied. Choosing k then takes twice as long, because a block of
            similarities is used for its rows only, not also for its columns.
        progress: whether to show a progress bar on a terminal after a few seconds.

    Attributes:
        k_: the number of neighbours used.
        classes_: [K] labels, sorted.
        path_: frame with the leave-one-out score of each k; empty if `k` was given.

    >>> X, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), ["east", "east", "north", "north"]
    >>> probe = KNNProbe().fit(X, y)
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

    def fit(self, X: Features, y: Values) -> "KNNProbe":
        """Store features X [N, D] and their labels y [N], of any type, and choose k."""
        if self.distance not in DISTANCES:
            raise InputError(argument="distance", expected=f"one of {', '.join(DISTANCES)}", found=self.distance)
        check_positive(self.memory, "memory")
        tallied(self.metric)
        rows = features(self, X, fitting=True)
        self.classes_, self._labels = encode(self, y, rows)
        if self.distance == "euclidean":
            # Centred and scaled, so that float32 can tell distances apart far from the origin.
            self._centre, deviation = rows.moments()
            self._scale = float(deviation.square().mean().sqrt()) or 1.0
        max_k = min(whole_number(self.most, "most"), len(rows) - 1)
        self._rows: Rows | None = rows
        self._sides: tuple[Tensor, Tensor] | None = None  # of all rows, in memory; then `_rows` is None
        number_of_sides = 1 if self.distance == "cosine" else 2
        if len(rows) * (4 * number_of_sides * rows.shape[1] + _search_bytes(max_k)) <= self.memory * 1e9:
            # The search guesses thresholds from the first rows, which works best in random order.
            order = np.random.default_rng(0).permutation(len(rows))
            self._labels = self._labels[torch.from_numpy(order).to(rows.device)]
            width = rows.shape[1] + (0 if self.distance == "cosine" else 2)
            left = rows.rows(order).map(self._left_side, width, torch.float32).tensor()
            self._rows, self._sides = None, (left, self._right_side(left))
        if self.k is None:
            scores = self._leave_one_out(max_k)
            self.k_ = int(np.argmax(scores)) + 1
            self.path_ = pd.DataFrame({"k": np.arange(1, max_k + 1), "score": scores})
        else:
            self.k_ = whole_number(self.k, "k")
            if self.k_ > len(rows):
                raise InputError(argument="k", expected=f"at most {len(rows)}, the number of training rows", found=self.k_)
            self.path_ = pd.DataFrame({"k": [], "score": []})
        return self

    def predict(self, X: Features) -> Array:
        """Return the labels [N] with the most votes."""
        winners = [votes.argmax(1) for votes in self._votes(X)]  # the first among equals
        return decode(torch.cat(winners), self.classes_, X)

    def predict_proba(self, X: Features) -> Array:
        """Return the fraction of votes for each class, [N, K], columns in the order of `classes_`."""
        dtype = X.dtype if isinstance(X, Tensor) and X.is_floating_point() else torch.float64
        return like_input(torch.cat([votes.to(dtype) / self.k_ for votes in self._votes(X)]), X)

    def _leave_one_out(self, max_k: int) -> list[float]:
        """Return the score of k = 1 to `max_k`, predicting each training row from its nearest other rows."""
        rows = len(self._labels)
        size = self._batch_size(max_k) if self._sides is None else rows
        tallies = torch.zeros(max_k, 2, len(self.classes_), dtype=torch.float64, device=self._labels.device)
        with in_time("KNNProbe", rows, self.progress) as report:
            for span in spans(rows, size):
                labels, others = self._labels[span], self._other_rows(span, max_k)
                for k, winners in enumerate(winners_by_k(self._labels[others], len(self.classes_))):
                    tallies[k] += torch.stack(tally(winners, labels, num_classes=len(self.classes_)))
                report(len(labels))
        return [tallied(self.metric)(correct, count) for correct, count in tallies]

    def _votes(self, X: Features) -> Iterator[Tensor]:
        """Yield the votes of the k nearest rows for each class, [n, K], batch by batch."""
        check_is_fitted(self)
        rows = features(self, X)
        for span in spans(len(rows), self._batch_size(self.k_)):
            queries = self._left_side(rows.read(span).to(self._labels.device))
            if self._sides is not None:
                neighbours = nearest(queries, self._sides[1], self.k_)
            else:
                neighbours = nearest_streamed(queries, self._right_blocks(), self.k_)
            voters = self._labels[neighbours]
            count = torch.zeros(len(voters), len(self.classes_), dtype=torch.int32, device=voters.device)
            yield count.scatter_add_(1, voters, torch.ones_like(voters, dtype=torch.int32))

    def _batch_size(self, k: int) -> int:
        """Return the number of queries to search at a time, so that they use at most half of the memory."""
        return max(1, int(self.memory * 5e8 / (8 * self.n_features_in_ + _search_bytes(k) + 12 * len(self.classes_))))

    def _other_rows(self, span: slice, k: int) -> Tensor:
        """Return the k nearest other rows of these training rows, [n, k]; of all training rows if they are in memory."""
        if self._sides is not None:
            return nearest_others(*self._sides, k)
        assert self._rows is not None
        return nearest_streamed(self._left_side(self._rows.read(span)), self._right_blocks(), k, span.start)

    def _right_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        assert self._rows is not None
        for span in spans(len(self._rows), TILE):
            yield span, self._right_side(self._left_side(self._rows.read(span)))

    def _left_side(self, x: Tensor) -> Tensor:
        """Return vectors whose inner products with `_right_side` are the cosine, or minus half of the squared distance."""
        if self.distance == "cosine":
            norm = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float64).to(x.dtype)
            return torch.where(norm > 0, x / norm, 0.0).float()
        x = ((x.double() - self._centre) / self._scale).float()
        half = -x.square().sum(1, keepdim=True) / 2
        return torch.cat([x, half, torch.ones_like(half)], 1)

    def _right_side(self, left: Tensor) -> Tensor:
        if self.distance == "cosine":
            return left
        return torch.cat([left[:, :-2], left[:, -1:], left[:, -2:-1]], 1)


def winners_by_k(labels: Tensor, num_classes: int) -> Iterator[Tensor]:
    """Yield, for k = 1, 2, ..., the most frequent class [N] among the first k of each row's labels [N, max_k].

    One more vote can only make its own class the winner, so the winner is updated without counting again.
    """
    count = torch.zeros(len(labels), num_classes, dtype=torch.int32, device=labels.device)
    winner = torch.full_like(labels[:, 0], num_classes)
    most = torch.zeros_like(count[:, 0])
    one = torch.ones_like(count[:, :1])
    for voter in labels.T.contiguous():
        count.scatter_add_(1, voter[:, None], one)
        votes = count.gather(1, voter[:, None])[:, 0]
        winner = torch.where((votes > most) | ((votes == most) & (voter < winner)), voter, winner)
        most = torch.maximum(most, votes)
        yield winner


def _search_bytes(k: int) -> int:
    """Return the bytes per query of a search for its k nearest rows, and of its result."""
    return 8 * (3 * k + 32) + 8 * k
