"""Sums of products against the rows that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.moments import measure_moments
from tests import oracles
from tests.strategies import problems


def loss_of(features, targets, model):
    """||X W - Y||^2 / (2 rows), row by row."""
    features, targets, model = (np.asarray(part, np.float64) for part in (features, targets, model))
    return sum(((x @ model - y) ** 2).sum() for x, y in zip(features, targets, strict=True)) / (
        2 * len(features)
    )


@given(problems(max_clients=1), st.booleans())
def test_products_and_factor_are_those_of_the_weighted_rows(rows, weighted):
    weights = np.linspace(0, 2, len(rows.features)) if weighted else None
    moments = measure_moments(rows.features, rows.targets, weights)
    moment = oracles.code_moment(rows.features, rows.targets, row_weights=weights)
    assert moments.products == pytest.approx(moment, rel=1e-9, abs=1e-12)
    root = moments.factor
    assert root.T @ root == pytest.approx(moment, rel=1e-9, abs=1e-9 * moment.max())


def test_many_rows_are_added_up_without_seams():
    """10,000 rows in 4096s: each piece is there once, none twice."""
    rng = np.random.default_rng(0)
    features, targets = rng.standard_normal((10_000, 3)), rng.standard_normal((10_000, 2))
    weights = np.linspace(0, 2, 10_000)
    moments = measure_moments(features, targets, weights)
    assert moments.products == pytest.approx(
        oracles.code_moment(features, targets, row_weights=weights)
    )


def test_a_factor_of_rows_of_which_most_are_hidden():
    """Whole classes have weight 0, a column repeats others, and one is as good as hidden."""
    rng = np.random.default_rng(2)
    features = rng.standard_normal((9000, 6)).astype(np.float32)
    features[:, 5] = features[:, 1] - 2 * features[:, 3]
    label = np.repeat(np.arange(3), 3000)
    weights = np.array([0.0, 1e-4, 0.7])[label]
    targets = np.eye(3, dtype=np.float32)[label]
    moments = measure_moments(features, targets, weights)
    wanted = oracles.code_moment(features, targets, row_weights=weights)
    assert moments.rows == 9000
    assert np.diagonal(wanted)[6:] == pytest.approx([0, 3e-5, 1470])
    assert moments.products == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    root = moments.factor
    size = np.sqrt(np.diagonal(wanted))
    assert np.abs(root.T @ root - wanted).max() <= 1e-12 * size.max() ** 2
    # In single precision, column by column: what a code drawn from it is made with.
    single = root.astype(np.float32)
    assert np.abs(single.T @ single - wanted) == pytest.approx(0 * wanted, abs=1e-6 * 1470)


@given(problems())
def test_the_loss_is_that_of_the_rows(rows):
    moments = measure_moments(rows.features, rows.targets)
    wanted = loss_of(rows.features, rows.targets, rows.model)
    assert moments.loss(rows.model) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


@given(problems())
def test_no_model_beats_the_solution_and_none_that_ties_is_shorter(rows):
    moments = measure_moments(rows.features, rows.targets)
    features, targets = rows.features.astype(np.float64), rows.targets.astype(np.float64)
    best = np.linalg.lstsq(features, targets, rcond=1e-6)[0]
    found = moments.solution
    assert moments.loss(found) <= loss_of(features, targets, best) + 1e-9
    assert np.linalg.norm(found) <= np.linalg.norm(best) * (1 + 1e-5) + 1e-9


def test_a_column_that_is_another_twice_leaves_the_shortest_solution():
    rng = np.random.default_rng(1)
    column = rng.standard_normal((50, 1))
    features = np.hstack([column, 2 * column, rng.standard_normal((50, 1))])
    targets = features @ [[1.0], [0.0], [3.0]]
    found = measure_moments(features, targets).solution
    assert found == pytest.approx(np.array([[0.2], [0.4], [3.0]]))
