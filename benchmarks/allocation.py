"""Time and memory of a load allocation, up to 100,000 clients of the paper's kind.

    python benchmarks/allocation.py [CLIENTS ...]

Time is that of the processor. Memory is the most that was allocated at one time: by client it has
to stay the same from row to row of a law, and small where hundreds of attempts are possible.
"""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace
from time import process_time

import numpy as np

from scfl.core.allocation import Allocation, allocate
from scfl.core.delay import DelayLaw, ShiftedExponential, WirelessEdge
from scfl.core.fleet import Shape, wireless_edge

LAWS: tuple[DelayLaw, ...] = (
    WirelessEdge(0.1),
    WirelessEdge(0.9),
    ShiftedExponential(0.0, 2.0),
    ShiftedExponential(0.1, 2.0),
    ShiftedExponential(0.9, 2.0),
)


def run(clients: int, law: DelayLaw) -> Allocation:
    """The paper's setting, with a server that grows with the fleet so as not to be the limit."""
    fleet = replace(wireless_edge(clients, law=law), server_macs_per_s=768e3 * clients)
    shape = Shape(np.full(clients, 3000), features=2000, outputs=10)
    return allocate(shape, fleet, redundancy=0.1, caps=np.full(clients, 100))


def main(sizes: list[int]) -> None:
    """Print a row for each law and size."""
    print(f"{'law':48}{'clients':>9}{'deadline':>10}{'CPU time':>10}{'memory':>10}{'a client':>10}")
    for law in LAWS:
        for clients in sizes:
            start = process_time()
            allocation = run(clients, law)
            seconds = process_time() - start
            # Traced apart, because tracing takes time.
            tracemalloc.start()
            run(clients, law)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            print(
                f"{law!r:48}{clients:9}{allocation.deadline_s:8.2f} s{seconds:8.2f} s"
                f"{peak / 1e6:7.1f} MB{peak / clients:8.0f} B",
                flush=True,
            )


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [1_000, 10_000, 100_000])
