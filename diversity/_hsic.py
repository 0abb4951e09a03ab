"""The Hilbert-Schmidt independence criterion (HSIC) of many representations, from sums over their Gram matrices.

Both estimators need only three sums: each Gram matrix's diagonal, its row sums, and its products with the other Gram
matrices, sum_ij K_ij L_ij. `gram_sums` computes them block by block for any kernel, without storing an n x n matrix.
`feature_sums` computes the same numbers from D x D products, for linear kernels with D smaller than n.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from diversity._activations import chunks, column_means, minus
from zoo.core import arrays

# Rows of a Gram matrix built at a time: large enough for fast products, small enough that the blocks of 32 layers fit the
# cache and that a float32 product over one block has six correct digits.
BLOCK = 256


@dataclass(frozen=True)
class GramSums:
    """Sums over the Gram matrices of L representations of the same n examples, in float64."""

    products: torch.Tensor  # [L, L], sum over i != j of K_ij L_ij
    rows: torch.Tensor  # [L, n], sum over j != i of K_ij
    diagonal: torch.Tensor  # [L, n], K_ii

    def unbiased(self) -> torch.Tensor:
        """Return HSIC_1 [L, L] (Song et al. 2012, eq. 5), whose expectation does not depend on n. Needs n >= 4.

        For Gram matrices with a zero diagonal:
        (tr KL + (1'K1)(1'L1) / ((n-1)(n-2)) - 2 (K1)'(L1) / (n-2)) / (n (n-3)).
        """
        n = self.rows.shape[1]
        total = self.rows.sum(1)
        centring = torch.outer(total, total) / ((n - 1) * (n - 2)) - self.rows @ self.rows.T * (2 / (n - 2))
        return (self.products + centring) / (n * (n - 3))

    def biased(self) -> torch.Tensor:
        """Return HSIC_0 [L, L] = tr(KHLH) / (n-1)^2 with the centring matrix H = I - 11'/n. Needs n >= 2.

        tr(KHLH) = sum KL - 2 (K1)'(L1) / n + (1'K1)(1'L1) / n^2, including the diagonal.
        """
        n = self.rows.shape[1]
        rows = self.rows + self.diagonal
        total = rows.sum(1)
        products = self.products + self.diagonal @ self.diagonal.T
        return (products - rows @ rows.T * (2 / n) + torch.outer(total, total) / n**2) / (n - 1) ** 2


def gram_sums(layers: Sequence[torch.Tensor], gaussian: bool = False) -> GramSums:
    """Return the sums over the Gram matrices of several layers of the same n examples.

    A Gram matrix is symmetric, so only the blocks on and below its diagonal are built, once, for all layers together. One
    product [L, m] x [m, L] then adds a block's contribution to every pair of layers.

    Args:
        layers: L matrices X [n, D_l].
        gaussian: use K_ij = exp(-||x_i - x_j||^2 / 2) instead of K = X X'.
    """
    n, device = len(layers[0]), layers[0].device
    squares = [torch.linalg.vector_norm(x, dim=1).square() for x in layers]
    products = torch.zeros(len(layers), len(layers), dtype=arrays.accumulation_dtype(device), device=device)
    row_sums = torch.zeros(len(layers), n, dtype=arrays.accumulation_dtype(device), device=device)
    for start in range(0, n, BLOCK):
        rows_i = slice(start, min(start + BLOCK, n))
        for rows_j in (slice(0, start), rows_i):
            if rows_j.start == rows_j.stop:
                continue
            shape = (len(layers), rows_i.stop - rows_i.start, rows_j.stop - rows_j.start)
            block = torch.empty(shape, dtype=layers[0].dtype, device=device)
            for part, x, square in zip(block, layers, squares, strict=True):
                torch.mm(x[rows_i], x[rows_j].T, out=part)
                if gaussian:
                    # -||a - b||^2 / 2 = ab - aa/2 - bb/2; rounding must not make a squared distance negative.
                    part.sub_(square[rows_i, None] / 2).sub_(square[rows_j] / 2).clamp_(max=0).exp_()
            on_diagonal = rows_j is rows_i
            if on_diagonal:
                block.diagonal(dim1=1, dim2=2).zero_()
            else:
                row_sums[:, rows_j] += block.sum(1)
            row_sums[:, rows_i] += block.sum(2)
            flat = block.flatten(1)
            products += (flat @ flat.T) * (1 if on_diagonal else 2)
    diagonal = torch.ones_like(row_sums) if gaussian else torch.stack(squares).to(row_sums.dtype)
    return GramSums((products + products.T) / 2, row_sums, diagonal)  # `products` is symmetric only up to rounding


def feature_sums(x: torch.Tensor, y: torch.Tensor) -> GramSums:
    """Return `gram_sums` of centred x [n, D1] and y [n, D2] with linear kernels in O(n D^2): sum_ij K_ij L_ij = ||X'Y||_F^2.

    Centred columns sum to zero. So does every row of a Gram matrix, and without its diagonal entry it sums to minus that
    entry. Products of a chunk are in the dtype of the input; they are added up and squared in float64.
    """
    means = column_means(x), column_means(y)
    pairs = ((0, 0), (0, 1), (1, 1))
    crosses = [torch.zeros(len(means[i]), len(means[j]), dtype=means[0].dtype, device=x.device) for i, j in pairs]
    squares = []
    for start, part in chunks(x):
        centred = minus(part, means[0]), minus(y[start : start + len(part)], means[1])
        squares.append(torch.stack([torch.linalg.vector_norm(z, dim=1).to(means[0].dtype).square() for z in centred]))
        for cross, (i, j) in zip(crosses, pairs, strict=True):
            cross += centred[i].T @ centred[j]
    xx, xy, yy = (cross.square().sum() for cross in crosses)
    diagonal = torch.cat(squares, 1)
    products = torch.stack([xx, xy, xy, yy]).reshape(2, 2) - diagonal @ diagonal.T
    return GramSums(products, -diagonal, diagonal)
