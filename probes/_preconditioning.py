"""Models of the Hessian of a linear classifier: one that is cheap to invert at every strength, and one that is exact."""

import math

import torch
from torch import Tensor

from probes._examples import Examples, Point
from probes._losses import Softmax

ROWS_PER_DIMENSION = 32  # of streamed rows, enough to estimate the second moments


class Kronecker:
    """Approximates the Hessian  sum_n A_n (x) x_n x_n^T + 2 lambda I  by  A (x) B + 2 lambda I.

    A_n is the K x K second derivative of row n's loss with respect to its logits. A is their sum, B the second moment of the
    rows weighted by h_n = tr A_n and divided by the sum of the weights. Rows that are classified with certainty have no
    weight in either, which keeps the model good on separable data, where a plain Gram matrix no longer resembles the
    Hessian. With A = U a U^T and B = V b V^T, the inverse is a division by a_i b_j + 2 lambda in the basis U (x) V, for any
    lambda.

    The intercept is the last column of the parameters and has no penalty. Rows are centred at their h-weighted mean m, which
    makes intercept and weights independent in the model: the logits are W (x - m) + (c + W m).
    """

    def __init__(self, examples: Examples, point: Point) -> None:
        dtype = point.parameters.dtype
        subset = examples.subsample(ROWS_PER_DIMENSION * point.parameters.shape[1])
        self.fraction = len(subset) / len(examples)
        # Sums are made in place: a small tensor kept from each block would hold the heap that the large ones gave back.
        A, h = torch.zeros((), dtype=torch.float64, device=subset.values.device), point.parameters.new_empty(len(subset))
        for span, _, loss, expansion in subset.expanded(point):
            block_sum, h[span] = loss.hessian_sums(expansion)
            A = A + block_sum / self.fraction
        weights = (h / h.sum(dtype=torch.float64).clamp_min(1e-300)).to(dtype)
        self.mean = point.parameters.new_zeros(point.parameters.shape[1] - 1)
        for span, values, _ in subset.blocks():
            self.mean += weights[span] @ values[:, :-1]
        second = torch.zeros(len(self.mean), len(self.mean), dtype=dtype, device=h.device)
        for span, values, _ in subset.blocks():
            weighted = (values[:, :-1] - self.mean).mul_(weights[span].sqrt()[:, None])
            second.addmm_(weighted.T, weighted)
        self.b, self.V = torch.linalg.eigh(second)
        self.b = self.b.double().clamp_min(0)
        if A.ndim == 1:  # one problem per class: A is diagonal already
            self.a, self.U = A[:, None], None
        else:
            # Adding a constant to the logits of all classes changes no softmax. Along that first direction the gradient is
            # rounding error, which a weak penalty would amplify by 1 / lambda. It is left out, here and in the gap.
            a, U = torch.linalg.eigh(A)
            self.a, self.U = a[1:, None].clamp_min(0), U[:, 1:].to(dtype)
        self.intercept = torch.where(self.a > self.a.max() * 1e-12, 1 / self.a, 0.0)

    def split(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient [K, r + 1] in the weights and in the intercept of rows centred at m, in the basis U."""
        weights = gradient[:, :-1] - gradient[:, -1:] * self.mean
        return (weights, gradient[:, -1:]) if self.U is None else (self.U.T @ weights, self.U.T @ gradient[:, -1:])

    def solve(self, gradient: Tensor, ridge: Tensor) -> Tensor:
        """Return the inverse of the model times a gradient [K, r + 1]; `ridge` is lambda, [1, 1] or [K, 1]."""
        weights, intercept = self.split(gradient)
        weights = ((weights @ self.V) / (self.a * self.b + 2 * ridge).to(gradient.dtype)) @ self.V.T
        intercept = intercept * self.intercept.to(gradient.dtype)
        if self.U is not None:
            weights, intercept = self.U @ weights, self.U @ intercept
        return torch.cat([weights, intercept - (weights @ self.mean)[:, None]], 1)

    def cost(self, rows: int) -> float:
        """Return the cost of building this model, in products of the features with the parameters."""
        width, classes = len(self.b), max(len(self.a), 16)
        return self.fraction * width / (2 * classes) + 3 * width**2 / (rows * classes)


class Exact(Kronecker):
    """The Hessian of a small multinomial problem, ((K - 1) (r + 1))^2 numbers, in the coordinates of the Kronecker model.

    At weak strengths the rows' A_n differ so much that no single A represents them, and conjugate gradients take a hundred
    products. For small problems the full Hessian costs no more than a few of these.
    """

    MAX_MULTIPLICATIONS = 3e8  # to build it, about 10 ms

    def __init__(self, examples: Examples, point: Point) -> None:
        super().__init__(examples, point)
        assert self.U is not None  # `is_affordable` rules out one problem per class
        size = len(self.a) * (len(self.mean) + 1)
        self.hessian = torch.zeros(size, size, dtype=torch.float64, device=self.mean.device)
        for _, values, loss, expansion in examples.expanded(point):
            assert isinstance(loss, Softmax)
            rows = torch.cat([values[:, :-1] - self.mean, values[:, -1:]], 1).double()
            hessians = loss.row_hessians(expansion, self.U)
            blocks = [rows.T @ (row[:, :, None] * rows[:, None, :]).flatten(1) for row in hessians.unbind(1)]
            self.hessian += torch.stack(blocks).reshape(size, size)
        penalised = torch.ones(len(self.a), len(self.mean) + 1, dtype=torch.float64, device=self.mean.device)
        penalised[:, -1] = 0
        self.penalised = penalised.flatten()
        self.ridge = math.nan  # the strength that `factor` belongs to
        self.factor: Tensor | None = None

    @classmethod
    def is_affordable(cls, examples: Examples) -> bool:
        """Return whether all classes form one problem that is small enough."""
        size = (len(examples.loss.priors()) - 1) * examples.values.shape[1]
        return examples.loss.problems == 1 and size > 0 and len(examples) * size**2 <= cls.MAX_MULTIPLICATIONS

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
        """Return the Cholesky factor at a strength, or None if rounding made the matrix indefinite."""
        if ridge != self.ridge:
            factor, failed = torch.linalg.cholesky_ex(self.hessian + torch.diag(2 * ridge * self.penalised))
            self.ridge, self.factor = ridge, None if failed else factor
        return self.factor

    def cost(self, rows: int) -> float:
        return 4.0  # for problems this small, a product costs mostly its function calls
