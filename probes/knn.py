"""The nearest-neighbour probe: a vote of the k most similar training rows, k chosen by leaving each of them out."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from zoo.errors import InputError

from ._inputs import classes, features, handed_back, named, paired
from ._neighbours import nearest, nearest_others
from .metrics import metric

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

    def __init__(self, k: int | None = None, distance: str = "cosine", most: int = 200, metric: str = "accuracy") -> None:
        self.k = k
        self.distance = distance
        self.most = most
        self.metric = metric

    def fit(self, x: Any, y: Any) -> "KNNProbe":
        """Keep the rows x [N, D] and their labels y [N] of any type, and choose k."""
        if self.distance not in DISTANCES:
            raise InputError(f"distance: expected one of {', '.join(DISTANCES)}, found {self.distance!r}")
        score = metric(self.metric)
        rows = features(self, x, fitting=True)
        self.classes_, labels = classes(self, y, rows)
        # Random order serves the search, whose guesses rest on the first rows being like all.
        order = torch.from_numpy(np.random.default_rng(0).permutation(len(rows))).to(rows.device)
        if self.distance == "euclidean":
            self._measure(rows)
        self._left, self._right = self._embed(rows[order])
        self._labels = labels[order]
        if self.k is None:
            most = min(_positive("most", self.most), len(rows) - 1)
            voters = self._labels[nearest_others(self._left, self._right, most)]
            scores = [score(winners, self._labels) for winners in winners_by_k(voters, len(self.classes_))]
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
        return named(self._votes(x).argmax(1), self.classes_, x)  # the first of equal ones

    def predict_proba(self, x: Any) -> Any:
        """[N, K] the share of votes, columns in the order of `classes_`."""
        dtype = x.dtype if isinstance(x, Tensor) and x.is_floating_point() else torch.float64
        return handed_back(self._votes(x).to(dtype) / self.k_, x)

    def score(self, x: Any, y: Any) -> float:
        """Accuracy or mean per-class accuracy, as `metric` says; a label that training never saw counts as wrong."""
        return metric(self.metric)(*paired(self.predict(x), y))

    def _votes(self, x: Any) -> Tensor:
        """[N, K] how many of the k nearest are of each class."""
        check_is_fitted(self)
        queries, _ = self._embed(features(self, x).to(self._right.device))
        voters = self._labels[nearest(queries, self._right, self.k_)]
        count = torch.zeros(len(voters), len(self.classes_), dtype=torch.int32, device=voters.device)
        return count.scatter_add_(1, voters, torch.ones_like(voters, dtype=torch.int32))

    def _measure(self, x: Tensor) -> None:
        """Centre and scale for Euclidean distances, so that float32 can tell them apart far from the origin."""
        self._centre = x.double().mean(0)
        self._scale = float((x.double() - self._centre).square().mean().sqrt()) or 1.0

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


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise InputError(f"{name}: expected a whole number of at least 1, found {value!r}")
    return int(value)
