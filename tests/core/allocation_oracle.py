"""Load allocation by trying everything: every whole load, attempt after attempt."""

from __future__ import annotations

import math
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from hypothesis import strategies as st

from scfl.core.delay import WirelessEdge, Work
from scfl.core.fleet import Fleet, Shape
from tests.strategies import laws

# One row is one operation and one message one bit, so rates are rows and messages per second.
PLAIN = {"macs_per_row": 1.0, "payload_bits": 1.0}


@cache
def attempt_probabilities(law: Any) -> Any:
    return law.attempt_probabilities()


def probability(law: Any, work: Work, client: int, seconds: float) -> float:
    """P(T_i <= seconds) of one client; times are added up in the order in which delays are."""
    compute_s, upload_s = float(work.compute_s[client]), float(work.upload_s[client])
    if isinstance(law, WirelessEdge):
        start = compute_s + work.download_s
        for k in count(1):
            if start + k * upload_s > seconds or law.erasure**k < 1e-18:
                attempts = k - 1 if start + k * upload_s > seconds else k
                return 1 - law.erasure**attempts if attempts else 0.0
    total = 0.0
    for v, weight in attempt_probabilities(law):
        left = seconds - compute_s - v * upload_s
        if left <= 0:
            break
        late = math.exp(-law.variation / compute_s * left) if compute_s > 0 else 0.0
        total += weight * (1 - late)
    return total


def expected_return(fleet: Fleet, shape: Shape, client: int, load: float, seconds: float) -> float:
    loads = np.zeros(len(fleet))
    loads[client] = load
    return load * probability(fleet.law, fleet.work(shape, loads), client, seconds)


def best_return(fleet: Fleet, shape: Shape, client: int, cap: int, seconds: float) -> float:
    """The largest expected return over every whole load."""
    return max(expected_return(fleet, shape, client, load, seconds) for load in range(cap + 1))


def best_total(fleet: Fleet, shape: Shape, caps: Any, seconds: float) -> float:
    best = [best_return(fleet, shape, i, int(cap), seconds) for i, cap in enumerate(caps)]
    return float(np.array(best).sum())


@st.composite
def small_fleets(draw: st.DrawFn, law: Any = laws) -> tuple[Fleet, Shape]:
    """Up to four clients of up to twelve rows; links from far slower than a row to far faster.

    Rates are powers of two or anything: the former make different sums meet in the same double.
    """
    clients = draw(st.integers(1, 4))
    rate = st.integers(-3, 7).map(lambda power: 2.0**power) | st.floats(0.1, 100)
    rates = st.lists(rate, min_size=clients, max_size=clients)
    fleet = Fleet(
        macs_per_s=np.array(draw(rates)),
        uplink_bps=np.array(draw(rates)),
        downlink_bps=draw(rate),
        server_macs_per_s=draw(st.floats(1, 1e6)),
        law=draw(law),
        **PLAIN,
    )
    rows = draw(st.lists(st.integers(1, 12), min_size=clients, max_size=clients))
    return fleet, Shape(np.array(rows), 1, 1)


@st.composite
def deadlines(draw: st.DrawFn, fleet: Fleet, shape: Shape) -> float:
    """Any time; or the very moment at which some attempt with some load arrives, or a hair off."""
    if draw(st.booleans()):
        return draw(st.floats(0.01, 100))
    client = draw(st.integers(0, len(fleet) - 1))
    load = draw(st.integers(0, int(shape.client_rows[client])))
    work = fleet.work(shape, np.full(len(fleet), load))
    jump = work.compute_s + work.download_s + draw(st.integers(1, 5)) * work.upload_s
    towards = draw(st.sampled_from([-np.inf, 0.0, np.inf]))
    return float(np.nextafter(jump[client], towards) if towards else jump[client])
