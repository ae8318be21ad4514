"""How fast the gradient kernel is, and how close to what this machine can do.

    python -m benchmarks.kernel [--json] [--repetitions N]

A round of the paper's size: 2000 rows of 2000 features and 10 outputs in single precision, BLAS
on one thread. Everybody computes the same weighted gradient. As in training, each round reads
another subset of the rows, so that none finds its rows in the cache; repetitions take the
contenders in turn, in a fresh order each, so that noise hits all alike. Times are of the
processor: on a shared machine a wall clock measures the neighbours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from scfl.core.fleet import Shape, wireless_edge
from scfl.core.gradient import accumulate_gradient, block_rows
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import RowStore, Subsets, row_scales, store_blocks
from scfl.methods.batches import Batches
from scfl.methods.fl_pma import FedAvg
from scfl.methods.protocol import State
from scfl.runtime.simulator import play_rounds

Matrix = NDArray[Any]

FEATURES, OUTPUTS = 2000, 10
ROWS = 2000
CLIENTS = (20, 100, 1000)
# 8 x 16 MB: more than the last cache of the machines we know.
SUBSETS = 8
PEAK_SIZE = 1536


@dataclass(frozen=True)
class Contender:
    """Something that computes the rounds whose subsets it is given, and takes its time."""

    name: str
    clients: int
    run: Callable[[int], object]
    flop: float = 4.0 * ROWS * FEATURES * OUTPUTS
    rounds: int = 1


@dataclass(frozen=True)
class Timing:
    """Processor milliseconds of one round: the median of all and the middle half of them."""

    name: str
    clients: int
    median_ms: float
    low_ms: float
    high_ms: float
    gflop_per_s: float


def simulator_contenders(store: RowStore, model: Matrix) -> list[Contender]:
    """Whole rounds of the simulator, FedAvg on the paper's fleet: draws, weights, step, ledger."""
    method = FedAvg(batches=Batches(SUBSETS))
    contenders = []
    for clients in (CLIENTS[0], CLIENTS[-1]):
        rows = np.full(clients, SUBSETS * ROWS // clients)
        fleet = wireless_edge(clients)
        plan = method.plan(Shape(rows, FEATURES, OUTPUTS), fleet)
        lengths = np.full((SUBSETS, clients), ROWS // clients)
        shared = store_blocks(store.features, store.targets, lengths)
        start = State(np.zeros_like(model), np.zeros_like(model))
        rounds = play_rounds(
            method, plan, fleet, start, store=shared, held=None, budget_s=np.inf, seed=0
        )
        run = lambda _, rounds=rounds: next(rounds)  # noqa: E731 - a Contender is called
        contenders.append(Contender("simulator", clients, run))
    return contenders


def kernel_contenders(store: RowStore, model: Matrix) -> list[Contender]:
    """The kernel on ready weights, and a round of it: who arrived, which rows, which weights."""
    weights = stream(0, Purpose.SYNTHETIC, 1).random(ROWS, dtype=np.float32)
    into = np.zeros((OUTPUTS, FEATURES), dtype=np.float32)

    def fused(subset: int) -> None:
        into[...] = 0
        piece = store.piece(subset)
        accumulate_gradient(store.features[piece], store.targets[piece], model, weights, into)

    def round_of(shared: RowStore, clients: int, subset: int) -> None:
        into[...] = 0
        piece = shared.piece(subset)
        loads = shared.lengths[subset]
        draw = partial(stream, 0, Purpose.CLIENT_BATCHES, 1, subset)
        scales = row_scales(shared, Subsets(SUBSETS), loads, subset, draw)
        weight = np.full(clients, 1 / 0.9)
        row_weights = (scales * weight[shared.owner[piece]]).astype(np.float32)
        accumulate_gradient(shared.features[piece], shared.targets[piece], model, row_weights, into)

    contenders = [Contender("fused kernel", CLIENTS[0], fused)]
    for clients in CLIENTS:
        lengths = np.full((SUBSETS, clients), ROWS // clients)
        shared = store_blocks(store.features, store.targets, lengths)
        run = partial(round_of, shared, clients)
        contenders.append(Contender("kernel and row weights", clients, run))
    return contenders


def plain_contenders(store: RowStore, model: Matrix) -> list[Contender]:
    """What one writes first: client after client, or all rows in one go."""
    weights = stream(0, Purpose.SYNTHETIC, 1).random(ROWS, dtype=np.float32)[:, None]

    def loop(clients: int, subset: int) -> Matrix:
        start, rows = store.piece(subset).start, ROWS // clients
        total = np.zeros_like(model)
        for client in range(clients):
            some = slice(start + client * rows, start + (client + 1) * rows)
            x, y = store.features[some], store.targets[some]
            w = weights[client * rows : (client + 1) * rows]
            total += x.T @ ((x @ model - y) * w)
        return total

    def at_once(subset: int) -> Matrix:
        piece = store.piece(subset)
        x, y = store.features[piece], store.targets[piece]
        return x.T @ ((x @ model - y) * weights)

    loops = [Contender("naive client loop", clients, partial(loop, clients)) for clients in CLIENTS]
    return [*loops, Contender("one GEMM pair", CLIENTS[0], at_once)]


def peak_contender() -> Contender:
    """The fastest that BLAS gets here: a large square product."""
    square = stream(0, Purpose.SYNTHETIC, 2).random((PEAK_SIZE, PEAK_SIZE), dtype=np.float32)
    product = np.empty_like(square)
    run = lambda _: np.matmul(square, square, out=product)  # noqa: E731 - a Contender is called
    return Contender("GEMM peak", 0, run, flop=2.0 * PEAK_SIZE**3)


def measure(contenders: list[Contender], repetitions: int) -> list[Timing]:
    """Time everybody once per repetition, in a fresh order, after one round to warm up."""
    for contender in contenders:
        contender.run(0)
    order = stream(0, Purpose.SYNTHETIC, 3)
    seconds: list[list[float]] = [[] for _ in contenders]
    subset = 0
    for _ in range(repetitions):
        for index in order.permutation(len(contenders)).tolist():
            subset = (subset + 1) % SUBSETS
            start = time.process_time()
            contenders[index].run(subset)
            elapsed = time.process_time() - start
            seconds[index].append(elapsed / contenders[index].rounds)
    return [summarise(*pair) for pair in zip(contenders, seconds, strict=True)]


def summarise(contender: Contender, seconds: list[float]) -> Timing:
    low, median, high = statistics.quantiles(seconds, n=4)
    return Timing(
        name=contender.name,
        clients=contender.clients,
        median_ms=1e3 * median,
        low_ms=1e3 * low,
        high_ms=1e3 * high,
        gflop_per_s=contender.flop / median / 1e9,
    )


def run(repetitions: int) -> dict[str, Any]:
    """Measure everything; the result is what ``--json`` prints."""
    rng = stream(0, Purpose.SYNTHETIC)
    features = rng.standard_normal((SUBSETS * ROWS, FEATURES), dtype=np.float32)
    targets = rng.standard_normal((SUBSETS * ROWS, OUTPUTS), dtype=np.float32)
    model = rng.standard_normal((FEATURES, OUTPUTS), dtype=np.float32)
    store = store_blocks(features, targets, np.full((SUBSETS, 1), ROWS))
    with threadpool_limits(1, "blas"):
        blas = next(library for library in threadpool_info() if library["user_api"] == "blas")
        contenders = [
            *kernel_contenders(store, model),
            *plain_contenders(store, model),
            *simulator_contenders(store, model),
            peak_contender(),
        ]
        *timings, peak = measure(contenders, repetitions)
    kernel = timings[0]
    rounds = {t.clients: t.median_ms for t in timings if t.name == "simulator"}
    return {
        "rows": ROWS,
        "features": FEATURES,
        "outputs": OUTPUTS,
        "dtype": "float32",
        "block_rows": block_rows(FEATURES, OUTPUTS),
        "repetitions": repetitions,
        "blas": f"{blas['internal_api']} {blas['version']}",
        "blas_core": blas.get("architecture"),
        "peak_gflop_per_s": peak.gflop_per_s,
        "kernel_fraction_of_peak": kernel.gflop_per_s / peak.gflop_per_s,
        "simulated_round_times_kernel": rounds[CLIENTS[0]] / kernel.median_ms,
        "growth_with_clients": rounds[CLIENTS[-1]] / rounds[CLIENTS[0]],
        "timings": [
            {**vars(timing), "times_kernel": timing.median_ms / kernel.median_ms}
            for timing in timings
        ],
    }


def show(result: dict[str, Any]) -> None:
    """Print the result as a table."""
    print(
        f"{result['rows']} rows, d = {result['features']}, o = {result['outputs']}, "
        f"{result['dtype']}, {result['blas']} for {result['blas_core']} on one thread; "
        f"median of {result['repetitions']} and the middle half"
    )
    print(f"{'':24}{'clients':>8}{'CPU ms':>9}{'':>18}{'GFLOP/s':>9}{'x kernel':>10}")
    for timing in result["timings"]:
        spread = f"({timing['low_ms']:.2f} to {timing['high_ms']:.2f})"
        print(
            f"{timing['name']:24}{timing['clients']:8}{timing['median_ms']:9.2f}{spread:>18}"
            f"{timing['gflop_per_s']:9.1f}{timing['times_kernel']:10.2f}"
        )
    print(
        f"GEMM peak {result['peak_gflop_per_s']:.0f} GFLOP/s: the kernel reaches "
        f"{result['kernel_fraction_of_peak']:.0%} of it. A simulated round takes "
        f"{result['simulated_round_times_kernel']:.2f} times the kernel's time, and with "
        f"{CLIENTS[-1]} clients at equal rows {result['growth_with_clients']:.2f} times its own."
    )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print numbers for a machine")
    parser.add_argument("--repetitions", type=int, default=41, help="rounds of each (41)")
    options = parser.parse_args()
    result = run(max(2, options.repetitions))
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)


if __name__ == "__main__":
    main()
