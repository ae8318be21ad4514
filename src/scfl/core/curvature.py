"""Coded data as curvature: a preconditioner, sized by rule from what the server holds.

Coded rows X~ say more than a gradient. In expectation (1/c) X~^T X~ = X^T X + (noise) I, so with

    H = sum_j (1/c_j) X~_j^T X~_j  over the blocks that the server holds,      P = (H + ridge I)^-1

W - P grad f is nearly Newton's step. H errs, as it comes from c rows; but what counts is not d / c,
it is the effective dimension of the data at the ridge over c. With nu, the curvature that the noise
adds to every direction (n sigma^2), and h the eigenvalues of H,

    D = sum_h max(h - nu, 0) / (h + ridge),      gamma = D / c,

because X^T X, seen through P, then errs by a factor of about (1 -+ sqrt(gamma))^2. Directions that
noise alone fills do not count: the gradient has little to say along them. The ridge is the smallest
that brings gamma down to ``SHARE``. Nothing is ever subtracted from H, so P is positive definite
whatever the noise.

What is inverted depends on the size (``DIRECT`` is the widest matrix that is factored):

=================== ===================================================== ======================
few columns         Cholesky of the d x d matrix H + ridge                d^2 o per step
few coded rows      Woodbury: Cholesky of the c x c matrix X~ X~^T + ..   2 c d o + c^2 o
many of both        conjugate gradients; coded rows are only multiplied   iterations times 2 c d o
=================== ===================================================== ======================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from scfl.core.coding import CodedData

Matrix = NDArray[Any]
Floats = NDArray[np.float64]

# The effective dimension that a coded row may bear: 0.05 to 0.2 were about equally fast on MNIST
# and Fashion-MNIST, with noise and without; 0.3 was slower or unstable.
SHARE = 0.1
# The widest matrix that is factored: 256 MB in float32.
DIRECT = 8192
# The widest matrix whose eigenvalues are computed; beyond, Lanczos steps estimate their sums.
_EXACT = 2500
_PROBES, _LANCZOS = 4, 48
# Conjugate gradients stop at this share of the right-hand side: the fixed point does not feel it.
_TOLERANCE = 1e-2
# Below this share of the largest eigenvalue a ridge is lost in float32.
_SMALLEST = 1e-5


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of H, each with how often it counts, and what noise adds to them on average."""

    values: Floats
    counts: Floats
    noise: float = 0.0

    def dimension(self, ridge: float) -> float:
        """The effective dimension of the data, as far as it stands out of the noise."""
        data = np.maximum(self.values - self.noise, 0.0)
        return float((self.counts * data / (self.values + ridge)).sum())


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """(H + ridge I)^-1, ready to be applied.

    ``factor`` is a Cholesky factor of the side that was factored, empty for conjugate gradients;
    ``rows`` are the coded rows, each divided by the root of its block's length. ``dimension`` is
    the effective dimension and ``gamma`` what it is per coded row.
    """

    side: Literal["columns", "rows", "neither"]
    rows: Matrix
    factor: Matrix
    ridge: float
    dimension: float
    gamma: float
    iterations: int = 0

    def apply(self, direction: Matrix) -> Matrix:
        """P times a direction, in the direction's precision."""
        if self.side == "columns":
            return _solve_factored(self.factor, direction)
        if self.side == "rows":
            inner = _solve_factored(self.factor, self.rows @ direction)
            apart: Matrix = direction - self.rows.T @ inner
            scaled: Matrix = apart / direction.dtype.type(self.ridge)
            return scaled
        return _solve_by_gradients(self.rows, self.ridge, direction, self.iterations)


def know_curvature(held: CodedData, *, noise_variance: float = 0.0) -> Preconditioner:
    """The preconditioner of coded data, made when it is first asked for.

    It follows from the coded data alone, so it is no part of where a training stands.
    """
    if held not in _KNOWN:
        _KNOWN[held] = precondition(held, noise_variance=noise_variance)
    return _KNOWN[held]


def precondition(
    held: CodedData, *, noise_variance: float = 0.0, share: float = SHARE, direct: int = DIRECT
) -> Preconditioner:
    """Choose the ridge and make H + ridge invertible on its cheaper side.

    ``noise_variance`` is nu, summed over the blocks: n sigma^2 for either layout.
    """
    rows, rank = scale_rows(held), effective_rows(held)
    count, width = rows.shape
    side = choose_side(count, width, direct)
    small = None
    if side != "neither":
        small = rows.T @ rows if side == "columns" else rows @ rows.T
    spectrum = replace(measure_spectrum(rows, small), noise=noise_variance)
    ridge = choose_ridge(spectrum, share * rank)
    dimension = spectrum.dimension(ridge)
    factor, iterations = np.zeros((0, 0), dtype=rows.dtype), 0
    if small is not None:
        small[np.diag_indices_from(small)] += small.dtype.type(ridge)
        factor = linalg.cholesky(small, lower=False, overwrite_a=True, check_finite=False)
    else:
        iterations = count_iterations(spectrum, ridge)
    gamma = min(dimension / rank, 1.0)
    return Preconditioner(side, rows, factor, ridge, dimension, gamma, iterations)


_KNOWN: WeakKeyDictionary[CodedData, Preconditioner] = WeakKeyDictionary()


def choose_side(
    count: int, width: int, direct: int = DIRECT
) -> Literal["columns", "rows", "neither"]:
    """Which matrix is factored: the smaller one, if it is small enough."""
    if min(count, width) > direct:
        return "neither"
    return "columns" if width <= count else "rows"


def price_preconditioner(count: int, width: int, outputs: int) -> tuple[float, float]:
    """Multiply-accumulates of making a preconditioner, and of applying it."""
    small, large = sorted((count, width))
    side = choose_side(count, width)
    eigenvalues = 2 / 3 * small**3 if small <= _EXACT else _PROBES * _LANCZOS * 2.0 * count * width
    if side == "neither":
        return eigenvalues, _LANCZOS * 2.0 * count * width * outputs
    making = small**2 * large / 2 + small**3 / 6 + eigenvalues
    applying = small**2 if side == "columns" else 2.0 * count * width + small**2
    return making, float(applying) * outputs


def scale_rows(held: CodedData) -> Matrix:
    """The coded rows such that H is the product of their transpose and themselves."""
    lengths = held.store.lengths[0]
    scale = 1 / np.sqrt(lengths[held.store.owner])
    rows: Matrix = held.store.features * scale[:, None].astype(held.store.features.dtype)
    return rows


def measure_curvature(held: CodedData) -> Matrix:
    """H itself."""
    rows = scale_rows(held)
    curvature: Matrix = rows.T @ rows
    return curvature


def effective_rows(held: CodedData) -> float:
    """The rows of one code that errs as much as blocks of such lengths and traces do together."""
    lengths = held.store.lengths[0]
    squares = np.square(held.store.features, dtype=np.float64).sum(axis=1)
    traces = np.bincount(held.store.owner, squares, minlength=len(lengths)) / lengths
    spread = float((traces**2 / lengths).sum())
    return float(traces.sum() ** 2 / spread) if spread > 0 else float(lengths.sum())


def measure_spectrum(rows: Matrix, small: Matrix | None) -> Spectrum:
    """The eigenvalues of H that are not zero: exactly, or by quadrature where that takes long."""
    if small is not None and len(small) <= _EXACT:
        values = np.maximum(linalg.eigvalsh(small).astype(np.float64), 0.0)
        return Spectrum(values, np.ones(len(values)))
    width = rows.shape[1]
    nodes, counts = [], []
    # A fixed stream: what is decided from the coded data has to be the same when asked again.
    for probe in np.random.default_rng(0).choice([-1.0, 1.0], (_PROBES, width)):
        value, weight = _run_lanczos(rows, probe / math.sqrt(width), _LANCZOS)
        nodes.append(np.maximum(value, 0.0))
        counts.append(weight * width / _PROBES)
    return Spectrum(np.concatenate(nodes), np.concatenate(counts))


def choose_ridge(spectrum: Spectrum, dimension: float) -> float:
    """The smallest ridge at which the effective dimension is no more than wanted."""
    largest = float(spectrum.values.max(initial=0.0))
    if largest == 0:
        return 1.0
    low, high = _SMALLEST * largest, largest
    if spectrum.dimension(low) <= dimension:
        return low
    while spectrum.dimension(high) > dimension:
        high *= 4
    while high > low * 1.0001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if spectrum.dimension(middle) <= dimension else (middle, high)
    return high


def count_iterations(spectrum: Spectrum, ridge: float) -> int:
    """Conjugate gradients until the error is small, by the bound on their convergence."""
    condition = (float(spectrum.values.max()) + ridge) / ridge
    return max(1, math.ceil(0.5 * math.sqrt(condition) * math.log(2 / _TOLERANCE)))


def _run_lanczos(rows: Matrix, start: Floats, steps: int) -> tuple[Floats, Floats]:
    """Nodes and weights of a quadrature for start^T f(H) start."""
    basis = [start]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(steps, *rows.shape)):
        image = (rows.T @ (rows @ basis[-1].astype(rows.dtype))).astype(np.float64)
        diagonal.append(float(image @ basis[-1]))
        # Twice against all earlier vectors: rounding would bring them back.
        for _ in range(2):
            kept = np.array(basis)
            image -= kept.T @ (kept @ image)
        length = float(np.linalg.norm(image))
        if length < 1e-6 * max(abs(diagonal[0]), 1e-300):
            break
        beside.append(length)
        basis.append(image / length)
    values, vectors = linalg.eigh_tridiagonal(diagonal, beside[: len(diagonal) - 1])
    return values.astype(np.float64), vectors[0].astype(np.float64) ** 2


def _solve_factored(factor: Matrix, wanted: Matrix) -> Matrix:
    pair: Any = (factor, False)
    solved: Matrix = linalg.cho_solve(pair, wanted, check_finite=False)
    return solved


def _solve_by_gradients(rows: Matrix, ridge: float, wanted: Matrix, iterations: int) -> Matrix:
    """Solve (H + ridge) Z = wanted for all columns side by side."""
    solution = np.zeros_like(wanted)
    residual = wanted.copy()
    search = residual.copy()
    size = np.square(residual).sum(axis=0)
    for _ in range(iterations):
        image = rows.T @ (rows @ search) + wanted.dtype.type(ridge) * search
        along = (search * image).sum(axis=0)
        length = np.divide(size, along, out=np.zeros_like(size), where=along > 0)
        solution += length * search
        residual -= length * image
        smaller = np.square(residual).sum(axis=0)
        search = (
            residual + np.divide(smaller, size, out=np.zeros_like(size), where=size > 0) * search
        )
        size = smaller
    return solution
