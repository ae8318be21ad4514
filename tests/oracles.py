"""Slow, obvious versions of the formulas: one line or one plain loop each, in double precision."""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def gradient(
    rows: ArrayLike, targets: ArrayLike, model: ArrayLike, row_weights: ArrayLike | None = None
) -> Floats:
    """A^T diag(w) (A W - Y)."""
    a, y, w = (np.asarray(part, dtype=np.float64) for part in (rows, targets, model))
    weights = np.ones(len(a)) if row_weights is None else np.asarray(row_weights, np.float64)
    return a.T @ (weights[:, None] * (a @ w - y))


def gradient_size(rows: Any, targets: Any, model: Any, row_weights: Any = None) -> Floats:
    """The gradient with every product taken absolute: rounding errors are a few eps of this."""
    weights = None if row_weights is None else np.abs(row_weights)
    return gradient(np.abs(rows), -np.abs(targets), np.abs(model), weights)


def wireless_cdf(
    seconds: float, *, erasure: float, compute_s: float, upload_s: float, download_s: float
) -> float:
    """P(c + K tau + t_d <= t), attempt after attempt."""
    total = 0.0
    for k in count(1):
        if compute_s + k * upload_s + download_s > seconds:
            return total
        total += erasure ** (k - 1) * (1 - erasure)
    raise AssertionError


def shifted_cdf(
    seconds: float, *, erasure: float, variation: float, compute_s: float, upload_s: float
) -> float:
    """The sum over v of REFERENCE.md section 1, term after term."""
    total = 0.0
    for v in count(2):
        left = seconds - compute_s - v * upload_s
        if left < 0:
            return total
        chance = (v - 1) * (1 - erasure) ** 2 * erasure ** (v - 2)
        total += chance * (1 - math.exp(-variation / compute_s * left) if compute_s > 0 else 1)
    raise AssertionError


def batch_major(owner_rows: list[int], subsets: int) -> list[list[tuple[int, int]]]:
    """Per subset the (owner, row) pairs in their order of storage."""
    return [
        [
            (owner, row)
            for owner, rows in enumerate(owner_rows)
            for row in range(rows * subset // subsets, rows * (subset + 1) // subsets)
        ]
        for subset in range(subsets)
    ]


def code_moment(
    features: Floats,
    targets: Floats,
    *,
    sigma: float = 0.0,
    labels: bool = False,
    clients: int = 1,
    row_weights: Floats | None = None,
) -> Floats:
    """The covariance of one coded row [x~ y~]: A^T D^2 A, plus n sigma^2 where noise is added."""
    data = np.concatenate([features, targets], axis=1).astype(np.float64)
    weighted = data if row_weights is None else row_weights[:, None] * data
    noisy = [1.0] * features.shape[1] + [float(labels)] * targets.shape[1]
    return weighted.T @ weighted + clients * sigma**2 * np.diag(noisy)
