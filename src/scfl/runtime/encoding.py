"""The upload before the first round: every client codes its rows, the server keeps the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import joblib
import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise, draw_summed_code, encode
from scfl.core.fleet import Fleet
from scfl.core.moments import Moments, measure_moments
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import RowStore, store_blocks, subset_count
from scfl.data.problem import Problem
from scfl.methods.protocol import Code, Plan
from scfl.runtime.result import Setup

Matrix = NDArray[Any]
Weights = NDArray[np.float64] | None
Coding = Literal["clients", "gram-shortcut"]


def hold_code(
    problem: Problem, store: RowStore, plan: Plan, seed: int, coding: Coding
) -> CodedData | None:
    """The coded data of a plan; the last that was made is kept, as a search asks for it again.

    It depends on the learning rate as little as on how the server goes through its rows.
    """
    code = plan.code
    if code is None:
        return None
    loads = None if code.processed_weight is None else plan.loads
    wanted = (seed, coding, subset_count(plan.sampling), replace(code, server_rows=0), loads)
    return problem.recall(
        "code",
        joblib.hash(wanted),
        lambda: collect_code(store, plan, seed, coding, lambda: problem.moments),
    )


def collect_code(
    store: RowStore,
    plan: Plan,
    seed: int,
    coding: Coding,
    moments: Callable[[], Moments] | None = None,
) -> CodedData | None:
    """Make the coded data that a plan asks for from the rows of all clients.

    ``"clients"`` codes each client's rows as the client would. ``"gram-shortcut"``, which only a
    simulator can do, draws a sum of codes from its exact distribution where that saves work;
    ``moments`` gives it those of all rows if they are known already.
    """
    code = plan.code
    if code is None:
        return None
    if code.content == "products":
        return _add_products(store, moments)
    parts = range(len(store.lengths)) if code.per_subset else [None]
    draw = coding == "gram-shortcut" and _drawing_pays(store, code, len(parts))
    if draw:
        blocks = [_draw_sum(store, plan, code, seed, part=part, moments=moments) for part in parts]
    else:
        blocks = [
            block for part in parts for block in _encode_clients(store, plan, code, seed, part)
        ]
    lengths = np.array([len(features) for features, _ in blocks]).reshape(len(parts), code.blocks)
    return CodedData(
        store_blocks(
            np.concatenate([features for features, _ in blocks]),
            np.concatenate([targets for _, targets in blocks]),
            lengths,
        ),
        shortcut=draw,
    )


def _add_products(store: RowStore, moments: Callable[[], Moments] | None) -> CodedData:
    """The sums of products as rows whose normalised gradient is the exact one."""
    summed = moments() if moments else measure_moments(store.features, store.targets)
    rows = len(summed.factor)
    features, targets = np.split(rows**0.5 * summed.factor, [-summed.outputs], axis=1)
    return CodedData(
        store_blocks(
            np.ascontiguousarray(features), np.ascontiguousarray(targets), np.array([[rows]])
        )
    )


def _drawing_pays(store: RowStore, code: Code, parts: int) -> bool:
    """Whether products of rows, and codes made of these, are less work than codes made of rows."""
    if code.layout != "summed":
        return False
    width = store.features.shape[1] + store.targets.shape[1]
    rows, coded = len(store.features) / parts, int(code.rows[0])
    return bool(rows * width / 2 + coded * width < coded * rows)


def price_setup(plan: Plan, fleet: Fleet) -> Setup:
    """What the coded data costs: encoding on each client's own clock, then upload, then server."""
    shape, code = plan.shape, plan.code
    if code is None:
        nothing = np.zeros(shape.clients)
        return Setup(nothing, nothing, nothing)
    width = shape.features + shape.outputs
    if code.content == "products":
        # The matrices are symmetric: half of their entries is all of them.
        numbers = np.full(shape.clients, width * (width + 1) / 2)
        macs = shape.client_rows * numbers
    else:
        # A code per subset sends that many rows for each, and each row codes one subset only.
        subsets = subset_count(plan.sampling) if code.per_subset else 1
        numbers = code.rows * subsets * float(width)
        macs = code.rows * shape.client_rows * float(width)
    return Setup(
        encoding_s=fleet.compute_seconds(macs),
        upload_s=fleet.bulk_seconds(numbers),
        upload_bytes=fleet.bulk_bits(numbers) / 8,
        server_s=plan.server_setup_macs / fleet.server_macs_per_s,
    )


@dataclass(frozen=True)
class CodeRequest:
    """What a plan asks of one client: so many rows of code, of all its rows or of each subset.

    Its first ``load`` rows of a subset enter with weight ``processed_weight``, the others with 1.
    """

    rows: int
    noise: Noise = Noise()
    subsets: int = 1
    per_subset: bool = False
    load: int = 0
    processed_weight: float | None = None
    content: Literal["sketch", "products"] = "sketch"

    @property
    def parts(self) -> Sequence[int | None]:
        """The subsets that get a code of their own, or None for one code of all rows."""
        return range(self.subsets) if self.per_subset else [None]


def list_requests(plan: Plan) -> list[CodeRequest]:
    """What the plan's code means for each client."""
    code = plan.code
    if code is None:
        return []
    return [
        CodeRequest(
            rows=int(code.rows[client]),
            noise=code.noise,
            subsets=subset_count(plan.sampling),
            per_subset=code.per_subset,
            load=int(plan.loads[client]),
            processed_weight=None
            if code.processed_weight is None
            else float(code.processed_weight[client]),
            content=code.content,
        )
        for client in range(plan.shape.clients)
    ]


def encode_part(
    store: RowStore, owner: int, request: CodeRequest, part: int | None, *, seed: int, client: int
) -> tuple[Matrix, Matrix]:
    """Code one owner's rows as ``client`` does, whose private streams come from ``seed``."""
    rows = _rows_of(store, owner, part)
    row_weights = None
    if request.processed_weight is not None:
        processed = store.place[rows] < request.load
        row_weights = np.where(processed, request.processed_weight, 1.0)
    return encode(
        store.features[rows],
        store.targets[rows],
        request.rows,
        code=stream(seed, Purpose.CODE, client, *_turn(part)),
        noise=stream(seed, Purpose.NOISE, client, *_turn(part)),
        amount=request.noise,
        row_weights=row_weights,
    )


def _encode_clients(
    store: RowStore, plan: Plan, code: Code, seed: int, part: int | None
) -> list[tuple[Matrix, Matrix]]:
    """One block of everybody, or one per client, in the order of clients."""
    blocks: list[tuple[Matrix, Matrix]] = []
    for client, request in enumerate(list_requests(plan)):
        features, targets = encode_part(store, client, request, part, seed=seed, client=client)
        if code.layout == "summed" and blocks:
            blocks[0][0][...] += features
            blocks[0][1][...] += targets
        else:
            blocks.append((features, targets))
    return blocks


def _draw_sum(
    store: RowStore,
    plan: Plan,
    code: Code,
    seed: int,
    *,
    part: int | None,
    moments: Callable[[], Moments] | None,
) -> tuple[Matrix, Matrix]:
    rows = slice(0, len(store.features)) if part is None else store.piece(part)
    weights = _weights(store, plan, code, rows)
    if moments is not None and weights is None and part is None:
        products = moments()
    else:
        products = measure_moments(store.features[rows], store.targets[rows], weights)
    return draw_summed_code(
        products,
        int(code.rows[0]),
        clients=plan.shape.clients,
        code=stream(seed, Purpose.CODE, plan.shape.clients, *_turn(part)),
        noise=stream(seed, Purpose.NOISE, plan.shape.clients, *_turn(part)),
        amount=code.noise,
        dtype=store.features.dtype,
    )


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
