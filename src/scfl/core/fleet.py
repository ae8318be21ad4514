"""A fleet: how fast each client computes and sends, by which law its delays vary, who is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scfl.core.availability import Always, Availability
from scfl.core.delay import DelayLaw, WirelessEdge, Work
from scfl.core.parameter import Requirements
from scfl.core.randomness import Purpose, stream
from scfl.errors import ParameterError, Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BITS_PER_NUMBER = 32


@dataclass(frozen=True, eq=False)
class Shape:
    """What a server knows of a problem without seeing a row: who holds how many, and how wide."""

    client_rows: Ints
    features: int
    outputs: int

    @property
    def clients(self) -> int:
        return len(self.client_rows)

    @property
    def rows(self) -> int:
        return int(self.client_rows.sum())


@dataclass(frozen=True, eq=False)
class Fleet:
    """The machines: one compute rate and one uplink per client, one server, one broadcast.

    ``macs_per_row`` and ``payload_bits`` fix what one row and one message cost; when they are
    None they follow from the problem: ``2 d o`` multiply-accumulates and ``32 d o`` bits, the
    latter times ``header`` (1.1 means 10% of protocol overhead).
    """

    macs_per_s: Floats
    uplink_bps: Floats
    downlink_bps: float
    server_macs_per_s: float
    law: DelayLaw = field(default_factory=WirelessEdge)
    header: float = 1.1
    macs_per_row: float | None = None
    payload_bits: float | None = None
    names: Sequence[str] = ()
    availability: Availability = field(default_factory=Always)

    def __post_init__(self) -> None:
        macs = _copy_rates("macs_per_s", self.macs_per_s)
        uplinks = _copy_rates("uplink_bps", self.uplink_bps)
        object.__setattr__(self, "macs_per_s", macs)
        object.__setattr__(self, "uplink_bps", uplinks)
        names = tuple(self.names) or tuple(f"client {index}" for index in range(macs.size))
        object.__setattr__(self, "names", names)
        with Requirements() as require:
            for name, rates in (("macs_per_s", macs), ("uplink_bps", uplinks)):
                bad = np.flatnonzero(~(np.isfinite(rates) & (rates > 0)))
                if bad.size:
                    require.that(
                        False,
                        name,
                        f"client {bad[0]} has {rates[bad[0]]:g}; rates must be finite and above 0",
                    )
            require.that(
                macs.shape == uplinks.shape,
                "uplink_bps",
                f"{uplinks.size} uplinks for {macs.size} compute rates; give one per client",
            )
            require.that(
                len(names) == macs.size,
                "names",
                f"{len(names)} names for {macs.size} clients; give one per client or none",
            )
            require.number("downlink_bps", self.downlink_bps, above=0)
            require.number("server_macs_per_s", self.server_macs_per_s, above=0)
            require.number("header", self.header, at_least=1)
            if self.macs_per_row is not None:
                require.number("macs_per_row", self.macs_per_row, above=0)
            if self.payload_bits is not None:
                require.number("payload_bits", self.payload_bits, above=0)
        # Drawing once runs the checks that need to know how many clients there are.
        self.availability.draw(macs.size, 0)

    def __len__(self) -> int:
        return len(self.macs_per_s)

    def row_macs(self, shape: Shape) -> float:
        """Multiply-accumulates that one row of a gradient takes."""
        if self.macs_per_row is not None:
            return self.macs_per_row
        return 2.0 * shape.features * shape.outputs

    def message_bits(self, shape: Shape) -> float:
        """Bits of one model or one gradient on the air, headers included."""
        if self.payload_bits is not None:
            return self.payload_bits
        return BITS_PER_NUMBER * shape.features * shape.outputs * self.header

    def work(self, shape: Shape, loads: Ints | Floats) -> Work:
        """The seconds that each part of a round takes each client when nothing goes wrong."""
        bits = self.message_bits(shape)
        return Work(
            compute_s=np.asarray(loads, dtype=np.float64) * self.row_macs(shape) / self.macs_per_s,
            upload_s=bits / self.uplink_bps,
            download_s=bits / self.downlink_bps,
        )

    def server_seconds(self, shape: Shape, rows: int) -> float:
        """Seconds that the server needs for the gradient of so many coded rows."""
        return rows * self.row_macs(shape) / self.server_macs_per_s

    def server_capacity(self, shape: Shape, seconds: float) -> int:
        """Coded rows whose gradient the server finishes in so many seconds."""
        # A relative hair against rounding: seconds that were computed from rows give them back.
        return int(seconds * self.server_macs_per_s / self.row_macs(shape) * (1 + 1e-12))

    def compute_seconds(self, macs: Floats) -> Floats:
        """Seconds that each client needs for so many multiply-accumulates."""
        return macs / self.macs_per_s

    def bulk_bits(self, numbers: Floats) -> Floats:
        """Bits on the air for so many numbers, headers included, first transmissions only."""
        return numbers * BITS_PER_NUMBER * self.header

    def bulk_seconds(self, numbers: Floats) -> Floats:
        """Expected seconds of a large upload: many small packets, each sent until it arrives."""
        return self.bulk_bits(numbers) / self.uplink_bps * self.law.transmissions_per_packet


def wireless_edge(
    clients: int = 20,
    *,
    random_state: int = 0,
    uplink_bps: tuple[float, float] = (0.3e6, 1.0e6),
    macs_per_s: tuple[float, float] = (0.1 * 1_536e3, 1_536e3),
    downlink_bps: float = 1.0e6,
    server_macs_per_s: float = 15_360e3,
    erasure: float = 0.1,
    law: DelayLaw | None = None,
    header: float = 1.1,
    macs_per_row: float | None = None,
    payload_bits: float | None = None,
    availability: Availability | None = None,
) -> Fleet:
    """Draw the wireless edge of the paper's section V: uniform uplinks and compute rates.

    ``random_state`` means one fleet for good: uplinks are drawn first, compute rates second.
    ``law`` replaces the paper's delay law; ``erasure`` belongs to the paper's.
    """
    with Requirements() as require:
        require.count("clients", clients, at_least=1)
        require.count("random_state", random_state)
        for name, bounds in (("uplink_bps", uplink_bps), ("macs_per_s", macs_per_s)):
            require.that(
                _is_range(bounds),
                name,
                f"{bounds!r} is not a range; give [low, high] with 0 < low <= high",
            )
        require.number("erasure", erasure, at_least=0, below=1)
    rng = stream(random_state, Purpose.FLEET)
    uplinks = rng.uniform(*uplink_bps, clients)
    return Fleet(
        macs_per_s=rng.uniform(*macs_per_s, clients),
        uplink_bps=uplinks,
        downlink_bps=downlink_bps,
        server_macs_per_s=server_macs_per_s,
        law=WirelessEdge(erasure=erasure) if law is None else law,
        header=header,
        macs_per_row=macs_per_row,
        payload_bits=payload_bits,
        availability=Always() if availability is None else availability,
    )


def _copy_rates(name: str, rates: ArrayLike) -> Floats:
    """One number per client, out of the caller's reach."""
    try:
        copied = np.array(rates, dtype=np.float64, ndmin=1)
    except (TypeError, ValueError):
        copied = np.empty(0)
    if copied.ndim != 1 or not copied.size:
        raise ParameterError([Problem(name, f"{rates!r} is not a list of one number per client")])
    copied.flags.writeable = False
    return copied


def _is_range(bounds: object) -> bool:
    return (
        isinstance(bounds, (tuple, list))
        and len(bounds) == 2
        and all(isinstance(bound, (int, float)) for bound in bounds)
        and 0 < bounds[0] <= bounds[1] < np.inf
    )


def check_fits(fleet: Fleet, shape: Shape) -> None:
    """Refuse a fleet whose number of clients is not the problem's."""
    if len(fleet) != shape.clients:
        raise ParameterError(
            [
                Problem(
                    "fleet",
                    f"{len(fleet)} clients, but the problem has {shape.clients}; "
                    "give one machine per client",
                )
            ]
        )
