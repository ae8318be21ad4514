"""The stream lane on loopback: real sockets, TLS and processes, each bounded in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import scfl
from scfl.methods.batches import Batches
from scfl.runtime.network.lane import serve
from scfl.runtime.network.resumption import open_session
from scfl.runtime.network.session import Session
from scfl.runtime.network.stream import METHOD, Mailbox, StreamLane, run_client
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.tickets import SERVER_NAME, Ticket, Tokens, make_certificate
from scfl.runtime.network.wire import (
    Echo,
    Gradient,
    Message,
    Prepare,
    Work,
    pack_work,
    write_frame,
)
from scfl.runtime.network.worker import Worker
from tests.runtime.network.scripted import Share, make_small_fleet, make_small_problem

PROBLEM = make_small_problem()
# What SCFL needs to know of machines when rounds close as soon as everybody is here.
TERMS = Terms(
    method=scfl.SCFL(batches=Batches(subsets=3), coded_rows=40, deadline_s=30.0),
    clients=4,
    rounds=15,
    seed=5,
    dtype="float64",
    fleet=make_small_fleet(PROBLEM),
    enrol_s=180,  # a busy machine takes long to start four processes
    setup_s=180,
    patience_s=30,
)


def share(index: int) -> Share:
    return Share(PROBLEM, index, PROBLEM.client_names[index])


@contextmanager
def processes(tickets: list[Ticket], folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One client process per ticket; whatever happens, each is ended by its id."""
    running = []
    try:
        for index, ticket in enumerate(tickets):
            path = folder / f"ticket-{index}.json"
            path.write_text(json.dumps(asdict(ticket)), encoding="utf-8")
            command = [sys.executable, "-m", "tests.runtime.network.client_process"]
            running.append(subprocess.Popen([*command, str(path), str(index)], env=os.environ))
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait(10)


def model_of(session: Session) -> Any:
    assert session.training is not None
    return session.training.state.model


def test_processes_on_loopback_train_the_simulators_model(tmp_path: Path) -> None:
    lane = StreamLane()
    session = open_session(TERMS, tmp_path / "server", time.monotonic())
    tickets = [lane.issue_ticket(str(index)) for index in range(4)]
    with processes(tickets, tmp_path) as running:
        serve(session, lane)
        for process in running:
            assert process.wait(20) == 0
    wanted = scfl.simulate(
        PROBLEM, replace_law(), TERMS.method, rounds=TERMS.rounds, random_state=5
    )
    assert (wanted.ledger.status == 0).all()
    # The codes' streams are the same; estimates have moved from certain to certain.
    assert np.abs(model_of(session) - wanted.model_last).max() < 1e-10


def replace_law() -> scfl.Fleet:
    assert TERMS.fleet is not None
    return replace(TERMS.fleet, uplink_bps=TERMS.fleet.uplink_bps * 1e6)


def test_a_killed_client_is_not_waited_for(tmp_path: Path) -> None:
    lane = StreamLane()
    terms = replace(TERMS, rounds=40, method=scfl.FedAvg(batches=Batches(subsets=3)))
    session = open_session(terms, tmp_path / "server", time.monotonic())
    tickets = [lane.issue_ticket(str(index)) for index in range(4)]
    with processes(tickets, tmp_path) as running:

        def kill_one(session: Session) -> None:
            if session.training is not None and session.training.state.round == 5:
                running[2].kill()
                running[2].wait(10)

        serve(session, lane, watch=kill_one)
    ledger = session.book.finish(4)
    assert len(ledger.closed_s) == 40
    assert (ledger.status[-1] == [0, 0, 2, 0]).all()
    assert any("client 2 is gone" in event.sentence for event in session.events)


def connect(lane: StreamLane, token: str, certificate: bytes | None = None) -> Any:
    trusted = lane.certificate.certificate if certificate is None else certificate
    channel = grpc.secure_channel(
        lane.address,
        grpc.ssl_channel_credentials(trusted),
        [("grpc.ssl_target_name_override", SERVER_NAME)],
    )
    mailbox = Mailbox()
    call = channel.stream_stream(METHOD)(
        map(write_frame, mailbox), metadata=(("scfl-token", token),), timeout=10
    )
    return channel, mailbox, call


def code_of(call: Any) -> Any:
    with pytest.raises(grpc.RpcError) as raised:
        next(iter(call))
    return raised.value.code()  # type: ignore[attr-defined]


def test_only_the_right_token_opens_a_stream_and_only_once() -> None:
    lane = StreamLane()
    ticket = lane.issue_ticket("0")
    try:
        channel, mailbox, call = connect(lane, "guessed")
        assert code_of(call) == grpc.StatusCode.UNAUTHENTICATED
        channel.close()
        channel, mailbox, call = connect(lane, ticket.token)
        following = dict(call.initial_metadata())["scfl-next-token"]
        assert [arrival.what for arrival in lane.receive(5)] == ["joined"]
        replay, _, replayed = connect(lane, ticket.token)
        assert code_of(replayed) == grpc.StatusCode.UNAUTHENTICATED
        replay.close()
        mailbox.close()
        channel.close()
        assert following != ticket.token
        channel, _, call = connect(lane, following)
        assert "scfl-next-token" in dict(call.initial_metadata())
        channel.close()
    finally:
        lane.close()


def test_a_token_is_worth_something_once_and_to_its_owner_only() -> None:
    tokens = Tokens()
    first, other = tokens.issue("0"), tokens.issue("1")
    assert tokens.redeem(first) == "0"
    assert tokens.redeem(first) is None
    replaced = tokens.issue("1")
    assert tokens.redeem(other) is None
    assert tokens.redeem(replaced) == "1"
    assert tokens.redeem("") is None
    assert first not in repr(tokens)


def test_plaintext_and_other_certificates_are_refused() -> None:
    lane = StreamLane()
    ticket = lane.issue_ticket("0")
    try:
        with grpc.insecure_channel(lane.address) as channel:
            call = channel.stream_stream(METHOD)(
                iter([b""]), metadata=(("scfl-token", ticket.token),), timeout=5
            )
            assert code_of(call) == grpc.StatusCode.UNAVAILABLE
        # A client does not show its token to somebody with another certificate.
        channel, _, call = connect(lane, ticket.token, make_certificate().certificate)
        assert code_of(call) == grpc.StatusCode.UNAVAILABLE
        channel.close()
        other = make_certificate().certificate.decode()
        for where, trusted in ((lane.address, other), ("127.0.0.1:1", ticket.certificate)):
            with pytest.raises(scfl.errors.RunError, match="could not be reached"):
                run_client(Worker(share(0), 1), Ticket(where, trusted, ticket.token), patience_s=1)
        assert lane.receive(0.1) == []
    finally:
        lane.close()


def test_a_client_that_talks_too_much_waits(tmp_path: Path) -> None:
    """Frames beyond the few that may wait stay on the client's side of the connection."""
    lane = StreamLane()
    ticket = lane.issue_ticket("0")
    channel, mailbox, call = connect(lane, ticket.token)
    try:
        dict(call.initial_metadata())
        for _ in range(50):
            mailbox.put(Echo(0, np.zeros(100_000, dtype=np.uint8)))
        time.sleep(1.0)
        assert len([a for a in lane.receive(0) if a.what == "message"]) <= 4
    finally:
        channel.close()
        lane.close()


@pytest.mark.parametrize(
    ("frames", "wanted"),
    [
        ([b"nonsense", write_frame(Echo(0))], ["joined", "broken", "message", "left"]),
        # gRPC reads no more of this than its length, and ends the stream.
        ([bytes(5000), write_frame(Echo(0))], ["joined", "left"]),
    ],
)
def test_frames_that_are_none_are_told_and_cost_nothing(
    frames: list[bytes], wanted: list[str]
) -> None:
    lane = StreamLane(most_bytes=1000)
    ticket = lane.issue_ticket("0")
    with grpc.secure_channel(
        lane.address,
        grpc.ssl_channel_credentials(lane.certificate.certificate),
        [("grpc.ssl_target_name_override", SERVER_NAME)],
    ) as channel:
        call = channel.stream_stream(METHOD)(
            iter(frames), metadata=(("scfl-token", ticket.token),), timeout=5
        )
        dict(call.initial_metadata())
        got: list[Any] = []
        for _ in range(20):
            got += [arrival.what for arrival in lane.receive(0.5)]
            if got[-1:] == ["left"]:
                break
        assert got == wanted
    lane.close()


def test_a_superseded_round_is_abandoned_between_row_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scfl.runtime.network.worker.block_rows", lambda *shape: 10)
    worker, asked = Worker(share(0), 1), []

    def newer() -> bool:
        asked.append(1)
        return len(asked) > 1

    worker.answer(Prepare(None, 0))
    work = pack_work(np.zeros((6, 2)), round_number=0, subsets=1, subset=0, start=0, count=30)
    assert worker.answer(work, newer) is None
    assert len(asked) == 2  # of three blocks
    assert isinstance(worker.answer(work), Gradient)


def test_waiting_work_is_replaced_by_newer_work() -> None:
    mailbox = Mailbox()
    sent: list[Message] = [_work(1), Echo(0), _work(2), _work(3)]
    for message in sent:
        mailbox.put(message)
    assert mailbox.superseded()
    mailbox.close()
    assert [m.round if isinstance(m, Work) else m.kind for m in mailbox] == ["echo", 3]


def _work(number: int) -> Work:
    model = np.zeros((1, 1))
    return Work(number, 1, 0, 0, 1, 0, [1, 1], "f8", model.view(np.uint8).ravel())


def test_a_client_whose_stream_breaks_comes_back(tmp_path: Path) -> None:
    """The connection is cut from the server's side; the next token opens the next one."""
    lane = StreamLane()
    terms = replace(TERMS, rounds=30)
    session = open_session(terms, tmp_path, time.monotonic())
    clients = [
        threading.Thread(
            target=run_client,
            args=(Worker(share(index), secret=5), lane.issue_ticket(str(index))),
            daemon=True,
        )
        for index in range(4)
    ]
    for client in clients:
        client.start()
    cut = []

    def cut_one(session: Session) -> None:
        if session.training is not None and session.training.state.round == 5 and not cut:
            cut.append(1)
            lane._streams["1"].outbox.close()
        # Rounds are too short for somebody to come back in; give it the time.
        if cut and not session.order[1].here:
            time.sleep(0.05)

    serve(session, lane, watch=cut_one)
    for client in clients:
        client.join(10)
        assert not client.is_alive()
    heard = [event.sentence for event in session.events]
    assert heard.index("client 1 is gone") < len(heard) - 1 - heard[::-1].index(
        "client 1 is here with 37 rows"
    )
