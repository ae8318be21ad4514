"""What the server estimates from coded data, against what it cannot see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from scfl.core.coding import CodedData, Noise, encode
from scfl.core.sampling import store_blocks
from scfl.core.theory.estimate import (
    estimate_coded_variance,
    estimate_data_square,
    estimate_definiteness,
    estimate_residual_square,
)
from scfl.core.theory.variance import add_blocks, measure_coded_variance

SIGMA = 0.7
NOISY = [Noise(SIGMA), Noise(SIGMA, labels=True)]
LAYOUTS = ["summed", "stacked"]
layouts = pytest.mark.parametrize("layout", LAYOUTS)


def draw_clients(seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((rows, 4)) + 0.5, rng.standard_normal((rows, 2)))
        for rows in (9, 6, 12)
    ]


def hold_code(clients, layout, seed, *, amount=NOISY[0], rows=24):
    """What the server holds, and the noise's variance in an entry of a block."""
    streams = [np.random.default_rng([seed, place]) for place in range(2 * len(clients))]
    codes = [
        encode(*data, rows, code=streams[2 * i], noise=streams[2 * i + 1], amount=amount)
        for i, data in enumerate(clients)
    ]
    if layout == "summed":
        codes = [(sum(code[0] for code in codes), sum(code[1] for code in codes))]
    features, targets = (np.concatenate(parts) for parts in zip(*codes, strict=True))
    held = CodedData(store_blocks(features, targets, np.full((1, len(codes)), rows)))
    return held, len(clients) / len(codes) * amount.sigma**2


@layouts
@pytest.mark.parametrize("amount", NOISY, ids=["features", "labels"])
def test_squares_are_unbiased(layout, amount):
    """The mean over 1,500 codes is within 5 of its standard errors, 1 to 2% of the value."""
    clients = draw_clients()
    X, Y = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    model = np.random.default_rng(1).standard_normal((4, 2))
    found = []
    for seed in range(1_500):
        held, variance = hold_code(clients, layout, seed, amount=amount)
        found.append(
            (
                estimate_data_square(held, variance),
                estimate_residual_square(held, model, variance, label_noise=amount.labels),
            )
        )
    truth = np.square(X).sum(), np.square(X @ model - Y).sum()
    error = np.std(found, axis=0) / len(found) ** 0.5
    assert (error < 0.02 * np.array(truth)).all()
    assert (np.abs(np.mean(found, axis=0) - truth) < 5 * error).all()


@layouts
def test_the_coded_variance_is_estimated_without_bias(layout):
    """Over 1,500 codes, within 5 standard errors of the exact one."""
    clients = draw_clients()
    X, Y = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    model = np.random.default_rng(1).standard_normal((4, 2))
    found = [
        estimate_coded_variance(hold_code(clients, layout, seed)[0], model) for seed in range(1_500)
    ]
    blocks = [(X, Y)] if layout == "summed" else clients
    variance = len(clients) / len(blocks) * SIGMA**2
    exact = add_blocks(
        [
            measure_coded_variance(*block, model, coded_rows=24, noise_variance=variance)
            for block in blocks
        ]
    ).total
    error = np.std(found) / len(found) ** 0.5
    assert error < 0.02 * exact
    assert abs(np.mean(found) - exact) < 5 * error


def draw_curvatures(spectrum, rows, noise, seed, dtype=np.float32):
    """H of a code of data with these eigenvalues, and the effective Hessian's least eigenvalue."""
    rng = np.random.default_rng(seed)
    coded = rng.standard_normal((rows, len(spectrum))) * np.sqrt(spectrum + noise)
    curvature = coded.T @ coded / rows
    effective = curvature + np.diag(spectrum - noise)
    return curvature.astype(dtype), float(linalg.eigvalsh(effective)[0])


def decaying(width, law):
    if law == "power":
        return 5000.0 * np.arange(1, width + 1) ** -1.5
    return 8334 * np.exp(-np.sqrt(np.linspace(0, 1, width)) * np.log(8334 / 3.5))


@pytest.mark.parametrize("law", ["power", "exponential"])
@pytest.mark.parametrize("noise", [3.0, 10.0, 20.0, 60.0, 300.0])
@pytest.mark.parametrize(("width", "rows"), [(100, 300), (200, 2000), (100, 60)])
def test_the_smallest_eigenvalue_lies_where_it_is_said_to(law, noise, width, rows):
    """The floor is never wrong. The estimate is from 0.75 s below to 0.4 s above (c >= 3 d)."""
    errors = []
    for seed in range(6):
        curvature, true = draw_curvatures(decaying(width, law), rows, noise, seed)
        found = estimate_definiteness(
            curvature, coded_rows=rows, shrink=noise, noise_variance=noise
        )
        rounding = 1e-5 * 8334
        assert found.at_least <= true + rounding
        assert found.at_least <= found.estimate
        if rows >= 3 * width and true < noise:
            errors.append((found.estimate - true) / noise)
        if rows < width:
            assert found.estimate == pytest.approx(-noise, abs=rounding)
    assert all(-0.75 <= error <= 0.4 for error in errors)
    assert not errors or -0.4 <= np.mean(errors) <= 0.2


def test_clear_cases_are_told_apart():
    """Far from zero on either side, the verdict is that of the truth for every draw."""
    for seed in range(10):
        for noise, indefinite in ((1.0, False), (30.0, True)):
            curvature, true = draw_curvatures(decaying(100, "exponential"), 300, noise, seed)
            found = estimate_definiteness(
                curvature, coded_rows=300, shrink=noise, noise_variance=noise
            )
            assert (true < 0) == found.indefinite == indefinite


def test_without_noise_or_make_up_nothing_is_indefinite():
    curvature, _ = draw_curvatures(decaying(50, "power"), 200, 0.0, 0)
    found = estimate_definiteness(curvature, coded_rows=200, shrink=0.0, noise_variance=0.0)
    assert 0 < found.at_least <= found.estimate
    assert not found.indefinite
