"""What carries messages between a session and its clients, and the loop that drives both.

A lane says who came, who went and what arrived when; a session decides. Every lane is driven by the
same loop, so methods and faults behave alike on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from scfl.errors import RunError, ScflError
from scfl.runtime.network.session import Session
from scfl.runtime.network.wire import Message


@dataclass(frozen=True, eq=False)
class Arrival:
    """Something that happened on a lane; ``at`` is when it came, not when it was read."""

    key: str
    at: float
    what: Literal["joined", "left", "message", "broken"]
    message: Message | None = None
    trouble: str = ""


class Lane(Protocol):
    """Carries messages. ``receive`` waits for the first arrival, at most so many seconds."""

    def send(self, key: str, message: Message) -> None: ...

    def receive(self, seconds: float) -> list[Arrival]: ...

    def close(self) -> None: ...


def serve(
    session: Session,
    lane: Lane,
    *,
    clock: Callable[[], float] = time.monotonic,
    watch: Callable[[Session], None] = lambda session: None,
) -> None:
    """Drive a session to its end. Whatever ends it, what there is has been kept."""
    try:
        while session.phase != "done":
            session.advance(clock())
            _flush(session, lane)
            wait = 0.0 if session.compute() else max(0.0, session.wake_at - clock())
            for arrival in lane.receive(wait):
                _pass_on(session, arrival)
            watch(session)
    except KeyboardInterrupt:
        session.stop("interrupted; start it again to go on", failed=True)
        raise
    except ScflError as error:
        session.stop(str(error), failed=True)
        raise
    finally:
        _flush(session, lane)
        lane.close()
    if session.failed:
        raise RunError(session.ended)


def _pass_on(session: Session, arrival: Arrival) -> None:
    match arrival.what:
        case "joined":
            session.join(arrival.key, arrival.at)
        case "left":
            session.leave(arrival.key, arrival.at)
        case "broken":
            session.complain(arrival.key, arrival.trouble, arrival.at)
        case "message" if arrival.message is not None:
            session.receive(arrival.key, arrival.message, arrival.at)


def _flush(session: Session, lane: Lane) -> None:
    while session.outgoing:
        lane.send(*session.outgoing.popleft())
