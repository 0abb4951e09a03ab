"""Class separation in closed form, from sums over classes: for a training run's log and for any measured layer alike.

With class means m_k and mean squared norms q_k, each of C classes weighing the same (Kornblith et al. 2021, eq. 11 and 19):
within = mean_k (q_k - ||m_k||^2), between = mean_k ||m_k||^2 - ||mean_k m_k||^2, and R^2 = between / (within + between).
For unit vectors these are the mean cosine distances of eq. 11: the mean cosine of all pairs of two classes is the product
of their mean vectors.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, linalg


@dataclass
class ClassSpread:
    """What the closed form needs of the classes seen so far, each complete: nothing of the size of classes x features.

    >>> import torch
    >>> spread = ClassSpread()
    >>> spread.add(torch.tensor([2.0, 3.0]), torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([2.0, 3.0]))
    >>> spread.classes, spread.variances()
    (2, (0.0, 0.5))
    """

    classes: int = 0
    within: float = 0.0  # summed over classes
    norms: float = 0.0  # squared norms of their means, summed
    means: Any = 0.0  # [D] their means, summed

    def add(self, counts: Tensor, sums: Tensor, squares: Tensor) -> None:
        """Take classes by their examples [K], sums of vectors [K, D] and of squared norms [K]; empty ones are left out."""
        weights = counts.clamp(min=1).reciprocal()  # a class without examples has sums of zero
        # In terms of the sums, so that no other matrix of their size is made.
        norms = (linalg.vector_norm(sums, dim=1) * weights).square()
        self.classes += int((counts > 0).sum())
        self.within += float((squares * weights - norms).sum())
        self.norms += float(norms.sum())
        self.means = self.means + weights @ sums

    def variances(self) -> tuple[float, float]:
        """(within, between) classes; rounding may leave a hair below 0."""
        centre = self.means / self.classes
        return self.within / self.classes, self.norms / self.classes - float(centre @ centre)
