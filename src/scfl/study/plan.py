"""What a method will do on a fleet, before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.allocation import allocate
from scfl.core.fleet import Fleet, Shape
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import largest_loads, subset_count
from scfl.data.partition import Iid, LabelSorted
from scfl.errors import ConfigError, InfeasibleError, ParameterError
from scfl.methods.protocol import Deadline, Plan
from scfl.methods.sizing import held_rows
from scfl.runtime.encoding import price_setup
from scfl.runtime.result import Setup
from scfl.runtime.simulator import close_round, server_seconds
from scfl.study.config import StudyConfig
from scfl.study.source import load_problem

Floats = NDArray[np.float64]

# Rounds drawn for the mean length of a round that waits for people.
_DRAWN_ROUNDS = 2000
_REDUNDANCIES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def shape_of(study: StudyConfig) -> Shape:
    """The problem's shape, without making up rows that nobody needs yet."""
    section, rule = study.problem, study.partition.rule
    if section.dataset != "regression" or not isinstance(rule, (LabelSorted, Iid)):
        return load_problem(study).shape
    rows = section.rows - round(section.rows * section.test_fraction)
    if rule.clients > rows:
        raise ConfigError(
            f"partition.clients: {rule.clients} clients for {rows} training rows; "
            f"every client needs a row, so give at most {rows}"
        )
    width = section.columns if section.features is None else section.features.dimensions
    counts = np.bincount(np.arange(rows) * rule.clients // rows, minlength=rule.clients)
    return Shape(counts, width + section.intercept, section.outputs)


def choose_label(study: StudyConfig) -> str:
    """The first method whose rounds close at a deadline, else the first of all."""
    shape = shape_of(study)
    fleet = study.fleet.draw(shape.clients, study.seeds[0])
    for label, method in study.methods.items():
        try:
            if isinstance(method.plan(shape, fleet).wait, Deadline):
                return label
        except (ParameterError, InfeasibleError):
            return label
    return next(iter(study.methods))


def look_ahead(study: StudyConfig, label: str, seed: int) -> dict[str, Any]:
    """Everything that is known of a method's rounds before the first, as plain values."""
    method, shape = study.methods[label], shape_of(study)
    fleet = study.fleet.draw(shape.clients, seed)
    try:
        plan = method.plan(shape, fleet)
    except (ParameterError, InfeasibleError) as error:
        raise ConfigError([issue.within(f"methods.{label}") for issue in error.problems]) from None
    code, setup = plan.code, price_setup(plan, fleet)
    arrived, round_s = _draw_rounds(plan, fleet)
    held = 0 if code is None else held_rows(code.rows, code.layout)
    subsets = subset_count(plan.sampling) if code is not None and code.per_subset else 1
    return {
        "label": label,
        "method": method.name,
        "seed": seed,
        "deadline_s": plan.wait.seconds if isinstance(plan.wait, Deadline) else None,
        "round_s": round_s,
        "expected_rows": float(plan.loads @ arrived),
        "batch_rows": int(largest_loads(plan.sampling, shape.client_rows).sum()),
        "coded_rows": held * subsets,
        "server_rows": 0 if code is None else code.server_rows,
        "server_s": server_seconds(plan, fleet)[0],
        "message_bytes": fleet.message_bits(shape) / 8,
        "setup_s": setup.seconds,
        "clients": _describe_clients(plan, fleet, setup, arrived, round_s),
        "deadline_by_redundancy": _trade_off(plan, fleet),
    }


def _draw_rounds(plan: Plan, fleet: Fleet) -> tuple[Floats, float]:
    """Each client's probability of being in time, and the mean length of a round.

    Exact where a deadline closes the round; drawn where the clients themselves do.
    """
    server_s, step_s = server_seconds(plan, fleet)
    asked = plan.loads > 0
    if isinstance(plan.wait, Deadline) and plan.arrival_probability is not None:
        return plan.arrival_probability, max(plan.wait.seconds, server_s) + step_s
    delays = fleet.law.sample(
        fleet.work(plan.shape, plan.loads), _DRAWN_ROUNDS, stream(0, Purpose.DELAYS)
    )
    rounds = [close_round(plan.wait, row, asked, server_s) for row in delays]
    arrived: Floats = np.mean([here for here, _ in rounds], axis=0)
    return arrived, float(np.mean([seconds for _, seconds in rounds])) + step_s


def _describe_clients(
    plan: Plan, fleet: Fleet, setup: Setup, arrived: Floats, round_s: float
) -> list[dict[str, Any]]:
    work = fleet.work(plan.shape, plan.loads)
    asked = plan.loads > 0
    computes = np.where(asked, work.compute_s / round_s, 0.0)
    needs = np.where(asked, fleet.law.mean(work) / round_s, 0.0)
    return [
        {
            "client": client,
            "name": fleet.names[client],
            "rows": int(plan.shape.client_rows[client]),
            "load": int(plan.loads[client]),
            "arrival_probability": float(arrived[client]),
            "compute_share": float(computes[client]),
            "wait_share": max(0.0, 1 - float(needs[client])),
            "upload_bytes": float(setup.upload_bytes[client]),
            "upload_s": float(setup.upload_s[client]),
            "encoding_s": float(setup.encoding_s[client]),
        }
        for client in range(plan.shape.clients)
    ]


def _trade_off(plan: Plan, fleet: Fleet) -> list[dict[str, float]]:
    """The shortest round that the load allocation finds, redundancy by redundancy."""
    points = []
    caps = largest_loads(plan.sampling, plan.shape.client_rows)
    for redundancy in _REDUNDANCIES:
        try:
            found = allocate(plan.shape, fleet, redundancy=redundancy, caps=caps)
        except InfeasibleError:
            continue
        points.append({"redundancy": redundancy, "deadline_s": found.deadline_s})
    return points
