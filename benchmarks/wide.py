"""Curvature at 20,000 features, where a matrix of d x d would take 1.6 GB: what a training takes.

    python -m benchmarks.wide [--features 20000] [--rounds 50]

Handwritten digits with that many random Fourier features, once with few coded rows (Woodbury: a
matrix of c x c is factored) and once with many (conjugate gradients: nothing is). Beside them is
momentum without a code. Seconds are of the processor, memory is the most that the process held.
"""

from __future__ import annotations

import argparse
import resource
import time
from multiprocessing import get_context

import scfl
from scfl.core.curvature import know_curvature
from scfl.data.dataset import load_digits
from scfl.methods.curvature import noise_curvature

# Coded rows, and the share of the rounds that is enough to tell what a step takes; then none.
CASES = ((2000, 1.0), (9000, 0.1), (0, 1.0))
MOMENTUM = 8.0


def measure(features: int, coded_rows: int, rounds: int) -> None:
    """Train once in this process and print what it took; without coded rows, momentum."""
    data = load_digits()
    problem = scfl.make_problem(
        data.X,
        data.y,
        clients=scfl.LabelSorted(20),
        features=scfl.RandomFourier(dimensions=features, width=1.5),
        scaling=data.scaling,
        test_fraction=0.2,
    )
    fleet, batches = scfl.wireless_edge(20, random_state=0), scfl.Batches(subsets=2, redundancy=0.1)
    method: scfl.Curvature | scfl.FLIPW = scfl.FLIPW(
        learning_rate=MOMENTUM, momentum=0.9, batches=batches
    )
    if coded_rows:
        method = scfl.Curvature(coded_rows=coded_rows, batches=batches)
    began = time.process_time()
    result = scfl.simulate(
        problem, fleet, method, rounds=rounds, evaluate_every=rounds, count_setup=False
    )
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    name = f"{method.name}, {coded_rows:,} coded rows" if coded_rows else "fl-ipw, momentum 0.9"
    print(
        f"{name}: {took:.0f} s for {rounds} rounds, {peak:.1f} GB at most, "
        f"loss {result.loss:.4f}, accuracy {result.accuracy:.4f}"
    )
    if result.held is not None:
        known = know_curvature(result.held, noise_variance=noise_curvature(result.plan))
        began = time.process_time()
        known.apply(result.model)
        print(f"  factored: {known.side}, a step {time.process_time() - began:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=50)
    given = parser.parse_args()
    for coded_rows, share in CASES:
        # A process of its own for each: the most that one held is told apart.
        process = get_context("spawn").Process(
            target=measure, args=(given.features, coded_rows, max(1, round(share * given.rounds)))
        )
        process.start()
        process.join()


if __name__ == "__main__":
    main()
