"""A server or a client on a host of the test's own: the stream lane, with tickets as files.

python -m tests.network.on_links server FOLDER CONFIG.toml ADDRESS
python -m tests.network.on_links client TICKET DATA.npz NAME
"""

from __future__ import annotations

import json
import sys
import time
import tomllib
from dataclasses import asdict
from pathlib import Path

from threadpoolctl import threadpool_limits

from scfl.runtime.network.config import check_network
from scfl.runtime.network.holdings import FileHoldings
from scfl.runtime.network.lane import serve
from scfl.runtime.network.resumption import open_session
from scfl.runtime.network.stream import StreamLane, run_client
from scfl.runtime.network.tickets import Ticket
from scfl.runtime.network.watching import Watcher
from scfl.runtime.network.worker import Worker, measure_macs_per_s
from scfl.study.network import Progress, record_network


def be_server(folder: Path, path: Path, address: str) -> None:
    config = check_network(tomllib.loads(path.read_text(encoding="utf-8")))
    lane = StreamLane(address)
    for client in range(config.network.clients):
        ticket = json.dumps(asdict(lane.issue_ticket(str(client))))
        aside = folder / f".ticket-{client}"
        aside.write_text(ticket, encoding="utf-8")
        aside.replace(folder / f"ticket-{client}.json")
    tests = FileHoldings(Path(config.network.test_data or ""), "target", "server")
    tests.describe(config.terms.preparation)
    session = open_session(
        config.terms,
        config.state,
        time.monotonic(),
        watcher=Watcher(tests),
        server_macs_per_s=measure_macs_per_s(),
    )
    progress = Progress()
    serve(session, lane, watch=lambda s: progress(config, s))
    record_network(config, session, None)


def be_client(path: Path, data: Path, name: str) -> None:
    ticket = Ticket(**json.loads(path.read_text(encoding="utf-8")))
    run_client(Worker(FileHoldings(data, "target", name), secret=1), ticket, patience_s=5)


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    with threadpool_limits(1, "blas"):
        if kind == "server":
            be_server(Path(words[0]), Path(words[1]), words[2])
        else:
            be_client(Path(words[0]), Path(words[1]), words[2])
