"""Opening a session: anew, or where a checkpoint left it."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from scfl.core.delay import ShiftedExponential, WirelessEdge
from scfl.core.fleet import Fleet
from scfl.errors import OutputError
from scfl.methods.protocol import State
from scfl.runtime.network.checkpoint import (
    Checkpoint,
    flatten_memory,
    load_checkpoint,
    save_checkpoint,
    unflatten_memory,
)
from scfl.runtime.network.clients import Client
from scfl.runtime.network.estimate import Estimate
from scfl.runtime.network.inspection import Sizes
from scfl.runtime.network.session import Session
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.watching import Watcher

_LAWS = {kind.__name__: kind for kind in (WirelessEdge, ShiftedExponential)}
_ESTIMATE = tuple(field.name for field in fields(Estimate))
_CLIENT = (
    "name",
    "rows",
    "columns",
    "labels",
    "features",
    "outputs",
    "macs_per_s",
    "energy",
    "largest",
    "refused",
    "reason",
)


def open_session(
    terms: Terms, folder: Path, now: float, *, watcher: Watcher | None = None, **options: Any
) -> Session:
    """A session that keeps itself in ``folder``, and begins where the last one there ended."""
    session = Session(
        terms, folder, now, watcher=watcher or Watcher(), save=keep_session, **options
    )
    kept = load_checkpoint(folder / "checkpoint.npz")
    if kept is not None:
        _restore(session, kept, now)
    return session


def keep_session(session: Session) -> None:
    """Write a session's checkpoint."""
    training, fleet = session.training, session.fleet
    assert training is not None
    assert fleet is not None
    clients = len(session.order)
    law = type(fleet.law).__name__
    if law not in _LAWS:
        raise OutputError(f"a fleet with the law {law} cannot be kept; use one of {list(_LAWS)}")
    arrays = {
        "model": training.state.model,
        "average": training.state.average,
        "curve": np.array(session.curve.rows).reshape(-1, 10),
        "silent": training.silent,
        "closed_s": np.array(session.book.closed_s),
        "fleet.macs_per_s": fleet.macs_per_s,
        "fleet.uplink_bps": fleet.uplink_bps,
        **{f"estimate.{name}": getattr(training.estimate, name) for name in _ESTIMATE},
        **{f"ledger.{name}": column for name, column in session.book.table(clients).items()},
        **flatten_memory(training.state.memory),
    }
    facts = {
        "fingerprint": session.terms.fingerprint,
        "round": training.state.round,
        "asked": session.most_asked,
        "elapsed_s": session.now - session.training_began_at,
        "founders": session.roster.founders,
        "members": session.members,
        "owners": session.enrolment.owners,
        "agreed": session.enrolment.columns,
        "classes": session.enrolment.classes,
        "clients": [{name: getattr(client, name) for name in _CLIENT} for client in session.order],
        "setup": [[client.encoding_s, client.upload_s] for client in session.order],
        "sizes": sorted(training.sizes.accepted.items()),
        "refusals": [[*who, count] for who, count in session.book.refusals.items()],
        "fleet": {
            "downlink_bps": fleet.downlink_bps,
            "server_macs_per_s": fleet.server_macs_per_s,
            "header": fleet.header,
            "macs_per_row": fleet.macs_per_row,
            "payload_bits": fleet.payload_bits,
            "law": [law, asdict(fleet.law)],  # type: ignore[call-overload]
        },
    }
    save_checkpoint(session.folder / "checkpoint.npz", Checkpoint(arrays, facts))


def _restore(session: Session, kept: Checkpoint, now: float) -> None:
    facts, arrays = kept.facts, kept.arrays
    if facts["fingerprint"] != session.terms.fingerprint:
        raise OutputError(
            f"{session.folder} holds another training (its method, seed or preparation differ); "
            "choose another folder, or remove it to start over"
        )
    order = [
        Client(
            **{name: told[name] for name in _CLIENT},
            key=None,
            stage="out" if told["reason"] else "ready",
            number=number,
        )
        for number, told in enumerate(facts["clients"])
    ]
    for client, (encoding_s, upload_s) in zip(order, facts["setup"], strict=True):
        client.encoding_s, client.upload_s = encoding_s, upload_s
    first = order[0]
    enrolment = session.enrolment
    enrolment.clients = {client.name: client for client in order}
    enrolment.owners = dict(facts["owners"])
    enrolment.agreed, enrolment.columns = True, facts["agreed"]
    enrolment.classes, enrolment.width = facts["classes"], (first.features, first.outputs)
    law, parameters = facts["fleet"]["law"]
    fleet = Fleet(
        macs_per_s=arrays["fleet.macs_per_s"],
        uplink_bps=arrays["fleet.uplink_bps"],
        names=[client.name for client in order],
        law=_LAWS[law](**parameters),
        **{name: value for name, value in facts["fleet"].items() if name != "law"},
    )
    session.roster.restore(order, facts["founders"], fleet)
    session.curve.rows = [tuple(row) for row in arrays["curve"].tolist()]
    session.book.restore(
        {n.removeprefix("ledger."): a for n, a in arrays.items() if n.startswith("ledger.")},
        arrays["closed_s"],
    )
    for who, why, count in facts["refusals"]:
        session.book.refusals[who, why] = count
    session.asked = facts["asked"]
    session.resume(
        facts["members"],
        State(arrays["model"], arrays["average"], facts["round"], unflatten_memory(arrays)),
        began_at=now - facts["elapsed_s"],
    )
    assert session.training is not None
    session.training.estimate = Estimate(*(arrays[f"estimate.{name}"] for name in _ESTIMATE))
    session.training.silent = arrays["silent"]
    session.training.sizes = Sizes({int(c): float(s) for c, s in facts["sizes"]})
    # Whoever is killed again before the next checkpoint has asked for rounds that count as well.
    keep_session(session)
