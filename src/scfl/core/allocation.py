"""Load allocation: the shortest round in which clients are expected to return enough rows.

CFL and CodedFedL (their problem "(23)") choose what everybody does in a round together: with u
coded rows at the server, client i takes the load l_i(t) that maximises its expected return within
t, and the round lasts

    t* = min { t : sum_i l_i(t) P(T_i(l_i(t)) <= t) >= m - u,  t >= u N_MAC / MACR_server }.

The best return of a client only grows with t, so t* is found by bracketing; ``scfl.core.load`` has
the maximisers. Loads are whole, so under the paper's law the total is a staircase in t, and t* is
one of its steps to the last bit: the total reaches the target at t*, and does not one double below.

=================== ======================================================
here                paper and cited works
=================== ======================================================
``coded_rows``      u, c / B in CodedFedL
``target_rows``     m, the rows of a (global) batch
``caps``            rows that each client has for a round
``redundancy``      u / m
=================== ======================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scfl.core.deadline import Returns, find_deadline
from scfl.core.delay import DelayLaw, ShiftedExponential, WirelessEdge
from scfl.core.fleet import Fleet, Shape, check_fits
from scfl.core.load import maximise_return
from scfl.core.pace import Pace, pace_of
from scfl.core.parameter import Requirements
from scfl.errors import InfeasibleError, Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Allocation:
    """What everybody does in a round. A client whose load is 0 is not asked and never arrives."""

    deadline_s: float
    loads: Ints
    arrival_probability: Floats
    coded_rows: int
    target_rows: int

    @property
    def expected_rows(self) -> float:
        """Rows that the clients return in time, on average."""
        return float((self.loads * self.arrival_probability).sum())

    @property
    def redundancy(self) -> float:
        return self.coded_rows / self.target_rows


@dataclass(frozen=True, eq=False)
class _Task:
    """What is allocated, whatever the deadline."""

    law: DelayLaw
    pace: Pace
    caps: Floats
    target_rows: int

    @property
    def least_coded_rows(self) -> int:
        """The smallest code with which some deadline reaches the target."""
        return max(0, self.target_rows - int(self.caps.sum()) + _never_certain(self.law))


def allocate(
    shape: Shape,
    fleet: Fleet,
    *,
    coded_rows: int | None = None,
    redundancy: float | None = None,
    caps: ArrayLike | None = None,
    target_rows: int | None = None,
) -> Allocation:
    """Find the shortest deadline, and the loads, that return ``target_rows`` less the coded rows.

    Give the code's size as ``coded_rows`` or, relative to the target, as ``redundancy``. ``caps``
    are the rows that each client can process in a round, by default all of its rows; the target
    is by default their sum.
    """
    task = _task(shape, fleet, caps, target_rows)
    coded = _coded_rows(coded_rows, redundancy, task.target_rows)
    if coded < task.least_coded_rows:
        _refuse_code(coded, task)
    seconds = find_deadline(
        _best_returns(task),
        needed=task.target_rows - coded,
        floor_s=fleet.server_seconds(shape, coded),
        guess_s=_usual_seconds(task.law, task.pace, task.caps),
        staircase=not isinstance(task.law, ShiftedExponential),
        clients=len(fleet),
    )
    return _allocation(task, seconds, coded)


def allocate_within(
    shape: Shape,
    fleet: Fleet,
    deadline_s: float,
    *,
    caps: ArrayLike | None = None,
    target_rows: int | None = None,
) -> Allocation:
    """Find the best loads for a given deadline, and the fewest coded rows that they leave over."""
    task = _task(shape, fleet, caps, target_rows)
    with Requirements() as require:
        require.number("deadline_s", deadline_s, above=0)
    found = _allocation(task, deadline_s, task.least_coded_rows)
    missing = max(found.coded_rows, math.ceil(task.target_rows - found.expected_rows))
    if fleet.server_seconds(shape, missing) <= deadline_s:
        return replace(found, coded_rows=missing)
    smallest = find_deadline(
        _best_returns(task),
        needed=task.target_rows,
        floor_s=fleet.server_seconds(shape, task.least_coded_rows),
        guess_s=_usual_seconds(task.law, task.pace, task.caps),
        staircase=False,
        clients=len(fleet),
        server=lambda seconds: _server_rows(shape, fleet, seconds),
    )
    sentence = (
        f"within {deadline_s:g} s the clients return {found.expected_rows:.6g} of "
        f"{task.target_rows} rows on average and the server processes "
        f"{_server_rows(shape, fleet, deadline_s)} coded ones; "
        f"the smallest deadline that works is {round_up(smallest)} s"
    )
    raise InfeasibleError([Problem("deadline_s", sentence)])


def minimal_deadline(shape: Shape, fleet: Fleet, loads: ArrayLike, target_rows: float) -> float:
    """Find the smallest deadline within which given loads return ``target_rows`` on average."""
    check_fits(fleet, shape)
    asked = _check_rows("loads", loads, shape, fleet)
    with Requirements() as require:
        require.number("target_rows", target_rows, above=0)
    law, pace, rows = fleet.law, pace_of(shape, fleet), asked.sum()
    if target_rows > rows or (target_rows == rows and _never_certain(law)):
        word = "less than" if _never_certain(law) else "at most"
        sentence = (
            f"loads that add up to {rows:.0f} rows return {word} {rows:.0f} on average however "
            f"late the deadline, not {target_rows:g}; ask for less or give larger loads"
        )
        raise InfeasibleError([Problem("target_rows", sentence)])

    def returns(seconds: float, some: Ints) -> Floats:
        work = pace.some(some).work(asked[some])
        return asked[some] * law.cdf(work, seconds)

    return find_deadline(
        returns,
        needed=target_rows,
        floor_s=0.0,
        guess_s=_usual_seconds(law, pace, asked),
        staircase=not isinstance(law, ShiftedExponential),
        clients=len(fleet),
    )


def _allocation(task: _Task, seconds: float, coded_rows: int) -> Allocation:
    loads = maximise_return(task.law, task.pace, seconds, task.caps)
    arrival = task.law.cdf(task.pace.work(loads), seconds)
    return Allocation(
        deadline_s=float(seconds),
        loads=loads.astype(np.int64),
        arrival_probability=np.where(loads > 0, arrival, 0.0),
        coded_rows=coded_rows,
        target_rows=task.target_rows,
    )


def _best_returns(task: _Task) -> Returns:
    def returns(seconds: float, some: Ints) -> Floats:
        pace = task.pace.some(some)
        loads = maximise_return(task.law, pace, seconds, task.caps[some])
        return loads * task.law.cdf(pace.work(loads), seconds)

    return returns


def _usual_seconds(law: DelayLaw, pace: Pace, caps: Floats) -> float:
    return float(np.median(law.mean(pace.work(caps))))


def _server_rows(shape: Shape, fleet: Fleet, seconds: float) -> int:
    """Count the coded rows that the server finishes in time, by the very product that decides."""
    rows = fleet.server_capacity(shape, seconds) + 1
    while rows > 0 and fleet.server_seconds(shape, rows) > seconds:
        rows -= 1
    return rows


def _never_certain(law: DelayLaw) -> bool:
    """Tell whether no deadline makes sure of an arrival."""
    lossy = isinstance(law, WirelessEdge) and law.erasure > 0
    return lossy or isinstance(law, ShiftedExponential)


def _task(shape: Shape, fleet: Fleet, caps: ArrayLike | None, target_rows: int | None) -> _Task:
    check_fits(fleet, shape)
    limits = _check_rows("caps", shape.client_rows if caps is None else caps, shape, fleet)
    target = int(limits.sum()) if target_rows is None else target_rows
    with Requirements() as require:
        require.count("target_rows", target, at_least=1)
    return _Task(fleet.law, pace_of(shape, fleet), limits, int(target))


def _check_rows(field: str, rows: ArrayLike, shape: Shape, fleet: Fleet) -> Floats:
    """Refuse what is not, for each client, a whole number from 0 to the rows it holds."""
    given = np.asarray(rows, dtype=np.float64)
    with Requirements() as require:
        sentence = f"{given.size} numbers for {shape.clients} clients; give one per client"
        require.that(given.shape == (shape.clients,), field, sentence)
    allowed = (given >= 0) & (given <= shape.client_rows) & (given == np.floor(given))
    with Requirements() as require:
        for client in np.flatnonzero(~allowed)[:1].tolist():
            sentence = (
                f"{fleet.names[client]} has {given[client]:g}; give a whole number from 0 "
                f"to the {shape.client_rows[client]} rows that it holds"
            )
            require.that(allowed[client], field, sentence)
    return given


def _coded_rows(coded_rows: int | None, redundancy: float | None, target: int) -> int:
    """Return the size of the code, however it was given; whether it is enough comes later."""
    with Requirements() as require:
        one = (coded_rows is None) != (redundancy is None)
        require.that(one, "coded_rows", "give either coded_rows or redundancy, and not both")
    with Requirements() as require:
        if redundancy is not None:
            require.number("redundancy", redundancy)
        else:
            whole = isinstance(coded_rows, Integral) and not isinstance(coded_rows, bool)
            require.that(whole, "coded_rows", f"{coded_rows!r} is not allowed; give a whole number")
    if redundancy is None:
        return int(coded_rows or 0)
    # A hair less, so that 0.07 of 100 rows is 7 and not the 8 of a rounding error.
    return math.ceil(redundancy * target - 1e-9)


def _refuse_code(coded_rows: int, task: _Task) -> None:
    target, least = task.target_rows, task.least_coded_rows
    largest = target - least + coded_rows
    lower = f", or a target of at most {largest} rows" if 0 < largest < target else ""
    word = "less than" if _never_certain(task.law) else "at most"
    sentence = (
        f"{coded_rows} leave {target - coded_rows} of {target} rows to clients whose caps add up "
        f"to {task.caps.sum():.0f}, and who return {word} that on average however late the "
        f"deadline; give at least {least} (redundancy {least / target:.6g}){lower}"
    )
    raise InfeasibleError([Problem("coded_rows", sentence)])


def round_up(seconds: float) -> str:
    """Write seconds in five digits, never less: who types them back must not be refused again."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 4)
    digits = math.ceil(seconds / unit)
    while float(f"{digits * unit:g}") < seconds:
        digits += 1
    return f"{digits * unit:g}"
