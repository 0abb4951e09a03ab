"""Models of the curvature of a linear classifier: one that is cheap to invert at every strength, one that is exact."""

import math

import torch
from torch import Tensor

from probes._examples import Examples, Place
from probes._losses import Softmax

ENOUGH = 32  # rows for each dimension, of those that have to be read again, tell the curvature well enough


class Kronecker:
    """Approximates the Hessian  sum_n A_n (x) x_n x_n^T + 2 lambda I  by  A (x) B + 2 lambda I.

    A_n is the K x K second derivative of row n's loss in its logits. A is their sum, B the second moment of the rows
    weighted by h_n = tr A_n and divided by their total: rows that are settled count for nothing in either, which is what
    keeps the model good on separable data, where a plain Gram matrix no longer resembles the Hessian. With A = U a U^T and
    B = V b V^T, the inverse is a division by a_i b_j + 2 lambda in the basis U (x) V, at any lambda.

    The intercept is the last column of the parameters and has no penalty. Rows are centred at their h-weighted mean m, which
    makes intercept and weights independent in the model: the logits are W (x - m) + (c + W m).
    """

    def __init__(self, examples: Examples, place: Place) -> None:
        dtype = place.parameters.dtype
        few = examples.thinned(ENOUGH * place.parameters.shape[1])
        self.share = len(few) / len(examples)
        # Sums are made in place: a small tensor kept from each block would hold the heap that the large ones gave back.
        A, h = torch.zeros((), dtype=torch.float64, device=few.values.device), place.parameters.new_empty(len(few))
        for span, _, loss, here in few.expanded(place):
            summed, h[span] = loss.curvature(here)
            A = A + summed / self.share
        share = (h / h.sum(dtype=torch.float64).clamp_min(1e-300)).to(dtype)
        self.mean = place.parameters.new_zeros(place.parameters.shape[1] - 1)
        for span, values, _ in few.pieces():
            self.mean += share[span] @ values[:, :-1]
        second = torch.zeros(len(self.mean), len(self.mean), dtype=dtype, device=h.device)
        for span, values, _ in few.pieces():
            weighted = (values[:, :-1] - self.mean).mul_(share[span].sqrt()[:, None])
            second.addmm_(weighted.T, weighted)
        self.b, self.V = torch.linalg.eigh(second)
        self.b = self.b.double().clamp_min(0)
        if A.ndim == 1:  # problems side by side: A is diagonal already
            self.a, self.U = A[:, None], None
        else:
            # One amount added to all classes changes no softmax: along that first direction the gradient is nothing but
            # rounding, which a weak penalty would blow up as 1 / lambda. It is left out, here and in the gap.
            a, U = torch.linalg.eigh(A)
            self.a, self.U = a[1:, None].clamp_min(0), U[:, 1:].to(dtype)
        self.intercept = torch.where(self.a > self.a.max() * 1e-12, 1 / self.a, 0.0)

    def split(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """A gradient [K, r + 1] in the weights and in the intercept of rows centred at m, in the basis U."""
        weights = gradient[:, :-1] - gradient[:, -1:] * self.mean
        return (weights, gradient[:, -1:]) if self.U is None else (self.U.T @ weights, self.U.T @ gradient[:, -1:])

    def solve(self, gradient: Tensor, ridge: Tensor) -> Tensor:
        """The model's inverse times a gradient [K, r + 1]; `ridge` is lambda, [1, 1] or [K, 1]."""
        weights, intercept = self.split(gradient)
        weights = ((weights @ self.V) / (self.a * self.b + 2 * ridge).to(gradient.dtype)) @ self.V.T
        intercept = intercept * self.intercept.to(gradient.dtype)
        if self.U is not None:
            weights, intercept = self.U @ weights, self.U @ intercept
        return torch.cat([weights, intercept - (weights @ self.mean)[:, None]], 1)

    def cost(self, rows: int) -> float:
        """What building this costs, in products of the features with parameters there and back."""
        width, classes = len(self.b), max(len(self.a), 16)
        return self.share * width / (2 * classes) + 3 * width**2 / (rows * classes)


class Exact(Kronecker):
    """The Hessian itself of a small multinomial problem, (K - 1) (r + 1) numbers squared, in the coordinates of the model.

    At weak strengths the rows' A_n differ so much that no one A stands for them, and conjugate gradients take a hundred
    products; where the whole Hessian costs no more than a few of these, it is better to have it.
    """

    MOST = 3e8  # multiplications to build it, some 10 ms

    def __init__(self, examples: Examples, place: Place) -> None:
        super().__init__(examples, place)
        assert self.U is not None  # several problems side by side are not asked for
        size = len(self.a) * (len(self.mean) + 1)
        self.hessian = torch.zeros(size, size, dtype=torch.float64, device=self.mean.device)
        for _, values, loss, here in examples.expanded(place):
            assert isinstance(loss, Softmax)
            rows = torch.cat([values[:, :-1] - self.mean, values[:, -1:]], 1).double()
            blocks = [rows.T @ (row[:, :, None] * rows[:, None, :]).flatten(1) for row in loss.bent(here, self.U).unbind(1)]
            self.hessian += torch.stack(blocks).reshape(size, size)
        penalised = torch.ones(len(self.a), len(self.mean) + 1, dtype=torch.float64, device=self.mean.device)
        penalised[:, -1] = 0
        self.penalised = penalised.flatten()
        self.ridge = math.nan  # at which the factor was made
        self.factor: Tensor | None = None

    @classmethod
    def worth_it(cls, examples: Examples) -> bool:
        """Whether the problem is one, and small enough."""
        size = (len(examples.loss.priors()) - 1) * examples.values.shape[1]
        return examples.loss.problems == 1 and size > 0 and len(examples) * size**2 <= cls.MOST

    def solve(self, gradient: Tensor, ridge: Tensor) -> Tensor:
        factor = self._factor(float(ridge))
        if factor is None:
            return super().solve(gradient, ridge)
        weights, intercept = self.split(gradient)
        solved = torch.cholesky_solve(torch.cat([weights, intercept], 1).double().reshape(-1, 1), factor)
        back = torch.einsum("ki,ij->kj", self.U, solved.reshape(len(self.a), -1).to(gradient.dtype))
        weights, intercept = back[:, :-1], back[:, -1:]
        return torch.cat([weights, intercept - (weights @ self.mean)[:, None]], 1)

    def _factor(self, ridge: float) -> Tensor | None:
        """The Cholesky factor at a strength; None where rounding left it without one."""
        if ridge != self.ridge:
            factor, failed = torch.linalg.cholesky_ex(self.hessian + torch.diag(2 * ridge * self.penalised))
            self.ridge, self.factor = ridge, None if failed else factor
        return self.factor

    def cost(self, rows: int) -> float:
        return 4.0  # on problems this small a product is mostly the calls it is made of
