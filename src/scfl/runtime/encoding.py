"""The upload before the first round: every client codes its rows, the server keeps the result."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, draw_summed_code, encode, factor_rows
from scfl.core.fleet import Fleet
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import RowStore, store_blocks, subset_count
from scfl.errors import InfeasibleError, Problem
from scfl.methods.protocol import Code, Plan
from scfl.runtime.result import Setup

Matrix = NDArray[Any]
Weights = NDArray[np.float64] | None
Coding = Literal["clients", "gram-shortcut"]


def collect_code(store: RowStore, plan: Plan, seed: int, coding: Coding) -> CodedData | None:
    """Make the coded data that a plan asks for from the rows of all clients.

    ``"clients"`` codes each client's rows as the client would. ``"gram-shortcut"`` draws the sum
    of all codes from its exact distribution, which only a simulator can.
    """
    code = plan.code
    if code is None:
        return None
    if coding == "gram-shortcut" and code.layout != "summed":
        raise InfeasibleError(
            [Problem("coding", "'gram-shortcut' draws summed codes only; use 'clients'")]
        )
    parts = range(len(store.lengths)) if code.per_subset else [None]
    make = _draw_sum if coding == "gram-shortcut" else _encode_clients
    blocks = [block for part in parts for block in make(store, plan, code, seed, part)]
    lengths = np.array([len(features) for features, _ in blocks]).reshape(len(parts), code.blocks)
    return CodedData(
        store_blocks(
            np.concatenate([features for features, _ in blocks]),
            np.concatenate([targets for _, targets in blocks]),
            lengths,
        ),
        shortcut=coding == "gram-shortcut",
    )


def price_setup(plan: Plan, fleet: Fleet) -> Setup:
    """What the coded data costs each client: encoding on its own clock, then the upload."""
    shape, code = plan.shape, plan.code
    if code is None:
        nothing = np.zeros(shape.clients)
        return Setup(nothing, nothing, nothing)
    # A code per subset sends that many rows for each, and each row codes one subset only.
    subsets = subset_count(plan.sampling) if code.per_subset else 1
    return Setup(
        encoding_s=fleet.encoding_seconds(shape, code.rows),
        upload_s=fleet.coded_upload_seconds(shape, code.rows * subsets),
        upload_bytes=fleet.coded_upload_bits(shape, code.rows * subsets) / 8,
    )


def _encode_clients(
    store: RowStore, plan: Plan, code: Code, seed: int, part: int | None
) -> list[tuple[Matrix, Matrix]]:
    """One block of everybody, or one per client, in the order of clients."""
    blocks: list[tuple[Matrix, Matrix]] = []
    for client in range(plan.shape.clients):
        rows = _rows_of(store, client, part)
        features, targets = encode(
            store.features[rows],
            store.targets[rows],
            int(code.rows[client]),
            code=stream(seed, Purpose.CODE, client, *_turn(part)),
            noise=stream(seed, Purpose.NOISE, client, *_turn(part)),
            amount=code.noise,
            row_weights=_weights(store, plan, code, rows),
        )
        if code.layout == "summed" and blocks:
            blocks[0][0][...] += features
            blocks[0][1][...] += targets
        else:
            blocks.append((features, targets))
    return blocks


def _draw_sum(
    store: RowStore, plan: Plan, code: Code, seed: int, part: int | None
) -> list[tuple[Matrix, Matrix]]:
    rows = slice(0, len(store.features)) if part is None else store.piece(part)
    factor = factor_rows(
        store.features[rows], store.targets[rows], _weights(store, plan, code, rows)
    )
    return [
        draw_summed_code(
            factor,
            int(code.rows[0]),
            outputs=plan.shape.outputs,
            clients=plan.shape.clients,
            code=stream(seed, Purpose.CODE, plan.shape.clients, *_turn(part)),
            noise=stream(seed, Purpose.NOISE, plan.shape.clients, *_turn(part)),
            amount=code.noise,
            dtype=store.features.dtype,
        )
    ]


def _turn(part: int | None) -> tuple[int, ...]:
    return () if part is None else (part,)


def _rows_of(store: RowStore, client: int, part: int | None) -> NDArray[np.int64]:
    """The places of a client's rows in the store, of one subset or of all."""
    ends = store.lengths.ravel().cumsum().reshape(store.lengths.shape)[:, client]
    begins = ends - store.lengths[:, client]
    chosen = range(len(ends)) if part is None else [part]
    return np.concatenate([np.arange(begins[k], ends[k]) for k in chosen])


def _weights(store: RowStore, plan: Plan, code: Code, rows: NDArray[np.int64] | slice) -> Weights:
    """Rows that a client processes itself enter its code by the method's weight, others by 1."""
    if code.processed_weight is None:
        return None
    owner = store.owner[rows]
    processed = store.place[rows] < plan.loads[owner]
    return np.where(processed, code.processed_weight[owner], 1.0)
