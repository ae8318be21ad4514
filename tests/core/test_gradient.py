from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.gradient import accumulate_gradient, block_rows, compute_gradient
from tests import oracles
from tests.strategies import problems, seeds

# Wide enough that the kernel takes few rows at a time.
WIDE = (400, 50)
WIDTHS = [(1, 1), (3, 2), (60, 1), WIDE]
dtypes = st.sampled_from([np.float32, np.float64])


def draw_rows(seed, rows, features, outputs, dtype):
    rng = np.random.default_rng(seed)
    shapes = ((rows, features), (rows, outputs), (features, outputs))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def assert_right(got, rows, targets, model, weights=None):
    """Within 20 roundings of the sum of the absolute products.

    Leaving out a row, or its target, changes far more than that.
    """
    want = oracles.gradient(rows, targets, model, weights)
    size = oracles.gradient_size(rows, targets, model, weights)
    assert got.dtype == model.dtype
    assert got.shape == model.shape
    assert (np.abs(got - want) <= 20 * np.finfo(model.dtype).eps * size).all()


@given(problems())
def test_without_weights_it_is_the_gradient_of_the_loss(rows):
    got = compute_gradient(rows.features, rows.targets, rows.model)
    assert_right(got, rows.features, rows.targets, rows.model)


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@given(around=st.integers(0, 3), off=st.integers(-1, 1), dtype=dtypes, seed=seeds)
def test_sizes_around_the_block(width, around, off, dtype, seed):
    rows = max(0, around * min(block_rows(*width), 100) + off)
    problem = draw_rows(seed, rows, *width, dtype)
    assert_right(compute_gradient(*problem), *problem)
    weights = np.random.default_rng(seed).random(rows).astype(dtype)
    assert_right(compute_gradient(*problem, weights), *problem, weights)


def zeros_everywhere(rng, rows):
    return np.zeros(rows)


def runs_of_zeros(rng, rows):
    """Clients who are late: whole stretches without weight."""
    weights = rng.uniform(0.5, 2, rows)
    for start in rng.integers(0, rows, 3):
        weights[start : start + rows // 4] = 0
    return weights


def scattered_zeros(rng, rows):
    return rng.uniform(0.5, 2, rows) * (rng.random(rows) < 0.9)


def mostly_zeros(rng, rows):
    """Few rows, far apart: they are gathered."""
    return rng.uniform(0.5, 2, rows) * (rng.random(rows) < 0.1)


def one_row(rng, rows):
    return np.eye(rows)[rng.integers(rows)]


@pytest.mark.parametrize(
    "pattern", [zeros_everywhere, runs_of_zeros, scattered_zeros, mostly_zeros, one_row]
)
@given(blocks=st.integers(1, 8), off=st.integers(-1, 1), dtype=dtypes, seed=seeds)
def test_weights_with_zeros(pattern, blocks, off, dtype, seed):
    """Negative weights and weights in double precision too."""
    rng = np.random.default_rng(seed)
    rows = blocks * block_rows(*WIDE) + off
    problem = draw_rows(seed, rows, *WIDE, dtype)
    weights = pattern(rng, rows) * rng.choice([-1, 1], rows)
    for given_weights in (weights, weights.astype(dtype)):
        assert_right(compute_gradient(*problem, given_weights), *problem, given_weights)


@pytest.mark.parametrize("late", ["in runs", "here and there"])
def test_rows_without_weight_are_not_read_in_bulk(late):
    """A late client's rows cost nothing, so nobody notices that they are not numbers."""
    size = block_rows(*WIDE)
    features, targets, model = draw_rows(4, 40 * size, *WIDE, np.float32)
    weights = np.zeros(40 * size)
    weights[slice(7 * size, 9 * size) if late == "in runs" else slice(None, None, 97)] = 1.5
    clean = np.where((weights > 0)[:, None], features, 0)
    features[weights == 0] = np.nan
    got = compute_gradient(features, targets, model, weights)
    assert_right(got, clean, targets, model, weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_accumulating_adds_to_what_is_there(weighted):
    features, targets, model = draw_rows(1, 130, *WIDE, np.float64)
    weights = np.linspace(0, 1, 130) if weighted else None
    before = np.random.default_rng(2).standard_normal(model.shape[::-1])
    into = before.copy()
    accumulate_gradient(features, targets, model, weights, into)
    assert into - before == pytest.approx(
        oracles.gradient(features, targets, model, weights).T, rel=1e-10, abs=1e-9
    )


@pytest.mark.parametrize("layout", ["strided", "reversed", "fortran", "transposed model"])
def test_rows_need_not_be_contiguous(layout):
    features, targets, model = draw_rows(5, 260, *WIDE, np.float32)
    if layout == "strided":
        features, targets = features[::2], targets[::2]
    elif layout == "reversed":
        features, targets = features[::-1], targets[::-1]
    elif layout == "fortran":
        features, targets = np.asfortranarray(features), np.asfortranarray(targets)
    else:
        model = np.ascontiguousarray(model.T).T
    weights = np.linspace(-1, 1, len(features))
    assert_right(compute_gradient(features, targets, model), features, targets, model)
    assert_right(
        compute_gradient(features, targets, model, weights), features, targets, model, weights
    )


def test_nothing_given_is_changed():
    problem = draw_rows(6, 120, *WIDE, np.float32)
    weights = np.linspace(0, 1, 120)
    copies = [part.copy() for part in (*problem, weights)]
    compute_gradient(*problem, weights)
    for part, copy in zip((*problem, weights), copies, strict=True):
        assert (part == copy).all()


@given(st.integers(1, 20_000), st.integers(1, 2_000))
def test_a_block_is_at_least_a_row(features, outputs):
    assert block_rows(features, outputs) >= 1


def test_the_papers_blocks_are_small_enough_for_the_fast_path():
    """OpenBLAS skips packing up to a million multiply-accumulates."""
    assert 32 <= block_rows(2000, 10) <= 50
