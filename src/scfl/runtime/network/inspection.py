"""What a client sent is looked at before it counts: one broken or hostile client harms nobody.

An answer is refused when it is not what was asked for (shape, type), is not finite, or is so much
larger than everybody's that no data explains it. Sizes are compared per row, with the median of
what was accepted lately: gradients shrink while training goes on, but they do so together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]

# Clients differ in their data, but not by this factor in the size of a row's mean gradient.
_LARGEST_RATIO = 100.0
# With fewer voices than these the median is one client's word against another's.
_FEWEST = 3


def refuse_matrix(matrix: Matrix, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str | None:
    """Why a matrix is not what was asked for, or None."""
    if matrix.shape != shape:
        return f"wrong shape {_show(matrix.shape)}, {_show(shape)} was asked for"
    if matrix.dtype != dtype:
        return f"wrong type {matrix.dtype}, {dtype} was asked for"
    if not np.isfinite(matrix).all():
        return "not finite"
    return None


@dataclass
class Sizes:
    """The size per row of what each client sent last, to compare the next with."""

    accepted: dict[int, float] = field(default_factory=dict)

    def sort_out(self, matrices: dict[int, tuple[Matrix, float]]) -> dict[int, str]:
        """Say who sent something far too large, among ``client: (matrix, rows)``."""
        sizes = {
            client: float(np.linalg.norm(matrix)) / max(rows, 1.0)
            for client, (matrix, rows) in matrices.items()
        }
        # A client's new word replaces its old one; those who are silent keep theirs.
        voices = list({**self.accepted, **sizes}.values())
        usual = float(np.median(voices)) if len(voices) >= _FEWEST else np.inf
        refused = {
            client: f"{size / usual:.3g} times the usual size"
            for client, size in sizes.items()
            if not size <= _LARGEST_RATIO * usual and usual > 0
        }
        self.accepted.update({c: size for c, size in sizes.items() if c not in refused})
        return refused


def _show(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
