"""Arrival probabilities are learned, and weights built from them leave the direction unbiased."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import scfl
from scfl.core.delay import WirelessEdge
from scfl.core.fleet import Fleet
from scfl.methods.batches import Batches
from scfl.runtime.network.estimate import start_estimate
from scfl.runtime.network.terms import Terms
from tests.runtime.network.scripted import make_small_problem, start

ASKED = np.array([True, True, True])


def test_estimates_converge_from_a_wrong_prior_and_follow_a_change() -> None:
    """Standard error of a faded mean: sqrt(p (1 - p) (1 - k) / (1 + k)) < 0.016; four of them."""
    truth, rng = np.array([0.3, 0.9, 0.6]), np.random.default_rng(0)
    estimate = start_estimate(np.array([0.99, 0.2, 0.6]))
    nobody = np.zeros(3, dtype=bool)
    for _ in range(4000):
        estimate = estimate.watch(ASKED, rng.random(3) < truth, nobody)
    assert np.abs(estimate.probability - truth).max() < 0.064
    truth = truth[::-1]
    for _ in range(4000):
        estimate = estimate.watch(ASKED, rng.random(3) < truth, nobody)
    assert np.abs(estimate.probability - truth).max() < 0.064


def test_who_was_not_asked_or_never_is_teaches_nothing() -> None:
    estimate = start_estimate(np.array([0.5, 0.0, 0.5]))
    here = np.array([True, False, False])
    for _ in range(50):
        estimate = estimate.watch(here, here, ~ASKED)
    assert estimate.probability[0] > 0.85
    assert estimate.probability[1] == 0
    assert estimate.probability[2] == 0.5


def test_a_long_absence_has_a_floor() -> None:
    estimate = start_estimate(np.full(3, 0.9))
    for _ in range(5000):
        estimate = estimate.watch(ASKED, ~ASKED, ~ASKED)
    assert (estimate.probability == 0.05).all()


def test_with_injected_delays_the_weighted_direction_is_unbiased(tmp_path: Path) -> None:
    """The plan believes in another law than the delays follow: only learning removes the bias.

    Each client's mean weight times arrival is 1 where the direction is unbiased. Over the last 1500
    rounds its standard error is below sqrt((1 - p) / (p 1500)) = 0.034, and that of the faded
    estimate about as much again; 0.12 is allowed. Without learning the means are p_i / prior_i,
    0.55 to 1.45 here.
    """
    problem = make_small_problem()
    truth = np.array([0.95, 0.6, 0.36, 0.8])
    fleet = Fleet(
        macs_per_s=np.full(4, 1e9),
        uplink_bps=np.full(4, 1e6),
        downlink_bps=1e6,
        server_macs_per_s=1e9,
        law=WirelessEdge(erasure=0.35),
        names=problem.client_names,
        payload_bits=1e6,
    )
    rng = np.random.default_rng(1)
    in_time = rng.random((2500, 4)) < truth
    means = {}
    for learn in (True, False):
        terms = Terms(
            # One attempt of a second fits into the deadline after the second of the download.
            method=scfl.FLIPW(batches=Batches(subsets=3), deadline_s=2.5, learning_rate=0.1),
            clients=4,
            rounds=2500 if learn else 500,
            seed=5,
            dtype="float64",
            fleet=fleet,
            learn_arrivals=learn,
            checkpoint_every=5000,
            evaluate_every=5000,
        )
        delay = lambda r, c: 1.0 if in_time[r, c] else 10.0  # noqa: E731 - one line says it
        script = start(problem, terms, tmp_path / str(learn), delay=delay)
        script.join("0", "1", "2", "3")
        script.run(most_steps=100_000)
        ledger = script.session.book.finish(4)
        means[learn] = ledger.weight_given[1000 if learn else 0 :].mean(axis=0)
        if learn:
            assert script.session.training is not None
            learned = script.session.training.estimate.probability
            assert np.abs(learned - truth).max() < 0.064
    assert np.abs(means[True] - 1).max() < 0.12
    assert np.abs(means[False] - 1).max() > 0.3
