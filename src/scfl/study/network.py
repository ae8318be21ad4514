"""A training on a network as a study of one run: the same folder, the same report.

    OUT/network.json    how it stands: written while it runs, and last of all when it is over
    OUT/state/LABEL/    uploads and the checkpoint, from which the same command goes on
    OUT/fleet.toml      how fast everybody was found to be, as a study's [fleet] table
    OUT/manifest.json   and the rest, as `scfl run` writes it: for `scfl report` and for reading

``network.json`` is the word on how a training ended, because Flower's own says only whether a
process did. ``runs/LABEL/model.npz`` holds the last good model, and is not there before there is
one. Trainings with other labels may use the same folder; the report compares them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import platform
import time
from collections import Counter
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from scfl.core.delay import WirelessEdge
from scfl.core.fleet import Fleet
from scfl.errors import OutputError
from scfl.methods.protocol import Deadline
from scfl.runtime.network.allowance import list_told, state_printed
from scfl.runtime.network.checkpoint import write_whole
from scfl.runtime.network.clients import Client
from scfl.runtime.network.config import NetworkConfig
from scfl.runtime.network.session import Session
from scfl.runtime.result import ABSENT, ARRIVED, LATE
from scfl.study.account import describe_releases
from scfl.study.folder import to_json
from scfl.study.jobs import describe_parameters
from scfl.study.outcome import tabulate_ledger, tabulate_trace, to_parquet
from scfl.study.run import REPORTED_PACKAGES, find_commit

_LATEST_EVENTS = 200
_LOOK_EVERY_S = 0.5


class Progress:
    """Writes ``network.json`` now and then while a session runs."""

    def __init__(self) -> None:
        self._written = -math.inf

    def __call__(self, config: NetworkConfig, session: Session) -> None:
        now = time.monotonic()
        if now - self._written >= _LOOK_EVERY_S:
            self._written = now
            write_whole(
                config.out / "network.json",
                to_json(describe_network(config, session, "running", None)),
                flush=False,
            )


def record_network(config: NetworkConfig, session: Session | None, error: str | None) -> None:
    """Write down a training that is over, however it ended."""
    failed = error is not None or (session is not None and session.failed)
    reason = error or (session.ended if session is not None else "")
    if session is not None and session.training is not None and session.plan is not None:
        _record_run(config, session, reason if failed else None)
    status = describe_network(config, session, "failed" if failed else "complete", reason)
    write_whole(config.out / "network.json", to_json(status))


def read_network(out: Path) -> dict[str, Any] | None:
    """What ``network.json`` says; None where there is none."""
    try:
        told: dict[str, Any] = json.loads((out / "network.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise OutputError(f"{out}/network.json cannot be read ({error})") from None
    return told


def describe_network(
    config: NetworkConfig, session: Session | None, status: str, reason: str | None
) -> dict[str, Any]:
    """How a training stands, as plain values."""
    told: dict[str, Any] = {
        "status": status,
        "reason": reason,
        "phase": None if session is None else session.phase,
        "round": 0,
        "rounds": config.network.rounds,
        "method": config.method.name,
        "lane": config.network.lane,
        "seconds": None if session is None else round(session.now - session.started_at, 3),
        "loss": None,
        "accuracy": None,
        "measured_on": None,
        "bytes_up": 0.0,
        "bytes_down": 0.0,
        "released": None,
        "epsilon": None,
        "delta": config.privacy.delta,
        "clients": [],
        "events": [],
    }
    if session is None:
        return told
    told["events"] = [asdict(event) for event in session.events[-_LATEST_EVENTS:]]
    told["clients"] = _describe_presence(session)
    if session.training is not None:
        told["round"] = session.training.state.round
        told["measured_on"] = session.watcher.source
        privacy, _ = describe_told(session)
        told["released"], told["epsilon"] = " ".join(privacy["statements"]), privacy["epsilon"]
        told["bytes_up"] = sum(client["bytes_up"] for client in told["clients"])
        told["bytes_down"] = sum(client["bytes_down"] for client in told["clients"])
    if session.curve.rows:
        _, _, loss, accuracy, *_ = session.curve.rows[-1]
        told["loss"], told["accuracy"] = _finite(loss), _finite(accuracy)
    return told


def _describe_presence(session: Session) -> list[dict[str, Any]]:
    everybody = [*session.order]
    everybody += [c for c in session.enrolment.clients.values() if c not in everybody]
    refusals: Counter[str] = Counter()
    for (name, why), count in session.book.refusals.items():
        refusals[name] += count if why != "stale" else 0
    shares = session.book.totals(len(session.order))
    return [
        {
            "name": client.name,
            "rows": client.rows,
            "here": client.here,
            "stage": client.stage,
            "reason": client.reason or None,
            "refused": refusals[client.name],
            "arrived": int(shares[ARRIVED][place]) if place < len(session.order) else 0,
            "late": int(shares[LATE][place]) if place < len(session.order) else 0,
            "absent": int(shares[ABSENT][place]) if place < len(session.order) else 0,
            "probability": _probability(session, client),
            "bytes_up": float(shares["bytes_up"][place]) if place < len(session.order) else 0.0,
            "bytes_down": float(shares["bytes_down"][place]) if place < len(session.order) else 0.0,
        }
        for place, client in enumerate(everybody)
    ]


def describe_told(session: Session) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What left the clients, and what is guaranteed of it; who was away counts as having sent."""
    assert session.plan is not None
    budget, code = session.terms.budget, session.plan.code
    whole, clients = describe_releases(
        [client.name for client in session.order],
        list_told(session.plan, session.asked, budget),
        budget,
        row_norm=budget.row_norm,
        printed=state_printed(session.plan, session.order),
    )
    if code is not None and code.content == "sketch":
        whole["noise_sigma"] = code.noise.sigma
    return whole, clients


def _probability(session: Session, client: Client) -> float | None:
    if session.training is None or client.number not in session.members:
        return None
    return float(session.training.estimate.probability[session.members.index(client.number)])


def _record_run(config: NetworkConfig, session: Session, failure: str | None) -> None:
    out, folder = config.out, config.out / "runs" / config.label
    if session.fleet is not None:
        write_whole(out / "fleet.toml", describe_profile(session.fleet).encode())
    trace, ledger = session.curve.trace(), session.book.finish(len(session.order))
    if len(trace.round):
        write_whole(folder / "trace.parquet", to_parquet(tabulate_trace(trace)))
        write_whole(folder / "ledger.parquet", to_parquet(tabulate_ledger(ledger)))
        summary = _summarise(config, session, failure)
        clients = _describe_clients(session)
        write_whole(folder / "result.json", to_json({"summary": summary, "clients": clients}))
        write_whole(out / "results.json", to_json([*_other_runs(out, config.label), summary]))
        write_whole(out / "manifest.json", to_json(_describe_study(config, session, failure)))
    assert session.training is not None
    state = session.training.state
    if state.round and np.isfinite(state.model).all() and np.isfinite(state.average).all():
        sink = io.BytesIO()
        np.savez(sink, model=state.model, average=state.average)
        write_whole(folder / "model.npz", sink.getvalue())


def describe_profile(fleet: Fleet) -> str:
    """The machines that calibration measured, as the ``[fleet]`` table of a study."""

    def numbers(values: Any) -> str:
        return "[" + ", ".join(f"{value:.6g}" for value in values) + "]"

    lines = [
        "# Measured by a training on a network; `scfl plan` and `scfl run` read it.",
        "# " + ", ".join(fleet.names),
        "[fleet]",
        f"client-macs-per-s = {numbers(fleet.macs_per_s)}",
        f"client-uplink-bps = {numbers(fleet.uplink_bps)}",
        f"downlink-bps = {fleet.downlink_bps:.6g}",
        f"server-macs-per-s = {fleet.server_macs_per_s:.6g}",
        f"header = {fleet.header:.6g}",
    ]
    if fleet.payload_bits is not None:
        lines.append(f"payload-bits = {fleet.payload_bits:.6g}")
    if isinstance(fleet.law, WirelessEdge):
        lines.append(f"erasure = {fleet.law.erasure:.6g}")
    return "\n".join(lines) + "\n"


def _other_runs(out: Path, label: str) -> list[dict[str, Any]]:
    """What trainings with other labels left in the same folder."""
    try:
        kept = json.loads((out / "results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [run for run in kept if run.get("label") != label]


def _summarise(config: NetworkConfig, session: Session, failure: str | None) -> dict[str, Any]:
    plan, training, trace = session.plan, session.training, session.curve.trace()
    assert plan is not None
    assert training is not None
    ledger = session.book.finish(len(session.order))
    setup_bytes = float(sum(c.upload.received for c in session.order if c.upload is not None))
    training_s = float(ledger.closed_s[-1]) if len(ledger.closed_s) else 0.0
    names = ("loss", "accuracy", "loss_last", "accuracy_last", "loss_average", "accuracy_average")
    setup_s = max((client.encoding_s + client.upload_s for client in session.order), default=0.0)
    return {
        "label": config.label,
        "method": config.method.name,
        "parameters": describe_parameters(config.method),
        "seed": config.network.seed,
        "rounds": training.state.round,
        "setup_counted": True,
        "setup_time_s": setup_s,
        "training_time_s": training_s,
        "virtual_time_s": setup_s + training_s,
        "learned": plan.learned,
        **{name: _finite(float(getattr(trace, name)[-1])) for name in names},
        "diverged": failure is not None,
        "reason": failure,
        "bytes_up": setup_bytes + float(ledger.bytes_up.sum()),
        "bytes_down": float(ledger.bytes_down.sum()),
        "setup_bytes_up": setup_bytes,
        "coded_rows": None if training.held is None else training.held.rows,
        "deadline_s": plan.wait.seconds if isinstance(plan.wait, Deadline) else None,
        "coding": None if training.held is None else "clients",
        "key": session.terms.fingerprint,
        "folder": f"runs/{config.label}",
        "privacy": describe_told(session)[0],
        "measured_on": session.watcher.source,
        "refusals": [
            {"client": who, "why": why, "times": count}
            for (who, why), count in sorted(session.book.refusals.items())
        ],
        "events": [asdict(event) for event in session.events[-_LATEST_EVENTS:]],
    }


def _describe_clients(session: Session) -> list[dict[str, Any]]:
    plan, training = session.plan, session.training
    assert plan is not None
    assert training is not None
    return [
        {
            "client": number,
            "name": client.name,
            "rows": client.rows,
            "load": int(plan.loads[number]),
            "arrival_probability": _probability(session, client),
            "encoding_s": client.encoding_s,
            "coded_upload_s": client.upload_s,
            "coded_upload_bytes": float(client.upload.received if client.upload else 0),
            "releases": [asdict(event) for event in events],
            "privacy": privacy,
        }
        for number, (client, events, privacy) in enumerate(
            zip(
                session.order,
                list_told(plan, session.asked, session.terms.budget),
                describe_told(session)[1],
                strict=True,
            )
        )
    ]


def _describe_study(config: NetworkConfig, session: Session, failure: str | None) -> dict[str, Any]:
    plan = session.plan
    assert plan is not None
    tests = session.watcher.test_rows
    told = {
        "network": {k: v for k, v in asdict(config.network).items() if v is not None},
        "method": {"name": config.method.name, **describe_parameters(config.method)},
    }
    return {
        "format": 1,
        "name": Path(config.out).name,
        "clock": "wall",
        "scfl_version": version("scfl"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in REPORTED_PACKAGES},
        "commit": find_commit(),
        "config_hash": hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest(),
        "config": told,
        "seeds": [config.network.seed],
        "problem": {
            "name": Path(config.out).name,
            "task": "regression" if session.enrolment.classes is None else "classification",
            "clients": plan.shape.clients,
            "rows": plan.shape.rows,
            "features": plan.shape.features,
            "outputs": plan.shape.outputs,
            "test_rows": tests,
            "client_rows": plan.shape.client_rows.tolist(),
            "classes": session.enrolment.classes,
            "client_classes": None,
            "optimum_loss": None,
            "optimum_accuracy": None,
        },
        "status": "complete" if failure is None else "incomplete",
        "wall_time_s": round(session.now - session.started_at, 3),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
