"""The messages lane: everything through Flower's own messages, where no other port can be opened.

Flower's ready-made send-and-receive looks for replies every three seconds and waits for the
slowest; here messages are pushed and pulled in a loop of our own, and work expires with its round
(``ttl``), so that no node wastes time on rounds that are over. A new process for each message makes
rounds of seconds, not of milliseconds: this lane is for deadlines of tens of seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flwr.app import ConfigRecord, MessageType, RecordDict
from flwr.app import Message as Envelope
from flwr.serverapp import Grid

from scfl.runtime.flower.client import RECORD
from scfl.runtime.network.lane import Arrival
from scfl.runtime.network.stream import MOST_BYTES
from scfl.runtime.network.wire import FrameError, Message, Work, read_frame, write_frame

_PULL_EVERY_S = 0.2
_LOOK_FOR_NODES_EVERY_S = 3.0
_LONG_S = 3600.0
# A node whose app failed is asked again after this long.
_REST_S = 5.0


class MessagesLane:
    """Carries messages through the grid; a client is a node."""

    def __init__(
        self,
        grid: Grid,
        work_ttl_s: Callable[[], float],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grid, self._work_ttl_s, self._clock = grid, work_ttl_s, clock
        self._asked: dict[str, str] = {}
        self._expires: dict[str, float] = {}
        self._nodes: set[str] = set()
        self._resting: dict[str, float] = {}
        self._looked = -_LOOK_FOR_NODES_EVERY_S

    def send(self, key: str, message: Message) -> None:
        ttl = self._work_ttl_s() if isinstance(message, Work) else _LONG_S
        envelope = Envelope(
            content=RecordDict({RECORD: ConfigRecord({"frame": write_frame(message)})}),
            dst_node_id=int(key),
            message_type=MessageType.QUERY,
            ttl=ttl,
        )
        for number in self._grid.push_messages([envelope]):
            if number:
                self._asked[number] = key
                self._expires[number] = self._clock() + ttl

    def receive(self, seconds: float) -> list[Arrival]:
        until = self._clock() + seconds
        while True:
            arrivals = [*self._look_for_nodes(), *self._pull()]
            left = until - self._clock()
            if arrivals or left <= 0:
                return arrivals
            time.sleep(min(_PULL_EVERY_S, left))

    def close(self) -> None:
        """Nothing is open; what was pushed expires by itself."""

    def _look_for_nodes(self) -> list[Arrival]:
        now = self._clock()
        if now - self._looked < _LOOK_FOR_NODES_EVERY_S:
            return []
        self._looked = now
        rested = {key for key, at in self._resting.items() if now < at}
        current = {str(node) for node in self._grid.get_node_ids()} - rested
        came, went = current - self._nodes, self._nodes - current
        self._nodes = current
        return [
            *(Arrival(key, now, "joined") for key in sorted(came)),
            *(Arrival(key, now, "left") for key in sorted(went)),
        ]

    def _pull(self) -> list[Arrival]:
        now = self._clock()
        for number in [n for n, at in self._expires.items() if at < now]:
            del self._expires[number], self._asked[number]
        if not self._asked:
            return []
        arrivals = []
        for reply in self._grid.pull_messages(list(self._asked)):
            number = reply.metadata.reply_to_message_id
            key = self._asked.get(number)
            if key is None or key != str(reply.metadata.src_node_id):
                continue
            del self._asked[number], self._expires[number]
            arrivals += self._open(key, reply)
        return arrivals

    def _open(self, key: str, reply: Envelope) -> list[Arrival]:
        now = self._clock()
        if reply.has_error():
            self._resting[key] = now + _REST_S
            self._nodes.discard(key)
            return [
                Arrival(key, now, "broken", trouble=f"an error of its app: {reply.error.reason}"),
                Arrival(key, now, "left"),
            ]
        frame: Any = reply.content[RECORD]["frame"]
        if not frame:
            return []
        try:
            message = read_frame(frame, most_bytes=MOST_BYTES)
        except FrameError as error:
            return [Arrival(key, now, "broken", trouble=str(error))]
        return [Arrival(key, now, "message", message)]
