from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import (
    Bernoulli,
    Subsets,
    draw_subsets,
    largest_loads,
    row_scales,
    store_blocks,
    store_rows,
    subset_count,
)
from scfl.errors import ParameterError
from tests import oracles
from tests.strategies import seeds

counts = st.integers(1, 5)
owners = st.lists(st.integers(0, 8), min_size=1, max_size=4).filter(any)


def never():
    raise AssertionError("a stream was opened where nothing is random")


def label_rows(owner_rows):
    """Features that say whose and which each row is, targets that say it again."""
    pairs = [(owner, row) for owner, rows in enumerate(owner_rows) for row in range(rows)]
    features = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return features, features[:, :1] * 1000 + features[:, 1:]


def lay_out(owner_rows, subsets):
    return store_rows(*label_rows(owner_rows), np.array(owner_rows), subsets)


def all_loads(data, owner_rows):
    """Anything from nothing to more than an owner has."""
    return np.array([data.draw(st.integers(0, rows + 2)) for rows in owner_rows])


@dataclass
class Stuck:
    """A generator that draws one number for ever."""

    value: float

    def random(self, size):
        return np.full(size, self.value)


def expected_scales(store, sampling, loads):
    """Each row's expected scale: all subsets, and all equally likely draws of each, enumerated."""
    total = np.zeros(len(store.features))
    for subset, lengths in enumerate(store.lengths):
        grid = lcm(*(int(length) for length in lengths if length))
        draws = ((step + 0.5) / grid for step in range(grid))
        for value in draws:
            scales = row_scales(store, sampling, loads, subset, partial(Stuck, value))
            total[store.piece(subset)] += scales / grid
    return total / len(store.lengths)


@given(owners, counts)
def test_rows_are_stored_batch_major(owner_rows, subsets):
    """Every row once, in one subset, and each owner's rows in their order."""
    store = lay_out(owner_rows, subsets)
    wanted = oracles.batch_major(owner_rows, subsets)
    for subset, pairs in enumerate(wanted):
        piece = store.piece(subset)
        assert [tuple(row) for row in store.features[piece].tolist()] == pairs
        assert store.owner[piece].tolist() == [owner for owner, _ in pairs]
        mine = [[row for own, row in pairs if own == owner] for owner in range(len(owner_rows))]
        assert store.lengths[subset].tolist() == [len(rows) for rows in mine]
        assert store.place[piece].tolist() == [place for rows in mine for place in range(len(rows))]
    assert store.piece(subsets - 1).stop == len(store.features) == sum(owner_rows)
    assert (store.targets[:, 0] == store.features @ [1000, 1]).all()


@given(owners, counts)
def test_subsets_of_an_owner_differ_by_one_row_at_most(owner_rows, subsets):
    store = lay_out(owner_rows, subsets)
    assert (np.ptp(store.lengths, axis=0) <= 1).all()
    largest = largest_loads(Subsets(subsets), np.array(owner_rows))
    assert (largest == store.lengths.max(axis=0)).all()


def test_one_subset_is_not_copied():
    features, targets = label_rows([3, 4])
    store = store_rows(features, targets, np.array([3, 4]), 1)
    assert np.shares_memory(store.features, features)
    assert np.shares_memory(store.targets, targets)


def test_blocks_that_are_batch_major_already_keep_their_place():
    features, targets = label_rows([6])
    store = store_blocks(features, targets, np.array([[1, 2], [0, 3]]))
    assert (store.features == features).all()
    assert store.starts.tolist() == [0, 3, 6]
    assert store.owner.tolist() == [0, 1, 1, 1, 1, 1]
    assert store.place.tolist() == [0, 0, 1, 0, 1, 2]


def test_bernoulli_rows_are_stored_as_they_stand():
    assert subset_count(Bernoulli()) == 1
    assert subset_count(Subsets(7)) == 7
    assert largest_loads(Bernoulli(), np.array([3, 4])).tolist() == [3, 4]


@given(owners, counts, st.data())
def test_subsets_are_unbiased(owner_rows, subsets, data):
    """E[scale] = 1 for every row of an owner that is asked, over subsets and windows exactly."""
    store = lay_out(owner_rows, subsets)
    loads = all_loads(data, owner_rows)
    expected = expected_scales(store, Subsets(subsets), loads)
    assert expected == pytest.approx(np.where(loads[store.owner] > 0, 1.0, 0.0))


@given(owners, st.data())
def test_bernoulli_is_unbiased(owner_rows, data):
    store = lay_out(owner_rows, 1)
    loads = all_loads(data, owner_rows)
    expected = expected_scales(store, Bernoulli(), loads)
    assert expected == pytest.approx(np.where(loads[store.owner] > 0, 1.0, 0.0))


@given(owners, counts, st.data(), seeds)
def test_a_round_takes_a_window_of_the_load_from_each_subset(owner_rows, subsets, data, seed):
    """As many rows as asked or there are, next to each other but for wrapping around."""
    store = lay_out(owner_rows, subsets)
    loads = all_loads(data, owner_rows)
    subset = data.draw(st.integers(0, subsets - 1))
    draw = partial(stream, seed, Purpose.CLIENT_BATCHES)
    scales = row_scales(store, Subsets(subsets), loads, subset, draw)
    for owner, load in enumerate(loads.tolist()):
        drawn = scales[store.owner[store.piece(subset)] == owner] > 0
        assert drawn.sum() == min(load, drawn.size)
        edges = drawn != np.roll(drawn, 1)
        assert edges.sum() in (0, 2)


@given(owners, counts, st.data())
def test_fixed_windows_are_the_first_rows_for_ever(owner_rows, subsets, data):
    store = lay_out(owner_rows, subsets)
    loads = all_loads(data, owner_rows)
    for subset in range(subsets):
        piece = store.piece(subset)
        scales = row_scales(store, Subsets(subsets, fixed=True), loads, subset, never)
        first = store.place[piece] < loads[store.owner[piece]]
        assert (scales == np.where(first, subsets, 0)).all()


@given(owners, counts)
def test_whole_subsets_open_no_stream(owner_rows, subsets):
    store = lay_out(owner_rows, subsets)
    for subset in range(subsets):
        scales = row_scales(store, Subsets(subsets), np.array(owner_rows), subset, never)
        assert (scales == subsets).all()


@pytest.mark.parametrize("sampling", [Subsets(3), Subsets(1), Bernoulli()], ids=repr)
def test_rounds_are_unbiased_and_owners_independent(sampling):
    """20,000 rounds as the simulator draws them: means and correlations in 5 standard errors."""
    rounds = 20_000
    loads = np.array([3, 1, 2, 0])
    store = lay_out([12, 7, 2, 5], subset_count(sampling))
    subsets = draw_subsets(9, 0, rounds, subset_count(sampling))
    scales = np.zeros((rounds, len(store.features)))
    for number, subset in enumerate(subsets.tolist()):
        draw = partial(stream, 9, Purpose.CLIENT_BATCHES, 1, number)
        piece = store.piece(subset)
        scales[number, piece] = row_scales(store, sampling, loads, subset, draw)
    asked = loads[store.owner] > 0
    assert (scales[:, ~asked] == 0).all()
    error = scales.std(axis=0) / np.sqrt(rounds)
    assert (np.abs(scales.mean(axis=0) - asked) <= 5 * error + 1e-12).all()
    # Within a subset, windows of different owners (coins of different rows) are independent.
    one = store.piece(0)
    drawn = scales[subsets == 0][:, one]
    varied = drawn.std(axis=0) > 0
    correlation = np.corrcoef(drawn[:, varied].T)
    owner = store.owner[one][varied]
    other = owner[:, None] != owner
    if isinstance(sampling, Bernoulli):
        other = ~np.eye(len(owner), dtype=bool)
    assert other.any()
    assert (np.abs(correlation[other]) < 5 / np.sqrt(len(drawn))).all()


@given(seeds, counts, st.integers(0, 30), st.integers(1, 30))
def test_each_pass_takes_every_subset_once(seed, count, first_pass, passes):
    drawn = draw_subsets(seed, first_pass * count, passes * count, count)
    assert (np.sort(drawn.reshape(passes, count)) == np.arange(count)).all()


@given(seeds, counts, st.integers(0, 40), st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_subsets_do_not_depend_on_how_rounds_are_chunked(seed, count, first, lengths):
    whole = draw_subsets(seed, first, sum(lengths), count)
    starts = first + np.cumsum([0, *lengths[:-1]])
    parts = [draw_subsets(seed, int(s), n, count) for s, n in zip(starts, lengths, strict=True)]
    assert (np.concatenate(parts) == whole).all()


@given(seeds, counts, st.integers(0, 40))
def test_no_rounds_take_no_subset(seed, count, first):
    assert draw_subsets(seed, first, 0, count).tolist() == []


def test_orders_are_fresh_and_uniform():
    """4000 passes over 3 subsets: each of the 6 orders within 5 standard errors of 1/6."""
    passes = 4000
    orders = draw_subsets(5, 0, 3 * passes, 3).reshape(passes, 3)
    _, seen = np.unique(orders @ [9, 3, 1], return_counts=True)
    assert len(seen) == 6
    assert (np.abs(seen - passes / 6) < 5 * np.sqrt(passes * 5 / 36)).all()
    assert (draw_subsets(6, 0, 30, 3) != draw_subsets(5, 0, 30, 3)).any()


@pytest.mark.parametrize("count", [0, -1, 1.5, True], ids=repr)
def test_a_bad_number_of_subsets_is_refused(count):
    with pytest.raises(ParameterError, match=r"subsets: .* give a whole number at least 1"):
        Subsets(count)
