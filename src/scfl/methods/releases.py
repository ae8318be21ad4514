"""What each client releases under a plan. It follows from the plan alone, whatever the method."""

from __future__ import annotations

from scfl.core.sampling import subset_count
from scfl.methods.protocol import Code, Plan, ServerOnly
from scfl.privacy.events import Gradients, Products, Release, Sketch


def list_releases(plan: Plan, rounds: int) -> list[tuple[Release, ...]]:
    """Each client's releases in a training of so many rounds."""
    return [_releases_of(plan, client, rounds) for client in range(plan.shape.clients)]


def _releases_of(plan: Plan, client: int, rounds: int) -> tuple[Release, ...]:
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
        events.append(Gradients(rounds=rounds, rows_per_round=load))
    return tuple(events)


def _heaviest_row(plan: Plan, code: Code, client: int, codes: int) -> float:
    """The largest weight with which a row of the client enters a code."""
    if code.processed_weight is None or not plan.loads[client]:
        return 1.0
    processed = float(code.processed_weight[client])
    largest_subset = -(-int(plan.shape.client_rows[client]) // codes)
    return processed if plan.loads[client] >= largest_subset else max(1.0, processed)
