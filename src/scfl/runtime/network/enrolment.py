"""From a connection to a client that is known, prepared and measured.

    described --(classes are agreed)--> preparing --> probing --> measured

A description is taken from whoever the lane lets in; what it says is checked, and whoever does not
fit is refused in one sentence while the others go on. The columns and the classes are agreed once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scfl.errors import RunError
from scfl.runtime.network.clients import (
    Client,
    by_name,
    next_probe,
    refuse_description,
    refuse_preparation,
    take_echo,
)
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.wire import (
    Describe,
    Described,
    Echo,
    Message,
    Prepare,
    Prepared,
    Refusal,
    Stop,
)

Send = Callable[[str, Message], None]
Tell = Callable[[str], None]


@dataclass(eq=False)
class Enrolment:
    """Everybody who was ever here, by name, and who speaks through which connection."""

    terms: Terms
    send: Send
    tell: Tell
    clients: dict[str, Client] = field(default_factory=dict)
    by_key: dict[str, Client | None] = field(default_factory=dict)
    agreed: bool = False
    columns: list[str] = field(default_factory=list)
    classes: list[Any] | None = None
    width: tuple[int, int] | None = None
    refusals: dict[str, str] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def join(self, key: str) -> None:
        """A connection that the lane vouches for; the same key again replaces the old one."""
        self.leave(key)
        self.by_key[key] = None
        self.send(key, Describe(dict(self.terms.preparation)))

    def leave(self, key: str) -> Client | None:
        """A connection is gone; its client may come back."""
        client = self.by_key.pop(key, None)
        if client is not None:
            client.key = None
            self.tell(f"{client.name} is gone")
        return client

    def refuse(self, key: str, sentence: str) -> None:
        """Send somebody away for good."""
        client = self.by_key.get(key)
        if client is not None:
            client.stage, client.reason = "out", sentence
            sentence = f"{client.name}: {sentence}"
        self.refusals[key] = sentence
        self.tell(f"refused: {sentence}")
        self.send(key, Stop(f"refused: {sentence}"))

    def take(self, key: str, message: Message, at: float) -> bool:
        """Handle what belongs to enrolment; False for what does not."""
        client = self.by_key.get(key)
        match message:
            case Described() if client is None:
                self._describe(key, message)
            case Refusal():
                said = message.sentence[:500]
                self.refuse(key, said if client is None else said.removeprefix(f"{client.name}: "))
            case Prepared() if client is not None and client.stage == "preparing":
                self._prepare(key, client, message, at)
            case Echo() if client is not None and client.stage == "probing":
                why = take_echo(client, message, at, self.terms.probes)
                if why is None:
                    self._probe(key, client, at)
                else:
                    self.refuse(key, why)
            case _:
                return False
        return True

    def gather(self, waited: float) -> list[Client] | None:
        """The clients to begin with, once there are enough; None while others may still come.

        ``waited`` counts from the beginning, and again from when columns and classes were agreed.
        """
        here = [c for c in self.clients.values() if c.here and c.stage != "out"]
        late = waited >= self.terms.enrol_s
        # Who has come and been sent away is not waited for.
        everybody = len(here) + len(self.refusals) >= self.terms.clients
        late = late or (everybody and len(here) < self.terms.enough)
        if not self.agreed:
            if len(here) >= self.terms.clients or (late and len(here) >= self.terms.enough):
                self.agree()
            elif late:
                raise RunError(self._too_few(len(here), "came", waited))
            return None
        measured = [c for c in here if c.stage == "measured"]
        if len(measured) < len(here) and not (late and len(measured) >= self.terms.enough):
            if late:
                raise RunError(self._too_few(len(measured), "got ready", waited))
            return None
        if len(measured) < self.terms.enough:
            raise RunError(self._too_few(len(measured), "could be used", waited))
        return sorted(measured, key=by_name)

    def _too_few(self, count: int, did: str, seconds: float) -> str:
        refused = list(self.refusals.values())
        others = f"; refused: {'; '.join(refused[:3])}" if refused else ""
        return (
            f"{count} of {self.terms.clients} clients {did} within {seconds:.4g} s and "
            f"{self.terms.enough} are needed; start the others, or give enrol_s more time{others}"
        )

    def agree(self) -> None:
        """Settle columns and classes by those who are here; whoever differs is refused by name."""
        here = [c for c in self.clients.values() if c.here and c.stage == "described"]
        common = Counter(tuple(client.columns) for client in here).most_common(1)[0][0]
        self.columns, self.agreed = list(common), True
        classify = sum(client.labels is not None for client in here) * 2 > len(here)
        labels = {label for c in here if c.labels is not None for label in c.labels}
        if classify:
            self.classes = sorted(labels, key=lambda label: (isinstance(label, str), label))
        for client in here:
            self._admit(client)

    def _describe(self, key: str, described: Described) -> None:
        why = refuse_description(described, self.terms.method)
        known = None if why else self.clients.get(described.name)
        before = next((name for name, owner in self.owners.items() if owner == key), None)
        if why is None and before not in {None, described.name}:
            why = f"it was {before!r} before, and a client keeps its name"
        elif known is not None and known.here:
            why = f"the name {known.name!r} is taken by another connection"
        elif self.terms.registered and self.owners.get(described.name, key) != key:
            why = f"the name {described.name!r} belongs to another node"
        elif known is not None and known.stage == "out":
            why = known.reason
        elif known is not None and not known.is_same(described):
            why = f"{known.name} came back with other rows than it had"
        if why is not None:
            self.refuse(key, why)
            return
        if known is None:
            known = Client(described.name, described.rows, described.columns, described.labels, key)
            self.clients[known.name] = known
        known.key, self.by_key[key] = key, known
        self.owners[known.name] = key
        self.tell(f"{known.name} is here with {known.rows} rows")
        if self.agreed:
            self._admit(known)
        else:
            known.stage = "described"

    def _admit(self, client: Client) -> None:
        assert client.key is not None
        why = self._compare(client)
        if why is not None:
            self.refuse(client.key, why)
            return
        client.stage = "preparing"
        self.send(client.key, Prepare(self.classes, len(self.classes or ())))

    def _compare(self, client: Client) -> str | None:
        """Why a client does not fit what was agreed on."""
        if client.columns != self.columns:
            odd = next(
                (a for a, b in zip(client.columns, self.columns, strict=False) if a != b),
                f"{len(client.columns)} columns instead of {len(self.columns)}",
            )
            return f"its columns are not the others': {odd}"
        if (client.labels is None) != (self.classes is None):
            kinds = ("numbers", "class labels")
            own = kinds[client.labels is not None]
            return f"its targets are {own}, the others' {kinds[self.classes is not None]}"
        unknown = [label for label in client.labels or () if label not in (self.classes or ())]
        if unknown:
            return f"its class {unknown[0]!r} was not among the classes when training began"
        return None

    def _prepare(self, key: str, client: Client, prepared: Prepared, at: float) -> None:
        why = refuse_preparation(client, prepared, self.width, self.terms.preparation)
        if why:
            self.refuse(key, why)
            return
        client.features, client.outputs = prepared.features, prepared.outputs
        client.macs_per_s = prepared.macs_per_s
        client.energy, client.largest = float(prepared.energy), float(prepared.largest)
        self.width = client.features, client.outputs
        if self.terms.fleet is not None or client.number is not None:
            client.stage = "measured"
            return
        client.stage, client.probe_seconds = "probing", []
        self._probe(key, client, at)

    def _probe(self, key: str, client: Client, at: float) -> None:
        probe = next_probe(client, self.message_bytes, self.terms.probes)
        if probe is None:
            client.stage = "measured"
        else:
            client.probe_sent_at = at
            self.send(key, probe)

    @property
    def message_bytes(self) -> int:
        """Bytes of one model or one gradient."""
        assert self.width is not None
        return math.prod(self.width) * np.dtype(self.terms.dtype).itemsize
