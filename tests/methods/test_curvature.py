"""Curvature: its step by hand, its exact fixed point for any code and noise, and its price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import scfl
from scfl.core.curvature import precondition
from scfl.errors import InfeasibleError
from scfl.methods.curvature import second_moment
from scfl.methods.protocol import State
from scfl.runtime.direction import compute_direction
from scfl.runtime.encoding import collect_code
from scfl.runtime.simulator import simulate
from scfl.testing import check_method, small_problem

PROBLEM = small_problem()
SOLUTION = np.linalg.lstsq(PROBLEM.features, PROBLEM.targets, rcond=None)[0]
FLEET = scfl.wireless_edge(5, erasure=0.3, random_state=1)
# Everybody is in time, and a batch is all rows: what is left is the method's own error.
CALM = {"deadline_s": 1.0, "batches": scfl.Batches(1)}


@pytest.mark.parametrize("layout", ["summed", "stacked"])
@pytest.mark.parametrize("noise", [0.0, 1.0, scfl.Noise(30.0, labels=True)])
@pytest.mark.parametrize("coded_rows", [5, 100])
def test_the_fixed_point_is_exact_for_any_code_and_noise(
    layout: str, noise: float, coded_rows: int
) -> None:
    method = scfl.Curvature(coded_rows=coded_rows, noise=noise, layout=layout, **CALM)  # type: ignore[arg-type]
    plan = method.plan(PROBLEM.shape, FLEET)
    store = PROBLEM.arrange(1)
    held = collect_code(store, plan, 3, "clients")
    start = State(SOLUTION, SOLUTION)
    arrived = np.ones(5, bool)
    direction = compute_direction(
        plan,
        method.combine(plan, scfl.methods.protocol.Arrivals(0, arrived), start),
        SOLUTION,
        store=store,
        held=held,
        arrived=arrived,
        subset=0,
        round_number=0,
        seed=3,
    )
    after = method.step(plan, start, direction, held)
    np.testing.assert_allclose(after.model, SOLUTION, atol=1e-12)
    # And it is reached: slower where the code says less, but never away from it.
    run = simulate(PROBLEM, FLEET, method, rounds=300, random_state=3)
    off = run.trace.loss_last - PROBLEM.moments.loss(SOLUTION)
    assert off[-1] < 0.9 * off[0]
    assert (np.diff(off) < 1e-12).all()


@pytest.mark.parametrize("layout", ["summed", "stacked"])
def test_conforms_and_is_exact(layout: str) -> None:
    check_method(
        scfl.Curvature(coded_rows=400, layout=layout, noise=0.1, **CALM),  # type: ignore[arg-type]
        unbiased=True,
        exact=True,
    )


def test_the_step_by_hand() -> None:
    method = scfl.Curvature(coded_rows=60, batches=scfl.Batches(2))
    plan = method.plan(PROBLEM.shape, FLEET)
    held = collect_code(PROBLEM.arrange(2), plan, 0, "clients")
    assert held is not None
    model, direction = np.full((3, 2), 0.3), np.arange(6.0).reshape(3, 2)
    first = method.step(plan, State(model, model), direction, held)
    known = precondition(held)
    p = plan.arrival_probability
    v = (1 - known.gamma**0.5) ** -2 + known.dimension / plan.loads.sum() + ((1 - p) / p).max()
    X, owner = held.store.features, held.store.owner
    H = sum(X[owner == j].T @ X[owner == j] / (owner == j).sum() for j in range(5))
    wanted = model - np.linalg.solve(H + known.ridge * np.eye(3), direction) / v
    np.testing.assert_allclose(first.model, wanted)
    np.testing.assert_allclose(first.average, wanted)
    second = method.step(plan, first, direction, held)
    np.testing.assert_allclose(second.average, (first.model + 2 * second.model) / 3)


def test_the_server_pays_for_it() -> None:
    slow = replace(FLEET, server_macs_per_s=1e3)
    plan = scfl.Curvature(coded_rows=60).plan(PROBLEM.shape, slow)
    assert plan.step_macs == 3 * 3 * 2
    run = simulate(PROBLEM, slow, scfl.Curvature(coded_rows=60), rounds=10)
    plain = simulate(PROBLEM, slow, scfl.FLIPW(), rounds=10)
    extra = run.training_time_s - plain.training_time_s
    assert extra == pytest.approx(10 * 18 / 1e3)
    factor, eigenvalues, start = 60 * 9 / 2 + 27 / 6, 2 / 3 * 27, 3 * 60 * 3 * 2 + 18
    assert run.setup.server_s == pytest.approx((factor + eigenvalues + start) / 1e3)


def test_training_sets_out_from_the_codes_own_solution() -> None:
    method = scfl.Curvature(coded_rows=60, batches=scfl.Batches(2))
    plan = method.plan(PROBLEM.shape, FLEET)
    held = collect_code(PROBLEM.arrange(2), plan, 0, "clients")
    assert held is not None
    zero = np.zeros((3, 2))
    direction = -PROBLEM.features.T @ PROBLEM.targets
    after = method.step(plan, State(zero, zero), direction, held).model
    known = precondition(held)
    X, Y, owner = held.store.features, held.store.targets, held.store.owner
    blocks = [owner == j for j in range(5)]
    H = sum(X[own].T @ X[own] / own.sum() for own in blocks)
    right = sum(X[own].T @ Y[own] / own.sum() for own in blocks)
    inverse = np.linalg.inv(H + known.ridge * np.eye(3))
    own = inverse @ right
    alpha = -(direction * own).sum() / (own * (H @ own)).sum()
    assert 0.5 < alpha < 2
    start = alpha * own
    eta = 1 / second_moment(plan, known)
    np.testing.assert_allclose(after, start - eta * inverse @ (direction + H @ start))
    # That is nearer to the solution than the step from zero, and only the first step is another.
    plain = -eta * inverse @ direction
    assert np.linalg.norm(after - SOLUTION) < 0.5 * np.linalg.norm(plain - SOLUTION)
    later = method.step(plan, State(zero, zero, round=1), direction, held).model
    np.testing.assert_allclose(later, plain)


def test_a_solution_that_points_the_wrong_way_is_no_start() -> None:
    method = scfl.Curvature(coded_rows=60)
    plan = method.plan(PROBLEM.shape, FLEET)
    held = collect_code(PROBLEM.arrange(1), plan, 0, "clients")
    assert held is not None
    known, zero = precondition(held), np.zeros((3, 2))
    against = PROBLEM.features.T @ PROBLEM.targets
    after = method.step(plan, State(zero, zero), against, held).model
    np.testing.assert_allclose(after, -known.apply(against) / second_moment(plan, known))


def test_without_coded_rows_there_is_nothing_to_know() -> None:
    with pytest.raises(InfeasibleError, match="leaves no curvature to know"):
        scfl.Curvature(redundancy=0.0).plan(PROBLEM.shape, FLEET)


def test_it_beats_plain_steps_where_the_problem_is_ill_conditioned() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 12)) * 2.0 ** -np.arange(12)
    y = X @ (2.0 ** np.arange(12))
    problem = scfl.make_problem(X, y, clients=5, dtype="float64")
    batches = scfl.Batches(2)
    limit = 600 / np.linalg.eigvalsh(X.T @ X)[-1]
    coded = simulate(problem, FLEET, scfl.Curvature(coded_rows=400, batches=batches), rounds=100)
    plain = scfl.FLIPW(learning_rate=0.7 * limit, batches=batches)
    uncoded = simulate(problem, FLEET, plain, rounds=100)
    heavy = simulate(problem, FLEET, replace(plain, momentum=0.9), rounds=100)
    assert heavy.loss < uncoded.loss
    assert coded.loss < 0.2 * heavy.loss


def test_momentum_by_hand() -> None:
    method = scfl.FLIPW(learning_rate=2.0, momentum=0.5)
    plan = method.plan(PROBLEM.shape, FLEET)
    zero, direction = np.zeros((3, 2)), np.ones((3, 2))
    state = method.step(plan, State(zero, zero), direction, None)
    state = method.step(plan, state, direction, None)
    np.testing.assert_allclose(state.model, -2 / 40 * (1 + 1.5))
    np.testing.assert_allclose(state.average, -2 / 40 * (1 + 2 * 2.5) / 3)
