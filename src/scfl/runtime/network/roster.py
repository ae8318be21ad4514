"""Who is in the plan: the founders, and behind them everybody who came later, in turn.

A place is for good: whoever leaves keeps it, and whoever comes back finds it. So the plan, the
fleet and the places follow from who was first and who came when, and a server that was restarted
finds them as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scfl.core.fleet import Fleet
from scfl.errors import InfeasibleError, ParameterError
from scfl.methods.protocol import Method, Plan
from scfl.runtime.network.allowance import calibrate_method, refuse_newcomer
from scfl.runtime.network.clients import (
    Client,
    extend_fleet,
    measured_fleet,
    pick_fleet,
    shape_of,
)
from scfl.runtime.network.membership import cut_fleet, derive_plan
from scfl.runtime.network.terms import Terms


@dataclass(eq=False)
class Roster:
    """Places, machines and the plan for them; ``fleet`` and ``plan`` are there once it is made.

    ``method`` is that of the terms with the noise that their budget asks for.
    """

    terms: Terms
    server_macs_per_s: float = 1e9
    order: list[Client] = field(default_factory=list)
    founders: int = 0
    method: Method = field(init=False)
    fleet: Fleet | None = None
    plan: Plan | None = None

    def __post_init__(self) -> None:
        self.method = self.terms.method

    def make(self, founders: Sequence[Client], message_bytes: float) -> Plan:
        """Give the first clients their places, and make the plan."""
        self.order, self.founders = list(founders), len(founders)
        for number, client in enumerate(self.order):
            client.number = number
        self.fleet = (
            measured_fleet(
                founders,
                message_bytes=message_bytes,
                server_macs_per_s=self.server_macs_per_s,
                erasure=self.terms.erasure,
            )
            if self.terms.fleet is None
            else pick_fleet(self.terms.fleet, founders)
        )
        self._calibrate()
        self.plan = self.method.plan(shape_of(founders), self.fleet)
        return self.plan

    def add(self, client: Client, message_bytes: float) -> str | None:
        """Give a newcomer its place behind the others; say why if there is none."""
        assert self.fleet is not None
        order = [*self.order, client]
        try:
            fleet = (
                extend_fleet(self.fleet, client, message_bytes)
                if self.terms.fleet is None
                else pick_fleet(self.terms.fleet, order)
            )
            plan = derive_plan(self.method, shape_of(order), fleet, self.founders)
        except (InfeasibleError, ParameterError) as error:
            return str(error).replace("\n", "; ")
        why = refuse_newcomer(plan, self.terms.budget, order)
        if why is not None:
            return why
        self.plan, self.fleet, self.order, client.number = plan, fleet, order, len(order) - 1
        return None

    def restore(self, order: Sequence[Client], founders: int, fleet: Fleet) -> None:
        """The places that a checkpoint kept."""
        self.order, self.founders, self.fleet = list(order), founders, fleet
        self._calibrate()
        self.plan = derive_plan(self.method, shape_of(order), fleet, founders)

    def _calibrate(self) -> None:
        """The method's noise for the founders' code; it depends on nothing that comes later."""
        assert self.fleet is not None
        founders = self.order[: self.founders]
        fleet = cut_fleet(self.fleet, self.founders)
        self.method = calibrate_method(self.terms.method, fleet, self.terms.budget, founders)
