"""What a Gaussian sketch with noise tells about one row, exactly.

A client with rows A = [X Y] sends k rows of G A + sigma N, G and N standard normal. Take one row
[x, y] away (put zeros in its place): each coded row is N(0, M) with the row and N(0, M - x x^T)
without, M = A^T A + sigma^2 I. The privacy loss is linear in one chi-square variable with k degrees
of freedom, and the data enters it through a single number, the leverage p = x^T M^-1 x. With
r = p / (1 - p), a = k / 2 and g the density of Gamma(a),

    delta_with    = int_{x0}^inf g(x) (1 - exp(-r (x - x0))) dx,     x0 = (eps + a ln(1+r)) / r,
    delta_without = int_0^{x1} g(x) (1 - exp(-r/(1+r) (x1 - x))) dx,
                                                           x1 = (1+r) (a ln(1+r) - eps) / r,

and (eps, delta) holds for the larger of the two. That is the closed form with incomplete gamma
functions, Q(a, x0) - e^eps Q(a, (1+r) x0) and its mirror image, without the difference that costs
all digits when r is small. Two bounds on r, neither of which looks at the data:

    r <= C^2 / sigma^2                                rows of norm at most C
    r <= C^2 / (sigma^2 + max(0, lambda - C^2))       smallest eigenvalue of A^T A at least lambda,
                                                      itself published with privacy

=============== ======== ==============================================================
here            symbol   meaning
=============== ======== ==============================================================
rows            k        coded rows of one code
sigma           sigma    noise on each coded entry, features and labels
row_norm        C        bound on the norm of every row [x, y] as it enters the code
eigenvalue      lambda   lower bound on the smallest eigenvalue of A^T A; 0 if unknown
ratio           r        p / (1 - p), p the leverage: what a row weighs against the rest
=============== ======== ==============================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import optimize

from scfl.core.parameter import Requirements
from scfl.errors import InfeasibleError, Problem
from scfl.privacy.gamma_tail import log_lower, log_upper

COVERS = (
    "one row, features and labels, against anybody who sees the coded data, whatever else they know"
)

# What the integrals may be off by, many times over: calibration keeps away from the budget by it.
_MARGIN = 1e-9
# More noise than this, in row norms, leaves nothing of the data in single precision.
_MOST_NOISE = 1e6
_MOST_ROWS = 10**9


@dataclass(frozen=True)
class Guarantee:
    """A pair (epsilon, delta) that holds for one row."""

    epsilon: float
    delta: float


def bound_ratio(sigma: float, *, row_norm: float, eigenvalue: float = 0.0) -> float:
    """The largest r = p / (1 - p) that a row can reach; infinite where nothing hides it."""
    with Requirements() as require:
        require.number("noise", sigma, at_least=0)
        require.number("row_norm", row_norm, above=0)
        require.number("eigenvalue", eigenvalue, at_least=0)
    hidden = (sigma / row_norm) ** 2 + max(0.0, eigenvalue / row_norm**2 - 1)
    return math.inf if hidden == 0 else 1 / hidden


def log_delta(epsilon: float, rows: int, ratio: float) -> float:
    """ln of the least delta for an epsilon, the larger of both directions."""
    if math.isinf(ratio):
        return 0.0
    if ratio == 0:
        return -math.inf
    return max(log_delta_with(epsilon, rows, ratio), log_delta_without(epsilon, rows, ratio))


def log_delta_with(epsilon: float, rows: int, ratio: float) -> float:
    """ln delta where the row is there and the neighbour lacks it."""
    shape, grown = rows / 2, math.log1p(ratio)
    start = (epsilon + shape * grown) / ratio
    offset = start / shape - 1 if ratio > 1 else (epsilon / shape - (ratio - grown)) / ratio
    return min(0.0, log_upper(shape, ratio, start, offset))


def log_delta_without(epsilon: float, rows: int, ratio: float) -> float:
    """ln delta where the neighbour has a row more."""
    shape, grown = rows / 2, math.log1p(ratio)
    stop = (1 + ratio) * (shape * grown - epsilon) / ratio
    excess = ratio * grown - (ratio - grown)
    offset = stop / shape - 1 if ratio > 1 else (excess - (1 + ratio) * epsilon / shape) / ratio
    return min(0.0, log_lower(shape, ratio / (1 + ratio), stop, offset))


def find_delta(
    epsilon: float, *, rows: int, sigma: float, row_norm: float, eigenvalue: float = 0.0
) -> float:
    """The least delta for which (epsilon, delta) holds."""
    _check(epsilon=epsilon, rows=rows)
    ratio = bound_ratio(sigma, row_norm=row_norm, eigenvalue=eigenvalue)
    return math.exp(log_delta(epsilon, rows, ratio))


def find_epsilon(
    delta: float, *, rows: int, sigma: float, row_norm: float, eigenvalue: float = 0.0
) -> float:
    """The least epsilon for which (epsilon, delta) holds; 0 where delta alone suffices."""
    _check(delta=delta, rows=rows)
    ratio = bound_ratio(sigma, row_norm=row_norm, eigenvalue=eigenvalue)
    if math.isinf(ratio):
        return math.inf
    target = math.log(delta) - _MARGIN

    def excess(epsilon: float) -> float:
        return log_delta(epsilon, rows, ratio) - target

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return _round_up(optimize.brentq(excess, 0.0, high, xtol=1e-13, rtol=1e-13), excess)


def find_noise(
    epsilon: float, delta: float, *, rows: int, row_norm: float, eigenvalue: float = 0.0
) -> float:
    """The least noise for which (epsilon, delta) holds; 0 only where the eigenvalue suffices."""
    _check(epsilon=epsilon, delta=delta, rows=rows)
    bound_ratio(0.0, row_norm=row_norm, eigenvalue=eigenvalue)
    hidden = max(0.0, eigenvalue / row_norm**2 - 1)
    # Twice the margin: asked for the epsilon of this noise, we shall say no more than was wanted.
    target = math.log(delta) - 2 * _MARGIN

    def excess(sigma: float) -> float:
        ratio = bound_ratio(sigma, row_norm=row_norm, eigenvalue=eigenvalue)
        return log_delta(epsilon, rows, ratio) - target

    if hidden and excess(0.0) <= 0:
        return 0.0
    most = _MOST_NOISE * row_norm
    if excess(most) > 0:
        nearest = find_epsilon(delta, rows=rows, sigma=most, row_norm=row_norm)
        raise InfeasibleError(
            [
                Problem(
                    "epsilon",
                    f"{epsilon:g} with delta {delta:g} and {rows:,} coded rows needs noise above "
                    f"{_MOST_NOISE:,.0f} row norms, which leaves nothing of the data; give at "
                    f"least {_round_digits(nearest):g}, a larger delta, or fewer rows",
                )
            ]
        )
    low = row_norm
    while low > 1e-12 * row_norm and excess(low) <= 0:
        low /= 16
    high = 16 * low
    while excess(high) > 0:
        high *= 16
    root = optimize.brentq(
        lambda log_sigma: excess(math.exp(log_sigma)), math.log(low), math.log(high), xtol=1e-13
    )
    return _round_up(math.exp(root), excess)


def find_rows(
    epsilon: float, delta: float, *, sigma: float, row_norm: float, eigenvalue: float = 0.0
) -> int:
    """The most coded rows for which (epsilon, delta) holds, at most a thousand million."""
    _check(epsilon=epsilon, delta=delta)
    ratio = bound_ratio(sigma, row_norm=row_norm, eigenvalue=eigenvalue)
    target = math.log(delta) - _MARGIN

    def fits(rows: int) -> bool:
        return log_delta(epsilon, rows, ratio) <= target

    if not fits(1):
        least = find_noise(epsilon, delta, rows=1, row_norm=row_norm, eigenvalue=eigenvalue)
        raise InfeasibleError(
            [
                Problem(
                    "noise",
                    f"{sigma:g} does not cover a single coded row at epsilon {epsilon:g} and "
                    f"delta {delta:g}; give at least {_round_digits(least):g}",
                )
            ]
        )
    low, high = 1, 2
    while high <= _MOST_ROWS and fits(high):
        low, high = high, 2 * high
    if high > _MOST_ROWS:
        return _MOST_ROWS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def bound_renyi(order: float, *, rows: int, ratio: float) -> float:
    """The Renyi divergence of an order above 1, the larger of both directions, in nats."""
    if math.isinf(ratio) or order * (leverage := ratio / (1 + ratio)) >= 1:
        return math.inf
    log_rest = math.log1p(-leverage)
    with_row = order * log_rest - math.log1p(-order * leverage)
    without = (1 - order) * log_rest - math.log1p((order - 1) * leverage)
    return max(0.0, rows * max(with_row, without) / (2 * (order - 1)))


def _round_up(value: float, excess: Callable[[float], float]) -> float:
    """The next value at which the budget holds for certain."""
    step = 1e-12
    while excess(value) > 0:
        value *= 1 + step
        step *= 2
    return value


def _round_digits(value: float) -> float:
    """Three digits, rounded up, so that what a message offers is enough."""
    size = 10.0 ** (math.floor(math.log10(value)) - 2) if value > 0 else 1.0
    return math.ceil(value / size) * size


def _check(*, epsilon: float = 1.0, delta: float = 0.5, rows: int = 1) -> None:
    with Requirements() as require:
        require.number("epsilon", epsilon, above=0)
        require.number("delta", delta, above=0, below=1)
        require.count("rows", rows, at_least=1, at_most=_MOST_ROWS)
