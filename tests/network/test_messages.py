"""The messages lane on a grid that is made up: what is passed on, what expires, what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, RecordDict
from flwr.app import Message as Envelope
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from scfl.runtime.flower.client import RECORD
from scfl.runtime.flower.messages import MessagesLane
from scfl.runtime.flower.server import Usher
from scfl.runtime.network.stream import StreamLane
from scfl.runtime.network.tickets import Ticket
from scfl.runtime.network.wire import Describe, Echo, pack_work, write_frame


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's messages carry the run and the node of the process that makes them."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


WORK = pack_work(np.zeros((2, 1)), round_number=0, subsets=1, subset=0, start=0, count=1)


@dataclass
class MadeUpGrid:
    """Keeps what is pushed, and gives back the replies that a test lays down."""

    nodes: list[int] = field(default_factory=lambda: [7])
    pushed: dict[str, Envelope] = field(default_factory=dict)
    replies: list[Any] = field(default_factory=list)

    def get_node_ids(self) -> list[int]:
        return self.nodes

    def push_messages(self, messages: list[Envelope]) -> list[str]:
        numbers = [f"message {len(self.pushed) + at}" for at in range(len(messages))]
        self.pushed |= dict(zip(numbers, messages, strict=True))
        return numbers

    def pull_messages(self, numbers: list[str]) -> list[Any]:
        here = [r for r in self.replies if r.metadata.reply_to_message_id in numbers]
        self.replies = [reply for reply in self.replies if reply not in here]
        return here

    def reply(self, number: str, content: bytes | Error, node: int = 7) -> None:
        self.replies.append(Reply(Metadata(number, node), content))


@dataclass
class Metadata:
    reply_to_message_id: str
    src_node_id: int


@dataclass
class Reply:
    metadata: Metadata
    said: bytes | Error

    def has_error(self) -> bool:
        return isinstance(self.said, Error)

    @property
    def error(self) -> Any:
        return self.said

    @property
    def content(self) -> RecordDict:
        return RecordDict({RECORD: ConfigRecord({"frame": cast(bytes, self.said)})})


@dataclass
class Bench:
    """A lane, its grid, and the time."""

    grid: MadeUpGrid = field(default_factory=MadeUpGrid)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.lane = MessagesLane(cast(Grid, self.grid), lambda: 30.0, clock=lambda: self.now)

    def hear(self) -> list[tuple[str, str]]:
        return [(arrival.key, arrival.what) for arrival in self.lane.receive(0)]


@dataclass
class MadeUpLane:
    """Knows who has a stream, and numbers its tickets."""

    open: set[str] = field(default_factory=set)
    port: int = 9443
    tickets: int = 0

    def is_open(self, key: str) -> bool:
        return key in self.open

    def issue_ticket(self, key: str, address: str | None) -> Ticket:
        self.tickets += 1
        return Ticket(str(address), "certificate", f"{key}: {self.tickets}")


def test_a_node_whose_process_died_or_never_came_is_invited_again() -> None:
    """One that has its stream is left alone; one that gave up, with an answer, rests first."""
    grid, lane, now = MadeUpGrid(), MadeUpLane(), 0.0
    usher = Usher(cast(Grid, grid), cast(StreamLane, lane), "server.example", lambda: now)
    told: list[tuple[float, int]] = []

    def pass_time(until: float) -> None:
        nonlocal now
        while now < until:
            before = len(grid.pushed)
            usher.look()
            told.extend([(now, len(grid.pushed))] * (len(grid.pushed) > before))
            now += 1.0

    pass_time(100)
    assert told == [(0, 1), (60, 2)]  # it never came
    lane.open = {"7"}
    pass_time(300)
    assert len(told) == 2
    lane.open = set()
    pass_time(330)
    assert told[2:] == [(314, 3)]  # it was there until 299, and its process is no more
    grid.reply("message 2", b"it gave up")
    pass_time(340)
    assert len(told) == 3
    pass_time(350)
    assert told[3:] == [(345, 4)]
    assert grid.pushed["message 3"].metadata.dst_node_id == 7


def test_nodes_come_and_go() -> None:
    bench = Bench()
    assert bench.hear() == [("7", "joined")]
    bench.grid.nodes = [8]
    assert bench.hear() == []  # it looks every few seconds
    bench.now = 10
    assert bench.hear() == [("8", "joined"), ("7", "left")]


def test_replies_are_passed_on_and_work_expires_with_its_round() -> None:
    bench = Bench()
    bench.hear()
    bench.lane.send("7", Describe({}))
    bench.lane.send("7", WORK)
    first, second = bench.grid.pushed
    assert bench.grid.pushed[second].metadata.ttl == 30
    assert bench.grid.pushed[first].metadata.ttl > 1000
    bench.grid.reply(first, write_frame(Echo(3)))
    assert bench.hear() == [("7", "message")]
    bench.now = 31
    bench.grid.reply(second, write_frame(Echo(3)))
    assert ("7", "message") not in bench.hear()


def test_a_reply_counts_for_the_node_that_was_asked_and_once() -> None:
    bench = Bench()
    bench.hear()
    bench.lane.send("7", Describe({}))
    bench.grid.reply("message 0", write_frame(Echo(3)), node=8)  # claims another's message
    assert bench.hear() == []
    for _ in range(2):
        bench.grid.reply("message 0", write_frame(Echo(3)))
    assert bench.hear() == [("7", "message")]
    assert bench.hear() == []


def test_what_is_no_message_is_told_and_a_failed_app_rests() -> None:
    bench = Bench()
    bench.hear()
    bench.lane.send("7", Describe({}))
    bench.grid.reply("message 0", b"nonsense")
    assert bench.hear() == [("7", "broken")]
    bench.lane.send("7", Describe({}))
    bench.grid.reply("message 1", Error(code=0, reason="it fell over"))
    assert bench.hear() == [("7", "broken"), ("7", "left")]
    bench.now = 4
    assert bench.hear() == []
    bench.now = 8
    assert bench.hear() == [("7", "joined")]
