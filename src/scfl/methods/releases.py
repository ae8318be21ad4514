"""What each client releases under a plan. It follows from the plan alone, whatever the method."""

from __future__ import annotations

from dataclasses import replace

from scfl.core.sampling import Bernoulli, subset_count
from scfl.methods.protocol import Code, Plan, ServerOnly
from scfl.privacy.budget import GradientNoise
from scfl.privacy.events import Gradients, Products, Release, Sketch


def list_releases(
    plan: Plan,
    rounds: int,
    gradient_noise: GradientNoise | None = None,
    *,
    own_coins: bool = True,
) -> list[tuple[Release, ...]]:
    """Each client's releases in a training of so many rounds.

    ``own_coins`` says that coins on who takes part stay with the client, so that they hide a row.
    """
    events = [
        _releases_of(plan, client, rounds, gradient_noise) for client in range(plan.shape.clients)
    ]
    if own_coins:
        return events
    return [tuple(_show_coins(event) for event in own) for own in events]


def _show_coins(event: Release) -> Release:
    """Who knows the coins knows when a row takes part, which may be every time."""
    return replace(event, rate=1.0) if isinstance(event, Gradients) else event


def _releases_of(
    plan: Plan, client: int, rounds: int, noise: GradientNoise | None
) -> tuple[Release, ...]:
    events: list[Release] = []
    code = plan.code
    if code is not None and code.content == "products":
        events.append(Products(columns=int(code.rows[client])))
    elif code is not None:
        codes = subset_count(plan.sampling) if code.per_subset else 1
        if code.rows[client]:
            events.append(
                Sketch(
                    rows=int(code.rows[client]),
                    sigma=code.noise.sigma,
                    labels_noised=code.noise.labels,
                    layout=code.layout,
                    codes=codes,
                    row_weight=_heaviest_row(plan, code, client, codes),
                )
            )
    load = int(plan.loads[client])
    if load and rounds and not isinstance(plan.wait, ServerOnly):
        event = Gradients(rounds=rounds, rows_per_round=load)
        events.append(event if noise is None else _protect(event, plan, client, noise))
    return tuple(events)


def _protect(event: Gradients, plan: Plan, client: int, noise: GradientNoise) -> Gradients:
    """How often a row takes part: by a coin of its own, or whenever its subset has its turn."""
    protected = replace(event, sigma=noise.sigma, norm=noise.norm)
    if isinstance(plan.sampling, Bernoulli):
        rate = min(1.0, event.rows_per_round / int(plan.shape.client_rows[client]))
        return replace(protected, turns=event.rounds, rate=rate)
    return replace(protected, turns=-(-event.rounds // plan.sampling.count))


def _heaviest_row(plan: Plan, code: Code, client: int, codes: int) -> float:
    """The largest weight with which a row of the client enters a code."""
    if code.processed_weight is None or not plan.loads[client]:
        return 1.0
    processed = float(code.processed_weight[client])
    largest_subset = -(-int(plan.shape.client_rows[client]) // codes)
    return processed if plan.loads[client] >= largest_subset else max(1.0, processed)
