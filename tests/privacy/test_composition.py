"""Sketch and noisy gradients together, by dp-accounting and by hand."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy import stats

from scfl.errors import InfeasibleError
from scfl.privacy import composition
from scfl.privacy.accountant import account_for
from scfl.privacy.composition import compose
from scfl.privacy.events import Gradients, Sketch
from scfl.privacy.sketch import find_epsilon

SKETCH = Sketch(rows=300, sigma=7.1, labels_noised=True, layout="stacked")
GRADIENTS = Gradients(rounds=100, rows_per_round=8, sigma=20.0, norm=2.0, turns=25)


def exact_gaussian(multiplier: float, delta: float) -> float:
    """The least epsilon of one Gaussian mechanism, by bisection on its closed form."""
    low, high = 0.0, 100.0
    for _ in range(100):
        epsilon = (low + high) / 2
        tail = stats.norm.cdf(0.5 / multiplier - epsilon * multiplier)
        rest = stats.norm.logcdf(-0.5 / multiplier - epsilon * multiplier)
        low, high = (epsilon, high) if tail - math.exp(epsilon + rest) > delta else (low, epsilon)
    return high


def test_gradients_alone_cost_what_one_gaussian_does() -> None:
    """25 turns at noise 10 norms are one at noise 2; Renyi's bound is a little above."""
    exact = exact_gaussian(10 / math.sqrt(25), 1e-5)
    assert exact < compose([GRADIENTS], delta=1e-5, row_norm=1.0) < 1.15 * exact


def test_a_sketch_by_divergences_is_a_little_above_the_exact_account() -> None:
    exact = find_epsilon(1e-5, rows=300, sigma=7.1, row_norm=1.0)
    assert exact < compose([SKETCH], delta=1e-5, row_norm=1.0) < 1.2 * exact


def test_together_they_cost_more_than_each_and_less_than_the_sum() -> None:
    sketch, gradients, both = (
        compose(events, delta=1e-5, row_norm=1.0)
        for events in ([SKETCH], [GRADIENTS], [SKETCH, GRADIENTS])
    )
    assert max(sketch, gradients) < both < sketch + gradients


def test_coins_of_the_clients_own_make_gradients_cheaper() -> None:
    rare = Gradients(rounds=100, rows_per_round=8, sigma=20.0, norm=2.0, turns=100, rate=0.05)
    always = Gradients(rounds=100, rows_per_round=8, sigma=20.0, norm=2.0, turns=100)
    assert compose([rare], delta=1e-5, row_norm=1.0) < 0.2 * compose(
        [always], delta=1e-5, row_norm=1.0
    )


def test_an_account_of_all_needs_noise_everywhere() -> None:
    account = account_for([SKETCH, GRADIENTS], delta=1e-5, row_norm=1.0)
    assert account.whole is not None
    assert account.coded is not None
    assert account.whole.epsilon > account.coded.epsilon
    bare = Gradients(rounds=100, rows_per_round=8)
    assert account_for([SKETCH, bare], delta=1e-5, row_norm=1.0).whole is None


def test_the_account_covers_what_two_noisy_gradients_and_a_sketch_really_lose() -> None:
    """The joint loss, drawn: its delta at the composed epsilon is below the one that was asked."""
    rng, delta, samples = np.random.default_rng(6), 0.01, 400_000
    sketch = Sketch(rows=30, sigma=3.0, labels_noised=True, layout="stacked")
    gradients = Gradients(rounds=2, rows_per_round=1, sigma=3.0, norm=1.0, turns=2)
    epsilon = compose([sketch, gradients], delta=delta, row_norm=1.0)
    ratio = 1 / 9
    energy = rng.chisquare(30, samples)
    loss = energy * ratio / 2 - 15 * math.log1p(ratio)
    loss += rng.normal(1 / 9, math.sqrt(2 / 9), samples)
    spent = np.maximum(0.0, -np.expm1(epsilon - loss))
    assert 0.1 * delta < spent.mean() < delta


def test_a_missing_package_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(composition, "import_module", fail)
    with pytest.raises(InfeasibleError, match=r"pip install 'scfl\[privacy\]'"):
        composition.require_accounting()
    assert import_module("dp_accounting")
