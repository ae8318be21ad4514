"""The stream lane: one TLS stream per client, open for the coded upload and all rounds.

Threads of gRPC read and write; each message is stamped when it comes in. What waits to be read is
bounded (a few frames per client, each of a bounded size), so a client that talks too much is made
to wait by its own connection. Work that has not been written yet is replaced by newer work.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc

from scfl.errors import RunError
from scfl.runtime.network.lane import Arrival
from scfl.runtime.network.tickets import (
    SERVER_NAME,
    Certificate,
    Ticket,
    Tokens,
    make_certificate,
)
from scfl.runtime.network.wire import FrameError, Message, Stop, Work, read_frame, write_frame
from scfl.runtime.network.worker import Worker

MOST_BYTES = 64_000_000
METHOD = "/scfl.Stream/Serve"
_TOKEN, _NEXT_TOKEN = "scfl-token", "scfl-next-token"
_FRAMES_WAITING = 4
# A dead peer is noticed after about this long; a live one answers pings even while it computes.
_KEEPALIVE = [
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 4_000),
]


def _limit(most_bytes: int) -> list[tuple[str, int]]:
    """What gRPC refuses when it has read no more of a message than its length."""
    return [
        ("grpc.max_receive_message_length", most_bytes),
        ("grpc.max_send_message_length", MOST_BYTES),
    ]


class Mailbox:
    """Messages on their way to somebody. New work replaces work that nobody has begun."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, message: Message) -> None:
        with self._changed:
            if isinstance(message, Work):
                self._waiting = deque(m for m in self._waiting if not isinstance(m, Work))
            self._waiting.append(message)
            self._changed.notify()

    def close(self) -> None:
        """Let what is waiting be taken, and nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def __iter__(self) -> Iterator[Message]:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                message = self._waiting.popleft()
            yield message

    def superseded(self) -> bool:
        """Whether what is being worked on is no longer wanted."""
        with self._changed:
            return self._closed or any(isinstance(m, (Work, Stop)) for m in self._waiting)


@dataclass(eq=False)
class _Stream:
    """One open stream: what is on its way out, and room for what comes in."""

    outbox: Mailbox = field(default_factory=Mailbox)
    room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_FRAMES_WAITING))


class StreamLane:
    """The server's end. ``address`` is where it listens, port 0 for any that is free."""

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        *,
        most_clients: int = 64,
        most_bytes: int = MOST_BYTES,
        certificate: Certificate | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.certificate = make_certificate() if certificate is None else certificate
        self._tokens, self._lock, self._clock = Tokens(), threading.Lock(), clock
        self._most_bytes = most_bytes
        self._inbox: queue.SimpleQueue[tuple[Arrival, _Stream | None]] = queue.SimpleQueue()
        self._streams: dict[str, _Stream] = {}
        self._server = grpc.server(
            ThreadPoolExecutor(most_clients + 4, thread_name_prefix="scfl-stream"),
            options=[*_KEEPALIVE, *_limit(most_bytes)],
            maximum_concurrent_rpcs=most_clients + 4,
        )
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    METHOD.split("/")[1],
                    {METHOD.split("/")[2]: grpc.stream_stream_rpc_method_handler(self._serve)},
                ),
            )
        )
        credentials = grpc.ssl_server_credentials(
            [(self.certificate.key, self.certificate.certificate)]
        )
        host = address.rpartition(":")[0]
        try:
            self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise RunError(f"{address} cannot be listened on; choose another address or port")
        self.address = f"{host}:{self.port}"
        self._server.start()

    def issue_ticket(self, key: str, address: str | None = None) -> Ticket:
        """What a client needs to open its stream; it replaces any ticket that it had."""
        with self._lock:
            token = self._tokens.issue(key)
        return Ticket(address or self.address, self.certificate.certificate.decode(), token)

    def is_open(self, key: str) -> bool:
        """Whether a client has its stream open."""
        with self._lock:
            return key in self._streams

    def send(self, key: str, message: Message) -> None:
        with self._lock:
            stream = self._streams.get(key)
        if stream is not None:
            stream.outbox.put(message)
            if isinstance(message, Stop):
                stream.outbox.close()

    def receive(self, seconds: float) -> list[Arrival]:
        arrivals = []
        try:
            arrival, stream = self._inbox.get(timeout=max(seconds, 1e-6))
            while True:
                arrivals.append(arrival)
                if stream is not None:
                    stream.room.release()
                arrival, stream = self._inbox.get_nowait()
        except queue.Empty:
            return arrivals

    def close(self) -> None:
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.outbox.close()
        self._server.stop(grace=2.0).wait()

    def _serve(self, frames: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """One stream, from its token to its end; runs in a thread of its own."""
        token = dict(context.invocation_metadata()).get(_TOKEN, "")
        with self._lock:
            key = self._tokens.redeem(str(token))
            if key is not None:
                following = self._tokens.issue(key)
                stream, before = _Stream(), self._streams.get(key)
                self._streams[key] = stream
        if key is None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "this token opens nothing")
            return
        if before is not None:
            before.outbox.close()
        context.send_initial_metadata(((_NEXT_TOKEN, following),))
        self._inbox.put((Arrival(key, self._clock(), "joined"), None))
        context.add_callback(stream.outbox.close)
        threading.Thread(target=self._read, args=(key, stream, frames), daemon=True).start()
        yield from map(write_frame, stream.outbox)

    def _read(self, key: str, stream: _Stream, frames: Iterator[bytes]) -> None:
        try:
            for frame in frames:
                at = self._clock()
                stream.room.acquire()
                try:
                    message = read_frame(frame, most_bytes=self._most_bytes)
                    arrival = Arrival(key, at, "message", message)
                except FrameError as error:
                    arrival = Arrival(key, at, "broken", trouble=str(error))
                self._inbox.put((arrival, stream))
        except grpc.RpcError:
            pass  # the stream is over, however it ended
        stream.outbox.close()
        with self._lock:
            current = self._streams.get(key) is stream
            if current:
                del self._streams[key]
        if current:
            self._inbox.put((Arrival(key, self._clock(), "left"), None))


def run_client(worker: Worker, ticket: Ticket, *, patience_s: float = 30.0) -> str:
    """Serve a training over the stream until it ends; why it ended.

    A stream that breaks is opened again, with the token that the last one brought, for as long as
    the server can be away.
    """
    token, last_heard = ticket.token, time.monotonic()
    while True:
        reason, following, refused = _serve_once(worker, ticket, token)
        if reason is not None:
            return reason
        if following:
            token, last_heard = following, time.monotonic()
        if refused:
            raise RunError(
                f"{ticket.address} did not accept this client's token; start the client again to "
                "get a new one"
            )
        if time.monotonic() - last_heard > patience_s:
            raise RunError(
                f"{ticket.address} could not be reached for {patience_s:g} s; check the address "
                "and that its port is open"
            )
        time.sleep(0.5)


def _serve_once(worker: Worker, ticket: Ticket, token: str) -> tuple[str | None, str, bool]:
    """One stream: the reason to stop if there was one, the next token, whether it was refused."""
    credentials = grpc.ssl_channel_credentials(ticket.certificate.encode())
    options = [*_KEEPALIVE, *_limit(MOST_BYTES), ("grpc.ssl_target_name_override", SERVER_NAME)]
    following, refused = "", False
    with grpc.secure_channel(ticket.address, credentials, options) as channel:
        outbox, mailbox = Mailbox(), Mailbox()
        call = channel.stream_stream(METHOD)(map(write_frame, outbox), metadata=((_TOKEN, token),))

        def read() -> None:
            try:
                for frame in call:
                    mailbox.put(read_frame(frame, most_bytes=MOST_BYTES))
            except (grpc.RpcError, FrameError):
                pass  # the loop below sees that nothing comes any more
            mailbox.close()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            for message in mailbox:
                if isinstance(message, Stop):
                    return message.reason, following, False
                answer = worker.answer(message, mailbox.superseded)
                if answer is not None:
                    outbox.put(answer)
            try:
                following = str(dict(call.initial_metadata() or ()).get(_NEXT_TOKEN, ""))
            except grpc.RpcError:
                following = ""
            refused = call.code() == grpc.StatusCode.UNAUTHENTICATED
        finally:
            outbox.close()
            call.cancel()
    return None, following, refused
