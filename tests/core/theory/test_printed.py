"""What the paper prints, term by term, and where draws from its own definitions contradict it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scfl.core.theory import lemma, printed
from scfl.core.theory.printed import Assumption, Setting

BOUNDS = Assumption(np.array([4.0, 9.0]), np.array([1.0, 2.0]), radius=1.5)
SETTING = Setting(
    client_rows=np.array([6.0, 10.0]),
    loads=np.array([2.0, 5.0]),
    probability=np.array([0.5, 0.8]),
    features=3,
    coded_rows=8,
    server_rows=4,
    sigma=0.7,
)


def draw_normal(*shape: int, seed: int = 0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_lemma_3_as_printed_term_by_term():
    """The six terms of rho, typed from the paper with numbers in the place of symbols."""
    zeta, kappa, phi2, s2 = 13.0, 3.0, 2.25, 0.49
    rho = (
        (8 - 4) / (4 * 8 * 4) * zeta * kappa
        + 1 / 8 * (16 + 16**2) * zeta * kappa
        + 1 / 8 * (3 + 9) * 2 * s2**2 * phi2
        + 3 * 16 * 2 * s2 / 64 * (zeta * phi2 + kappa)
        + 0.5 * (0.5 / 0.5 * 4 * 1 + 0.2 / 0.8 * 9 * 2)
        + 0.5 * (6 * 4 / 2 * 4 * 1 + 10 * 5 / 5 * 9 * 2)
    )
    assert printed.bound_variance(BOUNDS, SETTING) == pytest.approx(rho, rel=1e-12)


def test_theorem_1_as_printed():
    bound = printed.bound_gap(smoothness=13, radius=1.5, variance=40, rounds=25)
    assert bound == pytest.approx(math.sqrt(4 * 2.25 * 40 / 25) + 2 * 2.25 * 13 / 25, rel=1e-12)


def test_the_correct_bullets_of_lemma_1():
    """G^T G / c within 3%, and the coins of rows within 3%, over 20,000 draws."""
    code = draw_normal(20_000, 8, 5)
    off = code.swapaxes(1, 2) @ code / 8 - np.eye(5)
    measured = np.square(off).sum(axis=(1, 2)).mean()
    assert measured == pytest.approx(printed.code_deviation(5, 8), rel=0.03)
    coins = np.random.default_rng(1).random((20_000, 12)) < 3 / 12
    measured = np.square(12 / 3 * coins - 1).sum(axis=1).mean()
    assert measured == pytest.approx(printed.sampling_deviation(12, 3), rel=0.03)


def test_the_deviation_of_summed_noise_has_a_factor_n_more_than_printed():
    """n = 4: within 3% of n^2 (d + d^2) / c, and four times what is printed."""
    noise = draw_normal(5_000, 4, 40, 6).sum(axis=1)
    off = noise.swapaxes(1, 2) @ noise / 40 - 4 * np.eye(6)
    measured = np.square(off).sum(axis=(1, 2)).mean()
    assert measured == pytest.approx(lemma.noise_deviation(6, 40, clients=4), rel=0.03)
    assert measured == pytest.approx(4 * printed.noise_deviation(6, 40, clients=4), rel=0.03)


def test_the_cross_product_has_a_factor_c_more_than_printed():
    """Within 3% of c d m n over 5,000 draws of G (c x m) and a sum of n noises."""
    code, noise = draw_normal(5_000, 10, 7), draw_normal(5_000, 3, 10, 4, seed=1).sum(axis=1)
    measured = np.square(code.swapaxes(1, 2) @ noise).sum(axis=(1, 2)).mean()
    right = lemma.cross_product(7, 4, clients=3, coded_rows=10)
    assert measured == pytest.approx(right, rel=0.03)
    assert measured == pytest.approx(10 * printed.cross_product(7, 4, clients=3), rel=0.03)
