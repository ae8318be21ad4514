"""What the privacy of a run comes to, as plain values for its record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from scfl.data.problem import Problem
from scfl.methods.releases import list_releases
from scfl.privacy.accountant import Account, account_for, is_uncovered
from scfl.privacy.budget import Budget
from scfl.privacy.events import Release, Sketch
from scfl.privacy.mutual_information import bound_row_information
from scfl.privacy.sketch import COVERS, Guarantee
from scfl.runtime.calibration import PrintedBudget, state_budget
from scfl.runtime.result import Result
from scfl.study.statements import state_releases


def describe_privacy(result: Result, budget: Budget) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The numbers and sentences of a run, and the numbers of each client.

    ``noise_sigma`` is null where nothing is coded, ``mi_bits`` also where the number is infinite.
    ``coded_epsilon`` is about the coded data, ``epsilon`` about all that clients sent; each is null
    where there is no guarantee.
    """
    problem, plan = result.problem, result.plan
    whole, clients = describe_releases(
        problem.client_names,
        list_releases(plan, result.rounds, result.gradient_noise),
        budget,
        row_norm=problem.row_norm,
        printed=state_budget(problem, plan),
    )
    scaled = problem.scaled_down
    whole["rows_scaled_down"] = None if scaled is None else int(scaled.sum())
    whole["statements"] += _state_scaled_rows(problem)
    for client, told in enumerate(clients):
        told["rows_scaled_down"] = None if scaled is None else int(scaled[client])
    return whole, clients


def describe_releases(
    names: Sequence[str],
    releases: Sequence[tuple[Release, ...]],
    budget: Budget,
    *,
    row_norm: float | None,
    printed: PrintedBudget | None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The same of what clients sent, whoever counted it; ``row_norm`` is what rows are held to."""
    accounts = [
        account_for(events, delta=budget.delta, row_norm=budget.row_norm) for events in releases
    ]
    asked = {name: value for name, value in asdict(budget).items() if value is not None}
    whole = {
        "budget": asked or None,
        **_describe_printed(printed),
        **_describe_accounts(accounts),
        "row_information_nats": _bound_information(releases, budget.row_norm),
        "delta": budget.delta,
        "covers": COVERS,
        "row_norm": row_norm,
        "rows_scaled_down": None,
        "statements": [
            *state_releases(names, releases, accounts, budget.row_norm),
            *(_state_printed(printed) if printed and budget.mi_bits is not None else ()),
        ],
    }
    clients = [
        {
            "mi_bits": None if printed is None else _finite(float(printed.bits[client])),
            **_describe_accounts([account]),
            "rows_scaled_down": None,
        }
        for client, account in enumerate(accounts)
    ]
    return whole, clients


def _state_scaled_rows(problem: Problem) -> list[str]:
    if problem.scaled_down is None:
        return []
    scaled, rows = int(problem.scaled_down.sum()), problem.shape.rows
    return [f"{scaled:,} of {rows:,} rows were above norm {problem.row_norm:g} and scaled down."]


def _state_printed(printed: PrintedBudget) -> list[str]:
    """The paper's number never comes without what it covers, and on which scale."""
    number = f"Printed budget (Theorem 2): {printed.largest:.4g} bits"
    scale = f"features divided by their largest absolute value, {printed.scale:.4g}"
    return [f"{number}, {scale}; it covers {printed.covers}."]


def _describe_printed(printed: PrintedBudget | None) -> dict[str, Any]:
    return {
        "noise_sigma": printed and printed.sigma,
        "mi_bits": printed and _finite(printed.largest),
        "mi_bits_scale": printed and printed.scale,
        "mi_bits_covers": printed and printed.covers,
    }


def _describe_accounts(accounts: Sequence[Account]) -> dict[str, Any]:
    return {
        "coded_epsilon": _largest([account.coded for account in accounts]),
        "epsilon": _largest([account.whole for account in accounts]),
    }


def _largest(guarantees: Sequence[Guarantee | None]) -> float | None:
    """The weakest of all clients' guarantees; one client without any leaves none."""
    found = [guarantee.epsilon for guarantee in guarantees if guarantee is not None]
    return max(found) if found and len(found) == len(guarantees) else None


def _bound_information(
    releases: Sequence[tuple[Release, ...]], row_norm: float | None
) -> float | None:
    """The most that any client's coded data tells about one row of it, on average."""
    sketches = {event for events in releases for event in events if isinstance(event, Sketch)}
    if row_norm is None or not sketches or any(map(is_uncovered, sketches)):
        return None
    return max(
        bound_row_information(event.rows, event.sigma / event.row_weight, row_norm=row_norm)
        if event.row_weight > 0
        else 0.0
        for event in sketches
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
