"""Availability laws: what share of time and of clients each keeps up in the long run, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scfl
from scfl.core.availability import (
    Always,
    Availability,
    Departures,
    Diurnal,
    Independent,
    LateJoiners,
    Outages,
    Presence,
    Trace,
)
from scfl.errors import ParameterError

CLIENTS = 400


def up(presence: Presence, times: np.ndarray) -> np.ndarray:
    """Whether each client is up at each time, one round per time."""
    return np.array([presence.until(n, t) > t for n, t in enumerate(times)])


@pytest.mark.parametrize(
    ("law", "times", "expected"),
    [
        (Always(), np.linspace(0, 1e6, 50), 1.0),
        (Independent(0.7), np.arange(200.0), 0.7),
        (Outages(30.0, 10.0), np.arange(0, 4000.0, 20), 0.75),
        (Outages(30.0, 10.0), np.zeros(1), 0.75),
        (Diurnal(1000.0, 0.4), np.arange(0, 90_000.0, 370), 0.4),
        (Departures(0.3, 50.0), np.array([50.0, 1e9]), 0.7),
        (LateJoiners(0.3, 50.0), np.array([0.0, 49.9]), 0.7),
    ],
)
def test_long_run_share(law: Availability, times: np.ndarray, expected: float) -> None:
    here = up(law.draw(CLIENTS, 3), times)
    # Clients are independent; the coarsest case has one draw for each of them.
    tolerance = 4 * np.sqrt(expected * (1 - expected) / CLIENTS)
    assert here.mean() == pytest.approx(expected, abs=tolerance)


def test_outages_last_as_long_as_they_should() -> None:
    """Times to the next change are exponential with the given means, from any moment."""
    presence = Outages(30.0, 10.0).draw(20_000, 1)
    now = 200.0
    until, again = presence.until(0, now), presence.again(now)
    here = until > now
    left, gone = until[here] - now, again[~here] - now
    assert left.mean() == pytest.approx(30, rel=4 / np.sqrt(left.size))
    assert gone.mean() == pytest.approx(10, rel=4 / np.sqrt(gone.size))
    assert (left > 30).mean() == pytest.approx(np.exp(-1), abs=0.02)
    np.testing.assert_array_equal(again[here], now)


def test_coins_do_not_remember() -> None:
    here = up(Independent(0.6).draw(CLIENTS, 0), np.arange(100.0))
    both = (here[1:] & here[:-1]).mean()
    assert both == pytest.approx(0.36, abs=4 * np.sqrt(0.36 / (99 * CLIENTS / 3)))


def test_a_fleet_in_one_place_sleeps_as_one() -> None:
    here = up(Diurnal(100.0, 0.3, spread=0.0).draw(5, 0), np.array([0.0, 29.0, 31.0, 99.0, 1e5]))
    np.testing.assert_array_equal(here, np.array([[1, 1, 0, 0, 1]]).T.repeat(5, axis=1) == 1)


def test_departures_are_for_good_and_joiners_stay() -> None:
    times = np.arange(0, 200.0, 10)
    left = up(Departures(0.3, (50.0, 150.0)).draw(10, 4), times)
    came = up(LateJoiners(0.3, (50.0, 150.0)).draw(10, 4), times)
    assert (np.diff(left.astype(int), axis=0) <= 0).all()
    assert (np.diff(came.astype(int), axis=0) >= 0).all()
    assert left[-1].sum() == 7
    assert came[0].sum() == 7
    assert left[:5].all()
    assert came[-5:].all()
    named = up(Departures(at_s=20.0, clients=(2, 5)).draw(6, 0), np.array([0.0, 19.9, 20.0]))
    np.testing.assert_array_equal(named[2], [True, True, False, True, True, False])


def test_who_leaves_depends_on_the_seed() -> None:
    gone = {
        tuple(np.flatnonzero(~np.isinf(Departures(0.2, 1.0).draw(20, s).ends[:, 0])))
        for s in range(5)
    }
    assert len(gone) == 5


def test_a_trace_is_followed_to_the_second() -> None:
    presence = Trace(((1, 0.0, 10.0), (1, 20.0, 30.0), (2, 5.0, 6.0))).draw(3, 0)
    assert presence.until(0, 0.0).tolist() == [np.inf, 10.0, -np.inf]
    assert presence.until(0, 10.0).tolist() == [np.inf, -np.inf, -np.inf]
    assert presence.again(10.0).tolist() == [10.0, 20.0, np.inf]
    assert presence.until(0, 25.0).tolist() == [np.inf, 30.0, -np.inf]
    assert presence.again(30.0).tolist() == [30.0, np.inf, np.inf]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Independent(0.0), "probability: 0.0 is not allowed"),
        (lambda: Outages(mean_up_s=-1), "mean_up_s: -1 is not allowed"),
        (lambda: Diurnal(up_share=1.5), "up_share: 1.5 is not allowed"),
        (lambda: Departures(share=2), "share: 2 is not allowed"),
        (lambda: Departures(at_s=(5.0, 1.0)), "runs backwards"),
        (lambda: Trace(((0, 5.0, 5.0),)), "give 0 <= from < until"),
        (lambda: Trace(((0, 0.0, 5.0), (0, 4.0, 6.0))), "overlap at 4 s"),
        (
            lambda: scfl.wireless_edge(3, availability=Departures(clients=(3,))),
            "client 3 is named, but the fleet has 3 clients",
        ),
    ],
)
def test_mistakes_get_a_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(ParameterError) as error:
        make()
    assert sentence in str(error.value)
