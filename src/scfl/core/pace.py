"""The pace of clients: what a row and a message take each, as plain arrays that can be cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scfl.core.delay import Work
from scfl.core.fleet import Fleet, Shape

Floats = NDArray[np.float64]
Which = NDArray[np.intp] | slice


@dataclass(frozen=True, eq=False)
class Pace:
    """A fleet and a shape, reduced to what delays depend on."""

    row_macs: float
    macs_per_s: Floats
    upload_s: Floats
    download_s: float

    def __len__(self) -> int:
        return len(self.macs_per_s)

    @property
    def rows_per_s(self) -> Floats:
        """mu: what each client computes when nothing else takes its time."""
        return self.macs_per_s / self.row_macs

    def some(self, which: Which) -> Pace:
        """Cut down to some of the clients: an allocation looks again only where it has to."""
        return Pace(self.row_macs, self.macs_per_s[which], self.upload_s[which], self.download_s)

    def work(self, loads: Floats) -> Work:
        """As ``Fleet.work``, to the last bit: deadlines are compared with sums of these."""
        return Work(loads * self.row_macs / self.macs_per_s, self.upload_s, self.download_s)


def pace_of(shape: Shape, fleet: Fleet) -> Pace:
    """Read the pace of every client off a fleet."""
    work = fleet.work(shape, np.zeros(len(fleet)))
    return Pace(fleet.row_macs(shape), fleet.macs_per_s, work.upload_s, work.download_s)
