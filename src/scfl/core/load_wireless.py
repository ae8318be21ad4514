"""The best load under the paper's law: it leaves time for some whole number of attempts.

With k attempts' time left, the largest load is l_k = (t - t_d - k tau) mu, and it returns
f(k) = l_k (1 - p^k). Over real k both factors are positive and log-concave, so f has one peak,

    k* = ln(omega(1 + A)) / lambda,    lambda = -ln p,    A = lambda (t - t_d) / tau,

with omega the Wright omega function. Real loads: the best is at a whole neighbour of k*, or at the
cap. Whole loads: rounding l_k down makes f ragged, but never lifts it, so a walk from k* both ways
has seen the best once f itself is no better than the best so far.

========== ============================================================
here       paper
========== ============================================================
mu         MACR_i / N_MAC, rows per second
tau, t_d   seconds of one uplink attempt and of the broadcast
p          the law's ``erasure``
========== ============================================================
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from scfl.core.delay import WirelessEdge
from scfl.core.pace import Pace

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Bounds that say where to look are loosened by this much: to look in vain is harmless.
_LOOSE = 1 + 1e-9


def maximise_wireless(
    law: WirelessEdge, pace: Pace, seconds: float, caps: Floats, *, whole: bool
) -> Floats:
    """Return the loads, at most ``caps``, that return most rows on average within ``seconds``."""
    return (_maximise_whole if whole else _maximise_real)(law, pace, seconds, caps)


def _maximise_real(law: WirelessEdge, pace: Pace, seconds: float, caps: Floats) -> Floats:
    peak = _peak_attempts(law, pace, seconds)
    at_cap = law.count_attempts(pace.work(caps), seconds)
    best, top = caps, caps * law.success(at_cap)
    for neighbour in (np.floor(peak), np.ceil(peak)):
        # Where fewer attempts are left the load would still be the cap.
        attempts = np.maximum(neighbour, at_cap + 1)
        loads = _real_rows(pace, seconds, attempts, caps)
        returns = _returns(law, pace, seconds, loads)
        best, top = np.where(returns > top, loads, best), np.maximum(returns, top)
    return np.where(top > 0, best, 0.0)


def _maximise_whole(law: WirelessEdge, pace: Pace, seconds: float, caps: Floats) -> Floats:
    at_cap = law.count_attempts(pace.work(caps), seconds)
    start = np.maximum(np.floor(_peak_attempts(law, pace, seconds)), at_cap)
    best = _whole_rows(pace, seconds, start, caps)
    top = _returns(law, pace, seconds, best)
    for one_row_more in (False, True):
        going, loads, attempts = np.arange(len(pace)), best, start
        while going.size:
            here, limit = pace.some(going), caps[going]
            room = law.count_attempts(here.work(loads + one_row_more), seconds)
            # Every step changes a whole number for good: it ends however sums are rounded.
            if one_row_more:
                attempts, possible = np.minimum(room, attempts - 1), loads < limit
            else:
                attempts, possible = np.maximum(room, attempts) + 1, loads > 0
            possible &= (attempts >= 1) & (attempts <= law.enough_attempts)
            ceiling = _rows_left(here, seconds, attempts) * law.success(attempts)
            possible &= ceiling * _LOOSE > top[going]
            going, attempts = going[possible], attempts[possible]
            loads = _whole_rows(pace.some(going), seconds, attempts, caps[going])
            returns = _returns(law, pace.some(going), seconds, loads)
            better = returns > top[going]
            best[going[better]], top[going[better]] = loads[better], returns[better]
    return np.where(top > 0, best, 0.0)


def _peak_attempts(law: WirelessEdge, pace: Pace, seconds: float) -> Floats:
    """Return k*, or 1 where it is less."""
    if law.erasure == 0:
        return np.ones(len(pace))
    decay = -math.log(law.erasure)
    spare = np.maximum(seconds - pace.download_s, 0) / pace.upload_s
    peak: Floats = np.log(wrightomega(1 + decay * spare)) / decay
    return np.maximum(peak, 1.0)


def _returns(law: WirelessEdge, pace: Pace, seconds: float, loads: Floats) -> Floats:
    return loads * law.success(law.count_attempts(pace.work(loads), seconds))


def _rows_left(pace: Pace, seconds: float, attempts: Floats) -> Floats:
    """Return l_k: what can be computed in the time that so many attempts leave."""
    spare: Floats = seconds - pace.download_s - attempts * pace.upload_s
    return spare * pace.rows_per_s


def _whole_rows(pace: Pace, seconds: float, attempts: Floats, caps: Floats) -> Floats:
    """Return the largest whole loads that leave time for so many attempts, by the delay's sum."""
    loads = np.clip(np.floor(_rows_left(pace, seconds, attempts)), 0, caps)
    loads += (loads < caps) & _fits(pace, seconds, attempts, loads + 1)
    loads -= (loads > 0) & ~_fits(pace, seconds, attempts, loads)
    return loads


def _real_rows(pace: Pace, seconds: float, attempts: Floats, caps: Floats) -> Floats:
    """Return the largest loads that leave time for so many attempts, a few roundings less."""
    loads = np.clip(_rows_left(pace, seconds, attempts), 0, caps)
    hair = np.spacing(seconds) * pace.rows_per_s
    for _ in range(4):
        fits = _fits(pace, seconds, attempts, loads)
        loads = np.where(fits, loads, np.maximum(loads - hair, 0))
    return loads


def _fits(pace: Pace, seconds: float, attempts: Floats, loads: Floats) -> Flags:
    work = pace.work(loads)
    needed: Floats = work.compute_s + work.download_s + attempts * work.upload_s
    return needed <= seconds
