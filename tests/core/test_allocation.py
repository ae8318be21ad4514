from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scfl.core.allocation import allocate, allocate_within, minimal_deadline
from scfl.core.delay import ShiftedExponential, WirelessEdge
from scfl.core.fleet import Fleet, Shape, wireless_edge
from scfl.errors import InfeasibleError, ParameterError
from tests.core.allocation_oracle import PLAIN, best_return, best_total, probability, small_fleets

PAPER = Shape(np.full(20, 3000), 2000, 10)
SUBSET = np.full(20, 100)


def just_before(seconds: float, law: object) -> float:
    """The last moment at which the target must be missed: one double, or a continuum's hair."""
    exact = isinstance(law, WirelessEdge)
    return float(np.nextafter(seconds, 0)) if exact else seconds * (1 - 1e-7)


def feasible_code(data: st.DataObject, fleet: Fleet, shape: Shape) -> int:
    certain = isinstance(fleet.law, WirelessEdge) and fleet.law.erasure == 0
    return data.draw(st.integers(0 if certain else 1, shape.rows))


@given(st.data())
def test_the_deadline_is_the_first_at_which_trying_every_load_reaches_the_target(data):
    fleet, shape = data.draw(small_fleets())
    coded = feasible_code(data, fleet, shape)
    got = allocate(shape, fleet, coded_rows=coded)
    needed, server_s = shape.rows - coded, fleet.server_seconds(shape, coded)
    assert got.expected_rows >= needed
    assert got.deadline_s >= server_s
    best = best_total(fleet, shape, shape.client_rows, got.deadline_s)
    assert got.expected_rows == pytest.approx(best, rel=1e-12)
    if got.deadline_s > server_s:
        before = just_before(got.deadline_s, fleet.law)
        assert best_total(fleet, shape, shape.client_rows, before) < needed


@given(st.data())
def test_every_load_is_the_clients_best_and_every_probability_its_own(data):
    fleet, shape = data.draw(small_fleets())
    caps = np.array([data.draw(st.integers(0, int(rows))) for rows in shape.client_rows])
    assume(caps.sum() > 1)
    got = allocate(shape, fleet, coded_rows=1, caps=caps)
    assert got.target_rows == caps.sum()
    assert got.loads.dtype == np.int64
    work = fleet.work(shape, got.loads)
    for client, load in enumerate(got.loads.tolist()):
        assert 0 <= load <= caps[client]
        want = probability(fleet.law, work, client, got.deadline_s) if load else 0.0
        assert got.arrival_probability[client] == pytest.approx(want, abs=1e-13)
        best = best_return(fleet, shape, client, int(caps[client]), got.deadline_s)
        assert load * want == pytest.approx(best, rel=1e-12)


@given(st.data())
def test_the_fewest_coded_rows_for_a_deadline_give_back_that_deadline(data):
    fleet, shape = data.draw(small_fleets())
    start = allocate(shape, fleet, coded_rows=feasible_code(data, fleet, shape)).deadline_s
    deadline_s = start * data.draw(st.floats(1, 2))
    got = allocate_within(shape, fleet, deadline_s)
    assert got.deadline_s == deadline_s
    assert got.expected_rows + got.coded_rows >= shape.rows
    assert fleet.server_seconds(shape, got.coded_rows) <= deadline_s
    assert allocate(shape, fleet, coded_rows=got.coded_rows).deadline_s <= deadline_s
    try:
        with_one_less = allocate(shape, fleet, coded_rows=got.coded_rows - 1).deadline_s
    except InfeasibleError:
        return
    assert with_one_less > deadline_s


@given(st.data())
def test_a_deadline_too_short_is_answered_with_the_smallest_that_works(data):
    fleet, shape = data.draw(small_fleets())
    deadline_s = data.draw(st.floats(1e-3, 10))
    try:
        allocate_within(shape, fleet, deadline_s)
    except InfeasibleError as error:
        (smallest,) = re.findall(r"smallest deadline that works is (\S+) s$", str(error))
        assert float(smallest) > deadline_s
        allocate_within(shape, fleet, float(smallest))
        with pytest.raises(InfeasibleError, match="smallest deadline"):
            allocate_within(shape, fleet, float(smallest) * (1 - 3e-4))


@given(st.data())
def test_given_loads_get_the_first_deadline_that_returns_enough(data):
    fleet, shape = data.draw(small_fleets())
    loads = np.array([data.draw(st.integers(0, int(rows))) for rows in shape.client_rows])
    assume(loads.sum() > 0)
    target = float(loads.sum()) * data.draw(st.floats(0.01, 0.99))
    got = minimal_deadline(shape, fleet, loads, target)
    work = fleet.work(shape, loads)

    def total(seconds: float) -> float:
        chances = [probability(fleet.law, work, i, seconds) for i in range(len(fleet))]
        return float((loads * np.array(chances)).sum())

    if isinstance(fleet.law, WirelessEdge):
        assert total(got) >= target
        moments = work.compute_s + work.download_s + np.outer(np.arange(1, 1000), work.upload_s)
        assert got in moments[:, loads > 0]
    else:
        assert total(got) >= target * (1 - 1e-12)
    assert total(just_before(got, fleet.law)) < target


def test_the_papers_fleet_as_brute_force_has_it():
    fleet = wireless_edge(20, random_state=0)
    got = allocate(PAPER, fleet, redundancy=0.1, caps=SUBSET)
    assert (got.coded_rows, got.target_rows, got.redundancy) == (200, 2000, 0.1)
    assert got.deadline_s == pytest.approx(9.260002296, abs=1e-8)
    slow = {client: load for client, load in enumerate(got.loads.tolist()) if load < 100}
    assert slow == {2: 51, 3: 62, 13: 37, 15: 99}
    for client, load in enumerate(got.loads.tolist()):
        returns = load * got.arrival_probability[client]
        assert returns == best_return(fleet, PAPER, client, 100, got.deadline_s)
    before = float(np.nextafter(got.deadline_s, 0))
    assert best_total(fleet, PAPER, SUBSET, before) < 1800 <= got.expected_rows


def test_the_server_has_to_finish_its_coded_rows_too():
    fleet = Fleet([100.0, 100.0], [10.0, 10.0], 10.0, 1.0, **PLAIN)
    got = allocate(Shape(np.array([5, 5]), 1, 1), fleet, coded_rows=4)
    assert got.deadline_s == 4.0
    assert got.expected_rows > 9.9


def test_what_the_fleet_cannot_return_is_answered_with_the_least_code_that_works():
    fleet = wireless_edge(20)
    with pytest.raises(InfeasibleError, match=r"give at least 1 \(redundancy 0.0005\)"):
        allocate(PAPER, fleet, redundancy=0.0, caps=SUBSET)
    allocate(PAPER, fleet, redundancy=0.0005, caps=SUBSET)
    with pytest.raises(InfeasibleError, match=r"-7 leave .* at least 1 \(redundancy"):
        allocate(PAPER, fleet, coded_rows=-7, caps=SUBSET)
    with pytest.raises(InfeasibleError, match=r"at least 1001 .* at most 2499 rows"):
        allocate(PAPER, fleet, coded_rows=500, caps=SUBSET, target_rows=3000)
    allocate(PAPER, fleet, coded_rows=1001, caps=SUBSET, target_rows=3000)
    allocate(PAPER, fleet, coded_rows=500, caps=SUBSET, target_rows=2499)


def test_only_a_fleet_that_never_fails_does_without_code():
    sure = wireless_edge(20, erasure=0.0)
    got = allocate(PAPER, sure, coded_rows=0, caps=SUBSET)
    assert got.expected_rows == 2000
    assert got.deadline_s == sure.law.earliest(sure.work(PAPER, SUBSET)).max()
    with pytest.raises(InfeasibleError, match="return at most that"):
        allocate(PAPER, sure, coded_rows=0, caps=SUBSET, target_rows=2001)
    jittery = wireless_edge(20, law=ShiftedExponential(0.0, 2.0))
    with pytest.raises(InfeasibleError, match="return less than that"):
        allocate(PAPER, jittery, coded_rows=0, caps=SUBSET)


def test_loads_that_never_return_the_target_are_refused():
    with pytest.raises(InfeasibleError, match=r"less than 2000 on average .* not 2000"):
        minimal_deadline(PAPER, wireless_edge(20), SUBSET, 2000)
    assert minimal_deadline(PAPER, wireless_edge(20, erasure=0.0), SUBSET, 2000) > 0
    with pytest.raises(InfeasibleError, match="at most 2000 on average"):
        minimal_deadline(PAPER, wireless_edge(20, erasure=0.0), SUBSET, 2000.5)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "give either coded_rows or redundancy"),
        ({"coded_rows": 1, "redundancy": 0.1}, "give either coded_rows or redundancy"),
        ({"coded_rows": 1.5}, "coded_rows: 1.5 is not allowed; give a whole number"),
        ({"redundancy": np.nan}, "redundancy: nan is not allowed"),
        ({"redundancy": 0.1, "caps": [100] * 19}, "19 numbers for 20 clients"),
        ({"redundancy": 0.1, "caps": [100] * 19 + [3001]}, "client 19 has 3001; .* the 3000 rows"),
        ({"redundancy": 0.1, "caps": [100] * 19 + [0.5]}, "client 19 has 0.5"),
        ({"redundancy": 0.1, "caps": [np.nan] * 20}, "client 0 has nan"),
        ({"redundancy": 0.1, "caps": [0] * 20}, "target_rows: 0 is not allowed"),
        ({"redundancy": 0.1, "target_rows": -1}, "target_rows: -1 is not allowed"),
    ],
)
def test_bad_parameters_are_refused(parameters, sentence):
    with pytest.raises(ParameterError, match=sentence):
        allocate(PAPER, wireless_edge(20), **parameters)


def test_redundancy_is_not_rounded_up_by_a_rounding_error():
    """0.07 * 100 is 7.000000000000001 in doubles."""
    shape = Shape(np.full(2, 50), 1, 1)
    fleet = Fleet([10.0, 10.0], [1.0, 1.0], 1.0, 10.0, **PLAIN)
    assert allocate(shape, fleet, redundancy=0.07).coded_rows == 7
    assert allocate(shape, fleet, redundancy=0.071).coded_rows == 8
