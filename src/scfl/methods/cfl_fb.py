"""Coded federated learning with full batches (CFL-FB).

S. Dhakal, S. Prakash, Y. Yona, S. Talwar, N. Himayat, "Coded Federated Learning", IEEE Globecom
Workshops 2019. Client i processes the same l*_i of its rows in every round. Coded data stands in
for the rest: each row enters the code with the square root of the probability that its gradient is
missing when the round closes at t*,

    X~ = sum_i G_i D_i X_i,    D_i = sqrt(1 - P(T_i <= t*)) on processed rows, 1 on the others,
    g = sum_{i: T_i <= t*} X_i^T (X_i W - Y_i)|processed  +  (1/c) X~^T (X~ W - Y~),

so that both parts together are unbiased for the full gradient. Loads and t* are the load
allocation's. Noise adds the bias n sigma^2 W: there is no make-up term.

============== ========= ==========================================
here           paper     meaning
============== ========= ==========================================
loads          l*_i      rows that client i processes in every round
deadline_s     t*        how long a round lasts
coded rows     c         redundancy m
============== ========= ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.allocation import allocate
from scfl.core.coding import CodedData, Noise, as_noise
from scfl.core.fleet import Fleet, Shape
from scfl.core.sampling import Subsets
from scfl.methods.protocol import Arrivals, Code, Combination, Deadline, Layout, Plan, RowsBy, State
from scfl.methods.schedule import LearningRate, descend
from scfl.methods.sizing import USUAL_REDUNDANCY, count_coded_rows, held_rows
from scfl.methods.vocabulary import check_parameters


@dataclass(frozen=True)
class CFLFB:
    """Takes full batches; coded data stands in for who is usually late."""

    learning_rate: LearningRate = 1.0
    redundancy: float = USUAL_REDUNDANCY
    noise: Noise | float = 0.0
    layout: Layout = "summed"
    rows_by: RowsBy = "equal"
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "cfl-fb"
    cites: ClassVar[str] = "dhakal2019coded"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        return plan_hidden_code(
            shape,
            fleet,
            subsets=1,
            redundancy=self.redundancy,
            noise=as_noise(self.noise),
            layout=self.layout,
            rows_by=self.rows_by,
            learned=self.learned,
        )

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        return combine_hidden_code(plan)

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        return descend(state, direction, self.learning_rate, rows=plan.shape.rows)


def plan_hidden_code(
    shape: Shape,
    fleet: Fleet,
    *,
    subsets: int,
    redundancy: float,
    noise: Noise,
    layout: Layout,
    rows_by: RowsBy,
    learned: Literal["average", "last"],
) -> Plan:
    """Loads, deadline and weighted code for batches of one subset each; CFL-FB has one of all."""
    sampling = Subsets(subsets, fixed=True)
    rows = count_coded_rows(shape, None, redundancy / subsets, layout, rows_by)
    held = held_rows(rows, layout)
    found = allocate(
        shape,
        fleet,
        caps=-(-shape.client_rows // subsets),
        coded_rows=held,
    )
    return Plan(
        shape=shape,
        loads=found.loads,
        wait=Deadline(found.deadline_s),
        sampling=sampling,
        arrival_probability=found.arrival_probability,
        code=Code(
            rows=rows,
            server_rows=held,
            noise=noise,
            layout=layout,
            per_subset=subsets > 1,
            processed_weight=np.sqrt(1 - found.arrival_probability),
        )
        if held
        else None,
        learned=learned,
    )


def combine_hidden_code(plan: Plan) -> Combination:
    """Arrivals count once, and the code for the rest of the batch; the batch for all of them."""
    assert isinstance(plan.sampling, Subsets)
    # A client's gradient is scaled up to all batches already; the code of one batch is not.
    return Combination(
        clients=np.ones(plan.shape.clients),
        coded=np.full(plan.code.blocks if plan.code else 0, float(plan.sampling.count)),
    )
