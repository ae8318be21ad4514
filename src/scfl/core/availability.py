"""Who is there at all: laws of absence, beside the laws of delay.

A delay law says how long an answer takes; an availability law says from when until when a client
is up. A client takes part in a round if it is up when the round begins and stays up until its
answer is here; otherwise it is absent, however long the others wait. Times are seconds since the
first round began: during the upload of coded data everybody is there.

``Always``          nobody is ever gone
``Independent``     a coin of its own for every client and round
``Outages``         up and down in turn, each for an exponential time (a two-state Markov chain)
``Diurnal``         up for a part of every day, each client at hours of its own
``Departures``      some leave for good, at one time or at random ones
``LateJoiners``     some come only later, and stay
``Trace``           up in given intervals; a client without intervals is always up

A law is a value; :meth:`draw` makes what happens to so many clients under a seed. The draws have a
stream of their own, so a law changes neither delays nor batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scfl.core.parameter import Requirements
from scfl.core.randomness import Purpose, stream
from scfl.errors import ParameterError, Problem

Floats = NDArray[np.float64]

# Intervals that are drawn at a time for each client. Part of what a seed means: never change it.
_DRAWN = 16


class Presence(Protocol):
    """What happens to each client of a fleet."""

    def until(self, number: int, seconds: float) -> Floats:
        """When each client goes down, seen from the start of a round; -inf if it is down."""

    def again(self, seconds: float) -> Floats:
        """The next moment at which each client can be asked: now if it is up, inf if never."""


class Availability(Protocol):
    """A law of absence."""

    def draw(self, clients: int, seed: int) -> Presence: ...


class Intervals:
    """Every client's up-times, in order, continued by ``more`` where they have no end.

    ``begins`` and ``ends`` are clients by intervals; infinite begins fill a row up.
    """

    def __init__(
        self,
        begins: Floats,
        ends: Floats,
        more: Callable[[int, Floats], tuple[Floats, Floats]] | None = None,
    ) -> None:
        self.begins, self.ends, self._more, self._turn = begins, ends, more, 0

    def until(self, number: int, seconds: float) -> Floats:
        begins, ends = self._current(seconds)
        return np.where(begins <= seconds, ends, -np.inf)

    def again(self, seconds: float) -> Floats:
        return np.maximum(self._current(seconds)[0], seconds)

    def _current(self, seconds: float) -> tuple[Floats, Floats]:
        """Each client's first interval that is not over."""
        while self._more is not None and (self.ends[:, -1] <= seconds).any():
            self._turn += 1
            begins, ends = self._more(self._turn, self.ends[:, -1])
            self.begins = np.concatenate([self.begins, begins], axis=1)
            self.ends = np.concatenate([self.ends, ends], axis=1)
        over = (self.ends <= seconds).sum(axis=1)
        rows, place = np.arange(len(self.ends)), np.minimum(over, self.ends.shape[1] - 1)
        ended = over == self.ends.shape[1]
        return (
            np.where(ended, np.inf, self.begins[rows, place]),
            np.where(ended, np.inf, self.ends[rows, place]),
        )


@dataclass(frozen=True)
class Always:
    """Nobody is ever gone."""

    def draw(self, clients: int, seed: int) -> Intervals:
        return Intervals(np.zeros((clients, 1)), np.full((clients, 1), np.inf))


@dataclass(frozen=True)
class Independent:
    """Each client is there in each round with the same probability, whatever was before."""

    probability: float = 0.9

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.number("probability", self.probability, above=0, at_most=1)

    def draw(self, clients: int, seed: int) -> Presence:
        return _Coins(self.probability, clients, seed)


@dataclass(frozen=True)
class _Coins:
    probability: float
    clients: int
    seed: int

    def until(self, number: int, seconds: float) -> Floats:
        coins = stream(self.seed, Purpose.AVAILABILITY, number).random(self.clients)
        return np.where(coins < self.probability, np.inf, -np.inf)

    def again(self, seconds: float) -> Floats:
        return np.full(self.clients, seconds)


@dataclass(frozen=True)
class Outages:
    """Up for ``mean_up_s`` on average, then down for ``mean_down_s``, and so on without memory.

    Training meets the fleet as it is in the long run: a client starts down with the probability
    mean_down / (mean_up + mean_down).
    """

    mean_up_s: float = 600.0
    mean_down_s: float = 200.0

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.number("mean_up_s", self.mean_up_s, above=0)
            require.number("mean_down_s", self.mean_down_s, above=0)

    def draw(self, clients: int, seed: int) -> Intervals:
        def more(turn: int, since: Floats) -> tuple[Floats, Floats]:
            rng = stream(seed, Purpose.AVAILABILITY, 0, turn)
            down = self.mean_down_s * rng.standard_exponential((clients, _DRAWN))
            up = self.mean_up_s * rng.standard_exponential((clients, _DRAWN))
            if turn == 0:
                down[:, 0] *= rng.random(clients) < self._share_down
            ends = since[:, None] + np.cumsum(down + up, axis=1)
            return ends - up, ends

        return Intervals(*more(0, np.zeros(clients)), more)

    @property
    def _share_down(self) -> float:
        return self.mean_down_s / (self.mean_up_s + self.mean_down_s)


@dataclass(frozen=True)
class Diurnal:
    """Up for the part ``up_share`` of every ``period_s``, at hours of each client's own.

    ``spread`` is the part of the period that the clients' mornings are spread over: 1 is a fleet
    around the globe, 0 a fleet in one place that goes to sleep as one.
    """

    period_s: float = 86_400.0
    up_share: float = 0.5
    spread: float = 1.0

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.number("period_s", self.period_s, above=0)
            require.number("up_share", self.up_share, above=0, at_most=1)
            require.number("spread", self.spread, at_least=0, at_most=1)

    def draw(self, clients: int, seed: int) -> Presence:
        if self.up_share == 1:
            return Always().draw(clients, seed)
        phase = stream(seed, Purpose.AVAILABILITY).random(clients) * self.spread

        def more(turn: int, since: Floats) -> tuple[Floats, Floats]:
            # The first day began before training: who has a late morning may be up since yesterday.
            days = np.arange(turn * _DRAWN, (turn + 1) * _DRAWN) - 1
            begins = (phase[:, None] + days) * self.period_s
            return begins, begins + self.up_share * self.period_s

        return Intervals(*more(0, np.zeros(clients)), more)


@dataclass(frozen=True)
class Departures:
    """Some clients leave and never come back.

    Who: the given ``clients`` by number or, without any, a random ``share`` of all. When: at
    ``at_s``, or each at a random moment between two.
    """

    share: float = 0.3
    at_s: float | tuple[float, float] = 600.0
    clients: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_change(self)

    def draw(self, clients: int, seed: int) -> Intervals:
        moments = _draw_change(self, clients, seed, otherwise=np.inf)
        return Intervals(np.zeros((clients, 1)), moments[:, None])


@dataclass(frozen=True)
class LateJoiners:
    """Some clients come later and stay: who and when as in :class:`Departures`."""

    share: float = 0.3
    at_s: float | tuple[float, float] = 600.0
    clients: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_change(self)

    def draw(self, clients: int, seed: int) -> Intervals:
        moments = _draw_change(self, clients, seed, otherwise=0.0)
        return Intervals(moments[:, None], np.full((clients, 1), np.inf))


@dataclass(frozen=True)
class Trace:
    """Recorded up-times: (client, from, until) in seconds; who is not named is always up."""

    intervals: tuple[tuple[int, float, float], ...] = ()

    def __post_init__(self) -> None:
        with Requirements() as require:
            for client, begin, end in self.intervals:
                require.count("client", client)
                require.that(
                    bool(0 <= begin < end),
                    "intervals",
                    f"client {client} is up from {begin:g} to {end:g} s; "
                    "give 0 <= from < until, in seconds",
                )
            ordered = sorted(self.intervals)
            for (client, _, end), (other, begin, _) in pairwise(ordered):
                require.that(
                    client != other or end <= begin,
                    "intervals",
                    f"client {client} has intervals that overlap at {begin:g} s; join them",
                )

    def draw(self, clients: int, seed: int) -> Intervals:
        named = {client for client, _, _ in self.intervals}
        _check_numbers("trace", named, clients)
        spans = {
            client: sorted((b, e) for c, b, e in self.intervals if c == client) for client in named
        }
        most = max((len(span) for span in spans.values()), default=1)
        begins, ends = np.full((2, clients, most), np.inf)
        begins[:, 0] = 0.0
        for client, span in spans.items():
            begins[client, : len(span)], ends[client, : len(span)] = zip(*span, strict=True)
        return Intervals(begins, ends)


def _check_change(law: Departures | LateJoiners) -> None:
    for name in ("clients", "at_s"):
        value = getattr(law, name)
        object.__setattr__(law, name, tuple(value) if isinstance(value, list) else value)
    with Requirements() as require:
        require.number("share", law.share, at_least=0, at_most=1)
        for client in law.clients:
            require.count("clients", client)
        span = law.at_s if isinstance(law.at_s, tuple) else (law.at_s, law.at_s)
        require.that(len(span) == 2, "at_s", f"{law.at_s!r} is neither a time nor two")
        for moment in span:
            require.number("at_s", moment, at_least=0)
        if len(span) == 2 and not require.problems:
            require.that(span[0] <= span[1], "at_s", f"{law.at_s!r} runs backwards; swap the times")


def _draw_change(
    law: Departures | LateJoiners, clients: int, seed: int, *, otherwise: float
) -> Floats:
    """The moment of each client's change, ``otherwise`` for those who do not change."""
    _check_numbers("clients", set(law.clients), clients)
    rng = stream(seed, Purpose.AVAILABILITY)
    order, coins = rng.permutation(clients), rng.random(clients)
    chosen = list(law.clients) or order[: round(law.share * clients)].tolist()
    low, high = law.at_s if isinstance(law.at_s, tuple) else (law.at_s, law.at_s)
    moments = np.full(clients, otherwise)
    moments[chosen] = low + (high - low) * coins[chosen]
    return moments


def _check_numbers(field: str, named: set[int], clients: int) -> None:
    beyond = sorted(client for client in named if client >= clients)
    if beyond:
        raise ParameterError(
            [
                Problem(
                    field,
                    f"client {beyond[0]} is named, but the fleet has {clients} clients, "
                    f"numbered from 0 to {clients - 1}",
                )
            ]
        )
