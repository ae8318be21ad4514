"""The best load under the shifted exponential law: the best of finitely many concave pieces.

With S_v = (t - v tau) mu, the rows computed beside v attempts if computing did not vary, and
P_v = P(K_down + K_up = v),

    R(l) = max_v G_v(l),     G_v(l) = sum_{j <= v} P_j l (1 - exp(alpha (1 - S_j / l))),

because the terms that G_v keeps are just those that are positive on its piece
S_{v+1} <= l <= S_v. Each G_v is concave (a sum of perspectives), so a piece has one best load, and
its best whole load is a neighbour of that. Two facts keep the search short:

- One term peaks at l = kappa S, kappa = -alpha / (W_{-1}(-e^{-(1 + alpha)}) + 1); without erasure
  there is only one term, and that is the closed form. The peak of G_v is between kappa S_v and
  kappa S_2.
- Terms are concave in S too, so G_v is at most a single term of weight sum_j P_j at the mean of
  its S_j (Jensen). Few pieces pass that bound.

========== ============================================================
here       CFL and CodedFedL
========== ============================================================
mu         MACR_i / N_MAC, rows per second
tau        seconds of one attempt, on either link
alpha      the law's ``variation``
========== ============================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scfl.core.delay import ShiftedExponential
from scfl.core.pace import Pace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Bounds that say where to look are loosened by this much: to look in vain is harmless.
_LOOSE = 1 + 1e-9
# exp of more says "far beyond the peak" as well, and its products with other numbers stay finite.
_LARGEST_EXPONENT = 300.0
_NEWTON_STEPS = 200


@dataclass(frozen=True, eq=False)
class _Search:
    """S_v = rows - v step of each client, and P_2, P_3, ... with their running sums and mean v."""

    variation: float
    kappa: float
    weights: Floats
    sums: Floats
    means: Floats
    rows: Floats
    step: Floats
    caps: Floats
    whole: bool


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Pieces to search, of any clients: G_v from ``low`` to ``high``, by descending v.

    Sorted, because then the pieces that have a j-th term are always the first so many.
    """

    client: Ints
    v: Ints
    low: Floats
    high: Floats


def maximise_exponential(
    law: ShiftedExponential, pace: Pace, seconds: float, caps: Floats, *, whole: bool
) -> Floats:
    """Return the loads, at most ``caps``, that return most rows on average within ``seconds``."""
    table = law.attempt_probabilities()
    weights = np.array([weight for _, weight in table], dtype=np.float64)
    attempts = np.array([v for v, _ in table])
    sums = np.cumsum(weights)
    search = _Search(
        variation=law.variation,
        kappa=law.variation / peak_exponent(law.variation),
        weights=weights,
        sums=sums,
        means=np.cumsum(weights * attempts) / sums,
        rows=seconds * pace.rows_per_s,
        step=pace.upload_s * pace.rows_per_s,
        caps=caps,
        whole=whole,
    )
    return _best_loads(search)


def peak_exponent(variation: float) -> float:
    """Return -1 - W_{-1}(-e^{-(1 + alpha)}), the root of y - ln(1 + y) = alpha: alpha / kappa.

    By Newton, from a bound above the root and so without overshooting: the Lambert function
    itself runs out of digits for a small alpha and out of range for a large one.
    """
    y = variation + math.sqrt(2 * variation)
    for _ in range(_NEWTON_STEPS):
        step = (y - math.log1p(y) - variation) * (1 + y) / y
        y -= step
        if step <= 1e-15 * y:
            break
    return y


def _best_loads(search: _Search) -> Floats:
    """Search each client's most promising piece first, then those that may still beat it."""
    clients = search.rows.size
    best, top, promise = (np.zeros(clients) for _ in range(3))
    likeliest = np.zeros(clients, dtype=np.int64)
    for v, client, bound in _bounds(search):
        better = bound > promise[client]
        likeliest[client[better]] = v
        promise[client[better]] = bound[better]
    some = np.flatnonzero(likeliest)
    _improve(search, some, likeliest[some], best, top)
    waiting: list[Ints] = []
    for v, client, bound in _bounds(search):
        open_ = client[(bound * _LOOSE > top[client]) & (likeliest[client] != v)]
        waiting.append(np.stack([open_, np.full(open_.size, v)]))
        if sum(some.shape[1] for some in waiting) > clients:
            # Hardly more pieces at a time than clients: memory stays linear whatever the law.
            _improve_all(search, waiting, best, top)
            waiting.clear()
    _improve_all(search, waiting, best, top)
    return best


def _improve_all(search: _Search, waiting: list[Ints], best: Floats, top: Floats) -> None:
    if waiting:
        client, v = np.concatenate(waiting, axis=1)
        _improve(search, client, v, best, top)


def _bounds(search: _Search) -> Iterator[tuple[int, Ints, Floats]]:
    """Walk over v: the clients who can be on that piece, and what they return there at most."""
    last = len(search.weights) + 1
    least = 1.0 if search.whole else 0.0
    end = search.rows - 2 * search.step
    for v in range(2, last + 1):
        begin = search.rows - (v + 1) * search.step
        client = np.flatnonzero((end > 0) & (end >= least) & ((begin < search.caps) | (v == last)))
        if client.size:
            low, high = _ends(search, client, v)
            if search.whole:
                holds_load = np.floor(high) >= np.maximum(low, 1)
                client, low, high = client[holds_load], low[holds_load], high[holds_load]
            mean = search.rows[client] - search.means[v - 2] * search.step[client]
            loads = np.clip(search.kappa * mean, low, high)
            share = -np.expm1(search.variation * (1 - mean / loads))
            yield v, client, search.sums[v - 2] * loads * share
        elif not (end > 0).any():
            return
        end = begin


def _ends(search: _Search, client: Ints, v: Ints | int) -> tuple[Floats, Floats]:
    """Return where pieces begin and end; the last v has none after it and goes down to 0."""
    rows, step = search.rows[client], search.step[client]
    low = np.where(v == len(search.weights) + 1, 0.0, np.maximum(rows - (v + 1) * step, 0))
    return low, np.minimum(rows - v * step, search.caps[client])


def _improve(search: _Search, client: Ints, v: Ints, best: Floats, top: Floats) -> None:
    """Replace the best loads so far by those of some pieces where these return more."""
    order = np.argsort(-v, kind="stable")
    client, v = client[order], v[order]
    pieces = _Pieces(client, v, *_ends(search, client, v))
    peak = _peaks(search, pieces)
    middle, caps = np.rint(peak), search.caps[client]
    near = [np.clip(middle + move, 1, caps) for move in (-1, 0, 1)] if search.whole else [peak]
    loads, returns = peak, np.zeros(peak.size)
    for candidate in near:
        value = _values(search, pieces, candidate)
        loads = np.where(value > returns, candidate, loads)
        returns = np.maximum(value, returns)
    better = np.flatnonzero(returns > top[client])
    # A client can have several pieces here: the largest return has to be the last to be written.
    better = better[np.argsort(returns[better])]
    best[client[better]], top[client[better]] = loads[better], returns[better]


def _peaks(search: _Search, pieces: _Pieces) -> Floats:
    """Return where G_v is largest on each piece: Newton on its slope in a shrinking bracket."""
    rows, step = search.rows[pieces.client], search.step[pieces.client]
    low = np.clip(search.kappa * (rows - pieces.v * step), pieces.low, pieces.high)
    high = np.clip(search.kappa * (rows - 2 * step), pieces.low, pieces.high)
    loads = np.clip(search.kappa * (rows - search.means[pieces.v - 2] * step), low, high)
    going = np.flatnonzero(low < high)
    for end, inwards in ((high, -1), (low, 1)):
        slope, _ = _slopes(search, pieces, going, end[going])
        outwards = slope * inwards <= 0
        loads[going[outwards]] = end[going[outwards]]
        going = going[~outwards]
    at_end = going[(loads[going] <= low[going]) | (loads[going] >= high[going])]
    loads[at_end] = 0.5 * (low[at_end] + high[at_end])
    for _ in range(_NEWTON_STEPS):
        if going.size == 0:
            break
        here = loads[going]
        slope, curve = _slopes(search, pieces, going, here)
        low[going] = np.where(slope > 0, here, low[going])
        high[going] = np.where(slope > 0, high[going], here)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            following = here - slope / curve
        inside = (following > low[going]) & (following < high[going])
        loads[going] = np.where(inside, following, 0.5 * (low[going] + high[going]))
        # A whole load needs no more than to know which whole numbers are near.
        tolerance = 1e-3 if search.whole else 1e-13 * here
        going = going[np.abs(loads[going] - here) > tolerance]
    return loads


def _terms(
    search: _Search, client: Ints, v: Ints, loads: Floats
) -> Iterator[tuple[int, float, Floats, Floats]]:
    """Walk down over j: how many pieces have that term, P_j, exp(alpha - y) and y = alpha S_j / l.

    Downwards the exponentials only shrink, by a constant ratio: one product each, no overflow.
    """
    scale = search.variation / loads
    exponent = (search.rows[client] - v * search.step[client]) * scale
    growth = search.step[client] * scale
    late = np.exp(np.minimum(search.variation - exponent, _LARGEST_EXPONENT))
    ratio = np.exp(-growth)
    most = int(v[0]) if v.size else 1
    counts = np.searchsorted(-v, -np.arange(most + 1), side="right").tolist()
    for j in range(most, 1, -1):
        count = counts[j]
        yield count, float(search.weights[j - 2]), late[:count], exponent[:count]
        late[:count] *= ratio[:count]
        exponent[:count] += growth[:count]


def _values(search: _Search, pieces: _Pieces, loads: Floats) -> Floats:
    """Return G_v."""
    missed = np.zeros(loads.size)
    for count, weight, late, _ in _terms(search, pieces.client, pieces.v, loads):
        missed[:count] += weight * late
    return loads * (search.sums[pieces.v - 2] - missed)


def _slopes(search: _Search, pieces: _Pieces, going: Ints, loads: Floats) -> tuple[Floats, Floats]:
    """Return G_v' and G_v''."""
    v = pieces.v[going]
    slope, curve = search.sums[v - 2], np.zeros(loads.size)
    for count, weight, late, exponent in _terms(search, pieces.client[going], v, loads):
        weighted = weight * late
        slope[:count] -= weighted
        weighted *= exponent
        slope[:count] -= weighted
        weighted *= exponent
        curve[:count] -= weighted
    return slope, curve / loads
