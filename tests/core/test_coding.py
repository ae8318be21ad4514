from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.coding import CodedData, Noise, draw_summed_code, encode
from scfl.core.moments import measure_moments
from scfl.core.sampling import store_blocks
from scfl.errors import ParameterError
from tests import oracles
from tests.strategies import problems, seeds

dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])
NOISES = [Noise(), Noise(1.5), Noise(1.5, labels=True)]
noises = pytest.mark.parametrize("amount", NOISES, ids=["none", "features", "labels"])


def draw_data(rows, features, outputs, *, seed=0, dtype=np.float64):
    """Columns of different sizes, so that no two entries of a moment are equal by chance."""
    rng = np.random.default_rng(seed)
    scale = np.linspace(0.5, 2, features + outputs)
    data = (rng.standard_normal((rows, features + outputs)) * scale).astype(dtype)
    return np.ascontiguousarray(data[:, :features]), np.ascontiguousarray(data[:, features:])


def code_of(features, targets, rows, *, seed=0, **options):
    streams = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    return encode(features, targets, rows, code=streams[0], noise=streams[1], **options)


def summed_code_of(clients, rows, **options):
    """What the server holds when every client has sent its code."""
    codes = [code_of(*data, rows, seed=100 + i, **options) for i, data in enumerate(clients)]
    return sum(code[0] for code in codes), sum(code[1] for code in codes)


def shortcut_code_of(clients, rows, *, amount=Noise(), row_weights=None):
    together = [np.concatenate(parts) for parts in zip(*clients, strict=True)]
    return draw_summed_code(
        measure_moments(*together, row_weights),
        rows,
        clients=len(clients),
        code=np.random.default_rng(21),
        noise=np.random.default_rng(22),
        amount=amount,
        dtype=together[0].dtype,
    )


def assert_rows_are_normal(code, moment, *, errors=5.0):
    """Rows are independent N(0, moment): all within 5 standard errors of the estimates.

    The covariance tells the formula; the fourth moments tell a normal from anything else of the
    same covariance; products of neighbouring rows tell rows that share their draws.
    """
    rows = np.concatenate(code, axis=1).astype(np.float64)
    count = len(rows)
    variance = np.diag(moment)
    tiny = 1e-9 * variance.max()
    spread = np.sqrt((np.outer(variance, variance) + moment**2) / count)
    assert (np.abs(rows.T @ rows / count - moment) <= errors * spread + tiny).all()
    spread = np.sqrt(96 / count) * variance**2
    fourth = (rows**4).mean(axis=0)
    assert (np.abs(fourth - 3 * variance**2) <= errors * spread + tiny**2).all()
    for lag in (1, 7):
        spread = np.sqrt(np.outer(variance, variance) / (count - lag))
        products = rows[lag:].T @ rows[:-lag] / (count - lag)
        assert (np.abs(products) <= errors * spread + tiny).all()


@dtypes
@noises
def test_one_clients_code_has_the_stated_moments(dtype, amount):
    """E[X~^T X~]/c = X^T X + sigma^2 I, E[X~^T Y~]/c = X^T Y, labels' noise on Y~^T Y~ alone."""
    data = draw_data(12, 5, 3, dtype=dtype)
    code = code_of(*data, 40_000, amount=amount)
    moment = oracles.code_moment(*data, sigma=amount.sigma, labels=amount.labels)
    assert_rows_are_normal(code, moment)


def test_the_noise_on_labels_is_its_own():
    """Without data only noise is left: sigma^2 I on both parts and nothing between them."""
    nothing = np.zeros((3, 2)), np.zeros((3, 2))
    features, targets = code_of(*nothing, 40_000, amount=Noise(2.0, labels=True))
    assert_rows_are_normal((features, targets), 4.0 * np.eye(4))
    _, silent = code_of(*nothing, 100, amount=Noise(2.0))
    assert (silent == 0).all()


def test_row_weights_enter_squared():
    """E[X~^T X~]/c = X^T D^2 X, E[X~^T Y~]/c = X^T D^2 Y."""
    data = draw_data(12, 5, 3)
    weights = np.linspace(0, 1.5, 12)
    code = code_of(*data, 40_000, amount=Noise(0.5), row_weights=weights)
    assert_rows_are_normal(code, oracles.code_moment(*data, sigma=0.5, row_weights=weights))


@given(problems(max_clients=1), st.integers(1, 20), seeds)
def test_weighting_rows_is_weighting_the_data(rows, count, seed):
    """Also: where the weight is 0 the row is not in the code at all."""
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 2.0], len(rows.features))
    weighted = code_of(rows.features, rows.targets, count, row_weights=weights)
    scaled = [
        (weights[:, None] * part).astype(part.dtype) for part in (rows.features, rows.targets)
    ]
    for got, want in zip(weighted, code_of(*scaled, count), strict=True):
        assert got == pytest.approx(want, rel=1e-4, abs=1e-4)


@given(problems(max_clients=1), st.integers(1, 20))
def test_features_and_targets_are_coded_by_the_same_numbers(rows, count):
    """Coding the identity shows G; the targets' code is then G Y."""
    length = len(rows.features)
    identity = np.eye(length, dtype=rows.targets.dtype)
    mix, targets = code_of(identity, rows.targets, count)
    assert targets == pytest.approx(mix @ rows.targets, rel=1e-4, abs=1e-4)
    assert mix.shape == (count, length)
    assert np.unique(mix).size > 0.9 * mix.size


@noises
def test_the_sum_of_all_codes_carries_everybodys_noise(amount):
    """n clients: moments add up and the noise is n sigma^2."""
    clients = [draw_data(rows, 4, 2, seed=rows) for rows in (2, 3, 9)]
    together = [np.concatenate(parts) for parts in zip(*clients, strict=True)]
    moment = oracles.code_moment(*together, sigma=amount.sigma, labels=amount.labels, clients=3)
    assert_rows_are_normal(summed_code_of(clients, 40_000, amount=amount), moment)


@dtypes
@noises
@pytest.mark.parametrize("lengths", [(5, 20), (1, 2), (1, 1)], ids=["full", "half", "two-rows"])
def test_the_shortcut_draws_from_the_distribution_of_the_sum(dtype, amount, lengths):
    """Rank-deficient data too: fewer rows than the 6 columns."""
    clients = [draw_data(rows, 4, 2, seed=rows + 7, dtype=dtype) for rows in lengths]
    together = [np.concatenate(parts) for parts in zip(*clients, strict=True)]
    moment = oracles.code_moment(*together, sigma=amount.sigma, labels=amount.labels, clients=2)
    for make in (summed_code_of, shortcut_code_of):
        code = make(clients, 40_000, amount=amount)
        assert [part.dtype for part in code] == [dtype, dtype]
        assert_rows_are_normal(code, moment)


def test_the_shortcut_stays_within_the_rows_of_few_data():
    """Three rows of six columns: every coded row is a combination of them, to rounding."""
    features, targets = draw_data(3, 4, 2)
    code = np.concatenate(shortcut_code_of([(features, targets)], 200), axis=1)
    rows = np.concatenate([features, targets], axis=1)
    outside = code - code @ np.linalg.pinv(rows) @ rows
    assert np.abs(outside).max() < 1e-6 * np.abs(code).max()


def test_the_shortcut_knows_row_weights():
    data = draw_data(12, 4, 2)
    weights = np.linspace(0, 1.5, 12)
    code = shortcut_code_of([data], 40_000, row_weights=weights)
    assert_rows_are_normal(code, oracles.code_moment(*data, row_weights=weights))


def test_many_rows_and_many_coded_rows_are_cut_into_pieces_without_seams():
    """10,000 rows in 4096s, 5000 coded rows in hundreds: each piece is there once, none twice."""
    length, count = 10_000, 5000
    watched = [0, 4095, 4096, 8191, 8192, length - 1]
    features = np.zeros((length, len(watched)), dtype=np.float32)
    features[watched, range(len(watched))] = 1
    weights = np.linspace(0.5, 2, length)
    mix, total = code_of(features, np.ones((length, 1), np.float32), count, row_weights=weights)
    # The watched columns of G D, and the sum of all its other columns.
    rest = total - mix.sum(axis=1, keepdims=True)
    moment = np.diag([*weights[watched] ** 2, (weights**2).sum() - (weights[watched] ** 2).sum()])
    assert_rows_are_normal((mix, rest), moment)
    assert np.unique(mix).size > 0.99 * mix.size


def test_wide_rows_are_cut_into_pieces_without_seams():
    """Features wider than there are rows set the size of a block too."""
    features, targets = draw_data(2, 3000, 1)
    code = code_of(features, targets, 1001, amount=Noise(0.3))
    picked = [0, 1, 1500, 2999]
    moment = oracles.code_moment(features[:, picked], targets, sigma=0.3)
    assert_rows_are_normal((code[0][:, picked], code[1]), moment)


@dtypes
@given(count=st.integers(0, 5), seed=seeds)
def test_a_code_has_the_shape_and_type_of_its_data(dtype, count, seed):
    features, targets = draw_data(4, 3, 2, dtype=dtype)
    for amount in (*NOISES, Noise(np.float64(0.5), labels=True)):
        weights = np.linspace(0, 1, 4)
        code = code_of(features, targets, count, seed=seed, amount=amount, row_weights=weights)
        assert [part.shape for part in code] == [(count, 3), (count, 2)]
        assert [part.dtype for part in code] == [dtype, dtype]


@noises
def test_the_same_streams_give_the_same_code(amount):
    data = draw_data(50, 4, 2)
    one, again, other = (code_of(*data, 30, seed=seed, amount=amount) for seed in (3, 3, 4))
    for part in range(2):
        assert (one[part] == again[part]).all()
        assert not (one[part] == other[part]).any()


def test_the_code_does_not_depend_on_the_noise():
    """Two noise levels with the same streams differ by noise of their difference alone."""
    data = draw_data(5000, 4, 2)
    plain = code_of(*data, 900)
    noisy, noisier = (code_of(*data, 900, amount=Noise(sigma)) for sigma in (1.0, 2.0))
    assert noisier[0] - plain[0] == pytest.approx(2 * (noisy[0] - plain[0]), abs=1e-9)
    assert (noisy[1] == plain[1]).all()


def test_a_client_without_rows_in_a_subset_codes_nothing_but_noise():
    """Methods that code each subset apart meet owners with fewer rows than subsets."""
    features, targets = code_of(np.zeros((0, 3)), np.zeros((0, 2)), 4)
    assert (features == np.zeros((4, 3))).all()
    assert (targets == np.zeros((4, 2))).all()


@dtypes
@pytest.mark.parametrize(
    ("length", "width", "count"), [(50_000, 20, 600), (300, 4000, 1000)], ids=["long", "wide"]
)
def test_working_memory_is_a_few_blocks(dtype, length, width, count):
    """Three blocks of a million numbers beyond the output, whatever is coded."""
    features = np.ones((length, width), dtype=dtype)
    targets = np.ones((length, 10), dtype=dtype)
    weights = np.ones(length)
    tracemalloc.start()
    try:
        code = code_of(
            features, targets, count, amount=Noise(1.0, labels=True), row_weights=weights
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    output = sum(part.nbytes for part in code)
    assert peak - output < 3 * 1_000_000 * np.dtype(dtype).itemsize


def test_what_the_server_holds_counts_its_rows_and_blocks():
    features, targets = draw_data(7, 2, 1)
    held = CodedData(store_blocks(features, targets, np.array([[3, 4]])))
    assert (held.rows, held.blocks, held.shortcut) == (7, 2, False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sigma": -1.0}, "sigma: -1.0 is not allowed; give a finite number at least 0"),
        ({"sigma": float("nan")}, "sigma: nan is not allowed; give a finite number at least 0"),
        ({"labels": 1}, "labels: 1 is not true or false"),
    ],
    ids=["negative", "nan", "labels"],
)
def test_bad_noise_is_refused_in_one_sentence(options, sentence):
    with pytest.raises(ParameterError) as error:
        Noise(**options)
    assert str(error.value) == sentence
