"""Who the clients are: what each one holds, how fast it is, and how far it has come.

A client is known by its name from the first time it describes itself; the lane vouches for the
connection that it speaks through. A name has one connection at a time, and whoever comes back under
it has to hold what it held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from scfl.core.delay import WirelessEdge
from scfl.core.fleet import Fleet, Shape
from scfl.core.parameter import suggest
from scfl.errors import ParameterError, Problem
from scfl.methods.protocol import Method
from scfl.runtime.network.upload import Upload
from scfl.runtime.network.wire import Described, Echo, Prepared, Probe

Stage = Literal["described", "preparing", "probing", "measured", "uploading", "ready", "out"]

# What a client says decides what the server allocates: coins row by row, and models.
_MOST_ROWS, _MOST_COINS = 10**12, 10**7
_MOST_ENTRIES = 7_500_000
_LONGEST_NAME = 80
_PROBE_BYTES = (64_000, 1_000_000)
# A link cannot be told to be faster than the clock can see.
_SHORTEST_S = 1e-4


@dataclass(eq=False)
class Client:
    """One client. ``number`` is its place in the fleet, once there is one."""

    name: str
    rows: int
    columns: list[str]
    labels: list[Any] | None
    key: str | None
    stage: Stage = "described"
    number: int | None = None
    features: int = 0
    outputs: int = 0
    macs_per_s: float = 0.0
    energy: float = 0.0
    largest: float = 0.0
    probe_sent_at: float = 0.0
    probe_seconds: list[float] = field(default_factory=list)
    probe_bytes: int = 0
    probe_reply: int = 0
    upload: Upload | None = None
    upload_began_at: float = 0.0
    encoding_s: float = 0.0
    upload_s: float = 0.0
    refused: int = 0
    reason: str = ""

    @property
    def here(self) -> bool:
        return self.key is not None

    def is_same(self, other: Described) -> bool:
        """Whether somebody who came back holds what this client held."""
        return self.rows == other.rows and self.columns == other.columns

    @property
    def download_s(self) -> float:
        """Seconds that a probe takes down; half of an empty round trip is the answer's."""
        return max(self.probe_seconds[1] - self.probe_seconds[0] / 2, _SHORTEST_S)

    @property
    def answer_s(self) -> float:
        """The same, up."""
        return max(self.probe_seconds[2] - self.probe_seconds[0] / 2, _SHORTEST_S)


def refuse_description(described: Described, method: Method) -> str | None:
    """Why a description cannot be used, or None. It comes from outside, so nothing is assumed."""
    coins = getattr(getattr(method, "batches", None), "rule", None) == "bernoulli"
    name = described.name
    if not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
        return f"a name must be 1 to {_LONGEST_NAME} printable characters"
    if not 1 <= described.rows <= (_MOST_COINS if coins else _MOST_ROWS):
        return f"{described.rows} rows cannot be trained on"
    if not described.columns or not all(isinstance(column, str) for column in described.columns):
        return "its columns have no names"
    labels = described.labels
    if labels is not None and not all(isinstance(label, (str, int, float)) for label in labels):
        return "its class labels are neither words nor numbers"
    return None


def refuse_preparation(
    client: Client,
    prepared: Prepared,
    agreed: tuple[int, int] | None,
    preparation: Mapping[str, Any],
) -> str:
    """Why prepared rows do not fit, or an empty sentence."""
    mapping = preparation.get("features")
    features = len(client.columns) if mapping is None else int(mapping["dimensions"])
    features += bool(preparation.get("intercept"))
    own = prepared.features, prepared.outputs
    others = own if agreed is None else agreed
    faults = {
        f"it prepared {prepared.rows} rows of {client.rows}": prepared.rows != client.rows,
        "it has no features or no outputs": min(own) < 1,
        f"it has {own[0]} features, its columns make {features}": own[0] != features,
        f"a model of {own[0]} x {own[1]} fits into no message": own[0] * own[1] > _MOST_ENTRIES,
        f"it has {own[0]} features and {own[1]} outputs, the others {others[0]} and {others[1]}": (
            own != others
        ),
        f"a compute rate of {prepared.macs_per_s}": not (
            np.isfinite(prepared.macs_per_s) and prepared.macs_per_s > 0
        ),
        f"features of energy {prepared.energy} and size {prepared.largest}": not all(
            np.isfinite(told) and told >= 0 for told in (prepared.energy, prepared.largest)
        ),
    }
    return next((sentence for sentence, found in faults.items() if found), "")


def next_probe(client: Client, message_bytes: int, probes: int) -> Probe | None:
    """The next of three questions: nothing either way, much down, much up; or one for both ways."""
    size = client.probe_bytes = min(max(message_bytes, _PROBE_BYTES[0]), _PROBE_BYTES[1])
    asked = [(0, 0), (size, 0), (0, size)] if probes == 3 else [(size, size)]
    number = len(client.probe_seconds)
    if number >= len(asked):
        return None
    down, client.probe_reply = asked[number]
    return Probe(number, client.probe_reply, np.zeros(down, dtype=np.uint8))


def take_echo(client: Client, echo: Echo, at: float, probes: int) -> str | None:
    """Note how long a probe took; say why if it is not the answer that was asked for."""
    if echo.number != len(client.probe_seconds) or echo.array.nbytes != client.probe_reply:
        return f"an answer of {echo.array.nbytes} bytes to probe {echo.number}"
    took = at - client.probe_sent_at
    client.probe_seconds += [took] if probes == 3 else [0.0, took / 2, took / 2]
    return None


def measured_fleet(
    clients: Sequence[Client], *, message_bytes: float, server_macs_per_s: float, erasure: float
) -> Fleet:
    """The fleet that calibration found.

    A fleet has one downlink for all, so what a client's own takes longer than the fastest counts
    with its uplink.
    """
    bits = 8.0 * message_bytes
    scale = np.array([message_bytes / client.probe_bytes for client in clients])
    down = scale * np.array([client.download_s for client in clients])
    up = scale * np.array([client.answer_s for client in clients]) + (down - down.min())
    return Fleet(
        macs_per_s=np.array([client.macs_per_s for client in clients]),
        uplink_bps=bits / up,
        downlink_bps=bits / float(down.min()),
        server_macs_per_s=server_macs_per_s,
        law=WirelessEdge(erasure),
        header=1.0,
        payload_bits=bits,
        names=[client.name for client in clients],
    )


def extend_fleet(fleet: Fleet, client: Client, message_bytes: float) -> Fleet:
    """The same fleet with one client more; nobody else's rates change."""
    bits, scale = 8.0 * message_bytes, message_bytes / client.probe_bytes
    slower = scale * client.download_s - bits / fleet.downlink_bps
    up = scale * client.answer_s + max(slower, 0.0)
    return replace(
        fleet,
        macs_per_s=np.append(fleet.macs_per_s, client.macs_per_s),
        uplink_bps=np.append(fleet.uplink_bps, bits / up),
        names=[*fleet.names, client.name],
    )


def pick_fleet(fleet: Fleet, clients: Sequence[Client]) -> Fleet:
    """The clients' machines out of a fleet that is known."""
    place = {name: number for number, name in enumerate(fleet.names)}
    missing = [client.name for client in clients if client.name not in place]
    if missing:
        raise ParameterError(
            [Problem("fleet", f"{missing[0]!r} is not in it; {suggest(missing[0], place)}")]
        )
    chosen = [place[client.name] for client in clients]
    return replace(
        fleet,
        macs_per_s=fleet.macs_per_s[chosen],
        uplink_bps=fleet.uplink_bps[chosen],
        names=[client.name for client in clients],
    )


def shape_of(clients: Sequence[Client]) -> Shape:
    """The shape of the problem that these clients hold."""
    rows = np.array([client.rows for client in clients], dtype=np.int64)
    return Shape(rows, clients[0].features, clients[0].outputs)


def by_name(client: Client) -> Any:
    """In the order in which people count: client 2 before client 10."""
    digits = "".join(c if c.isdigit() else " " for c in client.name).split()
    return "".join(c for c in client.name if not c.isdigit()), [int(d) for d in digits], client.name
