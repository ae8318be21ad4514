"""Looking at a model: the short cut of large problems gives the numbers of the plain way."""

from __future__ import annotations

import numpy as np
import pytest

import scfl
from scfl.runtime import evaluation
from scfl.runtime.evaluation import evaluate_models, largest_stable_rate


def problem(test_fraction: float) -> scfl.Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    return scfl.make_problem(
        X, X[:, :3].argmax(axis=1), clients=4, test_fraction=test_fraction, dtype="float64"
    )


@pytest.mark.parametrize("test_fraction", [0.0, 0.3])
def test_large_problems_are_evaluated_from_their_moments(
    test_fraction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = problem(test_fraction)
    models = [np.random.default_rng(seed).standard_normal((4, 3)) for seed in range(2)]
    plain = evaluate_models(data, models)
    monkeypatch.setattr(evaluation, "_LARGE", 0)
    np.testing.assert_allclose(evaluate_models(data, models), plain, rtol=1e-12)


def test_the_largest_stable_rate_is_that_of_the_steepest_direction() -> None:
    data = problem(0.0)
    steepest = np.linalg.eigvalsh(data.features.T @ data.features)[-1]
    assert largest_stable_rate(data) == pytest.approx(2 * 60 / steepest, rel=1e-3)
