"""Who took part, as it was measured: bytes that were sent, delays that passed, answers refused.

Rounds have one entry per client that was known at the time; clients who came later were not asked
before. ``finish`` makes the ledger that the simulator leaves behind too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.runtime.network.training import ClosedRound
from scfl.runtime.result import ABSENT, ARRIVED, LATE, NOT_ASKED

Floats = NDArray[np.float64]
_TOTALS: tuple[int | str, ...] = (ARRIVED, LATE, ABSENT, "bytes_up", "bytes_down")
_COLUMNS = ("status", "delay_s", "weight", "bytes_up", "bytes_down")


@dataclass(frozen=True, eq=False)
class MeasuredLedger:
    """Every array is rounds by clients, ``closed_s`` one entry per round since training began."""

    status: NDArray[np.int8]
    delay_s: NDArray[np.float32]
    weight: NDArray[np.float32]
    bytes_up: Floats
    bytes_down: Floats
    closed_s: Floats

    @property
    def weight_given(self) -> NDArray[np.float32]:
        return np.where(self.status == ARRIVED, self.weight, 0)

    @property
    def weight_lost(self) -> NDArray[np.float32]:
        missed = (self.status == LATE) | (self.status == ABSENT)
        return np.where(missed, self.weight, 0)


@dataclass(eq=False)
class LedgerBook:
    """The ledger while it is written."""

    rows: list[dict[str, Floats]] = field(default_factory=list)
    closed_s: list[float] = field(default_factory=list)
    opened_at: list[float] = field(default_factory=list)
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    _added: int = 0
    _totals: dict[int | str, Floats] = field(default_factory=dict)

    def write(
        self, closed: ClosedRound, members: list[int], message_bytes: float, closed_s: float
    ) -> None:
        """Note a round of the members, who are given by their numbers."""
        known = max(members) + 1
        status = np.where(closed.arrived, ARRIVED, np.where(closed.asked, LATE, ABSENT))
        status = np.where(closed.gone, ABSENT, status)
        answered = np.isfinite(closed.delays)
        answered[list(closed.refused)] = True
        row = {name: np.zeros(known) for name in _COLUMNS}
        row["status"][:] = NOT_ASKED
        row["delay_s"][:] = np.nan
        row["status"][members] = status
        row["delay_s"][members] = closed.delays
        row["weight"][members] = closed.weights
        row["bytes_up"][members] = np.where(answered, message_bytes, 0)
        row["bytes_down"][members] = np.where(closed.asked, message_bytes, 0)
        self.rows.append(row)
        self.closed_s.append(closed_s)
        self.opened_at.append(closed.opened_at)

    def note_late(self, number: int, client: int, at: float, message_bytes: float) -> None:
        """An answer to a round that is over: it says how long it took, and its bytes were sent."""
        if 0 <= number < len(self.rows) and client < len(self.rows[number]["status"]):
            row = self.rows[number]
            if row["status"][client] == LATE and np.isnan(row["delay_s"][client]):
                row["delay_s"][client] = at - self.opened_at[number]
                row["bytes_up"][client] += message_bytes
                if number < self._added:
                    self._grow("bytes_up", client + 1)[client] += message_bytes

    def totals(self, clients: int) -> dict[int | str, Floats]:
        """How often each client had each status, and its bytes, from the rounds noted so far."""
        for row in self.rows[self._added :]:
            for status in (ARRIVED, LATE, ABSENT):
                self._grow(status, clients)[: len(row["status"])] += row["status"] == status
            for name in ("bytes_up", "bytes_down"):
                self._grow(name, clients)[: len(row[name])] += row[name]
        self._added = len(self.rows)
        return {key: self._grow(key, clients) for key in _TOTALS}

    def _grow(self, key: int | str, clients: int) -> Floats:
        known = self._totals.get(key, np.zeros(0))
        if len(known) < clients:
            known = np.concatenate([known, np.zeros(clients - len(known))])
            self._totals[key] = known
        return known

    def table(self, clients: int) -> dict[str, Floats]:
        """One array of rounds by clients per column."""
        columns = {name: np.zeros((len(self.rows), clients)) for name in _COLUMNS}
        columns["status"][:] = NOT_ASKED
        columns["delay_s"][:] = np.nan
        for number, row in enumerate(self.rows):
            for name, values in row.items():
                columns[name][number, : len(values)] = values
        return columns

    def restore(self, columns: dict[str, Floats], closed_s: Floats) -> None:
        """Go on with what a checkpoint kept; its rounds opened on another clock."""
        self.rows = [
            {name: columns[name][number] for name in _COLUMNS} for number in range(len(closed_s))
        ]
        self.closed_s = closed_s.tolist()
        self.opened_at = [np.nan] * len(closed_s)

    def finish(self, clients: int) -> MeasuredLedger:
        columns: dict[str, Any] = self.table(clients)
        return MeasuredLedger(
            status=columns["status"].astype(np.int8),
            delay_s=columns["delay_s"].astype(np.float32),
            weight=columns["weight"].astype(np.float32),
            bytes_up=columns["bytes_up"],
            bytes_down=columns["bytes_down"],
            closed_s=np.array(self.closed_s),
        )
