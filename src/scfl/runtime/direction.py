"""The direction of a round, in one fused pass or from parts that were computed apart.

direction = sum_i a_i g_i(W)  +  sum_j b_j h_j(W)  -  s W

The simulator knows the weights before any arithmetic and adds everything up at once. On a network
clients send their g_i, the server computes its h_j meanwhile, and ``add_parts`` weighs them when
the round has closed. Both give the same sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.core.gradient import Clip, accumulate_gradient, compute_gradient
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import Bernoulli, RowStore, Subsets, owner_scales, row_scales
from scfl.methods.protocol import Combination, Plan
from scfl.privacy.budget import GradientNoise

Matrix = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Guard:
    """Clipping and noise of clients' gradients, with the norms of the stored rows."""

    amount: GradientNoise
    clip: Clip


def make_guard(store: RowStore, amount: GradientNoise) -> Guard:
    """Measure the rows' norms once."""
    squares = np.einsum("rd,rd->r", store.features, store.features)
    return Guard(amount, Clip(np.sqrt(squares), amount.norm))


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
    gradients: Matrix | None = None,
    guard: Guard | None = None,
) -> Matrix:
    """Weigh the rows of those who arrived and of the coded data, and add them up.

    Clients' ``gradients`` that are known one by one already are not computed again. A ``guard``
    clips each row's gradient and adds the noise of those who arrived: independent noises, weighted
    and added, are one noise.
    """
    into = np.zeros(model.shape[::-1], dtype=model.dtype)
    if arrived.any():
        weights = np.where(arrived, combination.clients, 0.0)
        if gradients is not None:
            into += np.tensordot(weights.astype(model.dtype), gradients, axes=1).T
        else:
            scales = _client_scales(plan, store, subset, round_number, seed)
            clip = None if guard is None else guard.clip
            _accumulate(store, subset, scales, weights, model=model, into=into, clip=clip)
            if guard is not None:
                sent = owner_scales(store.lengths[subset], plan.sampling, plan.loads)
                sigma = guard.amount.sigma * float(np.linalg.norm(weights * sent))
                generator = stream(seed, Purpose.GRADIENT_NOISE, round_number)
                into += (sigma * generator.standard_normal(into.shape)).astype(into.dtype)
    if held is not None and plan.code is not None and combination.coded.any():
        part, scales = _draw_coded_rows(plan, held, subset, round_number, seed)
        weights = combination.coded / held.store.lengths[part]
        _accumulate(held.store, part, scales, weights, model=model, into=into)
    return _shrink(into.T, combination, model)


def compute_coded_gradients(
    plan: Plan, model: Matrix, *, held: CodedData, subset: int, round_number: int, seed: int
) -> list[Matrix]:
    """Each block's h_j, before it is known what weight it will have."""
    part, scales = _draw_coded_rows(plan, held, subset, round_number, seed)
    lengths = held.store.lengths[part]
    start, gradients = int(held.store.starts[part]), []
    for first, length in zip(np.cumsum(lengths) - lengths, lengths, strict=True):
        rows = slice(start + int(first), start + int(first + length))
        row_weights = (scales[first : first + length] / length).astype(model.dtype)
        gradients.append(
            compute_gradient(
                held.store.features[rows], held.store.targets[rows], model, row_weights
            )
        )
    return gradients


def add_parts(
    combination: Combination,
    model: Matrix,
    clients: Mapping[int, Matrix],
    coded: Sequence[Matrix],
) -> Matrix:
    """Weigh what arrived, ``clients`` by number, and the coded gradients; in client order."""
    direction = np.zeros_like(model)
    for client in sorted(clients):
        direction += model.dtype.type(combination.clients[client]) * clients[client]
    for weight, gradient in zip(combination.coded, coded, strict=False):
        direction += model.dtype.type(weight) * gradient
    return _shrink(direction, combination, model)


def _shrink(direction: Matrix, combination: Combination, model: Matrix) -> Matrix:
    return direction - combination.shrink * model if combination.shrink else direction


def _draw_coded_rows(
    plan: Plan, held: CodedData, subset: int, round_number: int, seed: int
) -> tuple[int, Floats]:
    """The part of the coded data that belongs to the round's subset, and its rows' scales."""
    assert plan.code is not None
    part = subset if plan.code.per_subset else 0
    scales = row_scales(
        held.store,
        Bernoulli() if isinstance(plan.sampling, Bernoulli) else Subsets(1),
        _server_loads(plan.code.server_rows, held.store.lengths[part]),
        part,
        partial(stream, seed, Purpose.SERVER_BATCHES, round_number),
    )
    return part, scales


def compute_gradients(
    plan: Plan,
    model: Matrix,
    *,
    store: RowStore,
    arrived: NDArray[np.bool_],
    subset: int,
    round_number: int,
    seed: int,
    guard: Guard | None = None,
) -> Matrix:
    """Each arrived client's gradient by itself: clients by d by o, zeros for the others."""
    scales = _client_scales(plan, store, subset, round_number, seed).astype(model.dtype)
    gradients = np.zeros((len(arrived), *model.shape), dtype=model.dtype)
    begin = store.starts[subset]
    for client in np.flatnonzero(arrived).tolist():
        first = begin + int(store.lengths[subset, :client].sum())
        rows = slice(first, first + int(store.lengths[subset, client]))
        weights = scales[rows.start - begin : rows.stop - begin]
        clip = None if guard is None else guard.clip.of(rows)
        gradients[client] = compute_gradient(
            store.features[rows], store.targets[rows], model, weights, clip=clip
        )
        if guard is not None:
            sent = owner_scales(store.lengths[subset], plan.sampling, plan.loads)[client]
            generator = stream(seed, Purpose.GRADIENT_NOISE, round_number, client)
            drawn = generator.standard_normal(model.shape)
            gradients[client] += (guard.amount.sigma * sent * drawn).astype(model.dtype)
    return gradients


def _client_scales(
    plan: Plan, store: RowStore, subset: int, round_number: int, seed: int
) -> Floats:
    return row_scales(
        store,
        plan.sampling,
        plan.loads,
        subset,
        partial(stream, seed, Purpose.CLIENT_BATCHES, 1, round_number),
    )


def _accumulate(
    store: RowStore,
    part: int,
    row_scale: Floats,
    owner_weight: Floats,
    *,
    model: Matrix,
    into: Matrix,
    clip: Clip | None = None,
) -> None:
    piece = store.piece(part)
    row_weights = (row_scale * owner_weight[store.owner[piece]]).astype(model.dtype)
    accumulate_gradient(
        store.features[piece],
        store.targets[piece],
        model,
        row_weights,
        into,
        clip=clip and clip.of(piece),
    )


def _server_loads(rows: int, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Share the server's coded rows of a round out to the blocks, at least one to each."""
    loads: NDArray[np.int64] = np.clip(rows * lengths // lengths.sum(), 1, lengths)
    return loads
