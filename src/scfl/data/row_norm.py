"""A bound on the norm of every training row, which a guarantee for single rows rests on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.parameter import Requirements
from scfl.data.problem import Problem

Matrix = NDArray[Any]

_CHUNK_ROWS = 4096


def bound_rows(problem: Problem, row_norm: float) -> Problem:
    """Scale training rows [x, y] of a norm above ``row_norm`` down to it, and count them.

    Features and targets shrink together, so what fits a row still fits it; it only counts less.
    A client can do this alone: the bound is a number that everybody is told beforehand.
    """
    with Requirements() as require:
        require.number("row_norm", row_norm, above=0)
    features, targets, above = hold_rows(problem.features, problem.targets, row_norm)
    owner = np.repeat(np.arange(len(problem.client_rows)), problem.client_rows)
    counts = np.bincount(owner[above], minlength=len(problem.client_rows))
    return replace(
        problem, features=features, targets=targets, row_norm=row_norm, scaled_down=counts
    )


def hold_rows(
    features: Matrix, targets: Matrix, row_norm: float
) -> tuple[Matrix, Matrix, NDArray[np.bool_]]:
    """Rows with a norm of at most ``row_norm``, and which of them had a larger one."""
    norms = measure_norms(features, targets)
    above = norms > row_norm
    if above.any():
        dtype = features.dtype
        # Rounding the scaled entries must not bring a row above the bound again.
        factors = row_norm / norms[above] * (1 - 2 * np.finfo(dtype).eps)
        features, targets = features.copy(), targets.copy()
        features[above] = (features[above] * factors[:, None]).astype(dtype)
        targets[above] = (targets[above] * factors[:, None]).astype(dtype)
    return features, targets, above


def measure_norms(features: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.float64]:
    """The norm of every row [x, y]."""
    squares = np.empty(len(features))
    for start in range(0, len(features), _CHUNK_ROWS):
        some = slice(start, start + _CHUNK_ROWS)
        squares[some] = np.square(features[some], dtype=np.float64).sum(axis=1)
        squares[some] += np.square(targets[some], dtype=np.float64).sum(axis=1)
    norms: NDArray[np.float64] = np.sqrt(squares)
    return norms
