"""Which rows take part in a round, and the scale that makes their gradient unbiased.

Rows belong to owners: clients, or blocks of coded data. Two rules decide which of an owner's rows
a round takes:

``Subsets(count)``
    Each owner's rows are cut into ``count`` contiguous subsets and a round takes the same subset of
    everybody, in a fresh random order each pass. An owner whose load is smaller than its subset
    takes a window of that many rows that starts anywhere and wraps around, so that every row is
    equally likely (``fixed=True`` takes always the first rows: coded methods hide the others).
``Bernoulli()``
    Each row independently with probability load / rows, as in the paper's analysis. The realised
    number varies; the scale stays rows / load.

Rows are stored batch-major (subset 0 of every owner, then subset 1, ...), so a round of
``Subsets`` reads one contiguous piece of memory whatever the number of owners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.parameter import Requirements
from scfl.core.randomness import Purpose, stream

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Subsets:
    """Contiguous subsets of each owner's rows, one a round."""

    count: int = 1
    fixed: bool = False

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.count("subsets", self.count, at_least=1)


@dataclass(frozen=True)
class Bernoulli:
    """Each row by a coin of its own."""


Sampling = Subsets | Bernoulli


def subset_count(sampling: Sampling) -> int:
    """In how many subsets the rows have to be stored."""
    return sampling.count if isinstance(sampling, Subsets) else 1


def largest_loads(sampling: Sampling, owner_rows: Ints) -> Ints:
    """The most rows of each owner that one round can take."""
    return -(-owner_rows // subset_count(sampling))


@dataclass(frozen=True, eq=False)
class RowStore:
    """Rows of several owners, batch-major; ``owner`` and ``place`` say whose and which each is."""

    features: NDArray[Any]
    targets: NDArray[Any]
    starts: Ints
    lengths: Ints
    owner: NDArray[np.int32]
    place: NDArray[np.int32]

    def piece(self, subset: int) -> slice:
        """The rows of one subset of every owner."""
        return slice(int(self.starts[subset]), int(self.starts[subset + 1]))


def store_blocks(features: NDArray[Any], targets: NDArray[Any], lengths: Ints) -> RowStore:
    """Describe rows that are batch-major already: ``lengths`` is subsets by owners."""
    flat = lengths.ravel()
    first = np.concatenate([[0], np.cumsum(flat)])
    return RowStore(
        features=features,
        targets=targets,
        starts=np.concatenate([[0], np.cumsum(lengths.sum(axis=1))]),
        lengths=lengths,
        owner=np.repeat(np.tile(np.arange(lengths.shape[1], dtype=np.int32), len(lengths)), flat),
        place=(np.arange(first[-1]) - np.repeat(first[:-1], flat)).astype(np.int32),
    )


def store_rows(
    features: NDArray[Any], targets: NDArray[Any], owner_rows: Ints, subsets: int
) -> RowStore:
    """Lay out rows that stand owner after owner; with one subset nothing is copied."""
    offsets = np.cumsum(owner_rows) - owner_rows
    cuts = _cut_rows(owner_rows, subsets)
    lengths = np.diff(cuts, axis=0)
    if subsets > 1:
        flat = lengths.ravel()
        within = np.arange(flat.sum()) - np.repeat(np.cumsum(flat) - flat, flat)
        order = np.repeat((offsets + cuts[:-1]).ravel(), flat) + within
        features, targets = features[order], targets[order]
    return store_blocks(features, targets, lengths)


def subset_lengths(owner_rows: Ints, subsets: int) -> Ints:
    """How many rows each owner has in each subset, as subsets by owners."""
    return np.diff(_cut_rows(owner_rows, subsets), axis=0)


def _cut_rows(owner_rows: Ints, subsets: int) -> Ints:
    cuts: Ints = owner_rows * np.arange(subsets + 1)[:, None] // subsets
    return cuts


def draw_subsets(seed: int, first_round: int, rounds: int, count: int) -> Ints:
    """The subset that each of the rounds takes: a new random order for each pass over them."""
    if count == 1 or rounds == 0:
        return np.zeros(rounds, dtype=np.int64)
    passes = range(first_round // count, (first_round + rounds - 1) // count + 1)
    orders = [stream(seed, Purpose.CLIENT_BATCHES, 0, turn).permutation(count) for turn in passes]
    skip = first_round - passes[0] * count
    return np.concatenate(orders)[skip : skip + rounds]


@dataclass(frozen=True, eq=False)
class Draw:
    """The rows of one subset that a round takes, told owner by owner.

    Owner i takes ``count[i]`` of its ``lengths[i]`` rows, from place ``start[i]`` on and wrapping
    around; ``coins``, where there are any, then say of each of its rows whether it is in. ``scale``
    is the inverse of the probability with which an owner's rows are drawn.
    """

    lengths: Ints
    start: Ints
    count: Ints
    scale: Floats
    coins: NDArray[np.bool_] | None = None

    def coins_of(self, owner: int) -> NDArray[np.bool_] | None:
        """The coins of one owner's rows."""
        if self.coins is None:
            return None
        stop = int(self.lengths[: owner + 1].sum())
        return self.coins[stop - int(self.lengths[owner]) : stop]


def owner_scales(lengths: Ints, sampling: Sampling, loads: Ints) -> Floats:
    """What each owner's sum over its drawn rows is multiplied by, whichever rows these are."""
    taken = np.minimum(loads, lengths)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(taken > 0, lengths / taken, 0.0)
    if isinstance(sampling, Bernoulli):
        return inverse
    return np.where(taken > 0, sampling.count * (1.0 if sampling.fixed else inverse), 0.0)


def draw_rows(
    lengths: Ints, sampling: Sampling, loads: Ints, draw: Callable[[], np.random.Generator]
) -> Draw:
    """Choose the rows of a round from owners that have so many in its subset.

    ``draw`` opens the stream of the round; it is not called where nothing is random.
    """
    taken, start = np.minimum(loads, lengths), np.zeros_like(lengths)
    scale = owner_scales(lengths, sampling, loads)
    if isinstance(sampling, Bernoulli):
        owner = np.repeat(np.arange(lengths.size), lengths)
        coins = draw().random(owner.size) * lengths[owner] < taken[owner]
        return Draw(lengths, start, lengths, scale, coins)
    if not sampling.fixed and not np.array_equal(taken, lengths):
        start = (draw().random(lengths.size) * lengths).astype(np.int64)
    return Draw(lengths, start, taken, scale)


def row_scales(
    store: RowStore,
    sampling: Sampling,
    loads: Ints,
    subset: int,
    draw: Callable[[], np.random.Generator],
) -> Floats:
    """The inverse inclusion probability of each drawn row of a subset, zero for the others."""
    piece = store.piece(subset)
    owner = store.owner[piece]
    drawn = draw_rows(store.lengths[subset], sampling, loads, draw)
    scale = drawn.scale[owner]
    if drawn.coins is not None:
        return np.where(drawn.coins, scale, 0.0)
    if np.array_equal(drawn.count, drawn.lengths):
        return scale
    place = store.place[piece]
    if drawn.start.any():
        place = (place - drawn.start[owner]) % drawn.lengths[owner]
    return np.where(place < drawn.count[owner], scale, 0.0)
