"""CFL-FB, CodedFedL and DP-CFL: what their directions estimate, exactly, with and without noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import scfl
from scfl.core.allocation import allocate
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import store_rows
from scfl.errors import InfeasibleError
from scfl.methods.protocol import Arrivals, Deadline, Method, State
from scfl.runtime.direction import compute_direction
from scfl.runtime.encoding import collect_code
from scfl.runtime.simulator import close_round, simulate
from scfl.testing import check_mean_direction, direction_sampler, small_problem

MODEL = np.array([[0.7, -0.4], [0.2, 0.9], [-0.6, 0.3]])
PROBLEM = small_problem()
GRADIENT = PROBLEM.features.T @ (PROBLEM.features @ MODEL - PROBLEM.targets)
LOSSY = scfl.wireless_edge(5, erasure=0.3, random_state=1)
CLEAN = scfl.wireless_edge(5, erasure=0.0, random_state=1)


@pytest.mark.parametrize(
    ("method", "times"),
    [
        (scfl.CFLFB(noise=1.5), 1),
        (scfl.CFLFB(noise=scfl.Noise(1.5, labels=True), layout="stacked", redundancy=0.4), 1),
        (scfl.CodedFedL(noise=1.5, batches=scfl.Batches(3), redundancy=0.3), 3),
        (scfl.DPCFL(noise=1.5, coded_rows=40, server_rows=40), 1),
    ],
)
def test_noise_adds_exactly_its_bias(method: Method, times: int) -> None:
    """n sigma^2 W, and B n sigma^2 W for CodedFedL: no more, no less."""
    wanted = GRADIENT + times * 5 * 1.5**2 * MODEL
    check_mean_direction(method, PROBLEM, LOSSY, model=MODEL, wanted=wanted, replicates=2000)
    with pytest.raises(AssertionError, match="standard errors off"):
        check_mean_direction(method, PROBLEM, LOSSY, model=MODEL, wanted=GRADIENT, replicates=2000)


def test_codedfedl_estimates_its_global_batch() -> None:
    """Given the subset of a round, the mean is B times that subset's gradient."""
    method = scfl.CodedFedL(batches=scfl.Batches(2), redundancy=0.3)
    plan = method.plan(PROBLEM.shape, LOSSY)
    store = store_rows(PROBLEM.features, PROBLEM.targets, PROBLEM.client_rows, 2)
    work = LOSSY.work(PROBLEM.shape, plan.loads)
    for subset in (0, 1):
        rows = store.piece(subset)
        X, Y = store.features[rows], store.targets[rows]
        wanted = 2 * X.T @ (X @ MODEL - Y)
        drawn = []
        for seed in range(1500):
            delays = LOSSY.law.sample(work, 1, stream(seed, Purpose.DELAYS, 0))[0]
            arrived, _ = close_round(plan.wait, delays, plan.loads > 0, 0.0)
            drawn.append(
                compute_direction(
                    plan,
                    method.combine(plan, Arrivals(0, arrived), State(MODEL, MODEL)),
                    MODEL,
                    store=store,
                    held=collect_code(store, plan, seed, "clients"),
                    arrived=arrived,
                    subset=subset,
                    round_number=0,
                    seed=seed,
                )
            )
        error = np.std(drawn, axis=0) / 1500**0.5
        assert (np.abs(np.mean(drawn, axis=0) - wanted) < 5 * error).all()


@pytest.mark.parametrize("subsets", [1, 2])
def test_loads_and_deadline_are_the_allocations(subsets: int) -> None:
    method = scfl.CodedFedL(batches=scfl.Batches(subsets), redundancy=0.3)
    plan = method.plan(PROBLEM.shape, LOSSY)
    caps = -(-PROBLEM.client_rows // subsets)
    found = allocate(PROBLEM.shape, LOSSY, caps=caps, coded_rows=round(0.3 * 40 / subsets))
    assert plan.wait == Deadline(found.deadline_s)
    np.testing.assert_array_equal(plan.loads, found.loads)
    assert plan.code is not None
    assert plan.code.processed_weight is not None
    np.testing.assert_allclose(plan.code.processed_weight**2, 1 - found.arrival_probability)


def test_rows_that_a_client_never_processes_are_coded_in_full() -> None:
    """With a code that averages out, what is missing from arrivals is in the coded gradient."""
    method = scfl.CFLFB(redundancy=0.3)
    plan = method.plan(PROBLEM.shape, CLEAN)
    store = store_rows(PROBLEM.features, PROBLEM.targets, PROBLEM.client_rows, 1)
    assert plan.code is not None
    many = replace(plan, code=replace(plan.code, rows=np.full(5, 60_000), server_rows=60_000))
    held = collect_code(store, many, 0, "gram-shortcut")
    assert held is not None
    coded = held.store.features.T @ held.store.features / 60_000
    missing = store.place >= plan.loads[store.owner]
    wanted = store.features[missing].T @ store.features[missing]
    np.testing.assert_allclose(coded, wanted, atol=0.05 * np.abs(wanted).max())


def test_dp_cfl_asks_nobody_and_runs_on_the_servers_clock() -> None:
    method = scfl.DPCFL(coded_rows=10, server_rows=4)
    result = simulate(PROBLEM, LOSSY, method, rounds=7)
    assert result.ledger.bytes_up.sum() == 0
    assert (result.ledger.status == 3).all()
    assert result.training_time_s == pytest.approx(7 * 4 * 2 * 3 * 2 / 15_360e3)


@pytest.mark.parametrize(
    ("method", "uncoded"),
    [
        (scfl.CFLFB(redundancy=0.0, learning_rate=0.3), scfl.Batches(1)),
        (scfl.CodedFedL(redundancy=0.0, learning_rate=0.3, batches=scfl.Batches(4)), None),
        (scfl.SCFL(redundancy=0.0, learning_rate=0.3, batches=scfl.Batches(4)), None),
    ],
)
def test_no_redundancy_gives_back_the_uncoded_method(
    method: Method, uncoded: scfl.Batches | None
) -> None:
    plain = scfl.FedAvg(learning_rate=0.3, batches=uncoded or scfl.Batches(4))
    coded = simulate(PROBLEM, CLEAN, method, rounds=20, random_state=3)
    same = simulate(PROBLEM, CLEAN, plain, rounds=20, random_state=3)
    assert coded.held is None
    np.testing.assert_allclose(coded.model_last, same.model_last, rtol=1e-12)
    assert coded.training_time_s == pytest.approx(same.training_time_s)


def test_no_redundancy_on_lossy_links_says_what_would_do() -> None:
    with pytest.raises(InfeasibleError) as error:
        scfl.CFLFB(redundancy=0.0).plan(PROBLEM.shape, LOSSY)
    assert "redundancy" in str(error.value) or "coded" in str(error.value)
    with pytest.raises(InfeasibleError, match="nothing to train on"):
        scfl.DPCFL(redundancy=0.0).plan(PROBLEM.shape, LOSSY)


def test_fair_comparison_takes_one_line() -> None:
    """Batches with a redundancy give every method CodedFedL's loads."""
    batches = scfl.Batches(2, redundancy=0.2)
    loads = [
        method.plan(PROBLEM.shape, LOSSY).loads.tolist()
        for method in (
            scfl.CodedFedL(batches=batches),
            scfl.SCFL(batches=batches),
            scfl.FLPMA(batches=batches),
            scfl.FedAvg(batches=batches),
        )
    ]
    assert all(other == loads[0] for other in loads)


def test_the_direction_is_drawn_fresh_for_each_seed() -> None:
    draw = direction_sampler(scfl.DPCFL(coded_rows=10), PROBLEM, LOSSY, MODEL)
    assert not np.array_equal(draw(0), draw(1))
    np.testing.assert_array_equal(draw(0), draw(0))
