from __future__ import annotations

import tracemalloc
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scfl.core.delay import ShiftedExponential, WirelessEdge, Work
from scfl.core.fleet import Fleet, Shape
from scfl.core.load import maximise_return
from scfl.core.load_exponential import peak_exponent
from scfl.core.pace import pace_of
from scfl.errors import ParameterError
from tests.core.allocation_oracle import (
    PLAIN,
    best_return,
    deadlines,
    expected_return,
    small_fleets,
)
from tests.strategies import erasures, laws

times = st.floats(1e-3, 1e3)


def one_client(law: Any, rows_per_s: float, attempts_per_s: float, rows: int) -> Any:
    fleet = Fleet([rows_per_s], [attempts_per_s], 1.0, 1.0, law=law, **PLAIN)
    return fleet, Shape(np.array([rows]), 1, 1)


def best_whole(fleet: Fleet, shape: Shape, seconds: float) -> tuple[Any, Any]:
    pace, caps = pace_of(shape, fleet), shape.client_rows.astype(float)
    loads = maximise_return(fleet.law, pace, seconds, caps)
    return loads, loads * fleet.law.cdf(pace.work(loads), seconds)


@given(st.data())
def test_whole_loads_return_what_the_best_of_all_loads_does(data):
    fleet, shape = data.draw(small_fleets())
    seconds = data.draw(deadlines(fleet, shape))
    loads, returns = best_whole(fleet, shape, seconds)
    assert (loads == np.rint(loads)).all()
    assert ((loads >= 0) & (loads <= shape.client_rows)).all()
    for client, cap in enumerate(shape.client_rows.tolist()):
        want = best_return(fleet, shape, client, cap, seconds)
        if isinstance(fleet.law, WirelessEdge):
            assert returns[client] == want
        else:
            assert returns[client] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(
    "law",
    [
        WirelessEdge(0.3),
        WirelessEdge(0.99),
        ShiftedExponential(0.3, 2.0),
        ShiftedExponential(0.9, 20.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("attempts_per_row", [0.013, 0.3, 0.9, 1.0, 1.1, 7.3, 150.0])
@pytest.mark.parametrize("seconds", [41.7, 150.1, 400.0])
def test_whole_loads_are_the_best_where_rows_and_attempts_are_of_any_length(
    law, attempts_per_row, seconds
):
    """Loads of hundreds of rows, so that a search that stops too early has room to do it."""
    fleet, shape = one_client(law, 1.0, attempts_per_row, 390)
    _, returns = best_whole(fleet, shape, seconds)
    assert returns[0] == pytest.approx(best_return(fleet, shape, 0, 390, seconds), rel=1e-12)


@pytest.mark.parametrize("erasure", [0.0, 0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", [WirelessEdge, lambda p: ShiftedExponential(p, 1.5)])
def test_loads_of_many_random_clients(kind, erasure):
    """Numbers without any pattern, where sums round every way and no peak is near its load."""
    law, cap, seconds = kind(erasure), 12, 10.0
    rates = np.exp(np.random.default_rng(5).uniform(-2, 2, (2, 3000)))
    fleet = Fleet(rates[0], rates[1], 0.7, 1.0, law=law, **PLAIN)
    shape = Shape(np.full(3000, cap), 1, 1)
    pace = pace_of(shape, fleet)
    whole, real = (
        loads * law.cdf(pace.work(loads), seconds)
        for loads in (
            maximise_return(law, pace, seconds, np.full(3000, float(cap)), whole=whole)
            for whole in (True, False)
        )
    )
    loads = np.arange(cap + 1.0)
    returns = [load * law.cdf(pace.work(np.full(3000, load)), seconds) for load in loads]
    np.testing.assert_allclose(whole, np.max(returns, axis=0), rtol=1e-12)
    assert (real >= whole * (1 - 1e-12)).all()
    if isinstance(law, WirelessEdge):
        left = (seconds - 1 / 0.7 - np.arange(1, 300)[:, None] / rates[1]) * rates[0]
        values = np.clip(left, 0, cap) * law.success(np.arange(1.0, 300)[:, None])
        np.testing.assert_allclose(real, values.max(axis=0), rtol=1e-12)


@given(st.data())
def test_real_loads_return_no_less_than_any_other(data):
    fleet, shape = data.draw(small_fleets())
    seconds = data.draw(deadlines(fleet, shape))
    pace, caps = pace_of(shape, fleet), shape.client_rows.astype(float)
    loads = maximise_return(fleet.law, pace, seconds, caps, whole=False)
    assert ((loads >= 0) & (loads <= caps)).all()
    for client, cap in enumerate(caps.tolist()):
        got = expected_return(fleet, shape, client, loads[client], seconds)
        others = np.linspace(0, cap, 97).tolist()
        spare = seconds - fleet.work(shape, caps).download_s
        for k in range(1, 40):
            # Where some number of attempts just fits in, give or take the last digits.
            left = (spare - k / fleet.uplink_bps[client]) * fleet.macs_per_s[client]
            others.append(min(max(left * (1 - 1e-13), 0), cap))
        want = max(expected_return(fleet, shape, client, load, seconds) for load in others)
        assert got >= want * (1 - 1e-10) - 1e-12


@given(st.data())
def test_a_later_deadline_never_returns_less(data):
    fleet, shape = data.draw(small_fleets())
    first = data.draw(deadlines(fleet, shape))
    later = data.draw(st.just(float(np.nextafter(first, np.inf))) | st.floats(first, 2 * first))
    _, before = best_whole(fleet, shape, first)
    _, after = best_whole(fleet, shape, later)
    slack = 0.0 if isinstance(fleet.law, WirelessEdge) else 1e-12
    assert (after >= before * (1 - slack)).all()


@given(st.floats(-8, 6).map(lambda power: 10.0**power))
@example(2.0)
@example(1000.0)
def test_the_peak_of_one_term_is_the_lambert_closed_form(variation):
    with mpmath.workdps(50):
        # W_{-1} of an argument that underflows a double is no trouble for mpmath.
        exact = -1 - mpmath.lambertw(-mpmath.exp(-1 - mpmath.mpf(variation)), -1).real
    assert peak_exponent(variation) == pytest.approx(float(exact), rel=1e-12 + 3e-16 / variation)


@given(st.floats(0.05, 50), times, times, times)
def test_without_erasure_the_shifted_load_is_the_closed_form(
    variation, rows_per_s, attempts_per_s, seconds
):
    law = ShiftedExponential(0.0, variation)
    fleet, shape = one_client(law, rows_per_s, attempts_per_s, 50)
    loads = maximise_return(law, pace_of(shape, fleet), seconds, np.array([50.0]), whole=False)
    with mpmath.workdps(30):
        branch = mpmath.lambertw(-mpmath.exp(-1 - mpmath.mpf(variation)), -1).real
        share = float(-variation / (branch + 1))
    want = np.clip(share * rows_per_s * (seconds - 2 / attempts_per_s), 0, 50)
    assert loads[0] == pytest.approx(want, rel=1e-9, abs=1e-9)


@given(st.floats(0.05, 50), times, times, times)
def test_a_vanishing_erasure_changes_nothing(variation, rows_per_s, attempts_per_s, seconds):
    """The general search, of many terms, arrives where the closed form of one term is."""
    fleet, shape = one_client(None, rows_per_s, attempts_per_s, 50)
    pace, caps = pace_of(shape, fleet), np.array([50.0])
    returns = []
    for erasure in (0.0, 1e-13):
        law = ShiftedExponential(erasure, variation)
        loads = maximise_return(law, pace, seconds, caps, whole=False)
        returns.append(loads * law.cdf(pace.work(loads), seconds))
    assert returns[1] == pytest.approx(returns[0], rel=1e-10, abs=1e-10)


@given(erasures, times, times, times, st.integers(1, 12))
def test_the_moment_of_an_attempt_admits_it_and_the_double_before_does_not(
    erasure, compute_s, upload_s, download_s, attempt
):
    law, rounds = WirelessEdge(erasure), 50
    work = Work(np.array([compute_s]), np.array([upload_s]), download_s)
    jump = compute_s + download_s + attempt * upload_s
    enough = law.count_attempts(work, 1e300)
    assert law.count_attempts(work, jump) == np.minimum(attempt, enough)
    assert law.count_attempts(work, np.nextafter(jump, 0)) == np.minimum(attempt - 1, enough)
    # The same decision as comparing what is drawn.
    delays = law.sample(work, rounds, np.random.default_rng(0))
    attempts = np.rint((delays - compute_s - download_s) / upload_s)
    assert ((delays <= jump) == (attempts <= attempt)).all()


@given(laws, st.floats(0.01, 1e4))
def test_probabilities_stay_probabilities(law, seconds):
    """Rounding once gave 1 + 4e-16, whose 1 - P has no root."""
    work = Work(np.array([0.0, 1e-3, 1.0]), np.array([0.01, 0.1, 1.0]), 0.1)
    arrival = law.cdf(work, seconds)
    assert ((arrival >= 0) & (arrival <= 1)).all()


@pytest.mark.parametrize("law", [WirelessEdge(0.99), ShiftedExponential(0.9, 2.0)], ids=repr)
def test_memory_does_not_grow_with_the_attempts(law):
    """There is time for 400 attempts and more: a matrix of them takes 3 kB a client and more."""
    clients = 2000
    rates = np.random.default_rng(0).uniform(0.1, 1.0, (2, clients))
    fleet = Fleet(rates[0], 100 * rates[1], 100.0, 1.0, law=law, **PLAIN)
    pace, caps = pace_of(Shape(np.full(clients, 100), 1, 1), fleet), np.full(clients, 100.0)
    tracemalloc.start()
    loads = maximise_return(law, pace, 50.0, caps)
    law.cdf(pace.work(loads), 50.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 700 * clients


def test_an_unknown_law_is_refused_by_name():
    class Constant:
        pass

    fleet, shape = one_client(None, 1.0, 1.0, 5)
    with pytest.raises(ParameterError, match="no best load is known for Constant"):
        maximise_return(Constant(), pace_of(shape, fleet), 1.0, np.array([5.0]))
