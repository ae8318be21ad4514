"""Gradients that clients cut and drown in noise: no row's share is larger than told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scfl
from scfl.core.gradient import Clip, accumulate_gradient
from scfl.core.sampling import Bernoulli, Subsets, owner_scales, row_scales, store_rows
from scfl.methods.protocol import Combination
from scfl.methods.releases import list_releases
from scfl.privacy.budget import GradientNoise
from scfl.privacy.events import Gradients
from scfl.runtime.direction import compute_direction, compute_gradients, make_guard
from tests.strategies import Rows, problems


def obvious_sum(rows: Rows, weights: np.ndarray, bound: float) -> np.ndarray:
    """Each row's own gradient as a matrix, cut to the bound, weighted, added up."""
    total = np.zeros(rows.model.shape)
    for x, y, weight in zip(
        rows.features.astype(float), rows.targets.astype(float), weights, strict=True
    ):
        own = np.outer(x, x @ rows.model.astype(float) - y)
        total += weight * own * min(1.0, bound / max(np.linalg.norm(own), 1e-300))
    return total


@given(rows=problems(), bound=st.floats(0.01, 20), seed=st.integers(0, 99))
def test_clipping_without_a_gradient_per_row(rows: Rows, bound: float, seed: int) -> None:
    weights = np.random.default_rng(seed).uniform(0, 2, len(rows.features))
    weights[::3] = 0
    into = np.zeros(rows.model.shape[::-1], dtype=rows.features.dtype)
    clip = Clip(np.linalg.norm(rows.features, axis=1), bound)
    accumulate_gradient(
        rows.features,
        rows.targets,
        rows.model,
        weights.astype(rows.features.dtype),
        into,
        clip=clip,
    )
    expected = obvious_sum(rows, weights, bound)
    tolerance = 1e-4 if rows.features.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(into.T, expected, atol=tolerance * bound * len(weights))


def problem(rows: int = 60) -> scfl.Problem:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((rows, 4)) * 5
    return scfl.make_problem(X, rng.standard_normal(rows), clients=3, dtype="float64")


def direction(
    data: scfl.Problem, sampling: Any, amount: GradientNoise, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """A round of everybody, and the scales of their sums."""
    fleet = scfl.wireless_edge(3, random_state=0)
    rule = "bernoulli" if isinstance(sampling, Bernoulli) else "subsets"
    subsets = sampling.count if isinstance(sampling, Subsets) else 2
    plan = scfl.FLIPW(batches=scfl.Batches(subsets, rows=5, rule=rule)).plan(data.shape, fleet)
    store = data.arrange(subsets if rule == "subsets" else 1)
    found = compute_direction(
        plan,
        Combination(clients=np.array([1.0, 2.0, 3.0])),
        np.zeros((4, 1)),
        store=store,
        held=None,
        arrived=np.array([True, False, True]),
        subset=0,
        round_number=0,
        seed=seed,
        guard=make_guard(store, amount),
    )
    return found, owner_scales(store.lengths[0], plan.sampling, plan.loads)


@pytest.mark.parametrize("sampling", [Subsets(2), Bernoulli()])
def test_noise_is_that_of_those_who_arrived(sampling: Any) -> None:
    amount = GradientNoise(norm=0.5, multiplier=1e6)
    drawn = np.array([direction(problem(), sampling, amount, seed=s)[0] for s in range(300)])
    scales = direction(problem(), sampling, amount)[1]
    expected = 0.5e6 * np.linalg.norm(np.array([1.0, 0.0, 3.0]) * scales)
    # 1200 draws: their spread is known to 2%.
    assert drawn.std() == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("sampling", [Subsets(2), Bernoulli()])
def test_one_row_moves_a_gradient_by_no_more_than_its_share(sampling: Any) -> None:
    amount = GradientNoise(norm=0.5, multiplier=1e-12)
    data = problem()
    without = problem()
    without.features[3] = 0
    without.targets[3] = 0
    there, scales = direction(data, sampling, amount)
    away, _ = direction(without, sampling, amount)
    moved = np.linalg.norm(there - away)
    assert moved <= 0.5 * scales[0] * (1 + 1e-9)


@given(
    count=st.integers(1, 4), fixed=st.booleans(), seed=st.integers(0, 99), load=st.integers(1, 9)
)
def test_an_owners_scale_is_that_of_its_rows(count: int, fixed: bool, seed: int, load: int) -> None:
    rows = np.array([17, 30])
    store = store_rows(np.zeros((47, 1)), np.zeros((47, 1)), rows, count)
    rng = np.random.default_rng(seed)
    loads = np.array([load, 7])
    for sampling in (Subsets(count, fixed=fixed), Bernoulli()):
        if isinstance(sampling, Bernoulli) and count > 1:
            continue
        scales = row_scales(store, sampling, loads, 0, lambda: rng)
        told = owner_scales(store.lengths[0], sampling, loads)[store.owner[store.piece(0)]]
        np.testing.assert_allclose(scales[scales > 0], told[scales > 0])


def test_gradients_shown_one_by_one_are_protected_too() -> None:
    """Methods that look at each client's gradient see it cut and noisy."""
    data, fleet = problem(), scfl.wireless_edge(3, random_state=0)
    plan = scfl.FLIPW(batches=scfl.Batches(2, rows=5)).plan(data.shape, fleet)
    store = data.arrange(2)
    scales = owner_scales(store.lengths[0], plan.sampling, plan.loads)

    def gradients(multiplier: float, seed: int = 0) -> np.ndarray:
        return compute_gradients(
            plan,
            np.zeros((4, 1)),
            store=store,
            arrived=np.array([True, False, True]),
            subset=0,
            round_number=0,
            seed=seed,
            guard=make_guard(store, GradientNoise(0.5, multiplier)),
        )

    bare = gradients(1e-12)
    assert not bare[1].any()
    assert np.linalg.norm(bare[0]) <= 5 * 0.5 * scales[0]
    together, _ = direction(data, Subsets(2), GradientNoise(0.5, 1e-12))
    np.testing.assert_allclose(together, bare[0] + 3 * bare[2], atol=1e-9)
    drawn = np.array([gradients(1e6, seed) for seed in range(300)])
    for client in (0, 2):
        assert drawn[:, client].std() == pytest.approx(0.5e6 * scales[client], rel=0.08)
    assert abs(np.corrcoef(drawn[:, 0].ravel(), drawn[:, 2].ravel())[0, 1]) < 0.12


def test_how_often_a_row_takes_part() -> None:
    data, fleet = problem(), scfl.wireless_edge(3, random_state=0)
    noise = GradientNoise(norm=2.0, multiplier=3.0)

    def event(**batches: Any) -> Gradients:
        method = scfl.FLIPW(batches=scfl.Batches(**batches))
        found = list_releases(method.plan(data.shape, fleet), 25, noise)[0][0]
        assert isinstance(found, Gradients)
        return found

    turns = event(subsets=10)
    assert (turns.sigma, turns.norm, turns.turns, turns.rate) == (6.0, 2.0, 3, 1.0)
    coins = event(subsets=10, rule="bernoulli")
    assert (coins.turns, coins.rate) == (25, 0.1)


def test_training_goes_on_under_noise_and_repeats() -> None:
    data, fleet = problem(600), scfl.wireless_edge(3, random_state=0)
    bare, *noisy = (
        scfl.simulate(data, fleet, scfl.FLIPW(learning_rate=0.02), rounds=30, gradient_noise=amount)
        for amount in (None, GradientNoise(50.0, 0.2), GradientNoise(50.0, 0.2))
    )
    assert noisy[0].loss == noisy[1].loss != bare.loss
    assert noisy[0].gradient_noise == GradientNoise(50.0, 0.2)
    # A norm that no row reaches, and no noise to speak of: the same model.
    same = scfl.simulate(
        data,
        fleet,
        scfl.FLIPW(learning_rate=0.02),
        rounds=30,
        gradient_noise=GradientNoise(1e9, 1e-18),
    )
    np.testing.assert_allclose(same.model, bare.model, rtol=1e-9)
