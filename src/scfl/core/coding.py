"""Coded data: what a client uploads once, and what the server makes of everybody's.

A client with rows X (l x d) and targets Y (l x o) sends ``c`` random combinations of them,

    X~ = G D X + sigma N,      Y~ = G D Y  (+ sigma N' when labels are noised too),

with G (c x l), N, N' standard normal and private, and D = diag(row weights), the identity in SCFL.
The server adds the clients' codes up (``summed``) or keeps them apart (``stacked``).

======== ================= ==========================================
here     symbol            meaning
======== ================= ==========================================
rows     c                 coded rows per client
sigma    sigma             noise on each coded entry
weights  D                 how strongly each row enters the code
======== ================= ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.moments import Moments
from scfl.core.parameter import Requirements
from scfl.core.sampling import RowStore

Matrix = NDArray[Any]

# Normal numbers drawn at a time: 4 MB in float32, however many rows are coded.
_BLOCK_NUMBERS = 1_000_000
_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class Noise:
    """The noise that a client adds to its code: on the features, and on the labels if asked."""

    sigma: float = 0.0
    labels: bool = False

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.number("sigma", self.sigma, at_least=0)
            require.that(
                isinstance(self.labels, bool), "labels", f"{self.labels!r} is not true or false"
            )


def as_noise(noise: Noise | float) -> Noise:
    """A bare number is noise on the features only."""
    return noise if isinstance(noise, Noise) else Noise(noise)


@dataclass(frozen=True, eq=False)
class CodedData:
    """What the server holds: coded rows in blocks, stored like clients' rows.

    The owners of the store are the blocks: everybody's sum, or one block per client. A method
    that codes each subset of the rows separately has one such set of blocks per subset.
    ``shortcut`` says that a simulator drew the sum from its distribution.
    """

    store: RowStore
    shortcut: bool = False

    @property
    def blocks(self) -> int:
        return int(self.store.lengths.shape[1])

    @property
    def rows(self) -> int:
        return len(self.store.features)


def encode(
    features: Matrix,
    targets: Matrix,
    rows: int,
    *,
    code: np.random.Generator,
    noise: np.random.Generator,
    amount: Noise = Noise(),
    row_weights: NDArray[Any] | None = None,
) -> tuple[Matrix, Matrix]:
    """Code one client's rows, drawing the code in blocks so that memory stays a few MB.

    ``code`` and ``noise`` are the client's private generators. The output has the dtype of the
    input, float32 or float64.
    """
    length, width = features.shape
    dtype = features.dtype
    coded_features = np.zeros((rows, width), dtype=dtype)
    coded_targets = np.zeros((rows, targets.shape[1]), dtype=dtype)
    chunk = max(1, min(length, _CHUNK_ROWS))
    size = max(1, _BLOCK_NUMBERS // max(chunk, width))
    for start in range(0, rows, size):
        block = slice(start, min(start + size, rows))
        for first in range(0, length, chunk):
            some = slice(first, min(first + chunk, length))
            mix = _normal(code, (block.stop - block.start, some.stop - some.start), dtype)
            if row_weights is not None:
                mix *= row_weights[some].astype(dtype)
            coded_features[block] += mix @ features[some]
            coded_targets[block] += mix @ targets[some]
        _add_noise(coded_features[block], coded_targets[block], amount, noise)
    return coded_features, coded_targets


def draw_summed_code(
    moments: Moments,
    rows: int,
    *,
    clients: int,
    code: np.random.Generator,
    noise: np.random.Generator,
    amount: Noise = Noise(),
    dtype: Any = np.float32,
) -> tuple[Matrix, Matrix]:
    """Draw the sum of all clients' codes straight from its distribution.

    Rows of sum_i G_i D_i [X_i Y_i] are independent N(0, A^T D^2 A), so one factor of that matrix,
    the ``moments`` of the weighted rows, gives any number of codes without coding a row. Only a
    simulator can do this: it sees all data.
    """
    factor, outputs = moments.factor.astype(dtype), moments.outputs
    coded = np.empty((rows, factor.shape[1]), dtype=dtype)
    size = max(1, _BLOCK_NUMBERS // factor.shape[0])
    for start in range(0, rows, size):
        stop = min(start + size, rows)
        coded[start:stop] = _normal(code, (stop - start, factor.shape[0]), dtype) @ factor
    coded_features = np.ascontiguousarray(coded[:, :-outputs])
    coded_targets = np.ascontiguousarray(coded[:, -outputs:])
    together = Noise(amount.sigma * clients**0.5, amount.labels)
    _add_noise(coded_features, coded_targets, together, noise)
    return coded_features, coded_targets


def _add_noise(
    features: Matrix, targets: Matrix, amount: Noise, generator: np.random.Generator
) -> None:
    if amount.sigma == 0:
        return
    for part in (features, targets) if amount.labels else (features,):
        part += amount.sigma * _normal(generator, part.shape, part.dtype)


def _normal(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Matrix:
    return generator.standard_normal(shape, dtype=np.dtype(dtype).type)
