"""The paper's convergence statements as printed (Lemmas 1 and 3, Theorem 1), mistakes included.

They are here to be compared with: ``lemma`` and ``variance`` hold what is true, and
``docs/errata.md`` shows the difference. Only the exact values of Lemma 1 and the bound are printed
in the paper; nothing here is used to decide anything.

==================== ================ =====================================================
here                 paper            meaning
==================== ================ =====================================================
data_squares         zeta_i^2         bounds on ||X_i||_F^2, one per client
residual_squares     kappa_i^2        bounds on ||X_i W - Y_i||_F^2, one per client
radius               phi              a bound on ||W||_F
client_rows, loads   l_i, b_i         rows of each client, and how many a round samples
coded_rows           c                rows of the coded data
server_rows          b_s              coded rows that a round samples
features             d                width of a row
probability          p_i              arrival probabilities
==================== ================ =====================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Assumption:
    """Assumption 2: what bounds the data, the residuals and the model in every round."""

    data_squares: Floats
    residual_squares: Floats
    radius: float

    @property
    def smoothness(self) -> float:
        """The paper's zeta."""
        return float(self.data_squares.sum())

    @property
    def residual(self) -> float:
        """The paper's kappa."""
        return float(self.residual_squares.sum())


@dataclass(frozen=True, eq=False)
class Setting:
    """What Lemma 3 needs to know of a round besides the data's bounds."""

    client_rows: Floats
    loads: Floats
    probability: Floats
    features: int
    coded_rows: int
    server_rows: int
    sigma: float = 0.0

    @property
    def clients(self) -> int:
        return len(self.client_rows)

    @property
    def rows(self) -> float:
        return float(self.client_rows.sum())


def code_deviation(rows: float, coded_rows: int) -> float:
    """Lemma 1, bullet 1: E ||G^T G / c - I||_F^2. Correct."""
    return (rows + rows**2) / coded_rows


def noise_deviation(features: int, coded_rows: int, *, clients: int) -> float:
    """Lemma 1, bullet 2, printed: E ||N^T N / c - n I||_F^2, short of a factor n."""
    return (features + features**2) * clients / coded_rows


def sampling_deviation(rows: float, sampled: float) -> float:
    """Lemma 1, bullets 3 and 4: E ||(l/b) S - I||_F^2 for Bernoulli(b/l) rows. Correct."""
    return rows * (rows - sampled) / sampled


def cross_product(rows: float, features: int, *, clients: int) -> float:
    """The appendix, printed: E ||G^T N||_F^2, short of a factor c."""
    return features * rows * clients


def bound_variance(bounds: Assumption, setting: Setting) -> float:
    """Lemma 3's rho, printed; its first term puts zeta kappa for ||X~||^2 ||X~W - Y~||^2."""
    n, m, d, c = setting.clients, setting.rows, setting.features, setting.coded_rows
    b_s, sigma, phi = setting.server_rows, setting.sigma, bounds.radius
    zeta, kappa = bounds.smoothness, bounds.residual
    products = bounds.data_squares * bounds.residual_squares
    sampling = (c - b_s) / (4 * c * b_s) * zeta * kappa
    coding = code_deviation(m, c) * zeta * kappa
    noise = noise_deviation(d, c, clients=n) * sigma**4 * phi**2
    cross = cross_product(m, d, clients=n) * sigma**2 / c**2 * (zeta * phi**2 + kappa)
    late = 0.5 * ((1 - setting.probability) / setting.probability * products).sum()
    deviation = map(sampling_deviation, setting.client_rows.tolist(), setting.loads.tolist())
    batches = 0.5 * (np.array(list(deviation)) * products).sum()
    return float(sampling + coding + noise + cross + late + batches)


def bound_gap(*, smoothness: float, radius: float, variance: float, rounds: int) -> float:
    """Theorem 1's bound on f(average) - min f after so many rounds, printed."""
    return math.sqrt(4 * radius**2 * variance / rounds) + 2 * radius**2 * smoothness / rounds
