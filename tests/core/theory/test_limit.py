"""Where training ends, against training; and what decides whether it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from scfl.core.coding import CodedData, Noise, encode
from scfl.core.gradient import compute_gradient
from scfl.core.moments import measure_moments
from scfl.core.sampling import store_blocks
from scfl.core.theory.limit import code_system, effective_system, expect_gap_share, measure_gap
from tests.strategies import seeds


def hold(blocks):
    """Coded blocks as a server keeps them."""
    features, targets = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return CodedData(store_blocks(features, targets, np.array([[len(b[0]) for b in blocks]])))


def draw_problem(rows=60, features=4, outputs=2, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    truth = rng.standard_normal((features, outputs))
    return X, X @ truth + 0.5 * rng.standard_normal((rows, outputs))


def code(X, Y, rows, *, sigma=0.0, seed=0):
    streams = (np.random.default_rng([seed, part]) for part in range(2))
    return encode(X, Y, rows, code=next(streams), noise=next(streams), amount=Noise(sigma))


@settings(max_examples=20)
@given(seeds, st.sampled_from([0.0, 0.3]), st.booleans())
def test_plain_descent_ends_at_the_fixed_point(seed, sigma, stacked):
    """3,000 noiseless steps of the mean direction, the make-up term included: within 1e-8."""
    X, Y = draw_problem(seed=seed)
    if stacked:
        blocks = [code(X[:30], Y[:30], 12, sigma=sigma, seed=seed)]
        blocks.append(code(X[30:], Y[30:], 9, sigma=sigma, seed=seed + 1))
    else:
        blocks = [code(X, Y, 20, sigma=sigma, seed=seed)]
    shrink = len(blocks) * sigma**2
    held = hold(blocks)
    system = effective_system(measure_moments(X, Y), held, shrink=shrink)
    if system.smallest_eigenvalue <= 1:
        return
    model, step = np.zeros((4, 2)), 1 / np.linalg.eigvalsh(system.curvature)[-1]
    for _ in range(3000):
        direction = compute_gradient(X, Y, model) - shrink * model
        for features, targets in blocks:
            direction += compute_gradient(features, targets, model) / len(features)
        model = model - step * direction
    np.testing.assert_allclose(model, system.solution, atol=1e-8)


def test_along_a_negative_eigenvalue_the_model_grows():
    """A make-up term far above the data's curvature: the same descent runs away."""
    X, Y = draw_problem()
    held = hold([code(0.1 * X, Y, 6, sigma=3.0)])
    system = effective_system(measure_moments(0.1 * X, Y), held, shrink=9.0)
    values = np.linalg.eigvalsh(system.curvature)
    assert system.smallest_eigenvalue == pytest.approx(values[0])
    assert values[0] < 0
    model = np.zeros((4, 2))
    sizes = []
    for _ in range(400):
        model = model - 0.5 / values[-1] * (system.curvature @ model - system.pull)
        sizes.append(np.linalg.norm(model))
    growth = sizes[-1] / sizes[-2]
    assert growth == pytest.approx(1 - 0.5 * values[0] / values[-1], rel=1e-3)


@given(seeds)
def test_the_gap_is_the_difference_of_losses(seed):
    X, Y = draw_problem(seed=seed)
    moments = measure_moments(X, Y)
    model = np.random.default_rng(seed).standard_normal((4, 2))
    difference = 60 * (moments.loss(model) - moments.loss(moments.solution))
    assert measure_gap(moments, model) == pytest.approx(difference, rel=1e-8)


def test_many_coded_rows_leave_the_datas_own_equations():
    X, Y = draw_problem()
    system = code_system(hold([code(X, Y, 400_000)]))
    np.testing.assert_allclose(system.curvature, X.T @ X, atol=0.02 * np.trace(X.T @ X))
    np.testing.assert_allclose(system.pull, X.T @ Y, atol=0.02 * np.trace(X.T @ X))


@pytest.mark.parametrize(("width", "rows"), [(40, 120), (40, 60), (40, 400), (40, 30)])
def test_the_expected_gap_of_a_noiseless_code(width, rows):
    """Within 6% over 60 fresh codes of a problem with correlated columns."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, width)) * np.linspace(0.1, 3, width)
    Y = X @ rng.standard_normal((width, 3)) + rng.standard_normal((300, 3))
    moments = measure_moments(X, Y)
    least = len(X) * moments.loss(moments.solution)
    shares = []
    for seed in range(60):
        system = effective_system(moments, hold([code(X, Y, rows, seed=seed)]))
        shares.append(measure_gap(moments, system.solution) / least)
    assert np.mean(shares) == pytest.approx(expect_gap_share(width, rows), rel=0.06)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.99, 3.0])
def test_the_share_is_the_integral_over_marchenko_and_pasturs_law(ratio):
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2

    def density(value):
        inside = max((value - low) * (high - value), 0.0)
        return inside**0.5 / (2 * np.pi * ratio * value) * value / (1 + value) ** 2

    mean, _ = integrate.quad(density, low, high, limit=200)
    assert expect_gap_share(1000, round(1000 / ratio)) == pytest.approx(ratio * mean, rel=1e-2)


def test_a_wide_sketch_is_about_a_quarter_of_its_ratio():
    assert expect_gap_share(1, 10_000) == pytest.approx(1 / 40_000, rel=1e-3)
