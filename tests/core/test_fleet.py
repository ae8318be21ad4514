from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.delay import ShiftedExponential, WirelessEdge
from scfl.core.fleet import Fleet, Shape, check_fits, wireless_edge
from scfl.errors import ParameterError
from tests.strategies import fleets, seeds, shapes

# The paper's setting: MNIST's 60,000 rows over 20 clients, 2000 random features, 10 classes.
PAPER = Shape(np.full(20, 3000), features=2000, outputs=10)
TWO = Shape(np.array([3000, 3000]), features=2000, outputs=10)
# wireless_edge(3, random_state=0).
UPLINKS = [996010.0711820513, 896441.7498438562, 782978.7890220366]
MACS = [1148556.8297721003, 1090484.6490379437, 258662.3027586459]


def slowest_and_fastest(**options) -> Fleet:
    """The two ends of the paper's ranges."""
    return Fleet(
        macs_per_s=[0.1 * 1536e3, 1536e3],
        uplink_bps=[0.3e6, 1e6],
        downlink_bps=1e6,
        server_macs_per_s=15_360e3,
        **options,
    )


def test_a_shape_adds_its_rows_up():
    shape = Shape(np.array([3, 0, 4]), 2, 1)
    assert (shape.clients, shape.rows) == (3, 7)


def test_shapes_can_be_compared():
    """By identity: comparing their arrays entry by entry would answer with an array."""
    shape = Shape(np.array([3, 4]), 2, 1)
    assert shape == shape  # noqa: PLR0124
    assert shape != Shape(np.array([3, 5]), 2, 1)


def test_one_row_and_one_message_of_the_paper():
    """2 d o = 40,000 MAC; 32 d o 1.1 = 704,000 bits."""
    fleet = slowest_and_fastest()
    assert fleet.row_macs(TWO) == 40_000
    assert fleet.message_bits(TWO) == pytest.approx(704_000)


def test_the_seconds_of_a_round_of_the_paper():
    """30 rows take 30 * 40,000 / 153,600 s; 704,000 bits take 704,000 / rate s."""
    work = slowest_and_fastest().work(TWO, np.array([30, 30]))
    assert work.compute_s == pytest.approx([7.8125, 0.78125])
    assert work.upload_s == pytest.approx([704 / 300, 0.704])
    assert work.download_s == pytest.approx(0.704)


def test_the_server_of_the_paper():
    """15,360,000 / 40,000 = 384 rows a second."""
    fleet = slowest_and_fastest()
    assert fleet.server_seconds(TWO, 384) == pytest.approx(1)
    assert fleet.server_capacity(TWO, 10.0) == 3840
    assert fleet.server_capacity(TWO, 9.9999) == 3839


def test_a_large_upload_is_many_packets():
    """REFERENCE.md section 4: 6000 rows of 2010 numbers, then 1.1 / 0.9 times that."""
    numbers = np.full(2, 6000 * 2010.0)
    bare = slowest_and_fastest(header=1.0, law=WirelessEdge(0.0))
    assert bare.bulk_bits(numbers) == pytest.approx([385.92e6, 385.92e6])
    assert bare.bulk_seconds(numbers) == pytest.approx([1286.4, 385.92])
    real = slowest_and_fastest()
    assert real.bulk_bits(numbers) == pytest.approx([424.512e6, 424.512e6])
    assert real.bulk_seconds(numbers) == pytest.approx([1286.4 * 1.1 / 0.9, 471.68])


def test_computing_takes_each_client_its_own_time():
    assert slowest_and_fastest().compute_seconds(np.full(2, 1.536e6)) == pytest.approx([10, 1])


def test_what_a_row_and_a_message_cost_can_be_set():
    fleet = slowest_and_fastest(macs_per_row=100.0, payload_bits=5e5)
    assert fleet.row_macs(TWO) == 100
    assert fleet.message_bits(TWO) == 5e5
    assert fleet.server_seconds(TWO, 3) == pytest.approx(300 / 15_360e3)


@given(shapes(), st.data())
def test_the_server_finishes_in_time_what_its_capacity_says(shape, data):
    fleet = data.draw(fleets(clients=shape.clients))
    rows = data.draw(st.integers(0, 10**6))
    seconds = fleet.server_seconds(shape, rows)
    assert fleet.server_capacity(shape, seconds) == rows
    assert fleet.server_capacity(shape, seconds * (1 + 1e-9) + 1e-12) >= rows
    assert fleet.server_capacity(shape, seconds * (1 - 1e-9)) == max(rows - 1, 0)


@given(shapes(), st.data())
def test_a_rounds_seconds_are_the_formulas(shape, data):
    """Client by client, in words: rows times row cost over rate, and bits over rate."""
    fleet = data.draw(fleets(clients=shape.clients))
    loads = np.array([data.draw(st.integers(0, rows)) for rows in shape.client_rows.tolist()])
    work = fleet.work(shape, loads)
    bits = 32 * shape.features * shape.outputs * fleet.header
    for i, load in enumerate(loads.tolist()):
        macs = load * 2 * shape.features * shape.outputs
        assert work.compute_s[i] == pytest.approx(macs / fleet.macs_per_s[i])
        assert work.upload_s[i] == pytest.approx(bits / fleet.uplink_bps[i])
    assert work.download_s == pytest.approx(bits / fleet.downlink_bps)


def test_a_random_state_means_one_fleet_for_good():
    """Pinned: whoever changes the order of draws changes every published fleet."""
    fleet = wireless_edge(3, random_state=0)
    assert fleet.uplink_bps == pytest.approx(UPLINKS, rel=1e-12)
    assert fleet.macs_per_s == pytest.approx(MACS, rel=1e-12)


@given(seeds, st.integers(1, 50))
def test_the_wireless_edge_is_deterministic_and_within_its_ranges(seed, clients):
    fleet, again = (wireless_edge(clients, random_state=seed) for _ in range(2))
    assert (fleet.uplink_bps == again.uplink_bps).all()
    assert (fleet.macs_per_s == again.macs_per_s).all()
    assert len(fleet) == len(fleet.names) == clients
    assert ((fleet.uplink_bps >= 0.3e6) & (fleet.uplink_bps <= 1e6)).all()
    assert ((fleet.macs_per_s >= 153.6e3) & (fleet.macs_per_s <= 1536e3)).all()


def test_another_random_state_is_another_fleet():
    one, other = (wireless_edge(random_state=seed) for seed in (1, 2))
    assert not (one.uplink_bps == other.uplink_bps).any()
    assert not (one.macs_per_s == other.macs_per_s).any()


def test_the_wireless_edge_is_the_papers():
    """Means of U(a, b) over 4000 clients within 5 (b - a) / sqrt(12 * 4000)."""
    fleet = wireless_edge(4000)
    for rates, low, high in ((fleet.uplink_bps, 0.3e6, 1e6), (fleet.macs_per_s, 153.6e3, 1536e3)):
        assert abs(rates.mean() - (low + high) / 2) < 5 * (high - low) / np.sqrt(12 * 4000)
        assert rates.std() == pytest.approx((high - low) / np.sqrt(12), rel=0.03)
    assert abs(np.corrcoef(fleet.uplink_bps, fleet.macs_per_s)[0, 1]) < 5 / np.sqrt(4000)
    assert fleet.downlink_bps == 1e6
    assert fleet.server_macs_per_s == 15_360e3
    assert fleet.header == 1.1
    assert fleet.law == WirelessEdge(0.1)


def test_the_wireless_edge_can_be_changed():
    fleet = wireless_edge(
        4, uplink_bps=(5.0, 5.0), macs_per_s=(7.0, 7.0), law=ShiftedExponential(0.2), header=1.0
    )
    assert fleet.uplink_bps.tolist() == [5.0] * 4
    assert fleet.macs_per_s.tolist() == [7.0] * 4
    assert fleet.law == ShiftedExponential(0.2)
    assert wireless_edge(4, erasure=0.3).law == WirelessEdge(0.3)


def test_clients_have_names():
    assert slowest_and_fastest().names == ("client 0", "client 1")
    assert slowest_and_fastest(names=["porto", "turin"]).names == ("porto", "turin")


def test_a_fleet_must_fit_the_problem():
    check_fits(slowest_and_fastest(), TWO)
    with pytest.raises(ParameterError) as error:
        check_fits(slowest_and_fastest(), PAPER)
    assert str(error.value) == (
        "fleet: 2 clients, but the problem has 20; give one machine per client"
    )


def machines(**changes) -> Fleet:
    settings = {"macs_per_s": [1.0, 2.0], "uplink_bps": [1.0, 2.0]}
    settings |= {"downlink_bps": 1.0, "server_macs_per_s": 1.0}
    return Fleet(**(settings | changes))


RATES = "rates must be finite and above 0"


def give(bound: str) -> str:
    return f"is not allowed; give a finite number {bound}"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"macs_per_s": [1.0, -2.0]}, f"macs_per_s: client 1 has -2; {RATES}"),
        ({"macs_per_s": [0.0, 2.0]}, f"macs_per_s: client 0 has 0; {RATES}"),
        ({"uplink_bps": [1.0, np.nan]}, f"uplink_bps: client 1 has nan; {RATES}"),
        ({"uplink_bps": [1.0, np.inf]}, f"uplink_bps: client 1 has inf; {RATES}"),
        (
            {"uplink_bps": [1.0]},
            "uplink_bps: 1 uplinks for 2 compute rates; give one per client",
        ),
        ({"names": ["a"]}, "names: 1 names for 2 clients; give one per client or none"),
        ({"downlink_bps": 0}, f"downlink_bps: 0 {give('above 0')}"),
        ({"server_macs_per_s": -1}, f"server_macs_per_s: -1 {give('above 0')}"),
        ({"header": 0.9}, f"header: 0.9 {give('at least 1')}"),
        ({"macs_per_row": 0}, f"macs_per_row: 0 {give('above 0')}"),
        ({"payload_bits": -8}, f"payload_bits: -8 {give('above 0')}"),
    ],
    ids=lambda value: next(iter(value)) + repr(value)[-8:] if isinstance(value, dict) else "",
)
def test_a_bad_machine_is_refused_in_one_sentence(changes, expected):
    with pytest.raises(ParameterError) as error:
        machines(**changes)
    assert str(error.value) == expected


def test_all_bad_machines_are_named_at_once():
    with pytest.raises(ParameterError) as error:
        machines(macs_per_s=[-1.0, 2.0], uplink_bps=[1.0, 0.0], downlink_bps=-1, header=0)
    fields = [problem.where for problem in error.value.problems]
    assert fields == ["macs_per_s", "uplink_bps", "downlink_bps", "header"]


@pytest.mark.parametrize(
    "changes",
    [
        {"macs_per_s": [], "uplink_bps": []},
        {"macs_per_s": ["fast", "slow"]},
        {"macs_per_s": [[1.0, -2.0], [3.0, 4.0]]},
    ],
    ids=["empty", "words", "table"],
)
def test_what_is_no_machine_at_all_is_refused_in_one_sentence(changes):
    with pytest.raises(ParameterError) as error:
        machines(**changes)
    assert error.value.problems[0].where in changes


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"clients": 0}, "clients"),
        ({"clients": 2.5}, "clients"),
        ({"random_state": -1}, "random_state"),
        ({"uplink_bps": (2.0, 1.0)}, "uplink_bps"),
        ({"uplink_bps": (0.0, 1.0)}, "uplink_bps"),
        ({"macs_per_s": (1.0, np.inf)}, "macs_per_s"),
        ({"macs_per_s": (1.0, np.nan)}, "macs_per_s"),
        ({"macs_per_s": (1.0, 2.0, 3.0)}, "macs_per_s"),
        ({"erasure": 1.0}, "erasure"),
        ({"downlink_bps": 0.0}, "downlink_bps"),
        ({"header": 0.5}, "header"),
    ],
    ids=repr,
)
def test_a_bad_edge_is_refused_in_one_sentence(changes, field):
    with pytest.raises(ParameterError) as error:
        wireless_edge(**changes)
    assert [problem.where for problem in error.value.problems] == [field]


@pytest.mark.parametrize("bounds", [1e6, ("low", "high"), None], ids=repr)
def test_a_range_that_is_none_is_refused_in_one_sentence(bounds):
    with pytest.raises(ParameterError) as error:
        wireless_edge(uplink_bps=bounds)
    assert [problem.where for problem in error.value.problems] == ["uplink_bps"]


def test_a_fleet_cannot_be_changed_from_outside():
    """What was checked once stays as it was."""
    rates = np.array([1.0, 2.0])
    fleet = machines(macs_per_s=rates)
    rates[0] = -1
    assert fleet.macs_per_s.tolist() == [1.0, 2.0]
