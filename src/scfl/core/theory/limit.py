"""Where SCFL ends when its code is drawn once, and what decides whether it ends anywhere.

With the code fixed, the mean direction is half the gradient of a quadratic, so training goes to

    (X^T X + H - s I) W = X^T Y + K,   H = sum_j X~_j^T X~_j / c_j,   K = sum_j X~_j^T Y~_j / c_j,

s = n sigma^2 with the make-up term and 0 without, and not to the least-squares solution: no
learning rate and no number of rounds closes the gap. Without a positive smallest eigenvalue of
X^T X + H - s I there is no limit: along that direction the model grows in every round.

**The size of the gap**, without noise: at the solution the coded rows are independent of their
residuals, so a summed code of c rows leaves, over codes, a share

    f(W_inf) / f(W*) - 1  =  (d/c) E mean_k lambda_k / (1 + lambda_k)^2,

lambda the eigenvalues of a d x d Wishart matrix over c. They follow Marchenko and Pastur's law in
y = d/c, whose Stieltjes transform m gives the mean as m(-1) - m'(-1): about d / (4 c) for large c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from scfl.core.coding import CodedData
from scfl.core.moments import Moments

Matrix = NDArray[Any]


@dataclass(frozen=True, eq=False)
class System:
    """The linear equations whose solution a mean direction vanishes at: curvature W = pull."""

    curvature: Matrix
    pull: Matrix

    @property
    def smallest_eigenvalue(self) -> float:
        """Below zero, nothing converges."""
        return float(linalg.eigvalsh(self.curvature, subset_by_index=[0, 0])[0])

    @property
    def solution(self) -> Matrix:
        """Where training ends; a saddle that is never reached if an eigenvalue is negative."""
        solved: Matrix = linalg.solve(self.curvature, self.pull, assume_a="sym")
        return solved


def code_system(held: CodedData) -> System:
    """H and K: the coded data's own equations, every block normalised by its rows."""
    store = held.store
    lengths = store.lengths[0]
    if len(store.lengths) > 1:
        raise ValueError("a code per subset has one system per subset; take them one by one")
    weights = 1 / np.sqrt(lengths[store.owner])
    rows = store.features.astype(np.float64) * weights[:, None]
    targets = store.targets.astype(np.float64) * weights[:, None]
    return System(rows.T @ rows, rows.T @ targets)


def effective_system(data: Moments, held: CodedData, *, shrink: float = 0.0) -> System:
    """X^T X + H - shrink I and X^T Y + K: what SCFL solves; ``shrink`` is n sigma^2 or 0."""
    code = code_system(held)
    curvature = data.curvature + code.curvature - shrink * np.eye(len(code.curvature))
    return System(curvature, data.correlation + code.pull)


def measure_gap(data: Moments, model: Matrix) -> float:
    """f(model) - min f of the unscaled loss f = ||XW - Y||^2 / 2, without taking a difference."""
    away = model.astype(np.float64) - data.solution
    return 0.5 * float((away * (data.curvature @ away)).sum())


def expect_gap_share(width: int, coded_rows: int) -> float:
    """The expected f(W_inf) / f(W*) - 1 of a summed code without noise, when both are large."""
    y = width / coded_rows
    # m solves y z m^2 - (1 - y - z) m + 1 = 0 at z = -1; its slope follows by differentiation.
    m = (math.sqrt((2 - y) ** 2 + 4 * y) - (2 - y)) / (2 * y)
    slope = (y * m**2 + m) / ((2 - y) + 2 * y * m)
    return y * (m - slope)
