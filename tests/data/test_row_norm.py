"""Rows above a bound are scaled down, features and targets together, and counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scfl
from scfl.data.row_norm import measure_norms
from scfl.errors import ParameterError


@given(
    seed=st.integers(0, 2**32 - 1),
    bound=st.floats(0.01, 5),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_no_row_is_above_and_no_other_row_is_touched(seed: int, bound: float, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    problem = scfl.make_problem(X, y, clients=4, dtype=dtype)  # type: ignore[arg-type]
    before = measure_norms(problem.features, problem.targets)
    both = np.concatenate([problem.features, problem.targets], axis=1).astype(float)
    np.testing.assert_allclose(before, np.linalg.norm(both, axis=1), rtol=1e-12)
    bounded = scfl.bound_rows(problem, bound)
    after = measure_norms(bounded.features, bounded.targets)
    assert (after <= bound).all()
    kept = before <= bound
    np.testing.assert_array_equal(bounded.features[kept], problem.features[kept])
    np.testing.assert_allclose(after[~kept], bound, rtol=1e-5)
    # What fitted a row fits it still.
    np.testing.assert_allclose(
        bounded.targets / bounded.features[:, :1],
        problem.targets / problem.features[:, :1],
        rtol=1e-4,
    )
    assert bounded.scaled_down is not None
    assert bounded.scaled_down.sum() == (~kept).sum()
    assert bounded.scaled_down[1] == (~kept[problem.client(1)]).sum()


def test_classes_are_still_counted() -> None:
    X = np.ones((12, 2))
    problem = scfl.make_problem(X, np.arange(12) % 3, clients=2)
    np.testing.assert_array_equal(
        scfl.bound_rows(problem, 0.1).client_classes(), problem.client_classes()
    )


def test_the_original_stays_as_it_was() -> None:
    problem = scfl.make_problem(np.ones((6, 2)), np.ones(6), clients=2)
    scfl.bound_rows(problem, 0.5)
    assert (problem.features == 1).all()
    assert problem.scaled_down is None


def test_a_bound_is_a_positive_number() -> None:
    problem = scfl.make_problem(np.ones((6, 2)), np.ones(6), clients=2)
    with pytest.raises(ParameterError, match="row_norm: 0 is not allowed"):
        scfl.bound_rows(problem, 0)
