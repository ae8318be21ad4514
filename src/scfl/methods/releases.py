"""What each client releases under a plan. It follows from the plan alone, whatever the method."""

from __future__ import annotations

from scfl.core.sampling import subset_count
from scfl.methods.protocol import Plan, ServerOnly
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
        subsets = subset_count(plan.sampling) if code.per_subset else 1
        events.append(
            Sketch(
                rows=int(code.rows[client]) * subsets,
                sigma=code.noise.sigma,
                labels_noised=code.noise.labels,
                layout=code.layout,
            )
        )
    load = int(plan.loads[client])
    if load and rounds and not isinstance(plan.wait, ServerOnly):
        events.append(Gradients(rounds=rounds, rows_per_round=load))
    return tuple(events)
