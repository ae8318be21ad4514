"""Exact variances against draws: of fresh codes, and of the simulator's own rounds."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from scfl.core.gradient import compute_gradient
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import Bernoulli, Subsets, row_scales, store_rows, subset_count
from scfl.core.theory import lemma
from scfl.core.theory.printed import Assumption, Setting
from scfl.core.theory.variance import (
    add_blocks,
    measure_client_variance,
    measure_coded_variance,
)

CLIENT_ROWS = np.array([5, 7, 4])
LOADS = np.array([2, 3, 1])
PROBABILITY = np.array([0.5, 0.9, 0.7])
SAMPLINGS = [Subsets(1), Subsets(2), Subsets(2, fixed=True), Bernoulli()]
samplings = pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)


def draw_problem(seed=0):
    """Rows with a mean, so that the gradient is as large as what varies around it."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((16, 3)) + 1.0
    targets = rng.standard_normal((16, 2)) + 1.0
    return features, targets, rng.standard_normal((3, 2)) + 1.0


def draw_coded_gradients(
    features, targets, model, *, coded_rows, noise_variance=0.0, label_noise=False, draws, rng
):
    """Each coded row's gradient, draws x rows x d x o, straight from the definition of a code."""
    mix = rng.standard_normal((draws, coded_rows, len(features)))
    deviation = noise_variance**0.5
    rows = mix @ features + deviation * rng.standard_normal((draws, coded_rows, features.shape[1]))
    coded = mix @ targets
    if label_noise:
        coded = coded + deviation * rng.standard_normal(coded.shape)
    return rows[..., :, None] * (rows @ model - coded)[..., None, :]


def total_variance(values):
    """The sum of the entries' variances."""
    return float(np.var(values, axis=0).sum())


@pytest.mark.parametrize("label_noise", [False, True], ids=["features", "labels"])
@pytest.mark.parametrize("coins", [False, True], ids=["number", "coins"])
def test_a_coded_gradient_varies_as_stated(coins, label_noise):
    """Within 3% over 60,000 fresh codes of 6 rows, of which 2 take part."""
    # Small rows, so that noise on labels shows.
    features, targets, model = (0.3 * part for part in draw_problem())
    known = {"coded_rows": 6, "noise_variance": 0.8, "label_noise": label_noise}
    rng = np.random.default_rng(1)
    each = draw_coded_gradients(features, targets, model, draws=60_000, rng=rng, **known)
    chosen = rng.random((60_000, 6)) < 2 / 6 if coins else np.arange(6) < 2
    drawn = (each * np.broadcast_to(chosen, (60_000, 6))[..., None, None]).sum(axis=1) / 2
    stated = measure_coded_variance(features, targets, model, sampled_rows=2, coins=coins, **known)
    assert total_variance(drawn) == pytest.approx(stated.total, rel=0.03)
    # What lasts is the part of the code itself: all of its rows, once.
    assert total_variance(each.mean(axis=1)) == pytest.approx(stated.lasting, rel=0.03)


def test_the_rows_of_a_round_count_not_those_held():
    """The lasting part plus the fresh part is the variance at b rows, whatever c is."""
    features, targets, model = draw_problem()
    few = measure_coded_variance(features, targets, model, coded_rows=2, noise_variance=0.8)
    many = measure_coded_variance(
        features, targets, model, coded_rows=50, sampled_rows=2, noise_variance=0.8
    )
    assert few.fresh == 0
    assert many.total == pytest.approx(few.total, rel=1e-12)


def test_stacked_codes_vary_as_stated():
    """Three clients' own codes of 2 to 5 rows, kept apart: within 3% over 60,000 draws."""
    features, targets, model = draw_problem()
    bounds, rng = np.cumsum(CLIENT_ROWS)[:-1], np.random.default_rng(2)
    parts = list(zip(np.split(features, bounds), np.split(targets, bounds), strict=True))
    drawn, blocks = 0.0, []
    for (rows, labels), coded_rows in zip(parts, (2, 5, 3), strict=True):
        known = {"coded_rows": coded_rows, "noise_variance": 0.8}
        each = draw_coded_gradients(rows, labels, model, draws=60_000, rng=rng, **known)
        drawn = drawn + each.mean(axis=1)
        blocks.append(measure_coded_variance(rows, labels, model, **known))
    assert total_variance(drawn) == pytest.approx(add_blocks(blocks).total, rel=0.03)


@samplings
def test_the_clients_half_varies_as_stated(sampling):
    """Within 4% over 30,000 rounds drawn by the simulator's own rules."""
    features, targets, model = draw_problem()
    count = subset_count(sampling)
    store = store_rows(features, targets, CLIENT_ROWS, count)
    rng, sums = np.random.default_rng(3), []
    for number in range(30_000):
        arrived, subset = rng.random(3) < PROBABILITY, int(rng.integers(count))
        draw = partial(stream, 0, Purpose.CLIENT_BATCHES, number)
        piece = store.piece(subset)
        weights = row_scales(store, sampling, LOADS, subset, draw)
        weights = weights * (arrived / PROBABILITY)[store.owner[piece]]
        sums.append(compute_gradient(store.features[piece], store.targets[piece], model, weights))
    stated = measure_client_variance(store, sampling, LOADS, PROBABILITY, model)
    assert total_variance(np.array(sums)) == pytest.approx(stated, rel=0.04)


def test_coins_by_the_formula_of_the_reference():
    """sum_i [(1 - p)/p ||grad f_i||^2 + V_i / p], row after row."""
    features, targets, model = draw_problem()
    stated, start = 0.0, 0
    for rows, load, p in zip(CLIENT_ROWS, LOADS, PROBABILITY, strict=True):
        own = slice(start, start + rows)
        start += rows
        residual = features[own] @ model - targets[own]
        each = sum(
            np.dot(x, x) * np.dot(r, r) for x, r in zip(features[own], residual, strict=True)
        )
        slope = np.square(features[own].T @ residual).sum()
        stated += (1 - p) / p * slope + (rows - load) / load * each / p
    store = store_rows(features, targets, CLIENT_ROWS, 1)
    measured = measure_client_variance(store, Bernoulli(), LOADS, PROBABILITY, model)
    assert measured == pytest.approx(stated, rel=1e-10)


def test_who_always_comes_with_all_rows_varies_by_nothing():
    features, targets, model = draw_problem()
    store = store_rows(features, targets, CLIENT_ROWS, 1)
    measured = measure_client_variance(store, Subsets(1), CLIENT_ROWS, np.ones(3), model)
    assert measured == pytest.approx(0, abs=1e-8)


def test_who_is_never_asked_does_not_vary():
    features, targets, model = draw_problem()
    store = store_rows(features, targets, CLIENT_ROWS, 1)
    loads, probability = np.array([5, 0, 4]), np.array([0.5, 0.0, 0.7])
    measured = measure_client_variance(store, Subsets(1), loads, probability, model)
    slopes = [
        np.square(compute_gradient(features[own], targets[own], model)).sum()
        for own in (slice(0, 5), slice(12, 16))
    ]
    assert measured == pytest.approx(0.5 / 0.5 * slopes[0] + 0.3 / 0.7 * slopes[1], rel=1e-10)


def test_the_corrected_bound_holds_and_is_near():
    """Above the exact variance, and below ten times it, on the bounds that the data just meets."""
    features, targets, model = draw_problem()
    residual = features @ model - targets
    squares = [
        np.add.reduceat(np.square(part).sum(axis=1), np.cumsum(CLIENT_ROWS) - CLIENT_ROWS)
        for part in (features, residual)
    ]
    bounds = Assumption(*squares, radius=float(np.linalg.norm(model)))
    setting = Setting(CLIENT_ROWS, LOADS, PROBABILITY, 3, coded_rows=9, server_rows=4, sigma=0.5)
    store = store_rows(features, targets, CLIENT_ROWS, 1)
    server = measure_coded_variance(
        features,
        targets,
        model,
        coded_rows=9,
        sampled_rows=4,
        noise_variance=3 * 0.25,
        coins=True,
    )
    clients = measure_client_variance(store, Bernoulli(), LOADS, PROBABILITY, model)
    exact = 0.25 * (server.total + clients)
    assert exact <= lemma.bound_variance(bounds, setting) <= 10 * exact
