"""The direction of a round: clients' and coded gradients, weighted, in one fused pass each.

direction = sum_i a_i g_i(W)  +  sum_j b_j h_j(W)  -  s W
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.core.gradient import accumulate_gradient
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import Bernoulli, RowStore, Subsets, row_scales
from scfl.methods.protocol import Combination, Plan

Matrix = NDArray[Any]
Floats = NDArray[np.float64]


def compute_direction(
    plan: Plan,
    combination: Combination,
    model: Matrix,
    *,
    store: RowStore,
    held: CodedData | None,
    arrived: NDArray[np.bool_],
    subset: int,
    round_number: int,
    seed: int,
) -> Matrix:
    """Weigh the rows of those who arrived and of the coded data, and add them up."""
    into = np.zeros(model.shape[::-1], dtype=model.dtype)
    if arrived.any():
        scales = row_scales(
            store,
            plan.sampling,
            plan.loads,
            subset,
            partial(stream, seed, Purpose.CLIENT_BATCHES, 1, round_number),
        )
        weights = np.where(arrived, combination.clients, 0.0)
        _accumulate(store, subset, scales, weights, model=model, into=into)
    if held is not None and plan.code is not None and combination.coded.any():
        part = subset if plan.code.per_subset else 0
        lengths = held.store.lengths[part]
        scales = row_scales(
            held.store,
            Bernoulli() if isinstance(plan.sampling, Bernoulli) else Subsets(1),
            _server_loads(plan.code.server_rows, lengths),
            part,
            partial(stream, seed, Purpose.SERVER_BATCHES, round_number),
        )
        _accumulate(held.store, part, scales, combination.coded / lengths, model=model, into=into)
    direction = into.T
    if combination.shrink:
        direction = direction - combination.shrink * model
    return direction


def _accumulate(
    store: RowStore,
    part: int,
    row_scale: Floats,
    owner_weight: Floats,
    *,
    model: Matrix,
    into: Matrix,
) -> None:
    piece = store.piece(part)
    row_weights = (row_scale * owner_weight[store.owner[piece]]).astype(model.dtype)
    accumulate_gradient(store.features[piece], store.targets[piece], model, row_weights, into)


def _server_loads(rows: int, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Share the server's coded rows of a round out to the blocks, at least one to each."""
    loads: NDArray[np.int64] = np.clip(rows * lengths // lengths.sum(), 1, lengths)
    return loads
