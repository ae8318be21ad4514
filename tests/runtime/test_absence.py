"""Rounds with clients that are down: who counts, how long a round lasts, what the ledger says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import scfl
from scfl.core.availability import Always, Availability, Independent, Trace
from scfl.methods.protocol import Arrivals
from scfl.runtime.result import ABSENT, ARRIVED, LATE
from scfl.runtime.simulator import play_rounds, simulate
from scfl.testing import small_problem

PROBLEM = small_problem()


def fleet(law: Availability, erasure: float = 0.3) -> scfl.Fleet:
    return scfl.wireless_edge(5, erasure=erasure, random_state=1, availability=law)


def test_a_law_without_effect_changes_no_byte() -> None:
    runs = [
        simulate(PROBLEM, fleet(law), scfl.SCFL(coded_rows=9), rounds=40)
        for law in (Always(), Trace(), Independent(1.0), scfl.Departures(share=0.0))
    ]
    assert len({run.model_last.tobytes() for run in runs}) == 1
    assert len({run.ledger.delay_s.tobytes() for run in runs}) == 1


def test_the_absent_are_told_from_the_late() -> None:
    method = scfl.FLIPW(deadline_s=0.0015)
    gone = Trace(((1, 0.0, 0.03), (3, 0.03, 1e9)))
    always = simulate(PROBLEM, fleet(Always()), method, rounds=40)
    run = simulate(PROBLEM, fleet(gone), method, rounds=40)
    opened = np.arange(40) * 0.0015
    answer = opened + always.ledger.delay_s[:, 1].astype(float)
    np.testing.assert_array_equal(run.ledger.status[:, 1] == ABSENT, answer > 0.03)
    np.testing.assert_array_equal(run.ledger.status[:, 3] == ABSENT, opened < 0.03 - 1e-12)
    for client in (0, 2, 4):
        np.testing.assert_array_equal(run.ledger.status[:, client], always.ledger.status[:, client])
    assert {ARRIVED, LATE, ABSENT} <= set(run.ledger.status.ravel().tolist())
    assert np.isnan(run.ledger.delay_s[run.ledger.status == ABSENT]).all()
    message = run.ledger.message_bytes
    assert run.trace.bytes_up[-1] == pytest.approx((run.ledger.status != ABSENT).sum() * message)
    assert run.trace.bytes_down[-1] == pytest.approx(40 * 5 * message)


def test_silence_is_counted_and_broken() -> None:
    seen: list[Arrivals] = []

    class Watched(scfl.FLIPW):
        def combine(self, plan, arrivals, state):  # type: ignore[no-untyped-def]
            seen.append(arrivals)
            return super().combine(plan, arrivals, state)

    run = simulate(PROBLEM, fleet(Independent(0.5)), Watched(), rounds=60)
    expected = np.zeros(5, dtype=int)
    for arrivals, status in zip(seen, run.ledger.status, strict=True):
        expected = np.where(status == ARRIVED, 0, expected + 1)
        np.testing.assert_array_equal(arrivals.silent, expected)
    assert [arrivals.round for arrivals in seen] == list(range(60))


def test_waiting_for_all_waits_for_those_who_can_come() -> None:
    """FedAvg sleeps while everybody is down, and stops when nobody will ever be back."""
    spans = tuple((client, begin, begin + 1.0) for client in range(5) for begin in (0.0, 7.0))
    run = simulate(PROBLEM, fleet(Trace(spans), erasure=0.0), scfl.FedAvg(), seconds=100.0)
    lengths = np.diff(run.ledger.closed_s, prepend=0)
    assert run.training_time_s == pytest.approx(8.0)
    assert (lengths > 5).sum() == 1
    assert (run.ledger.status[lengths > 5] == ABSENT).all()


@pytest.mark.parametrize("method", [scfl.FedAvg(0.1), scfl.FLPMA(0.1), scfl.FLIPW(0.1)])
@pytest.mark.parametrize("law", [scfl.Outages(0.02, 0.02), Independent(0.2), scfl.Diurnal(0.1)])
def test_every_wait_rule_gets_through(method: scfl.FedAvg, law: Availability) -> None:
    run = simulate(PROBLEM, fleet(law), method, rounds=150)
    assert run.rounds == 150
    assert (np.diff(run.ledger.closed_s) >= 0).all()
    assert (run.ledger.status == ABSENT).any()


def test_a_step_that_takes_the_server_time_is_on_the_clock() -> None:
    class Slow(scfl.FLIPW):
        def plan(self, shape, fleet):  # type: ignore[no-untyped-def]
            return replace(super().plan(shape, fleet), step_macs=fleet.server_macs_per_s * 2.0)

    plain = simulate(PROBLEM, fleet(Always()), scfl.FLIPW(), rounds=10)
    slow = simulate(PROBLEM, fleet(Always()), Slow(), rounds=10)
    assert slow.training_time_s == pytest.approx(plain.training_time_s + 20)
    assert slow.model_last.tobytes() == plain.model_last.tobytes()


def test_the_driver_starts_with_nobody_silent() -> None:
    method = scfl.FLIPW()
    machines = fleet(Always())
    plan = method.plan(PROBLEM.shape, machines)
    zero = np.zeros((3, 2))
    rounds = play_rounds(
        method,
        plan,
        machines,
        scfl.methods.protocol.State(zero, zero),
        store=PROBLEM.arrange(10),
        held=None,
        budget_s=np.inf,
        seed=0,
    )
    assert next(rounds).arrived.shape == (5,)
