"""The preconditioner against dense linear algebra, on each of its three sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.coding import CodedData
from scfl.core.curvature import (
    SHARE,
    Spectrum,
    choose_ridge,
    effective_rows,
    measure_spectrum,
    precondition,
    price_preconditioner,
    scale_rows,
)
from scfl.core.sampling import store_blocks
from tests.strategies import seeds


def coded(seed: int, lengths: list[int], width: int, dtype: Any = np.float64) -> CodedData:
    """Coded rows of a decaying spectrum in blocks of these lengths."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((sum(lengths), width)) * 2.0 ** -np.arange(width)
    targets = rng.standard_normal((len(rows), 2))
    return CodedData(store_blocks(rows.astype(dtype), targets.astype(dtype), np.array([lengths])))


def curvature(held: CodedData) -> np.ndarray:
    """H, block by block."""
    store = held.store
    total = np.zeros((store.features.shape[1],) * 2)
    for block, length in enumerate(store.lengths[0]):
        own = store.features[store.owner == block].astype(float)
        total += own.T @ own / length
    return total


@given(seeds, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 8))
def test_every_side_solves_the_same_equations(seed: int, lengths: list[int], width: int) -> None:
    held = coded(seed, lengths, width)
    known = precondition(held)
    dense = curvature(held) + known.ridge * np.eye(width)
    wanted = np.random.default_rng(seed).standard_normal((width, 2))
    np.testing.assert_allclose(dense @ known.apply(wanted), wanted, rtol=1e-6, atol=1e-9)
    assert known.side == ("columns" if width <= sum(lengths) else "rows")


@given(seeds, st.integers(1, 20), st.integers(1, 20))
def test_the_ridge_is_the_smallest_that_the_code_can_bear(seed: int, rows: int, width: int) -> None:
    held = coded(seed, [rows], width)
    known = precondition(held)
    values = np.linalg.eigvalsh(curvature(held)).clip(0)
    assert known.dimension == pytest.approx((values / (values + known.ridge)).sum(), rel=1e-6)
    assert known.dimension <= SHARE * rows * (1 + 1e-9)
    if known.ridge > 1.1e-5 * values.max():
        smaller = known.ridge / 1.001
        assert (values / (values + smaller)).sum() > SHARE * rows
    assert known.gamma == pytest.approx(known.dimension / rows)


def test_gradients_come_close_where_nothing_is_factored() -> None:
    held = coded(1, [40, 60], 30)
    known = precondition(held, direct=0)
    assert known.side == "neither"
    assert known.factor.size == 0
    direct = precondition(held)
    # All eigenvalues are within reach of the Lanczos steps, so the quadrature is nearly exact.
    assert known.ridge == pytest.approx(direct.ridge, rel=0.5)
    dense = curvature(held) + known.ridge * np.eye(30)
    wanted = np.random.default_rng(0).standard_normal((30, 3))
    exact = np.linalg.solve(dense, wanted)
    error = known.apply(wanted) - exact
    assert np.sqrt((error * (dense @ error)).sum() / (exact * (dense @ exact)).sum()) < 0.01
    np.testing.assert_array_equal(known.apply(np.zeros((30, 3))), 0.0)


def test_lanczos_sums_are_those_of_the_eigenvalues() -> None:
    held = coded(3, [300], 25)
    rows = scale_rows(held)
    exact = measure_spectrum(rows, rows.T @ rows)
    estimated = measure_spectrum(rows, None)
    for ridge in (0.01, 0.1, 1.0):
        # Hutchinson's error with 4 probes; the quadrature itself is exact here.
        assert estimated.dimension(ridge) == pytest.approx(exact.dimension(ridge), rel=0.15)
    assert estimated.counts.sum() == pytest.approx(25)


def test_blocks_of_unlike_lengths_count_for_what_they_tell() -> None:
    assert effective_rows(coded(0, [30], 3)) == pytest.approx(30)
    one, other = np.ones((10, 2)), np.ones((30, 2))
    rows = np.concatenate([one, other])
    held = CodedData(store_blocks(rows, rows[:, :1], np.array([[10, 30]])))
    # Equal traces: n^2 / (1/10 + 1/30).
    assert effective_rows(held) == pytest.approx(4 / (1 / 10 + 1 / 30))
    rows = np.concatenate([one, other * 3**0.5])
    held = CodedData(store_blocks(rows, rows[:, :1], np.array([[10, 30]])))
    assert effective_rows(held) == pytest.approx(40)


def test_coded_rows_of_zeros_leave_plain_gradient_descent() -> None:
    held = CodedData(store_blocks(np.zeros((4, 2)), np.zeros((4, 1)), np.array([[4]])))
    known = precondition(held)
    np.testing.assert_allclose(known.apply(np.ones((2, 1))), np.ones((2, 1)) / known.ridge)
    assert choose_ridge(Spectrum(np.zeros(1), np.ones(1)), 1.0) == 1.0


def test_the_cheaper_side_is_priced() -> None:
    assert price_preconditioner(6000, 2000, 10)[1] == 2000**2 * 10
    assert price_preconditioner(300, 2000, 10)[1] == (2 * 300 * 2000 + 300**2) * 10
    making, _ = price_preconditioner(6000, 2000, 10)
    assert making == pytest.approx(6000 * 2000**2 / 2 + 2000**3 / 6 + 2 / 3 * 2000**3)
    assert price_preconditioner(10_000, 20_000, 1)[1] > price_preconditioner(6000, 20_000, 1)[1]


def test_dimensions_that_only_noise_fills_do_not_count() -> None:
    """With noise far above the data nothing stands out, and H itself is all the ridge there is."""
    rng = np.random.default_rng(0)
    data, noise = rng.standard_normal((400, 20)) * ([3.0] * 3 + [0.01] * 17), 2.0
    rows = data + noise * rng.standard_normal((400, 20))
    held = CodedData(store_blocks(rows, rows[:, :1], np.array([[400]])))
    values = np.linalg.eigvalsh(curvature(held))
    known = precondition(held, noise_variance=noise**2, share=0.01)
    blind = precondition(held, share=0.01)
    standing_out = np.maximum(values - noise**2, 0)
    assert known.dimension == pytest.approx((standing_out / (values + known.ridge)).sum())
    assert known.dimension < 4.001
    assert known.ridge < 0.5 * blind.ridge
