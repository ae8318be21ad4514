"""The plan that SCFL's relatives share: rounds that close at a deadline, with coded data beside."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from scfl.core.coding import Noise, as_noise
from scfl.core.fleet import Fleet, Shape
from scfl.errors import InfeasibleError, Problem
from scfl.methods.batches import Batches
from scfl.methods.protocol import Code, Combination, Layout, Plan, RowsBy
from scfl.methods.sizing import (
    close_round_at,
    count_coded_rows,
    count_server_rows,
    held_rows,
    settle_redundancy,
)


class CodedRounds(Protocol):
    """The parameters that such a plan follows from."""

    @property
    def batches(self) -> Batches: ...
    @property
    def redundancy(self) -> float | None: ...
    @property
    def coded_rows(self) -> int | None: ...
    @property
    def noise(self) -> Noise | float: ...
    @property
    def rows_by(self) -> RowsBy: ...
    @property
    def deadline_s(self) -> float | None: ...
    @property
    def exclude_unreachable(self) -> bool: ...
    @property
    def learned(self) -> Literal["average", "last"]: ...


def plan_coded_rounds(
    method: CodedRounds,
    shape: Shape,
    fleet: Fleet,
    *,
    layout: Layout,
    server_rows: int | None = None,
) -> Plan:
    """A deadline, loads, and a code; the server takes what it finishes by the deadline, or so many.

    With redundancy 0 there is no code.
    """
    redundancy = settle_redundancy(method.redundancy, method.batches)
    wait, loads, probability = close_round_at(
        shape,
        fleet,
        method.batches,
        deadline_s=method.deadline_s,
        redundancy=redundancy,
        exclude=method.exclude_unreachable,
    )
    rows = count_coded_rows(shape, method.coded_rows, redundancy, layout, method.rows_by)
    held = held_rows(rows, layout)
    code = None
    if held:
        if server_rows != 0:
            server_rows = count_server_rows(shape, fleet, wait, held, server_rows)
        code = Code(rows, server_rows, as_noise(method.noise), layout)
    return Plan(
        shape=shape,
        loads=loads,
        wait=wait,
        sampling=method.batches.sampling,
        arrival_probability=probability,
        code=code,
        learned=method.learned,
    )


def require_code(plan: Plan, what: str) -> Code:
    """The code of a plan whose method is nothing without one."""
    if plan.code is None:
        raise InfeasibleError([Problem("redundancy", f"0 leaves {what}; give more than 0")])
    return plan.code


def weigh_blocks(plan: Plan, *, clients: NDArray[Any], coded: NDArray[Any]) -> Combination:
    """Clients' weights, blocks' weights, and the make-up for the noise of what counts."""
    assert plan.code is not None
    return Combination(
        clients=clients, coded=coded, shrink=plan.code.noise.sigma**2 * float(coded.sum())
    )
