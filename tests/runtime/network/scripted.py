"""A network without a network: clients in this process, and a script for who answers when."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import scfl
from scfl.core.fleet import Fleet
from scfl.data.problem import Problem
from scfl.runtime.network.resumption import open_session
from scfl.runtime.network.session import Session
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.watching import Watcher
from scfl.runtime.network.wire import (
    Described,
    FrameError,
    Message,
    Stop,
    Work,
    read_frame,
    write_frame,
)
from scfl.runtime.network.worker import Rows, Worker
from scfl.runtime.result import ARRIVED, Result


@dataclass(frozen=True, eq=False)
class Share:
    """One client's part of a problem that is prepared already."""

    problem: Problem
    index: int
    name: str

    def describe(self, preparation: Mapping[str, Any]) -> Described:
        rows = int(self.problem.client_rows[self.index])
        columns = [f"x{column}" for column in range(self.problem.features.shape[1])]
        return Described(self.name, rows, columns, None)

    def prepare(self, classes: list[Any] | None, outputs: int) -> Rows:
        rows = self.problem.client(self.index)
        return Rows(self.problem.features[rows], self.problem.targets[rows])


def make_small_problem(clients: int = 4, dtype: str = "float64") -> Problem:
    """Regression with two outputs, unequal shares."""
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(clients), 30 + 7 * np.arange(clients))
    X = rng.standard_normal((len(owner), 6)) / 6**0.5
    Y = X @ rng.standard_normal((6, 2)) + 0.1 * rng.standard_normal((len(owner), 2))
    names = [f"client {index}" for index in range(clients)]
    return scfl.make_problem(X, Y, clients=owner, client_names=names, dtype=dtype)


def make_small_fleet(problem: Problem) -> Fleet:
    """The paper's edge, slow enough for some to be late."""
    drawn = scfl.wireless_edge(len(problem.client_rows), random_state=1, erasure=0.3)
    return Fleet(
        macs_per_s=drawn.macs_per_s,
        uplink_bps=drawn.uplink_bps / 500,
        downlink_bps=drawn.downlink_bps,
        server_macs_per_s=drawn.server_macs_per_s,
        law=drawn.law,
        names=problem.client_names,
    )


Answer = Callable[[str, Message, float], list[tuple[float, Message]]]


@dataclass(eq=False)
class Script:
    """Drives a session: ``delay(round, client)`` says when a gradient comes, inf for never.

    ``tamper`` may change what a client sends: it returns messages, or bytes that are none.
    """

    session: Session
    workers: dict[str, Worker]
    delay: Callable[[int, int], float] = lambda number, client: 0.0
    tamper: Callable[[str, Message], list[Any]] = lambda key, message: [message]
    now: float = 0.0
    pending: list[tuple[float, int, str, Any]] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    steps: int = 0

    def join(self, *keys: str) -> None:
        for key in keys:
            self.session.join(key, self.now)

    def run(self, until: Callable[[], bool] = lambda: False, most_steps: int = 20_000) -> None:
        """Play until the session is done, or ``until``; bounded."""
        for _ in range(most_steps):
            if self.session.phase == "done" or until():
                self._deliver()
                return
            self.session.advance(self.now)
            self._deliver()
            if self.session.compute():
                continue
            self._next_arrival()
        raise AssertionError("the script did not come to its end")

    def _deliver(self) -> None:
        while self.session.outgoing:
            key, message = self.session.outgoing.popleft()
            message = read_frame(write_frame(message), most_bytes=10**7)
            if isinstance(message, Stop):
                self.stopped.setdefault(key, message.reason)
                continue
            worker = self.workers.get(key)
            answer = None if worker is None else worker.answer(message)
            if answer is None:
                continue
            wait = self.delay(message.round, int(key)) if isinstance(message, Work) else 0.0
            for sent in self.tamper(key, answer):
                self.steps += 1
                self.pending.append((self.now + wait, self.steps, key, sent))

    def _next_arrival(self) -> None:
        wake = self.session.wake_at
        self.pending.sort(key=lambda entry: entry[:2])
        if not self.pending or self.pending[0][0] > wake:
            self.now = max(self.now, wake)
            return
        at, _, key, message = self.pending.pop(0)
        self.now = max(self.now, at)
        frame = message if isinstance(message, bytes) else write_frame(message)
        try:
            message = read_frame(frame, most_bytes=10**7)
        except FrameError as error:
            self.session.complain(key, str(error), self.now)
        else:
            self.session.receive(key, message, self.now)


def replay(result: Result) -> Callable[[int, int], float]:
    """Who answers, and who is late or away for good, as a simulator's ledger has it."""
    status = result.ledger.status
    return lambda number, client: 0.0 if status[number, client] == ARRIVED else np.inf


def start(
    problem: Problem,
    terms: Terms,
    folder: Path,
    *,
    seed: int = 0,
    watcher: Watcher | None = None,
    now: float = 0.0,
    **script: Any,
) -> Script:
    """A session with one worker per client, each with the simulator's stream as its secret."""
    session = open_session(terms, folder, now, watcher=watcher)
    workers = {
        # A clock of its own, so that nobody waits until a compute rate has been measured well.
        str(index): Worker(Share(problem, index, name), seed, itertools.count(0, 0.06).__next__)
        for index, name in enumerate(problem.client_names)
    }
    return Script(session, workers, now=now, **script)
