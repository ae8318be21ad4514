from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scfl.core.randomness import Purpose, stream
from tests.strategies import seeds

PUBLISHED = [676121, 625252, 992288, 115753, 635367, 111009, 806030, 875198, 133948, 795981]

purposes = st.sampled_from(Purpose)
coordinates = st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple)
names = st.tuples(seeds, purposes, coordinates)


def draws(name: tuple[int, Purpose, tuple[int, ...]], size: int = 8) -> bytes:
    seed, purpose, where = name
    return stream(seed, purpose, *where).bytes(size * 8)


@given(names)
def test_the_same_name_gives_the_same_bytes(name):
    assert draws(name) == draws(name)


@given(names, names)
def test_different_names_give_different_bytes(one, other):
    assume(one != other)
    assert draws(one) != draws(other)


@given(seeds, purposes, coordinates)
def test_one_more_coordinate_is_another_stream_even_when_it_is_zero(seed, purpose, where):
    assert draws((seed, purpose, where)) != draws((seed, purpose, (*where, 0)))


@given(st.permutations(list(Purpose)), seeds)
def test_the_order_of_calls_is_irrelevant(order, seed):
    expected = {purpose: draws((seed, purpose, (3, 1))) for purpose in Purpose}
    assert {purpose: draws((seed, purpose, (3, 1))) for purpose in order} == expected


def test_numpy_integers_name_the_same_stream():
    assert draws((np.int64(5), Purpose.CODE, (np.int64(2),))) == draws((5, Purpose.CODE, (2,)))


def test_the_numbers_of_a_published_seed_never_change():
    """A new purpose adds a number at the end; nothing else may change what is drawn."""
    drawn = [int(stream(2022, purpose, 7, 11).integers(10**6)) for purpose in Purpose]
    assert drawn[: len(PUBLISHED)] == PUBLISHED


@pytest.mark.parametrize("lag", [0, 1])
def test_streams_are_uncorrelated(lag):
    """Between purposes, neighbouring clients and neighbouring seeds: |r| < 5 / sqrt(size)."""
    size = 20_000
    named = [stream(1, purpose) for purpose in Purpose]
    named += [stream(1, Purpose.CODE, client) for client in range(5)]
    named += [stream(seed, Purpose.CODE) for seed in range(2, 7)]
    numbers = np.stack([generator.standard_normal(size + lag) for generator in named])
    first, second = numbers[:, :size], numbers[:, lag:]
    correlation = first @ second.T / size
    if lag == 0:
        np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 5 / np.sqrt(size)
