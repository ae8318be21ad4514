"""Sums of products: all that a least-squares loss knows of the rows it is computed on.

With A = [X Y], the matrix A^T A gives the loss of any model without another look at the rows, the
solution, and the distribution of every Gaussian code. It is kept in float64: a loss is a small
difference of large terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Matrix = NDArray[Any]

_CHUNK_ROWS = 4096
# Directions with less than this share of the largest eigenvalue hold rounding, not data.
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class Moments:
    """``products`` is [X Y]^T [X Y] of so many rows, the last ``outputs`` columns being Y's."""

    products: Matrix
    rows: int
    outputs: int

    @property
    def curvature(self) -> Matrix:
        """X^T X, the Hessian of the unscaled loss."""
        return self.products[: -self.outputs, : -self.outputs]

    @property
    def correlation(self) -> Matrix:
        """X^T Y."""
        return self.products[: -self.outputs, -self.outputs :]

    def loss(self, model: Matrix) -> float:
        """||X W - Y||^2 / (2 rows)."""
        model = model.astype(np.float64, copy=False)
        change = self.curvature @ model - 2 * self.correlation
        constant = np.trace(self.products[-self.outputs :, -self.outputs :])
        return max(float((model * change).sum() + constant), 0.0) / (2 * self.rows)

    @cached_property
    def solution(self) -> Matrix:
        """The least-squares model; of several, the shortest."""
        try:
            factor = linalg.cho_factor(self.curvature)
        except linalg.LinAlgError:
            return self._shortest_solution()
        solved: Matrix = linalg.cho_solve(factor, self.correlation)
        diagonal = np.abs(np.diagonal(factor[0]))
        sound = diagonal.min(initial=np.inf) ** 2 > _NEGLIGIBLE * diagonal.max(initial=0.0) ** 2
        return solved if sound else self._shortest_solution()

    @cached_property
    def factor(self) -> Matrix:
        """L with L^T L = A^T A."""
        try:
            return linalg.cholesky(self.products, lower=False)
        except linalg.LinAlgError:
            # Fewer rows than columns, or columns that are empty or depend on each other: take the
            # columns in an order in which those that hold nothing of their own come last.
            reduced, order, rank, _ = linalg.lapack.dpstrf(self.products)
            factor = np.zeros_like(self.products)
            factor[:rank, order - 1] = np.triu(reduced)[:rank]
            return factor

    def _shortest_solution(self) -> Matrix:
        values, vectors = linalg.eigh(self.curvature)
        kept = values > _NEGLIGIBLE * values[-1]
        vectors = vectors[:, kept]
        solved: Matrix = vectors @ ((vectors.T @ self.correlation) / values[kept, None])
        return solved


def measure_moments(
    features: Matrix, targets: Matrix, row_weights: NDArray[Any] | None = None
) -> Moments:
    """Add up the products of rows, weighted rows if asked, a few thousand at a time.

    Rows of weight 0 cost nothing.
    """
    width = features.shape[1] + targets.shape[1]
    products = np.zeros((width, width))
    active = None if row_weights is None else np.flatnonzero(row_weights)
    for start in range(0, len(features) if active is None else active.size, _CHUNK_ROWS):
        some: slice | NDArray[np.int64] = slice(start, start + _CHUNK_ROWS)
        if active is not None:
            some = active[some]
        rows = np.concatenate([features[some], targets[some]], axis=1, dtype=np.float64)
        if row_weights is not None:
            rows *= row_weights[some, None]
        products += rows.T @ rows
    return Moments(products, len(features), targets.shape[1])
