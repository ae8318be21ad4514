"""The exact variance of what a round adds up, at a fixed model W.

A coded row is [x~ y~] with covariance [X Y]^T [X Y] + s I, where s is the variance of the noise in
it: n sigma^2 when n clients' codes are summed, sigma^2 in one client's own block. With R = XW - Y
and C = grad f + s W, the mean of x~^T (x~ W - y~) is C and its variance

    v = (||X||^2 + d s) (||R||^2 + s ||W||^2) + ||C||^2

by Isserlis' theorem (with noise on the labels, s o is added to the second factor). b rows of a
fresh code have variance v / b. Rows that take part by coins of their own, b of c on average, add
||C||^2 (1/b - 1/c), because their number varies.

**The code is drawn once**, so v / c of it is the same error in every round: it never averages out.
Only what the sampling adds, v (1/b - 1/c), is fresh each time.

For the clients' half, with p the arrival probabilities and g_i client i's scaled gradient,

    sum_i [ E ||g_i||^2 / p_i - ||grad f_i||^2 ]     plus, over common subsets, how much they differ
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.sampling import Bernoulli, RowStore, Sampling, subset_count

Matrix = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CodedVariance:
    """The variance of a coded gradient over fresh codes, in its two parts.

    ``lasting`` is the code's own: one draw serves all rounds. ``fresh`` is that of each round's
    choice of rows.
    """

    lasting: float
    fresh: float

    @property
    def total(self) -> float:
        return self.lasting + self.fresh


def measure_coded_variance(
    features: Matrix,
    targets: Matrix,
    model: Matrix,
    *,
    coded_rows: int,
    sampled_rows: int | None = None,
    noise_variance: float = 0.0,
    label_noise: bool = False,
    coins: bool = False,
) -> CodedVariance:
    """The variance of one block's normalised gradient, from the rows that it codes.

    ``noise_variance`` is that of one coded entry: n sigma^2 for a sum of n codes, else sigma^2.
    Rows that enter the code with weights are given weighted. ``coins`` is Bernoulli sampling.
    """
    rows, targets, model = (part.astype(np.float64) for part in (features, targets, model))
    residual = rows @ model - targets
    slope = rows.T @ residual + noise_variance * model
    second = np.square(residual).sum() + noise_variance * np.square(model).sum()
    if label_noise:
        second += noise_variance * targets.shape[1]
    first = np.square(rows).sum() + rows.shape[1] * noise_variance
    squared = np.square(slope).sum()
    more = 1 / (sampled_rows or coded_rows) - 1 / coded_rows
    spread = float(first * second + squared)
    return CodedVariance(spread / coded_rows, (spread + coins * float(squared)) * more)


def add_blocks(blocks: Sequence[CodedVariance]) -> CodedVariance:
    """The stacked layout: the clients' codes are independent, and so are their sampled rows."""
    return CodedVariance(
        sum(block.lasting for block in blocks), sum(block.fresh for block in blocks)
    )


def measure_client_variance(
    store: RowStore, sampling: Sampling, loads: Ints, probability: Floats, model: Matrix
) -> float:
    """The variance of sum_i 1{arrived} g_i / p_i, over arrivals, subsets, windows and coins.

    Clients whose load is 0 are never asked: the sum is then around the gradient of the others.
    """
    model = model.astype(np.float64)
    count = subset_count(sampling)
    sums, squares = [], 0.0
    for subset in range(count):
        mean = np.zeros_like(model)
        for client in np.flatnonzero(loads > 0).tolist():
            rows = store.piece(subset)
            own = store.owner[rows] == client
            part = store.features[rows][own].astype(np.float64)
            residual = part @ model - store.targets[rows][own]
            one, second = _moments_of_batch(part, residual, int(loads[client]), sampling)
            squares += second * count / probability[client] - float(np.square(one).sum()) * count
            mean += one
        sums.append(count * mean)
    across = np.square(np.array(sums)).sum(axis=(1, 2)).mean()
    return float(across + squares - np.square(np.mean(sums, axis=0)).sum())


def _moments_of_batch(
    rows: Matrix, residual: Matrix, load: int, sampling: Sampling
) -> tuple[Matrix, float]:
    """The mean of a client's gradient over its draws of rows, and the mean of its square."""
    length, whole = len(rows), rows.T @ residual
    taken = min(load, length)
    if taken == 0:
        return whole, 0.0
    if isinstance(sampling, Bernoulli):
        each = (np.square(rows).sum(axis=1) * np.square(residual).sum(axis=1)).sum()
        return whole, float(np.square(whole).sum() + (length - taken) / taken * each)
    if sampling.fixed:
        part = rows[:taken].T @ residual[:taken]
        return part, float(np.square(part).sum())
    if taken == length:
        return whole, float(np.square(whole).sum())
    # Every window of so many neighbours, around the end, is equally likely.
    window, second = rows[:taken].T @ residual[:taken], 0.0
    for start in range(length):
        second += float(np.square(window).sum())
        after = (start + taken) % length
        window += np.outer(rows[after], residual[after]) - np.outer(rows[start], residual[start])
    return whole, second / length * (length / taken) ** 2
