"""Plans for those who are here: cut down to some clients, or with one more.

A plan is made once, for everybody who enrolled in time. Whoever does not get through with its
upload is left out of it, and whoever comes later is added to it: the others keep their loads, their
probabilities and the code that they have sent already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.fleet import Fleet, Shape
from scfl.methods.protocol import Fastest, Method, Plan

Array = NDArray[Any]


def cut_plan(plan: Plan, who: Sequence[int]) -> Plan:
    """The plan of some of its clients."""
    chosen = np.asarray(who, dtype=np.intp)
    smaller: Plan = _change(plan, plan.shape.clients, lambda _, array: array[chosen])
    if isinstance(plan.wait, Fastest):
        smaller = replace(smaller, wait=Fastest(min(plan.wait.count, max(1, len(chosen)))))
    return smaller


def join_plan(plan: Plan, grown: Plan) -> Plan:
    """The plan with one client more, whose part comes from a plan for all of them."""

    def append(path: str, array: Array) -> Array:
        last = attrgetter(path)(grown)[-1:]
        if path == "code.rows" and plan.code is not None and plan.code.layout == "summed":
            last = array[-1:]  # codes that are added up have the same number of rows
        return np.concatenate([array, last])

    joined: Plan = _change(plan, plan.shape.clients, append)
    return joined


def derive_plan(method: Method, shape: Shape, fleet: Fleet, founders: int) -> Plan:
    """The plan of the founders, and of all who came later, one by one.

    It depends on nothing else, so a server that was restarted finds the plan that it had.
    """
    plan = method.plan(*_first(shape, fleet, founders))
    for count in range(founders + 1, shape.clients + 1):
        plan = join_plan(plan, method.plan(*_first(shape, fleet, count)))
    return plan


def _first(shape: Shape, fleet: Fleet, count: int) -> tuple[Shape, Fleet]:
    return replace(shape, client_rows=shape.client_rows[:count]), cut_fleet(fleet, count)


def cut_fleet(fleet: Fleet, count: int) -> Fleet:
    """The first machines of a fleet."""
    return replace(
        fleet,
        macs_per_s=fleet.macs_per_s[:count],
        uplink_bps=fleet.uplink_bps[:count],
        names=fleet.names[:count],
    )


def _change(thing: Any, clients: int, change: Callable[[str, Array], Array], path: str = "") -> Any:
    """Apply a change to every array that has one entry per client, in a plan and what it holds."""
    changed: dict[str, Any] = {}
    for field in fields(thing):
        value, where = getattr(thing, field.name), f"{path}{field.name}"
        if isinstance(value, np.ndarray) and len(value) == clients:
            changed[field.name] = change(where, value)
        elif not path and field.name in {"shape", "code"} and value is not None:
            changed[field.name] = _change(value, clients, change, f"{field.name}.")
    return replace(thing, **changed)
