"""The client's app: it finds its data in the node's configuration and does what it is asked.

    flower-supernode --node-config 'data="share.csv" target="price" name="north"'

On the stream lane one message opens the stream and serves the whole training. On the messages lane
each message is a process of its own, and what the first one prepared is kept for the others.
"""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from threadpoolctl import threadpool_limits

from scfl.errors import DataError, ScflError
from scfl.runtime.flower.memory import Memory
from scfl.runtime.network.holdings import FileHoldings
from scfl.runtime.network.stream import MOST_BYTES, run_client
from scfl.runtime.network.tickets import Ticket
from scfl.runtime.network.wire import Describe, Prepare, Refusal, Stop, read_frame, write_frame
from scfl.runtime.network.worker import Worker

RECORD = "scfl"


def make_client_app() -> ClientApp:
    """The app that every SuperNode runs."""
    app: ClientApp = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        asked: Any = message.content[RECORD]
        with threadpool_limits(1, "blas"):
            if "ticket" in asked:
                said = _serve_stream(json.loads(str(asked["ticket"])), context)
                record = ConfigRecord({"ended": said})
            else:
                created = message.metadata.created_at
                ends = created + message.metadata.ttl
                record = ConfigRecord({"frame": _answer_frame(asked["frame"], context, ends)})
        return Message(content=RecordDict({RECORD: record}), reply_to=message)

    app.query()(answer)
    return app


def _serve_stream(ticket: dict[str, str], context: Context) -> str:
    """Serve the whole training; one sentence on how it ended."""
    try:
        return run_client(_make_worker(context), Ticket(**ticket))
    except ScflError as error:
        return f"{_name(context)}: {error}"


def _answer_frame(frame: bytes, context: Context, ends: float) -> bytes:
    message = read_frame(frame, most_bytes=MOST_BYTES)
    memory = Memory(context.run_id, context.node_id)
    if isinstance(message, Stop):
        memory.forget()
        return b""
    try:
        worker, kept = _make_worker(context), _state(context)
        if isinstance(message, Describe):
            kept["preparation"] = json.dumps(dict(message.preparation))
        worker.preparation = json.loads(str(kept["preparation"]))
        if isinstance(message, Prepare):
            worker.holdings.describe(worker.preparation)
        memory.recall(worker)
        reply = worker.answer(message, lambda: time.time() > ends)
        memory.keep(worker, message)
    except DataError as error:
        reply = Refusal(str(error))
    return b"" if reply is None else write_frame(reply)


def _make_worker(context: Context) -> Worker:
    config = context.node_config
    if "data" not in config:
        raise DataError(
            "--node-config names no data; add data=\"FILE.csv\" and, if it is not called 'target', "
            'target="COLUMN"'
        )
    holdings = FileHoldings(
        Path(str(config["data"])).expanduser(), str(config.get("target", "target")), _name(context)
    )
    kept = _state(context)
    if "secret" not in kept:
        kept["secret"] = secrets.token_hex(16)
    return Worker(holdings, secret=int(str(kept["secret"]), 16))


def _name(context: Context) -> str:
    config = context.node_config
    return str(config.get("name", config.get("partition-id", f"node {context.node_id}")))


def _state(context: Context) -> Any:
    """What Flower keeps for this run on this node."""
    if RECORD not in context.state:
        context.state[RECORD] = ConfigRecord()
    return context.state[RECORD]
