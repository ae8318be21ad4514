"""One run of a study, and what is stored of it: a summary, each client's part, trace and ledger."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scfl.data.problem import Problem
from scfl.methods.protocol import Deadline
from scfl.methods.releases import list_releases
from scfl.runtime.network.ledger import MeasuredLedger
from scfl.runtime.result import STATUSES, Ledger, Result, Trace
from scfl.runtime.simulator import simulate
from scfl.runtime.stability import Stability
from scfl.study.account import describe_privacy
from scfl.study.jobs import Job, describe_parameters, draw_fleet, settle_method
from scfl.study.source import build_problem


@dataclass(frozen=True)
class Outcome:
    """A finished run as it is stored."""

    summary: Mapping[str, Any]
    clients: list[dict[str, Any]]
    trace: bytes
    ledger: bytes


def execute(job: Job, problem: Problem | None = None) -> Outcome:
    """Run one job; safe to call in any process, on any machine that has the data.

    The ``problem`` of the job's source is built where nobody has it at hand.
    """
    problem = build_problem(job.source) if problem is None else problem
    fleet = draw_fleet(job, problem)
    result = simulate(
        problem,
        fleet,
        settle_method(job, problem, fleet),
        rounds=job.clock.rounds,
        seconds=job.clock.horizon_s,
        random_state=job.seed,
        evaluate_every=job.clock.evaluate_every,
        evaluate_every_s=job.clock.evaluate_every_s,
        evaluate_growth=job.clock.evaluate_growth,
        count_setup=job.clock.setup == "counted",
        coding=job.clock.coding,
        gradient_noise=job.privacy.protects_gradients,
    )
    privacy, client_privacy = describe_privacy(result, job.privacy)
    return Outcome(
        summary={**_summarise(job, result), "privacy": privacy},
        clients=[
            {**client, "privacy": own}
            for client, own in zip(_describe_clients(result), client_privacy, strict=True)
        ],
        trace=to_parquet(tabulate_trace(result.trace)),
        ledger=to_parquet(tabulate_ledger(result.ledger)),
    )


def _summarise(job: Job, result: Result) -> dict[str, Any]:
    last = {
        name: _finite(getattr(result.trace, name)[-1])
        for name in (
            "loss",
            "accuracy",
            "loss_last",
            "accuracy_last",
            "loss_average",
            "accuracy_average",
        )
    }
    setup_bytes = float(result.setup.upload_bytes.sum())
    code, wait = result.plan.code, result.plan.wait
    coding = coded_rows = None
    if result.held is not None and code is not None and code.content == "sketch":
        coded_rows = result.held.rows
        coding = "gram-shortcut" if result.held.shortcut else "clients"
    return {
        "label": job.label,
        "method": job.method.name,
        "parameters": describe_parameters(result.method),
        "seed": job.seed,
        "rounds": result.rounds,
        "setup_counted": result.setup_counted,
        "setup_time_s": result.setup.seconds,
        "training_time_s": result.training_time_s,
        "virtual_time_s": result.virtual_time_s,
        "learned": result.plan.learned,
        **last,
        "diverged": result.diverged is not None,
        "reason": result.diverged,
        "bytes_up": setup_bytes + float(result.ledger.bytes_up.sum()),
        "bytes_down": float(result.ledger.bytes_down.sum()),
        "setup_bytes_up": setup_bytes,
        "coded_rows": coded_rows,
        "deadline_s": wait.seconds if isinstance(wait, Deadline) else None,
        "coding": coding,
        "stability": _describe_stability(result.stability),
        "key": job.key,
        "folder": job.folder,
    }


def _describe_stability(seen: Stability | None) -> dict[str, Any] | None:
    """What the run's own coded data told before the first round; null without a make-up term."""
    if seen is None:
        return None
    return {
        "smallest_eigenvalue": seen.curvature.estimate,
        "at_least": seen.curvature.at_least,
        "noise_bias": seen.curvature.bias,
        "folding_rounds": seen.folding_rounds,
        "warning": seen.warning,
    }


def _describe_clients(result: Result) -> list[dict[str, Any]]:
    plan, setup = result.plan, result.setup
    probability = plan.arrival_probability
    return [
        {
            "client": client,
            "name": result.problem.client_names[client],
            "rows": int(plan.shape.client_rows[client]),
            "load": int(plan.loads[client]),
            "arrival_probability": None if probability is None else float(probability[client]),
            "encoding_s": float(setup.encoding_s[client]),
            "coded_upload_s": float(setup.upload_s[client]),
            "coded_upload_bytes": float(setup.upload_bytes[client]),
            "releases": [asdict(event) for event in events],
        }
        for client, events in enumerate(list_releases(plan, result.rounds, result.gradient_noise))
    ]


def tabulate_trace(trace: Trace) -> pa.Table:
    """A curve as a table, one row per evaluation."""
    return pa.table(asdict(trace))


def tabulate_ledger(ledger: Ledger | MeasuredLedger) -> pa.Table:
    """A ledger as a table, one row per round and client."""
    rounds, clients = ledger.status.shape
    status = pa.DictionaryArray.from_arrays(
        pa.array(ledger.status.ravel(), pa.int8()), pa.array(STATUSES)
    )
    delay = ledger.delay_s.ravel()
    return pa.table(
        {
            "round": np.repeat(np.arange(1, rounds + 1, dtype=np.int32), clients),
            "client": np.tile(np.arange(clients, dtype=np.int32), rounds),
            "status": status,
            "delay_s": delay,
            "closed_s": np.repeat(ledger.closed_s, clients),
            "weight": ledger.weight_given.ravel(),
            "weight_lost": ledger.weight_lost.ravel(),
            "bytes_up": ledger.bytes_up.ravel(),
            "bytes_down": ledger.bytes_down.ravel(),
        }
    )


def to_parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
