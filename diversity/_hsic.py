"""The Hilbert-Schmidt independence criterion of many representations at once, from sums over their Gram matrices.

Whatever the estimator, three sums suffice: a Gram matrix's diagonal, the sums of its rows, and its products with the other
Gram matrices, sum_ij K_ij L_ij. `gram_sums` gathers them block by block, for any kernel, and never holds an n x n matrix;
`feature_sums` gets the same numbers from D x D products when the kernel is linear and D is the smaller.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from diversity._activations import chunks, column_means, minus
from zoo.core import arrays

# Rows of a Gram matrix built at a time. Large enough for fast products, small enough that the blocks of 32 layers
# stay near the cache and that a float32 product over one block is good to six digits.
BLOCK = 256


@dataclass(frozen=True)
class GramSums:
    """Sums over the Gram matrices of L representations of the same n examples, in float64."""

    products: torch.Tensor  # [L, L], sum over i != j of K_ij L_ij
    rows: torch.Tensor  # [L, n], sum over j != i of K_ij
    diagonal: torch.Tensor  # [L, n], K_ii

    def unbiased(self) -> torch.Tensor:
        """HSIC_1 [L, L] (Song et al. 2012, eq. 5), whose expectation over samples does not depend on n; n >= 4.

        Written for Gram matrices with a zero diagonal:
        (tr KL + (1'K1)(1'L1) / ((n-1)(n-2)) - 2 (K1)'(L1) / (n-2)) / (n (n-3)).
        """
        n = self.rows.shape[1]
        total = self.rows.sum(1)
        centring = torch.outer(total, total) / ((n - 1) * (n - 2)) - self.rows @ self.rows.T * (2 / (n - 2))
        return (self.products + centring) / (n * (n - 3))

    def biased(self) -> torch.Tensor:
        """HSIC_0 [L, L] = tr(KHLH) / (n-1)^2 with the centring matrix H = I - 11'/n; n >= 2.

        tr(KHLH) = sum KL - 2 (K1)'(L1) / n + (1'K1)(1'L1) / n^2, the diagonal included.
        """
        n = self.rows.shape[1]
        rows = self.rows + self.diagonal
        total = rows.sum(1)
        products = self.products + self.diagonal @ self.diagonal.T
        return (products - rows @ rows.T * (2 / n) + torch.outer(total, total) / n**2) / (n - 1) ** 2


def gram_sums(layers: Sequence[torch.Tensor], gaussian: bool = False) -> GramSums:
    """Sums over K = X X' of each layer X [n, D_l], or with `gaussian` over K_ij = exp(-||x_i - x_j||^2 / 2).

    A Gram matrix is symmetric: only the blocks on and below its diagonal are built, each once, for all layers together;
    then one product [L, m] x [m, L] gives that block's share of every pair of layers.
    """
    n, device = len(layers[0]), layers[0].device
    squares = [torch.linalg.vector_norm(x, dim=1).square() for x in layers]
    products = torch.zeros(len(layers), len(layers), dtype=arrays.accumulation_dtype(device), device=device)
    rows = torch.zeros(len(layers), n, dtype=arrays.accumulation_dtype(device), device=device)
    for start in range(0, n, BLOCK):
        here = slice(start, min(start + BLOCK, n))
        for there in (slice(0, start), here):
            if there.start == there.stop:
                continue
            shape = (len(layers), here.stop - here.start, there.stop - there.start)
            block = torch.empty(shape, dtype=layers[0].dtype, device=device)
            for part, x, square in zip(block, layers, squares, strict=True):
                torch.mm(x[here], x[there].T, out=part)
                if gaussian:
                    # -||a - b||^2 / 2 = ab - aa/2 - bb/2; rounding must not make a squared distance negative.
                    part.sub_(square[here, None] / 2).sub_(square[there] / 2).clamp_(max=0).exp_()
            on_diagonal = there is here
            if on_diagonal:
                block.diagonal(dim1=1, dim2=2).zero_()
            else:
                rows[:, there] += block.sum(1)
            rows[:, here] += block.sum(2)
            flat = block.flatten(1)
            products += (flat @ flat.T) * (1 if on_diagonal else 2)
    diagonal = torch.ones_like(rows) if gaussian else torch.stack(squares).to(rows.dtype)
    return GramSums((products + products.T) / 2, rows, diagonal)  # rounding alone made it less than symmetric


def feature_sums(x: torch.Tensor, y: torch.Tensor) -> GramSums:
    """`gram_sums` of x and y, each less its column means, with linear kernels, at O(n D^2): sum_ij K_ij L_ij = ||X'Y||_F^2.

    Centred columns sum to zero, so the rows of a Gram matrix do too, and without the diagonal to minus the diagonal.
    Products are in the dtype of the input chunk by chunk, their sum and the sum of their squares in float64.
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
