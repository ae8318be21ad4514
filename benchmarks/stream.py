"""The stream lane on this machine: length of a round, how a deadline holds, uploads and memory.

    python -m benchmarks.stream

Five clients in processes of their own on loopback, over TLS, with d = 2000 and o = 10. What is
measured is wall time on a machine that may have other work: see how far the quartiles are apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from scfl.core.fleet import Fleet
from scfl.methods.batches import Batches
from scfl.methods.fl_pma import FedAvg
from scfl.methods.protocol import Method
from scfl.methods.scfl import SCFL
from scfl.runtime.network.lane import serve
from scfl.runtime.network.resumption import open_session
from scfl.runtime.network.session import Session
from scfl.runtime.network.stream import StreamLane, run_client
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.tickets import Ticket
from scfl.runtime.network.wire import Described, Gradient, Message, Work
from scfl.runtime.network.worker import Rows, Worker

CLIENTS, FEATURES, OUTPUTS, ROWS = 5, 2000, 10, 100
# 48 MB of float32: the coded rows of one client.
CODED_ROWS = 48_000_000 // (4 * (FEATURES + OUTPUTS))


@dataclass(frozen=True)
class MadeUp:
    """Random rows."""

    name: str

    def describe(self, preparation: Mapping[str, Any]) -> Described:
        return Described(self.name, ROWS, [f"x{i}" for i in range(FEATURES)], None)

    def prepare(self, classes: list[Any] | None, outputs: int) -> Rows:
        rng = np.random.default_rng(0)
        features = rng.standard_normal((ROWS, FEATURES), dtype=np.float32) / FEATURES**0.5
        return Rows(features, rng.standard_normal((ROWS, OUTPUTS), dtype=np.float32))


class Silent(Worker):
    """A client that is connected, and never answers in a round."""

    def answer(self, message: Message, superseded: Any = None) -> Message | None:
        reply = super().answer(message)
        return None if isinstance(message, Work) or isinstance(reply, Gradient) else reply


def be_client(path: str, name: str, silent: bool) -> None:
    ticket = Ticket(**json.loads(Path(path).read_text(encoding="utf-8")))
    kind = Silent if silent else Worker
    with threadpool_limits(1, "blas"):
        run_client(kind(MadeUp(name), secret=1), ticket)


def measure(method: Method, rounds: int, silent: int = -1) -> tuple[Session, float]:
    """Train with five processes; the session, and the seconds that the uploads took."""
    fleet = Fleet(
        macs_per_s=np.full(CLIENTS, 1e9),
        uplink_bps=np.full(CLIENTS, 1e9),
        downlink_bps=1e9,
        server_macs_per_s=1e9,
        names=[f"client {index}" for index in range(CLIENTS)],
    )
    terms = Terms(
        method=method,
        clients=CLIENTS,
        rounds=rounds,
        fleet=replace(fleet, payload_bits=1e4),
        evaluate_every=10**6,
        checkpoint_every=10**6,
    )
    with tempfile.TemporaryDirectory() as folder:
        lane, processes = StreamLane(), []
        session = open_session(terms, Path(folder) / "state", time.monotonic())
        for index in range(CLIENTS):
            path = Path(folder) / f"{index}.json"
            ticket = json.dumps(asdict(lane.issue_ticket(str(index))))
            path.write_text(ticket, encoding="utf-8")
            words = ["-m", "benchmarks.stream", str(path), f"client {index}", str(index == silent)]
            processes.append(subprocess.Popen([sys.executable, *words]))
        try:
            with threadpool_limits(1, "blas"):
                serve(session, lane)
        finally:
            for process in processes:
                process.kill()
                process.wait(10)
    uploads = [client.upload_s for client in session.order]
    return session, max(uploads)


def peak_bytes() -> float:
    """The most memory that this process has held."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    return np.nan


def describe(seconds: Any) -> str:
    low, middle, high, most = np.percentile(1000 * np.asarray(seconds), [25, 50, 75, 95])
    return (
        f"median {middle:.1f} ms (quartiles {low:.1f} and {high:.1f}, 95th percentile {most:.1f})"
    )


def main() -> None:
    batches = Batches(subsets=1)
    session, _ = measure(FedAvg(batches=batches), 300)
    lasted = np.diff(session.book.closed_s)
    print(f"a round with five clients, as soon as all are here: {describe(lasted)}")

    method = SCFL(batches=batches, coded_rows=300, deadline_s=0.1)
    session, _ = measure(method, 200, silent=2)
    lasted = np.diff(session.book.closed_s)
    print(f"a round with a deadline of 100 ms and a silent client: {describe(lasted)}")
    missed = 1000 * np.abs(lasted - 0.1)
    print(
        f"    {(missed <= 5).mean():.0%} of the rounds within 5 ms of the deadline, the furthest "
        f"{missed.max():.1f} ms from it"
    )

    before = peak_bytes()
    method = SCFL(
        batches=batches, coded_rows=CLIENTS * CODED_ROWS, layout="stacked", deadline_s=30.0
    )
    session, seconds = measure(method, 2)
    held = CLIENTS * CODED_ROWS * (FEATURES + OUTPUTS) * 4
    grown = peak_bytes() - before
    encoding = max(client.encoding_s for client in session.order)
    print(
        f"5 uploads of 48 MB: {seconds:.1f} s after {encoding:.1f} s of encoding; the server's "
        f"memory grew by {grown / 1e6:.0f} MB, {grown / held:.2f} times the {held / 1e6:.0f} MB "
        "that it holds"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        be_client(sys.argv[1], sys.argv[2], sys.argv[3] == "True")
    else:
        main()
