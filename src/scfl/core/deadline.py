"""The first moment at which an expected total reaches what is needed.

The steps are those of ITP (interpolate, truncate, project): as few as a secant's where the total
is smooth, hardly more than bisection's where it is a staircase. Most of the work is in the total,
so a client whose return is the same at both ends of the bracket is not computed again: returns
only grow with time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scfl.errors import InfeasibleError, Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# The rows that each of some clients returns within so many seconds, on average.
Returns = Callable[[float, Ints], Floats]

# A continuous total is known no better than its rounding: closer brackets would be noise.
_CLOSE = 1e-13


def find_deadline(
    returns: Returns,
    *,
    needed: float,
    floor_s: float,
    guess_s: float,
    staircase: bool,
    clients: int,
    server: Callable[[float], int] | None = None,
) -> float:
    """Return the smallest time, from ``floor_s`` on, at which the total is what is needed.

    The total is the clients' returns plus what the ``server`` adds. A ``staircase`` is followed to
    the very double at which its decisive step stands.
    """

    def gap(seconds: float, rows: Floats) -> float:
        return float(rows.sum()) + (server(seconds) if server else 0) - needed

    unsettled = np.arange(clients)
    low, low_rows = floor_s, returns(floor_s, unsettled)
    low_gap = gap(low, low_rows)
    if low_gap >= 0:
        return low
    high = max(2 * low, guess_s)
    while (high_gap := gap(high, high_rows := returns(high, unsettled))) < 0:
        low, low_rows, low_gap, high = high, high_rows, high_gap, 2 * high
        if not math.isfinite(high):
            raise InfeasibleError([Problem("target_rows", "no deadline reaches it; ask for less")])
    radius = 4 * (high - low)
    while True:
        close = _CLOSE * high if not staircase else 0.0
        middle, width = 0.5 * (low + high), high - low
        if width <= close or not low < middle < high:
            return high
        point = _next_point((low, low_gap), (high, high_gap), radius - 0.5 * width)
        radius *= 0.5
        point = min(max(point, low + 0.5 * close), high - 0.5 * close)
        point = point if low < point < high else middle
        rows = high_rows.copy()
        unsettled = np.flatnonzero(low_rows != high_rows)
        rows[unsettled] = returns(point, unsettled)
        if (point_gap := gap(point, rows)) >= 0:
            high, high_rows, high_gap = point, rows, point_gap
        else:
            low, low_rows, low_gap = point, rows, point_gap


def _next_point(low: tuple[float, float], high: tuple[float, float], radius: float) -> float:
    """One step: the secant's zero, moved towards the middle, and no further from it than allowed.

    The allowance shrinks so that at most three steps more are taken than bisection would take.
    """
    (left, left_gap), (right, right_gap) = low, high
    middle, width = 0.5 * (left + right), right - left
    away = (right_gap * left - left_gap * right) / (right_gap - left_gap) - middle
    away = math.copysign(max(abs(away) - 0.2 * width * width / right, 0.0), away)
    return middle + math.copysign(min(abs(away), max(radius, 0.0)), away)
