"""What attackers can do, measured on the statistic that decides."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scfl.privacy.attacker import describe_attackers, find_advantage, find_power

ROWS, RATIO = 12, 0.6


def test_power_and_advantage_are_those_of_the_best_test() -> None:
    """Energies along the row, with it and without; every threshold is tried on 400,000 draws."""
    rng = np.random.default_rng(0)
    there = np.sort((1 + RATIO) * rng.chisquare(ROWS, 400_000))
    away = np.sort(rng.chisquare(ROWS, 400_000))
    grid = np.linspace(0, 60, 3000)
    gap = np.searchsorted(away, grid) - np.searchsorted(there, grid)
    assert find_advantage(ROWS, RATIO) == pytest.approx(gap.max() / 400_000, abs=0.004)
    high = (there > np.quantile(away, 0.99)).mean()
    low = (away < np.quantile(there, 0.01)).mean()
    assert find_power(ROWS, RATIO, alarm=0.01) == pytest.approx(max(high, low), abs=0.003)


def test_without_noise_everything_is_told() -> None:
    assert find_power(ROWS, math.inf, alarm=0.01) == find_advantage(ROWS, math.inf) == 1
    can = [
        attacker.can
        for attacker in describe_attackers(rows=5, sigma=0.0, row_norm=1.0, printed_bits=2.0)
    ]
    assert "recover that entry exactly" in can[1]
    assert "find its direction" in can[2]
    assert "100.0% of the time" in can[3]
