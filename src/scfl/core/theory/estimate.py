"""What a server can know from the coded data alone, and how far off it may be.

It sees neither X nor G. Each coded row carries sigma^2 of known noise per entry and client, so with
s_j the noise variance of block j (n sigma^2 for a sum of n codes), unbiased over codes and noise:

    ||X||^2          from  sum_j ||X~_j||^2 / c_j - s_j d
    ||X W - Y||^2    from  sum_j ||X~_j W - Y~_j||^2 / c_j - s_j ||W||^2,  less s_j o if labels
                     are noised too

The smallest eigenvalue of the effective Hessian E = X^T X + H - s I has no unbiased estimate: the
eigenvalues of H scatter, the smallest lies below those of its mean, and noise makes it worse. Two
numbers are given instead. ``at_least`` is the smallest eigenvalue of H less s: E cannot be below
it, because X^T X has no negative eigenvalue. ``estimate`` adds what X^T X holds along the lowest
eigenvectors of H, by the formula of Ledoit and Peche (2011) for how much of an eigenvalue is
scatter. It leans low, to the side of a warning: with c >= 3 d, spectra that decay, and a true value
near zero, it was 0.1 s too low on average, and from 0.75 s too low to 0.4 s too high at d = 100,
where a single eigenvalue still jumps. Flat spectra are put lower. With c < d some directions of H
are empty; nothing is known of X^T X along them, so there it counts as empty too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from scfl.core.coding import CodedData

Matrix = NDArray[Any]
Floats = NDArray[np.float64]

# The lowest directions decide; further up nothing can be negative that is not negative here.
_LOWEST = 64
# Directions with less than this share of the largest eigenvalue are empty but for rounding.
_EMPTY = 1e-6


@dataclass(frozen=True)
class Definiteness:
    """The smallest eigenvalue of X^T X + H - shrink I: a floor that is certain, and an estimate.

    ``bias`` is n sigma^2, the curvature that the noise brings into H and the make-up term removes.
    """

    at_least: float
    estimate: float
    bias: float

    @property
    def indefinite(self) -> bool:
        """Whether the model is expected to grow without bound along some direction."""
        return self.estimate < 0


def estimate_data_square(held: CodedData, noise_variance: float) -> float:
    """||X||_F^2 from coded data with so much noise in every entry of a block."""
    store = held.store
    squares = np.square(store.features, dtype=np.float64).sum(axis=1)
    per_block = _average(squares, held)
    return float((per_block - noise_variance * store.features.shape[1]).sum())


def estimate_residual_square(
    held: CodedData, model: Matrix, noise_variance: float, *, label_noise: bool = False
) -> float:
    """||X W - Y||_F^2, twice the loss, from coded data alone."""
    store = held.store
    model = model.astype(np.float64)
    squares = np.square(store.features @ model - store.targets).sum(axis=1)
    noise = np.square(model).sum() + label_noise * store.targets.shape[1]
    return float((_average(squares, held) - noise_variance * noise).sum())


def estimate_coded_variance(held: CodedData, model: Matrix) -> float:
    """The variance of the full coded gradient over fresh codes, from how its rows scatter."""
    store = held.store
    rows = store.features.astype(np.float64)
    residual = rows @ model - store.targets
    squares = _average(np.square(rows).sum(axis=1) * np.square(residual).sum(axis=1), held)
    total = 0.0
    for block, length in enumerate(store.lengths[0].tolist()):
        own = store.owner == block
        mean = rows[own].T @ residual[own] / length
        total += float(squares[block] - np.square(mean).sum()) / (length - 1)
    return total


def estimate_definiteness(
    curvature: Matrix, *, coded_rows: float, shrink: float, noise_variance: float, share: float = 1
) -> Definiteness:
    """The smallest eigenvalue of share X^T X + H - shrink I, knowing H = ``curvature``.

    ``noise_variance`` is what the noise adds to every eigenvalue of H on average; ``coded_rows`` of
    a stacked code with unequal blocks is n^2 / sum 1/c_j. float32 is enough, and fast.
    """
    values = linalg.eigvalsh(curvature).astype(np.float64)
    values = np.where(values > _EMPTY * values[-1], values, 0.0)
    lowest = values[:_LOWEST]
    data = np.maximum(_remove_scatter(lowest, values, coded_rows) - noise_variance, 0.0)
    estimate = float((share * data + lowest).min()) - shrink
    return Definiteness(float(lowest[0]) - shrink, estimate, noise_variance)


def _average(row_values: Floats, held: CodedData) -> Floats:
    """The mean of each block's rows."""
    store = held.store
    means: Floats = np.bincount(store.owner, row_values) / store.lengths[0]
    return means


def _remove_scatter(lowest: Floats, values: Floats, coded_rows: float) -> Floats:
    """What the true covariance holds along eigenvectors of a sample covariance."""
    ratio = len(values) / coded_rows
    safe = np.where(lowest > 0, lowest, 1.0)
    # The Stieltjes transform just above the real line, smoothed as much as in Ledoit, Wolf (2022).
    width = (min(ratio, 1 / ratio) / len(values)) ** 0.35
    points = safe * (1 + 1j * width)
    transform = (1 / (values - points[:, None])).mean(axis=1)
    true = safe / np.abs(1 - ratio - ratio * points * transform) ** 2
    return np.where(lowest > 0, true, 0.0)
