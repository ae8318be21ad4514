"""Theorem 2 as printed, its inverse, and the row-level bound."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.errors import ParameterError
from scfl.privacy.mutual_information import (
    bound_row_information,
    find_sigma,
    measure_energy,
    state_bits,
)


def obvious_energy(features: np.ndarray) -> float:
    """h^2 column by column, as the theorem spells it."""
    return min(
        sum(float(x) ** 2 for x in column) - max(float(x) ** 2 for x in column)
        for column in features.T
    )


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_energy_is_that_of_the_weakest_column(rows: int, columns: int, seed: int) -> None:
    features = np.random.default_rng(seed).uniform(-1, 1, (rows, columns))
    assert measure_energy(features) == pytest.approx(obvious_energy(features), abs=1e-12)
    weights = np.random.default_rng(seed + 1).uniform(0, 1, rows)
    assert measure_energy(features, weights) == pytest.approx(
        obvious_energy(weights[:, None] * features), abs=1e-12
    )


def test_one_row_has_nothing_to_hide_behind() -> None:
    assert measure_energy(np.ones((1, 3))) == 0
    assert state_bits(5, 0.0, 0.0, scale=1.0) == math.inf


@given(
    bits=st.floats(1e-6, 40),
    rows=st.integers(1, 10**6),
    energy=st.floats(0, 1e4),
    scale=st.floats(1e-3, 1e3),
)
def test_the_inverse_meets_the_budget_and_wastes_nothing(
    bits: float, rows: int, energy: float, scale: float
) -> None:
    sigma = find_sigma(bits, rows, energy, scale=scale)
    assert state_bits(rows, energy, sigma, scale=scale) <= bits
    if sigma > 1e-3 * math.sqrt(energy):
        assert state_bits(rows, energy, sigma * (1 - 1e-6), scale=scale) > bits


def test_the_formula_is_the_printed_one() -> None:
    # c = 6000, h^2 = 500, sigma^2 = 900: 1/2 log2(1 + 6000 / 1400).
    assert state_bits(6000, 500.0, 30.0, scale=1.0) == pytest.approx(0.5 * math.log2(7400 / 1400))


def test_the_largest_client_decides() -> None:
    rows, energy = np.array([10, 40]), np.array([3.0, 7.0])
    sigma = find_sigma(0.5, rows, energy, scale=1.0)
    assert state_bits(rows, energy, sigma, scale=1.0).max() == pytest.approx(0.5)


def test_scaling_data_and_noise_together_changes_nothing() -> None:
    features = np.random.default_rng(0).uniform(-0.2, 0.2, (9, 4))
    scale = float(np.abs(features).max())
    there = state_bits(30, measure_energy(features / scale), 0.7 / scale, scale=1.0)
    here = state_bits(30, measure_energy(features), 0.7, scale=scale)
    assert here == pytest.approx(there)


@given(rows=st.integers(1, 10**6), sigma=st.floats(1e-3, 1e6), norm=st.floats(1e-2, 1e2))
def test_the_row_bound_keeps_its_digits(rows: int, sigma: float, norm: float) -> None:
    with mpmath.workdps(50):
        q = (mpmath.mpf(norm) / mpmath.mpf(sigma)) ** 2
        exact = mpmath.mpf(rows) / 2 * (q - mpmath.log1p(q))
    assert bound_row_information(rows, sigma, row_norm=norm) == pytest.approx(
        float(exact), rel=1e-9
    )


def test_the_row_bound_holds_where_information_is_measured() -> None:
    """A row that is there or not with probability 1/2, alone: the information is measured."""
    rng = np.random.default_rng(3)
    rows, sigma, norm = 6, 0.8, 1.0
    present = rng.random(200_000) < 0.5
    scale = np.sqrt(sigma**2 + np.where(present, norm**2, 0.0))
    energy = (scale**2) * rng.chisquare(rows, present.size)

    def log_density(variance: float) -> np.ndarray:
        return -rows / 2 * np.log(variance) - energy / (2 * variance)

    on, off = log_density(sigma**2 + norm**2), log_density(sigma**2)
    mixed = np.logaddexp(on, off) - math.log(2)
    measured = float(np.mean(np.where(present, on, off) - mixed))
    assert 0.05 < measured < bound_row_information(rows, sigma, row_norm=norm)


@pytest.mark.parametrize("bits", [0, -1.0, math.nan, "2"])
def test_a_budget_is_a_positive_number(bits: float) -> None:
    with pytest.raises(ParameterError, match=r"bits: .* is not allowed; give a finite number"):
        find_sigma(bits, 10, 1.0, scale=1.0)
