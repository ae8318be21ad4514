"""What the methods of the absent promise: means and variances given the code, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import scfl
from scfl.core.coding import CodedData
from scfl.methods.protocol import Arrivals, Method, Plan, State
from scfl.methods.resilient import Heard, predict
from scfl.runtime.direction import compute_direction
from scfl.runtime.encoding import collect_code
from scfl.runtime.simulator import simulate
from scfl.testing import small_problem

PROBLEM = small_problem()
FLEET = scfl.wireless_edge(5, erasure=0.3, random_state=1)
MODEL = np.array([[0.7, -0.4], [0.2, 0.9], [-0.6, 0.3]])
WHOLE = scfl.Batches(1)


def over_arrivals(method: Method, *, seed: int = 3) -> tuple[np.ndarray, float, Plan, CodedData]:
    """The exact mean and variance of the direction over who arrives, for one code."""
    plan = method.plan(PROBLEM.shape, FLEET)
    store = PROBLEM.arrange(1)
    held = collect_code(store, plan, seed, "clients")
    p = plan.arrival_probability
    mean, square = np.zeros((3, 2)), 0.0
    for who in product([False, True], repeat=5):
        arrived = np.array(who)
        chance = float(np.where(arrived, p, 1 - p).prod())
        direction = compute_direction(
            plan,
            method.combine(plan, Arrivals(0, arrived), State(MODEL, MODEL)),
            MODEL,
            store=store,
            held=held,
            arrived=arrived,
            subset=0,
            round_number=0,
            seed=seed,
        )
        mean += chance * direction
        square += chance * float((direction**2).sum())
    assert held is not None
    return mean, square - float((mean**2).sum()), plan, held


def gradients() -> np.ndarray:
    rows = [PROBLEM.client(i) for i in range(5)]
    return np.array(
        [PROBLEM.features[r].T @ (PROBLEM.features[r] @ MODEL - PROBLEM.targets[r]) for r in rows]
    )


def opinions(held: CodedData, sigma: float) -> np.ndarray:
    store = held.store
    out = []
    for block in range(5):
        X, Y = (part[store.owner == block] for part in (store.features, store.targets))
        out.append(X.T @ (X @ MODEL - Y) / len(X) - sigma**2 * MODEL)
    return np.array(out)


@pytest.mark.parametrize("sigma", [0.0, 0.7])
def test_doubly_robust_is_unbiased_for_every_code(sigma: float) -> None:
    """Not on average over codes: for this one, and with the variance that the formula says."""
    method = scfl.DoublyRobust(coded_rows=40, noise=sigma, batches=WHOLE, server_rows=40)
    mean, variance, plan, held = over_arrivals(method)
    np.testing.assert_allclose(mean, gradients().sum(axis=0), atol=1e-10)
    p = plan.arrival_probability
    away = ((gradients() - opinions(held, sigma)) ** 2).sum(axis=(1, 2))
    assert variance == pytest.approx(float(((1 - p) / p * away).sum()))
    # Stand-in and SCFL are unbiased over codes only.
    stand_in = scfl.StandIn(coded_rows=40, noise=sigma, batches=WHOLE, server_rows=40)
    assert np.abs(over_arrivals(stand_in)[0] - gradients().sum(axis=0)).max() > 1e-3


def test_predictions_that_are_close_lower_the_variance() -> None:
    good = scfl.DoublyRobust(coded_rows=5000, batches=WHOLE, server_rows=5000)
    plain = scfl.FLIPW(batches=WHOLE)
    _, variance, plan, held = over_arrivals(good)
    p = plan.arrival_probability
    without = float(((1 - p) / p * (gradients() ** 2).sum(axis=(1, 2))).sum())
    closer = (opinions(held, 0.0) ** 2).sum() < 2 * (gradients() * opinions(held, 0.0)).sum()
    assert closer
    assert variance < 0.1 * without
    mean = over_arrivals(replace(good, noise=30.0))
    assert mean[1] > without
    np.testing.assert_allclose(mean[0], gradients().sum(axis=0), atol=1e-7)
    assert isinstance(plain.plan(PROBLEM.shape, FLEET), Plan)


def test_stand_in_errs_in_proportion_to_absence() -> None:
    method = scfl.StandIn(coded_rows=40, noise=0.4, batches=WHOLE, server_rows=40)
    mean, _, plan, held = over_arrivals(method)
    late = (1 - plan.arrival_probability)[:, None, None]
    wanted = (gradients() + late * (opinions(held, 0.4) - gradients())).sum(axis=0)
    np.testing.assert_allclose(mean, wanted, atol=1e-10)


def weights_of(noise: float, coded_rows: int = 40, rounds: int = 60) -> list[float]:
    seen: list[float] = []

    class Watched(scfl.AdaptiveSCFL):
        def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Any:
            made = super().combine(plan, arrivals, state)
            seen.append(float(made.coded[0]))
            return made

    method = Watched(learning_rate=0.2, noise=noise, coded_rows=coded_rows, batches=scfl.Batches(4))
    assert simulate(PROBLEM, FLEET, method, rounds=rounds).diverged is None
    return seen


def test_the_adaptive_weight_follows_noise_and_time() -> None:
    calm, loud, rich = weights_of(0.0), weights_of(5.0), weights_of(0.0, coded_rows=5000)
    assert calm[0] == loud[0] == 0.5
    assert max(*calm, *loud, *rich) <= 0.5
    assert calm[-1] < calm[3]
    assert loud[-1] < 0.01
    assert loud[-1] < calm[-1] < rich[-1]


@pytest.mark.filterwarnings("ignore::scfl.InstabilityWarning")
def test_a_safe_make_up_term_holds_where_the_printed_one_fails() -> None:
    printed = scfl.SCFL(learning_rate=0.1, coded_rows=5, noise=6.0)
    safe = replace(printed, make_up="safe")
    assert simulate(PROBLEM, FLEET, printed, rounds=2000).diverged is not None
    run = simulate(PROBLEM, FLEET, safe, rounds=2000)
    assert run.diverged is None
    quiet = replace(printed, noise=0.05, coded_rows=400)
    ends = [
        simulate(PROBLEM, FLEET, method, rounds=50).model_last
        for method in (quiet, replace(quiet, make_up="safe"))
    ]
    np.testing.assert_allclose(*ends, rtol=1e-9)


def test_a_prediction_by_hand() -> None:
    method = scfl.Resilient(coded_rows=40, noise=0.2)
    plan = method.plan(PROBLEM.shape, FLEET)
    held = collect_code(PROBLEM.arrange(1), plan, 0, "clients")
    assert held is not None
    heard = Heard(
        answers=np.full((5, 3, 2), 2.0),
        models=np.full((5, 3, 2), 0.1),
        count=np.array([0, 3, 10**9, 1, 1]),
        arrived=np.zeros(5, bool),
    )
    own = held.store.owner == 0
    X, Y = held.store.features[own], held.store.targets[own]
    unheard = X.T @ (X @ MODEL - Y) / len(X) - 0.04 * 0.1 + 0.7 * (MODEL - 0.1)
    np.testing.assert_allclose(predict(plan, heard, held, 0, MODEL, anchor=0.7), unheard)
    # After very many answers, at the model that they were given for, only they count.
    center = np.full((3, 2), 0.1)
    np.testing.assert_allclose(
        predict(plan, heard, held, 2, center, anchor=0.7), heard.answers[2], rtol=1e-6
    )


def test_departures_do_not_undo_what_was_learned() -> None:
    """Two of five leave for good: who forgets them ends far off, whoever keeps them does not."""
    start = scfl.SCFL(batches=WHOLE).plan(PROBLEM.shape, FLEET).wait
    gone = scfl.Departures(clients=(0, 4), at_s=start.seconds * 150.5)  # type: ignore[union-attr]
    fleet = replace(FLEET, availability=gone)
    best = PROBLEM.moments.loss(PROBLEM.moments.solution)
    for noise in (0.0, 1.0, 10.0):
        for coded_rows in (5, 100):
            method = scfl.Resilient(coded_rows=coded_rows, noise=noise, batches=WHOLE)
            run = simulate(PROBLEM, fleet, method, rounds=1500, evaluate_every=150)
            assert run.diverged is None
            at_departure, end = run.trace.loss_average[1] - best, run.loss - best
            assert end <= 1.05 * at_departure + 1e-9, (noise, coded_rows)
    forgetful = scfl.Curvature(coded_rows=100, batches=WHOLE)
    lost = simulate(PROBLEM, fleet, forgetful, rounds=1500).loss - best
    kept = simulate(PROBLEM, fleet, replace(method, noise=0.0), rounds=1500).loss - best
    assert kept < 0.1 * lost


def test_outages_that_nobody_foresaw_do_no_harm() -> None:
    fleet = replace(FLEET, availability=scfl.Independent(0.5))
    method = scfl.Resilient(coded_rows=200, batches=WHOLE)
    run = simulate(PROBLEM, fleet, method, rounds=1500)
    np.testing.assert_allclose(run.model_last, PROBLEM.moments.solution, atol=1e-4)
    late = replace(FLEET, availability=scfl.LateJoiners(clients=(1, 2), at_s=0.05))
    run = simulate(PROBLEM, late, method, rounds=1500)
    np.testing.assert_allclose(run.model_last, PROBLEM.moments.solution, atol=1e-4)
