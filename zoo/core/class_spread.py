"""Class separation in closed form, from sums over each class, for the training log and for any layer of a network.

With class means m_k, mean squared norms q_k and equal weights of all classes (Kornblith et al. 2021, eq. 11 and 19):
within = mean_k (q_k - ||m_k||^2), between = mean_k ||m_k||^2 - ||mean_k m_k||^2, and R^2 = between / (within + between). For
unit vectors these are the mean cosine distances of eq. 11: the mean cosine over all pairs of examples from two classes is
the product of the two class means.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo.core.backend import row_norms

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class ClassSpread:
    """Running sums from which the variance within and between classes follows. It stores no array of size classes x D.

    Each class is added once, with all of its examples.

    >>> import torch
    >>> spread = ClassSpread()
    >>> spread.add(torch.tensor([2.0, 3.0]), torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([2.0, 3.0]))
    >>> spread.classes, spread.variances()
    (2, (0.0, 0.5))
    """

    classes: int = 0
    within: float = 0.0  # variance within a class, summed over classes
    norms: float = 0.0  # squared norms of the class means, summed
    means: Any = 0.0  # [D] class means, summed

    def add(self, counts: "Tensor", sums: "Tensor", squares: "Tensor") -> None:
        """Add K classes. Classes without examples are skipped.

        Args:
            counts: [K] number of examples.
            sums: [K, D] sum of the vectors.
            squares: [K] sum of the squared norms.
        """
        weights = counts.clamp(min=1).reciprocal()  # a class without examples has sums of zero
        # Computed from the sums, so that no other matrix of their size is allocated.
        norms = (row_norms(sums) * weights).square()
        self.classes += int((counts > 0).sum())
        self.within += float((squares * weights - norms).sum())
        self.norms += float(norms.sum())
        self.means = self.means + weights @ sums

    def variances(self) -> tuple[float, float]:
        """Return the variance (within, between) classes; rounding may leave either slightly below 0."""
        centre = self.means / self.classes
        return self.within / self.classes, self.norms / self.classes - float(centre @ centre)
