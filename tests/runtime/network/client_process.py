"""A client in a process of its own, started with the path of its ticket and its number."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from threadpoolctl import threadpool_limits

from scfl.runtime.network.stream import run_client
from scfl.runtime.network.tickets import Ticket
from scfl.runtime.network.worker import Worker
from tests.runtime.network.scripted import Share, make_small_problem

if __name__ == "__main__":
    ticket = Ticket(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    problem, index = make_small_problem(), int(sys.argv[2])
    threadpool_limits(1, "blas")
    worker = Worker(Share(problem, index, problem.client_names[index]), secret=5)
    run_client(worker, ticket, patience_s=20)
