"""The lemmas of the paper, corrected, under its own Assumption 2 (symbols as in ``printed``).

G is c x m with standard normal entries, N is the sum of n independent such c x d matrices, so its
entries have variance n, and

    E ||N^T N / c - n I||_F^2 = n^2 (d + d^2) / c         (printed without the square)
    E ||G^T N||_F^2           = c d m n                   (printed without c)

The bound on the direction's variance follows from the exact one (``variance``) by
||grad f_i||^2 <= zeta_i kappa_i, ||X||^2 <= zeta, ||R||^2 <= kappa and ||W|| <= phi. It falls as
1/b_s, and its coding part as 1/c, without the factor m^2 of the printed one.
"""

from __future__ import annotations

import math

from scfl.core.theory.printed import Assumption, Setting


def noise_deviation(features: int, coded_rows: int, *, clients: int) -> float:
    """E ||N^T N / c - n I||_F^2."""
    return (features + features**2) * clients**2 / coded_rows


def cross_product(rows: float, features: int, *, clients: int, coded_rows: int) -> float:
    """E ||G^T N||_F^2."""
    return coded_rows * features * rows * clients


def bound_variance(bounds: Assumption, setting: Setting) -> float:
    """A bound on the variance of SCFL's direction with the summed layout and Bernoulli rows.

    Over fresh codes; the part of it that a code drawn once keeps for all rounds is the one with
    ``server_rows`` equal to ``coded_rows``.
    """
    noise = setting.clients * setting.sigma**2
    zeta, kappa, phi = bounds.smoothness, bounds.residual, bounds.radius
    slope = (math.sqrt(zeta * kappa) + noise * phi) ** 2
    spread = (zeta + setting.features * noise) * (kappa + noise * phi**2) + slope
    again = slope * (1 / setting.server_rows - 1 / setting.coded_rows)
    server = spread / setting.server_rows + again
    products = bounds.data_squares * bounds.residual_squares
    late = (1 - setting.probability) / setting.probability
    batches = (setting.client_rows - setting.loads) / (setting.loads * setting.probability)
    return 0.25 * (server + float(((late + batches) * products).sum()))
