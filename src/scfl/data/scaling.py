"""Scaling columns by statistics that each client computes on its own rows and sends once.

Count, mean, sum of squared deviations, least and largest value per column are combined client by
client (Chan, Golub and LeVeque, 1983), so the result is that of all rows together and no row is
ever pooled. Missing values (NaN) count in none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.parameter import Requirements
from scfl.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """How to scale the first ``columns`` columns (all by default), and what fills gaps in them.

    ``"standard"`` gives mean 0 and variance 1, ``"range"`` the interval from -1 to 1, which is what
    the paper's privacy formula assumes. Rows to test on may lie outside it.
    """

    kind: Literal["standard", "range", "none"] = "standard"
    missing: Literal["refuse", "mean", "zero"] = "refuse"
    columns: int | None = None

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.choice("kind", self.kind, ("standard", "range", "none"))
            require.choice("missing", self.missing, ("refuse", "mean", "zero"))
            if self.columns is not None:
                require.count("columns", self.columns)


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one client sends of its rows, or what several came to; one number per column."""

    count: NDArray[np.int64]
    mean: Floats
    spread: Floats
    least: Floats
    largest: Floats


@dataclass(frozen=True, eq=False)
class FittedScaling:
    """x -> (x - centre) / scale for the first columns; a gap becomes ``fill`` before that."""

    centre: Floats
    scale: Floats
    fill: Floats

    def transform(self, rows: NDArray[Any]) -> NDArray[Any]:
        scaled: NDArray[Any] = np.array(rows, dtype=np.float64)
        part = scaled[:, : len(self.centre)]
        part[:] = np.where(np.isnan(part), self.fill, part)
        part -= self.centre
        part /= self.scale
        return scaled


def summarise(rows: NDArray[Any]) -> Statistics:
    """A client's own statistics."""
    rows = rows.astype(np.float64)
    known = ~np.isnan(rows)
    count = known.sum(axis=0)
    mean = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(count, 1)
    return Statistics(
        count=count,
        mean=mean,
        spread=np.square(np.where(known, rows - mean, 0.0)).sum(axis=0),
        least=np.where(known, rows, np.inf).min(axis=0, initial=np.inf),
        largest=np.where(known, rows, -np.inf).max(axis=0, initial=-np.inf),
    )


def combine(parts: Sequence[Statistics]) -> Statistics:
    """The statistics of all rows from those of each client, added up in client order."""
    return reduce(_add, parts)


def _add(one: Statistics, other: Statistics) -> Statistics:
    count = one.count + other.count
    share = other.count / np.maximum(count, 1)
    shift = other.mean - one.mean
    return Statistics(
        count=count,
        mean=one.mean + shift * share,
        spread=one.spread + other.spread + np.square(shift) * one.count * share,
        least=np.minimum(one.least, other.least),
        largest=np.maximum(one.largest, other.largest),
    )


def fit_scaling(scaling: Scaling, clients: Sequence[NDArray[Any]]) -> FittedScaling:
    """Let each client summarise its rows, and scale by what that comes to."""
    width = clients[0].shape[1] if scaling.columns is None else scaling.columns
    known = combine([summarise(rows[:, :width]) for rows in clients])
    empty = np.flatnonzero(known.count == 0)
    if empty.size:
        raise DataError(
            f"column {empty[0]} has no value in any training row; leave it out of the columns"
        )
    centre, scale = np.zeros(width), np.ones(width)
    if scaling.kind == "standard":
        centre, scale = known.mean, np.sqrt(known.spread / known.count)
    elif scaling.kind == "range":
        centre, scale = (known.least + known.largest) / 2, (known.largest - known.least) / 2
    # A column that never changes says nothing; it becomes 0 and not a division by 0.
    never_changes = scale <= 1e-12 * np.maximum(np.abs(known.largest), np.abs(known.least))
    fill = known.mean if scaling.missing == "mean" else np.zeros(width)
    return FittedScaling(centre, np.where(never_changes, 1.0, scale), fill)
