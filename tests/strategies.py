"""Hypothesis strategies for the things that most tests start from.

Sizes and options are drawn, so they shrink; the numbers inside matrices come from a drawn seed,
because a matrix of special values says nothing that a random one does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from scfl.core.delay import DelayLaw, ShiftedExponential, WirelessEdge, Work
from scfl.core.fleet import Fleet, Shape

seeds = st.integers(0, 2**32 - 1)
erasures = st.sampled_from([0.0, 0.05, 0.1, 0.5, 0.9]) | st.floats(0, 0.95)
laws: st.SearchStrategy[DelayLaw] = st.builds(WirelessEdge, erasures) | st.builds(
    ShiftedExponential, erasures, st.floats(0.1, 10)
)


def ticks(low: int, high: int) -> st.SearchStrategy[float]:
    """Seconds in 64ths: sums of them are exact, so that a time meets a jump or misses it."""
    return st.integers(low, high).map(lambda number: float(Fraction(number, 64)))


@st.composite
def works(draw: st.DrawFn, *, clients: int | None = None) -> Work:
    """The parts of a round in exact 64ths of a second; a client may have nothing to compute."""
    size = draw(st.integers(1, 5)) if clients is None else clients
    return Work(
        compute_s=np.array([draw(ticks(0, 600)) for _ in range(size)]),
        upload_s=np.array([draw(ticks(1, 300)) for _ in range(size)]),
        download_s=draw(ticks(1, 300)),
    )


@st.composite
def shapes(draw: st.DrawFn, *, max_clients: int = 6, max_rows: int = 30) -> Shape:
    """Who holds how many rows, and how wide they are."""
    rows = draw(st.lists(st.integers(1, max_rows), min_size=1, max_size=max_clients))
    return Shape(np.array(rows), draw(st.integers(1, 8)), draw(st.integers(1, 4)))


@st.composite
def fleets(draw: st.DrawFn, *, clients: int, law: DelayLaw | None = None) -> Fleet:
    """Machines within a factor of a hundred of each other."""
    rates = st.lists(st.floats(1e4, 1e6), min_size=clients, max_size=clients)
    return Fleet(
        macs_per_s=np.array(draw(rates)),
        uplink_bps=np.array(draw(rates)),
        downlink_bps=draw(st.floats(1e5, 1e6)),
        server_macs_per_s=draw(st.floats(1e5, 1e7)),
        law=draw(laws) if law is None else law,
        header=draw(st.sampled_from([1.0, 1.1])),
    )


@dataclass(frozen=True, eq=False)
class Rows:
    """A small least-squares problem over several clients, and a model to take gradients at."""

    features: NDArray[Any]
    targets: NDArray[Any]
    model: NDArray[Any]
    client_rows: NDArray[np.int64]

    @property
    def shape(self) -> Shape:
        return Shape(self.client_rows, self.features.shape[1], self.targets.shape[1])


@st.composite
def problems(draw: st.DrawFn, *, max_clients: int = 6, max_rows: int = 30) -> Rows:
    """Rows, targets and a model of a drawn shape, in either precision."""
    shape = draw(shapes(max_clients=max_clients, max_rows=max_rows))
    rng = np.random.default_rng(draw(seeds))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return Rows(
        features=rng.standard_normal((shape.rows, shape.features)).astype(dtype),
        targets=rng.standard_normal((shape.rows, shape.outputs)).astype(dtype),
        model=rng.standard_normal((shape.features, shape.outputs)).astype(dtype),
        client_rows=shape.client_rows,
    )
