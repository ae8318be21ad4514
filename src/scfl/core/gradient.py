"""The least-squares gradient of weighted rows, in one fused pass: A^T diag(w) (A W - Y).

Every gradient in scfl (a client's, the coded data's, a whole round's) is one call of this kernel
with the right row weights. It walks the rows in blocks small enough that the residual stays in
cache and OpenBLAS takes its small-matrix path, and accumulates the transpose, whose inner loop is
contiguous. Run it with BLAS on one thread: parallelism pays over runs, not in here.

=========== =============================================================
here        meaning
=========== =============================================================
A, Y, W     rows (m x d), their targets (m x o), the model (d x o)
w           one weight per row; rows of weight zero cost nothing in bulk
G           the gradient, kept transposed (o x d) while it accumulates
=========== =============================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]
Vector = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Clip:
    """A bound on the norm of each row's own gradient, which is ||x|| ||x W - y||.

    Least squares needs no gradient per row for it: the residual is scaled instead.
    """

    row_norms: Vector
    bound: float

    def of(self, rows: slice | NDArray[np.int64]) -> Clip:
        """The same bound for some of the rows."""
        return Clip(self.row_norms[rows], self.bound)

    def shrink(self, residual: Matrix) -> None:
        """Scale the residuals of rows above the bound down to it."""
        norms = self.row_norms * np.sqrt(np.einsum("ro,ro->r", residual, residual))
        factors = self.bound / np.maximum(norms, self.bound)
        residual *= factors.astype(residual.dtype)[:, None]


# Multiply-accumulates of one block: at d o = 20,000 it is 50 rows, the fastest size measured.
_BLOCK_MACS = 1_000_000
# Reading scattered rows costs this many times the work of reading neighbours (measured).
_GATHER_COST = 1.75


def block_rows(features: int, outputs: int) -> int:
    """How many rows the kernel takes at a time."""
    return max(1, _BLOCK_MACS // (features * outputs))


def accumulate_gradient(
    rows: Matrix,
    targets: Matrix,
    model: Matrix,
    row_weights: Vector | None,
    into: Matrix,
    *,
    clip: Clip | None = None,
) -> None:
    """Add the transposed gradient of the weighted rows to ``into`` (o x d).

    With ``clip`` no row's gradient is longer than its bound, before it is weighted.
    """
    size = block_rows(*model.shape)
    if row_weights is None:
        for start in range(0, len(rows), size):
            block = slice(start, start + size)
            _accumulate_block(
                rows[block], targets[block], model, None, into, clip=clip and clip.of(block)
            )
        return
    active = np.flatnonzero(row_weights)
    if active.size == 0:
        return
    touched = np.unique(active // size)
    if touched.size * size <= _GATHER_COST * active.size or touched.size == 1:
        for start in (touched * size).tolist():
            block = slice(start, start + size)
            _accumulate_block(
                rows[block],
                targets[block],
                model,
                row_weights[block],
                into,
                clip=clip and clip.of(block),
            )
    else:
        for start in range(0, active.size, size):
            some = active[start : start + size]
            part = clip and clip.of(some)
            _accumulate_block(rows[some], targets[some], model, row_weights[some], into, clip=part)


def compute_gradient(
    rows: Matrix,
    targets: Matrix,
    model: Matrix,
    row_weights: Vector | None = None,
    *,
    clip: Clip | None = None,
) -> Matrix:
    """Return A^T diag(w) (A W - Y); without weights, A^T (A W - Y)."""
    into = np.zeros(model.shape[::-1], dtype=model.dtype)
    accumulate_gradient(rows, targets, model, row_weights, into, clip=clip)
    return into.T


def _accumulate_block(
    rows: Matrix,
    targets: Matrix,
    model: Matrix,
    row_weights: Vector | None,
    into: Matrix,
    *,
    clip: Clip | None,
) -> None:
    residual = rows @ model
    residual -= targets
    if clip is not None:
        clip.shrink(residual)
    if row_weights is not None:
        residual *= row_weights[:, None]
    into += residual.T @ rows
