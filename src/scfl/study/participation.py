"""The participation ledger of one run, added up: per client, and per client and bin of rounds.

Ledgers have a row per round and client, so they are read in pieces and what is kept does not grow
with the rounds: totals per client, and a picture's worth of status counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scfl.errors import OutputError
from scfl.study.records import ABSENT, ARRIVED, LATE, STATUSES, Run, scan_ledger

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Bins of rounds: more than a picture has pixels for is of no use.
_MOST_BINS = 400
# Counts that are kept at most, over clients, bins and statuses: 64 MB.
_MOST_COUNTS = 8_000_000


@dataclass(frozen=True, eq=False)
class Participation:
    """Who took part in one run. Arrays have one entry per client unless said otherwise.

    ``counts`` is clients by bins by statuses (in the order of ``STATUSES``); bin k covers the
    rounds from ``first_round[k]`` to just below ``first_round[k + 1]``.
    """

    run: Run
    rounds: int
    counts: NDArray[np.int64]
    first_round: Ints
    status_rounds: NDArray[np.int64]
    mean_delay_s: Floats
    weight: Floats
    weight_lost: Floats
    bytes_up: Floats
    bytes_down: Floats
    round_s: float | None

    @property
    def clients(self) -> int:
        return len(self.weight)

    @property
    def asked(self) -> NDArray[np.int64]:
        """In how many rounds each client was asked."""
        total: NDArray[np.int64] = self.status_rounds[:, [ARRIVED, LATE, ABSENT]].sum(axis=1)
        return total

    @property
    def share_arrived(self) -> Floats:
        """Of the rounds that each client was asked in; NaN if it never was."""
        with np.errstate(invalid="ignore"):
            share: Floats = self.status_rounds[:, ARRIVED] / self.asked
        return share

    @property
    def share_lost(self) -> float:
        """The part of all weight that was lost; NaN when there was none to give."""
        whole = float(self.weight.sum() + self.weight_lost.sum())
        return float(self.weight_lost.sum()) / whole if whole > 0 else math.nan


def add_up_ledger(run: Run, clients: int) -> Participation:
    """Read a run's ledger once, in pieces, and add it up."""
    rounds = run.rounds
    bins = max(1, min(rounds, _MOST_BINS, _MOST_COUNTS // (clients * len(STATUSES))))
    first_round = 1 + np.arange(bins + 1) * rounds // bins
    shape = (clients, bins, len(STATUSES))
    counts = np.zeros(shape, dtype=np.int64)
    delays, answers, given, lost, up, down = np.zeros((6, clients))
    closed = np.full(rounds + 1, np.nan)
    closed[0] = 0.0
    for piece in scan_ledger(run):
        if piece.round.size and not (
            1 <= piece.round.min()
            and piece.round.max() <= rounds
            and 0 <= piece.client.min()
            and piece.client.max() < clients
        ):
            raise OutputError(
                f"{run.folder / 'ledger.parquet'} has rounds or clients that its run does not "
                "have; run the study again"
            )
        place = np.searchsorted(first_round, piece.round, side="right") - 1
        flat = np.ravel_multi_index((piece.client, place, piece.status), shape)
        counts += np.bincount(flat, minlength=counts.size).reshape(shape)
        answered = np.isfinite(piece.delay_s)
        delays += _per_client(piece.client, np.where(answered, piece.delay_s, 0.0), clients)
        answers += _per_client(piece.client, answered, clients)
        given += _per_client(piece.client, piece.weight, clients)
        lost += _per_client(piece.client, piece.weight_lost, clients)
        up += _per_client(piece.client, piece.bytes_up, clients)
        down += _per_client(piece.client, piece.bytes_down, clients)
        closed[piece.round] = piece.closed_s
    lengths = np.diff(closed)
    lengths = lengths[np.isfinite(lengths)]
    with np.errstate(invalid="ignore"):
        mean_delay_s = delays / answers
    return Participation(
        run=run,
        rounds=rounds,
        counts=counts,
        first_round=first_round,
        status_rounds=counts.sum(axis=1),
        mean_delay_s=mean_delay_s,
        weight=given,
        weight_lost=lost,
        bytes_up=up,
        bytes_down=down,
        round_s=float(np.median(lengths)) if lengths.size else None,
    )


def order_by_speed(several: Sequence[Participation]) -> Ints:
    """The clients from fastest to slowest by mean delay, one order for several methods.

    Methods ask for different amounts of work, so delays count relative to the method's median:
    who is far behind in one method, where slow clients are not spared work, is slow. Clients that
    never answered come last.
    """
    relative = np.full((len(several), several[0].clients), np.nan)
    for row, one in enumerate(several):
        heard = np.isfinite(one.mean_delay_s)
        if heard.any():
            relative[row, heard] = one.mean_delay_s[heard] / np.median(one.mean_delay_s[heard])
    known = np.isfinite(relative)
    mean = np.where(known, relative, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    mean = np.where(known.any(axis=0), mean, np.inf)
    return np.argsort(mean, kind="stable").astype(np.int64)


def _per_client(client: Ints, values: Floats | NDArray[np.bool_], clients: int) -> Floats:
    weights = values.astype(np.float64, copy=False)
    return np.bincount(client, weights=weights, minlength=clients).astype(np.float64, copy=False)
