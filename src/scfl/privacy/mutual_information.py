"""The paper's privacy number, as printed (Theorem 2), and the row-level bound beside it.

    eps_i = 1/2 log2(1 + c / (h_i^2 + sigma^2)) bits,      eps = max_i eps_i,
    h_i^2 = min over columns of (sum of squares - largest square),      entries of X within [-1, 1].

It bounds what the coded features tell about one entry of X to somebody who knows the other entries
of its column. It says nothing of a row, nothing of the labels, and for more than one column it
fails against who knows the other columns too (``scfl privacy audit`` recovers an entry). It also
depends on the data, so publishing it leaks a little. That is why it always comes with ``COVERS``.

The bound on a whole row, [x, y] of norm at most C, holds without a look at the data:

    I(row; sketch) <= (c/2) (q - ln(1 + q)) nats,      q = C^2 / sigma^2.

============ =============== ====================================================
here         symbol          meaning
============ =============== ====================================================
rows         c               coded rows of one code
energy       h_i^2           what the other entries of the weakest column hide
sigma        sigma           noise on each coded entry
scale        max |x|         what entries are divided by to lie within [-1, 1]
bits         eps             the printed budget
============ =============== ====================================================

Scaling the data by 1/s and the noise with it changes nothing that anybody sees, so energy and sigma
are given as they are and ``scale`` does the rest: X~ / s = G (X / s) + (sigma / s) N.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scfl.core.parameter import Requirements

Floats = NDArray[np.float64]

COVERS = "one entry, features only, data-dependent; not a row guarantee"


def measure_energy(features: NDArray[Any], row_weights: NDArray[Any] | None = None) -> float:
    """h^2 of the rows that enter one code, each with its weight in the code."""
    squares = np.square(features, dtype=np.float64)
    if row_weights is not None:
        squares *= np.square(row_weights)[:, None]
    hidden = squares.sum(axis=0) - squares.max(axis=0)
    return max(0.0, float(hidden.min()))


def state_bits(rows: ArrayLike, energy: ArrayLike, sigma: float, *, scale: float) -> Floats:
    """Theorem 2's eps_i; infinite where neither noise nor other entries hide anything."""
    _check(sigma=sigma, scale=scale)
    hidden = np.asarray(energy, dtype=np.float64) + sigma**2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(rows, dtype=np.float64) * scale**2 / hidden
        bits: Floats = np.where(np.asarray(rows) > 0, np.log1p(ratio) / (2 * math.log(2)), 0.0)
    return bits


def find_sigma(bits: float, rows: ArrayLike, energy: ArrayLike, *, scale: float) -> float:
    """The least noise with which every client's eps_i is at most ``bits``; 0 if none is needed."""
    with Requirements() as require:
        require.number("bits", bits, above=0)
    _check(scale=scale)
    with np.errstate(over="ignore"):
        needed = np.asarray(rows) * scale**2 / np.expm1(2 * math.log(2) * bits) - energy
    variance = max(0.0, float(np.max(needed)))
    # Rounding must not exceed the budget: a hair of what hides the entries more, until it is kept.
    hair = 1e-16 * (float(np.nan_to_num(energy, posinf=0.0).max()) + variance)
    while state_bits(rows, energy, math.sqrt(variance), scale=scale).max() > bits:
        variance += hair
        hair *= 2
    return math.sqrt(variance)


def bound_row_information(rows: int, sigma: float, *, row_norm: float) -> float:
    """The most nats that a code of so many rows tells about one row, features and labels.

    Its noise is on both, and the row's norm is at most ``row_norm``.
    """
    with Requirements() as require:
        require.count("rows", rows, at_least=1)
        require.number("row_norm", row_norm, above=0)
    _check(sigma=sigma)
    if sigma == 0:
        return math.inf
    ratio = (row_norm / sigma) ** 2
    # Below this q - ln(1 + q) loses all its digits; q^2/2 - q^3/3 does not.
    gap = ratio - math.log1p(ratio) if ratio > 1e-5 else ratio**2 * (0.5 - ratio / 3)
    return rows / 2 * gap


def _check(*, sigma: float = 0.0, scale: float = 1.0) -> None:
    with Requirements() as require:
        require.number("sigma", sigma, at_least=0)
        require.number("scale", scale, above=0)
