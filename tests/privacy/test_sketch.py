"""The exact (epsilon, delta) of the sketch, against 50 digits and against sketches themselves."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from scfl.errors import InfeasibleError, ParameterError
from scfl.privacy.sketch import (
    bound_ratio,
    bound_renyi,
    find_delta,
    find_epsilon,
    find_noise,
    find_rows,
    log_delta_with,
    log_delta_without,
)


def closed_form(epsilon: float, rows: int, ratio: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Both directions as differences of incomplete gamma functions, at 50 digits."""
    with mpmath.workdps(50):
        eps, r, a = mpmath.mpf(epsilon), mpmath.mpf(ratio), mpmath.mpf(rows) / 2
        rho = 1 + r
        t0 = 2 * (eps + a * mpmath.log(rho)) / r
        t1 = 2 * (a * mpmath.log(rho) - eps) / r
        growth = mpmath.exp(eps)
        upper = mpmath.gammainc(a, t0 / 2, regularized=True)
        upper -= growth * mpmath.gammainc(a, rho * t0 / 2, regularized=True)
        if t1 <= 0:
            return upper, mpmath.mpf(0)
        lower = mpmath.gammainc(a, 0, rho * t1 / 2, regularized=True)
        return upper, lower - growth * mpmath.gammainc(a, 0, t1 / 2, regularized=True)


def close(logarithm: float, exact: mpmath.mpf) -> bool:
    if exact == 0:
        return logarithm == -math.inf
    with mpmath.workdps(50):
        return bool(abs(mpmath.exp(logarithm) / exact - 1) < 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_nine_digits_wherever_a_budget_may_lie(seed: int) -> None:
    """Rows from 1 to a million, delta from 0.5 down to 1e-12, and noise that just meets it."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        rows = int(10 ** rng.uniform(0, 6))
        epsilon, delta = 10 ** rng.uniform(-2, 1.7), 10 ** rng.uniform(-12, -0.3)
        ratio = find_noise(epsilon, delta, rows=rows, row_norm=1) ** -2
        # At the budget, and off it: other noise for the same pair.
        for factor in (1.0, 10 ** rng.uniform(-1, 1)):
            told = log_delta_with(epsilon, rows, factor * ratio)
            if told < math.log(1e-25):
                continue  # the oracle's own difference loses its digits
            upper, lower = closed_form(epsilon, rows, factor * ratio)
            assert close(told, upper)
            assert close(log_delta_without(epsilon, rows, factor * ratio), lower)


@pytest.mark.parametrize(
    ("rows", "ratio", "epsilon"),
    [(1, 1e-6, 1e-5), (1, 1e6, 3.0), (2, 1.0, 0.01), (10**6, 1e-7, 1e-3), (10**6, 1e-3, 1.0)],
)
def test_nine_digits_at_the_corners(rows: int, ratio: float, epsilon: float) -> None:
    upper, lower = closed_form(epsilon, rows, ratio)
    assert close(log_delta_with(epsilon, rows, ratio), upper)
    assert close(log_delta_without(epsilon, rows, ratio), lower)


@pytest.mark.parametrize(
    ("rows", "epsilon", "inverse_leverage"),
    [
        (200, 1, 42.55),
        (200, 8, 7.50),
        (300, 1, 50.92),
        (300, 8, 8.85),
        (1000, 1, 88.61),
        (1000, 8, 14.90),
        (6000, 1, 209.49),
        (6000, 8, 34.34),
    ],
)
def test_the_reference_table(rows: int, epsilon: float, inverse_leverage: float) -> None:
    sigma = find_noise(epsilon, 1e-5, rows=rows, row_norm=1)
    assert 1 + sigma**2 == pytest.approx(inverse_leverage, abs=0.005)


@pytest.mark.parametrize("with_row", [True, False])
def test_losses_of_real_sketches(with_row: bool) -> None:
    """The loss of whole coded matrices, from their full densities, has the delta that is told."""
    rng = np.random.default_rng(11)
    rows, sigma, epsilon, samples = 6, 0.9, 0.4, 60_000
    data = rng.standard_normal((5, 3))
    row = data[2]
    there = data.T @ data + sigma**2 * np.eye(3)
    away = there - np.outer(row, row)
    actual, other = (there, away) if with_row else (away, there)
    sent = rng.standard_normal((samples, rows, 3)) @ np.linalg.cholesky(actual).T
    loss = _log_density(sent, actual) - _log_density(sent, other)
    excess = np.maximum(0.0, -np.expm1(epsilon - loss))
    leverage = float(row @ np.linalg.solve(there, row))
    told = log_delta_with if with_row else log_delta_without
    error = excess.std() / math.sqrt(samples)
    assert error < 0.003
    assert excess.mean() == pytest.approx(
        math.exp(told(epsilon, rows, leverage / (1 - leverage))), abs=4 * error
    )


def _log_density(sent: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    _, log_determinant = np.linalg.slogdet(covariance)
    squares = np.einsum("snd,de,sne->s", sent, np.linalg.inv(covariance), sent)
    return -0.5 * (squares + sent.shape[1] * log_determinant)


def test_no_row_weighs_more_than_the_bounds_say() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        data = rng.standard_normal((rng.integers(1, 8), 3)) * 10 ** rng.uniform(-1, 1)
        norm, sigma = float(np.linalg.norm(data, axis=1).max()), 10 ** rng.uniform(-1, 1)
        products = data.T @ data
        inverse = np.linalg.inv(products + sigma**2 * np.eye(3))
        leverage = np.einsum("nd,de,ne->n", data, inverse, data).max()
        ratio = leverage / (1 - leverage)
        eigenvalue = max(0.0, float(np.linalg.eigvalsh(products)[0]))
        assert ratio <= bound_ratio(sigma, row_norm=norm, eigenvalue=eigenvalue) * (1 + 1e-9)
        assert ratio <= bound_ratio(sigma, row_norm=norm) * (1 + 1e-9)
    # A client with one row meets the bound that does not look at the data.
    lone = 2.0**2 / 0.5**2
    assert bound_ratio(0.5, row_norm=2.0) == pytest.approx(lone)


@pytest.mark.parametrize("seed", range(4))
def test_inverses_keep_the_budget_and_waste_nothing(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    for _ in range(5):
        epsilon, delta = 10 ** rng.uniform(-1.5, 1.5), 10 ** rng.uniform(-12, -1)
        rows, norm = int(10 ** rng.uniform(0, 6)), 10 ** rng.uniform(-2, 2)
        sigma = find_noise(epsilon, delta, rows=rows, row_norm=norm)
        assert find_delta(epsilon, rows=rows, sigma=sigma, row_norm=norm) <= delta
        assert find_delta(epsilon, rows=rows, sigma=sigma * (1 - 1e-7), row_norm=norm) > delta
        again = find_epsilon(delta, rows=rows, sigma=sigma, row_norm=norm)
        assert again == pytest.approx(epsilon, rel=1e-7)
        assert find_delta(again, rows=rows, sigma=sigma, row_norm=norm) <= delta
        # Noise for exactly so many rows covers them, and hardly one more.
        assert find_rows(epsilon, delta, sigma=sigma, row_norm=norm) == rows


def test_many_clients_rows_hide_each_other_where_that_is_known() -> None:
    blind = find_noise(1, 1e-5, rows=300, row_norm=1)
    assert find_noise(1, 1e-5, rows=300, row_norm=1, eigenvalue=20) == pytest.approx(
        math.sqrt(blind**2 - 19)
    )
    assert find_noise(1, 1e-5, rows=300, row_norm=1, eigenvalue=60) == 0


def test_renyi_divergence_against_its_integral() -> None:
    rows, ratio, order = 7, 0.3, 1.8
    leverage = ratio / (1 + ratio)

    def integrand(s: float) -> float:
        there = stats.chi2.logpdf(s, rows)
        away = stats.chi2.logpdf(s / (1 - leverage), rows) - math.log(1 - leverage)
        return math.exp(order * there + (1 - order) * away)

    moment, _ = integrate.quad(integrand, 0, 400)
    assert bound_renyi(order, rows=rows, ratio=ratio) == pytest.approx(
        math.log(moment) / (order - 1), rel=1e-7
    )
    assert bound_renyi(1 / leverage, rows=rows, ratio=ratio) == math.inf


def test_renyi_never_promises_more_than_the_exact_account() -> None:
    rows, sigma, delta = 300, 7.1, 1e-5
    ratio = bound_ratio(sigma, row_norm=1)
    converted = min(
        bound_renyi(order, rows=rows, ratio=ratio) + math.log(1 / delta) / (order - 1)
        for order in np.linspace(1.1, 45, 500)
    )
    exact = find_epsilon(delta, rows=rows, sigma=sigma, row_norm=1)
    assert exact < converted < 1.6 * exact


def test_noise_that_no_data_survives_is_refused_with_the_nearest_budget() -> None:
    with pytest.raises(
        InfeasibleError, match="which leaves nothing of the data; give at least"
    ) as refused:
        find_noise(1e-12, 1e-12, rows=10**6, row_norm=1)
    nearest = float(str(refused.value).split("give at least ")[1].split(",")[0])
    assert find_noise(nearest, 1e-12, rows=10**6, row_norm=1) <= 1e6


def test_noise_too_small_for_one_row_is_refused_with_enough() -> None:
    with pytest.raises(InfeasibleError, match="does not cover a single coded row") as refused:
        find_rows(1, 1e-5, sigma=0.1, row_norm=1)
    enough = float(str(refused.value).rsplit(" ", 1)[1])
    assert find_rows(1, 1e-5, sigma=enough, row_norm=1) >= 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"delta": 2}, "delta: 2 is not allowed; give a finite number above 0 and below 1"),
        ({"delta": 0}, "delta: 0 is not allowed"),
        ({"epsilon": 0}, "epsilon: 0 is not allowed; give a finite number above 0"),
        ({"epsilon": math.nan}, "epsilon: nan is not allowed"),
        ({"rows": 0}, "rows: 0 is not allowed; give a whole number from 1"),
        ({"row_norm": 0}, "row_norm: 0 is not allowed"),
    ],
)
def test_nonsense_is_refused(given: dict[str, float], sentence: str) -> None:
    asked = {"epsilon": 1.0, "delta": 1e-5, "rows": 10, "row_norm": 1.0, **given}
    epsilon, delta = asked.pop("epsilon"), asked.pop("delta")
    with pytest.raises(ParameterError, match=sentence):
        find_noise(epsilon, delta, rows=asked["rows"], row_norm=asked["row_norm"])  # type: ignore[arg-type]
