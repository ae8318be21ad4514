"""Scaling from what clients send of their columns: the same numbers as from all rows together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scfl
from scfl.data.scaling import combine, fit_scaling, summarise
from scfl.errors import DataError, ParameterError

RNG = np.random.default_rng(0)


def draw_rows(rows: int = 60, gaps: float = 0.2) -> np.ndarray:
    X = RNG.standard_normal((rows, 3)) * [1, 100, 1e-3] + [0, 1e5, 7]
    return np.where(RNG.random(X.shape) < gaps, np.nan, X)


@given(st.lists(st.integers(0, 60), max_size=5))
def test_combined_statistics_are_those_of_all_rows(cuts: list[int]) -> None:
    X = draw_rows()
    together = combine([summarise(rows) for rows in np.split(X, sorted(cuts))])
    assert together.count.tolist() == (~np.isnan(X)).sum(axis=0).tolist()
    np.testing.assert_allclose(together.mean, np.nanmean(X, axis=0), rtol=1e-12)
    deviation = np.sqrt(together.spread / together.count)
    np.testing.assert_allclose(deviation, np.nanstd(X, axis=0), rtol=1e-9)
    np.testing.assert_array_equal(together.least, np.nanmin(X, axis=0))
    np.testing.assert_array_equal(together.largest, np.nanmax(X, axis=0))


def test_a_client_sends_five_numbers_a_column_and_no_row() -> None:
    sent = summarise(draw_rows(1000))
    assert all(np.shape(part) == (3,) for part in vars(sent).values())


def test_standard_and_range() -> None:
    X = draw_rows(gaps=0)
    clients = np.split(X, [7, 30])
    standard = fit_scaling(scfl.Scaling(), clients).transform(X)
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(standard.std(axis=0), 1, rtol=1e-6)
    ranged = fit_scaling(scfl.Scaling("range"), clients).transform(X)
    np.testing.assert_allclose(ranged.min(axis=0), -1)
    np.testing.assert_allclose(ranged.max(axis=0), 1)
    untouched = fit_scaling(scfl.Scaling("none"), clients).transform(X)
    np.testing.assert_array_equal(untouched, X)


def test_gaps_are_filled_from_the_training_rows() -> None:
    X = np.array([[1.0], [3.0], [np.nan]])
    filled = fit_scaling(scfl.Scaling("none", "mean"), [X[:1], X[1:]]).transform(X)
    assert filled.ravel().tolist() == [1, 3, 2]
    filled = fit_scaling(scfl.Scaling("none", "zero"), [X]).transform(X)
    assert filled.ravel().tolist() == [1, 3, 0]


def test_constant_columns_become_zero_and_later_columns_are_left_alone() -> None:
    X = np.array([[5.0, 0.0], [5.0, 1.0]])
    scaled = fit_scaling(scfl.Scaling(columns=1), [X]).transform(X)
    assert scaled.tolist() == [[0, 0], [0, 1]]


def test_a_problem_scales_new_rows_as_its_own() -> None:
    X, y = draw_rows(), RNG.standard_normal(60)
    problem = scfl.make_problem(
        X,
        y,
        clients=4,
        scaling=scfl.Scaling(missing="mean"),
        features=scfl.RandomFourier(20, width=2.0),
        test_fraction=0.25,
        dtype="float64",
    )
    assert np.isfinite(problem.features).all()
    prepared = problem.prepare(X)
    for row in problem.test_features:
        assert np.isclose(prepared, row).all(axis=1).any()
    # Statistics come from the training rows alone.
    assert problem.scaling is not None
    kept = [
        row
        for row, p in zip(X, prepared, strict=True)
        if np.isclose(problem.features, p).all(axis=1).any()
    ]
    assert len(kept) == 45
    np.testing.assert_allclose(problem.scaling.centre, np.nanmean(kept, axis=0))


def test_gaps_are_refused_unless_filled() -> None:
    with pytest.raises(DataError, match="cannot be trained on"):
        scfl.make_problem(draw_rows(), RNG.standard_normal(60), scaling=scfl.Scaling())
    X = np.full((6, 1), np.nan)
    with pytest.raises(DataError, match="column 0 has no value"):
        scfl.make_problem(X, np.ones(6), clients=2, scaling=scfl.Scaling(missing="mean"))


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ParameterError) as error:
        scfl.Scaling("z", "drop", -1)  # type: ignore[arg-type]
    assert len(error.value.problems) == 3
