"""The server's app: it opens a session, picks the lane, and sees it to its end.

A ServerApp that raises ends its run as failed; what happened is in the run's folder in any case.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from flwr.app import ConfigRecord, Context, MessageType, RecordDict
from flwr.app import Message as Envelope
from flwr.serverapp import Grid, ServerApp
from threadpoolctl import threadpool_limits

from scfl.errors import ScflError
from scfl.methods.protocol import Deadline
from scfl.runtime.flower.client import RECORD
from scfl.runtime.flower.messages import MessagesLane
from scfl.runtime.network.config import NetworkConfig, check_network, nest
from scfl.runtime.network.holdings import FileHoldings
from scfl.runtime.network.lane import serve
from scfl.runtime.network.resumption import open_session
from scfl.runtime.network.session import Session
from scfl.runtime.network.stream import StreamLane
from scfl.runtime.network.watching import Watcher
from scfl.runtime.network.worker import measure_macs_per_s

# Called with a session while it runs, and once when it is over with what went wrong, if anything.
Watch = Callable[[NetworkConfig, Session], None]
Record = Callable[[NetworkConfig, Session | None, str | None], None]

_LONG_S = 30 * 24 * 3600.0
_USHER_EVERY_S = 1.0
_GOODBYES = 5
# A node that gave up, or was sent away, is asked again after this long: it may have been mended.
_REST_S = 15.0
# An invited node that has no stream after this long gets another ticket; the old one is void.
_COMES_WITHIN_S = 60.0
# One that lost its stream opens another within this long, or its process is no more.
_RETURNS_WITHIN_S = 15.0


def make_server_app(*, watch: Watch, record: Record) -> ServerApp:
    """The app that a SuperLink runs."""
    app: ServerApp = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        config = check_network(nest(context.run_config))
        session: Session | None = None
        try:
            with threadpool_limits(1, "blas"):
                session = open_session(
                    config.terms,
                    config.state,
                    time.monotonic(),
                    watcher=_make_watcher(config),
                    limit=config.limit,
                    server_macs_per_s=measure_macs_per_s(),
                )
                _serve(grid, config, session, watch)
        except ScflError as error:
            record(config, session, str(error))
            raise
        record(config, session, None)

    app.main()(main)
    return app


def _serve(grid: Grid, config: NetworkConfig, session: Session, watch: Watch) -> None:
    if config.network.lane == "messages":

        def work_ttl_s() -> float:
            wait = None if session.plan is None else session.plan.wait
            return wait.seconds if isinstance(wait, Deadline) else session.terms.patience_s

        serve(session, MessagesLane(grid, work_ttl_s), watch=lambda s: watch(config, s))
        return
    # A client that comes back may do so before its old stream is found dead.
    lane = StreamLane(config.network.listen, most_clients=2 * config.network.clients + 8)
    over = threading.Event()
    ushering = Usher(grid, lane, config.network.reach)
    usher = threading.Thread(target=ushering.work, args=(over,), daemon=True)
    usher.start()
    try:
        serve(session, lane, watch=lambda s: watch(config, s))
    finally:
        over.set()
        usher.join(10)


class Usher:
    """Hands a ticket to every node that has none, inside a message that Flower authenticates.

    A node whose message is answered has no stream any more; if it is still there a little later,
    it gets another ticket. So does a node that never came: on a busy machine Flower may give up on
    a process that starts too slowly, or one is killed, and it says nothing.
    """

    def __init__(
        self,
        grid: Grid,
        lane: StreamLane,
        reach: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grid, self._lane, self._clock = grid, lane, clock
        named = reach is None or ":" in reach
        self._address = reach if named else f"{reach}:{lane.port}"
        self._waiting: dict[str, str] = {}
        self._resting: dict[str, float] = {}
        self._invited: dict[str, float] = {}
        self._came: set[str] = set()

    def work(self, over: threading.Event) -> None:
        while not over.is_set():
            self.look()
            over.wait(_USHER_EVERY_S)
        # Clients say goodbye; a run that is over would refuse that.
        for _ in range(_GOODBYES):
            self._hear()
            if not self._waiting:
                return
            time.sleep(_USHER_EVERY_S)

    def look(self) -> None:
        """Invite whoever is without a stream, and hear who has given up."""
        for node in self._grid.get_node_ids():
            if self._is_without(str(node)):
                self._invite(node)
        self._hear()

    def _is_without(self, key: str) -> bool:
        now = self._clock()
        if self._lane.is_open(key):
            self._invited[key] = now
            self._came.add(key)
            return False
        within = _RETURNS_WITHIN_S if key in self._came else _COMES_WITHIN_S
        coming = key in self._waiting.values() and now - self._invited[key] < within
        return not (coming or now < self._resting.get(key, 0.0))

    def _invite(self, node: int) -> None:
        self._waiting = {n: key for n, key in self._waiting.items() if key != str(node)}
        self._invited[str(node)] = self._clock()
        self._came.discard(str(node))
        ticket = json.dumps(asdict(self._lane.issue_ticket(str(node), self._address)))
        envelope = Envelope(
            content=RecordDict({RECORD: ConfigRecord({"ticket": ticket})}),
            dst_node_id=node,
            message_type=MessageType.QUERY,
            ttl=_LONG_S,
        )
        for number in self._grid.push_messages([envelope]):
            if number:
                self._waiting[number] = str(node)

    def _hear(self) -> None:
        for reply in self._grid.pull_messages(list(self._waiting)) if self._waiting else ():
            key = self._waiting.pop(reply.metadata.reply_to_message_id, None)
            if key is not None:
                self._resting[key] = self._clock() + _REST_S


def _make_watcher(config: NetworkConfig) -> Watcher:
    """Measures on the server's own test rows, where it has some."""
    section = config.network
    if section.test_data is None:
        return Watcher()
    holdings = FileHoldings(Path(section.test_data).expanduser(), section.target, "server")
    holdings.describe(config.terms.preparation)
    return Watcher(holdings)
