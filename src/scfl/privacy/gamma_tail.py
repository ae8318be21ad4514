"""Two integrals over the tails of a Gamma density, in logarithms, to nearly all digits.

    upper = int_{x0}^inf g(x) (1 - exp(-u (x - x0))) dx
    lower = int_0^{x1}   g(x) (1 - exp(-u (x1 - x))) dx,        g the density of Gamma(a)

Each is also a difference of incomplete gamma functions, and the difference loses everything when u
is small. Here nothing is subtracted: after a substitution that stretches both ends to infinity the
integrand has one peak, and Gauss's rule integrates it panel by panel, the borders being where it
has fallen by given factors. So a peak of any width costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

# The integrand is followed until it has fallen by exp(-45), 3e-20, on either side.
_FALLS = np.array([1.0, 3.0, 6.0, 10.0, 15.0, 21.0, 28.0, 36.0, 45.0])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_FAR = 300.0


def log_upper(shape: float, rate: float, start: float, offset: float) -> float:
    """ln of the upper integral from x0 = ``start``; ``offset`` is x0 / a - 1, to its last digit."""

    def integrand(y: Floats) -> Floats:
        beyond = np.exp(y)
        density = _log_density(shape, start + beyond, offset + beyond / shape)
        return density + _log_missing(math.log(rate) + y) + y

    return _log_integral(integrand, -_FAR, math.log(1e3 + 100 * (shape + start)))


def log_lower(shape: float, rate: float, stop: float, offset: float) -> float:
    """ln of the lower integral up to x1 = ``stop``; ``offset`` is x1 / a - 1, to its last digit."""
    if stop <= 0:
        return -math.inf

    def integrand(y: Floats) -> Floats:
        log_below, log_left = -np.logaddexp(0, -y), -np.logaddexp(0, y)
        place = np.exp(math.log(stop) + log_left)
        density = _log_density(shape, place, offset - (1 + offset) * np.exp(log_below))
        missing = _log_missing(math.log(rate * stop) + log_below)
        return density + missing + math.log(stop) + log_below + log_left

    return _log_integral(integrand, -_FAR, _FAR)


def _log_density(shape: float, x: Floats, offset: Floats) -> Floats:
    """ln g(x), with x / a - 1 given apart: near the peak x itself has lost its digits."""
    near = np.abs(offset) < 0.5
    log_ratio = np.where(near, np.log1p(np.where(near, offset, 0.0)), np.log(x / shape))
    fixed = 0.5 * math.log(shape / (2 * math.pi)) - _stirling_rest(shape)
    return fixed - shape * (offset - log_ratio) - np.log(x)


def _stirling_rest(shape: float) -> float:
    """ln Gamma(a) less Stirling's formula for it."""
    if shape < 16:
        stirling = (shape - 0.5) * math.log(shape) - shape + 0.5 * math.log(2 * math.pi)
        return float(special.gammaln(shape)) - stirling
    inverse = 1 / shape**2
    return (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / shape


def _log_missing(log_z: Floats) -> Floats:
    """ln(1 - exp(-z)) for z from its logarithm."""
    small = log_z < -18
    z = np.exp(np.where(small, -18.0, log_z))
    return np.where(small, log_z - 0.5 * np.exp(log_z), np.log(-np.expm1(-z)))


def _log_integral(integrand: Callable[[Floats], Floats], low: float, high: float) -> float:
    """ln of the integral of exp(integrand), which rises to one peak and falls."""
    first, last = low, high
    for _ in range(9):
        grid = np.linspace(low, high, 33)
        best = int(np.argmax(integrand(grid)))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 32)])
    peak = 0.5 * (low + high)
    height = float(integrand(np.array([peak]))[0])
    inside, outside = np.full(2 * _FALLS.size, peak), np.repeat([first, last], _FALLS.size)
    floor = height - np.tile(_FALLS, 2)
    for _ in range(40):
        middle = 0.5 * (inside + outside)
        above = integrand(middle) > floor
        inside, outside = np.where(above, middle, inside), np.where(above, outside, middle)
    borders = np.concatenate([outside[: _FALLS.size][::-1], [peak], outside[_FALLS.size :]])
    half = np.diff(borders) / 2
    values = integrand((borders[:-1, None] + half[:, None] * (1 + _NODES)).ravel())
    weights = (half[:, None] * _WEIGHTS).ravel()
    return height + math.log(float(weights @ np.exp(values - height)))
