"""Differentially private coded federated linear regression (DP-CFL).

A. Anand et al., "Differentially Private Coded Federated Linear Regression", IEEE DSLW 2021.
Clients upload noisy coded data once and are never contacted again; the server alone does
mini-batch gradient descent on it,

    g = (1/b_s) X~_S^T (X~_S W - Y~_S),     S a random batch of b_s coded rows,

and a round lasts as long as it computes. Noise adds the bias n sigma^2 W: there is no make-up term.

============== ======= ==============================================
here           paper   meaning
============== ======= ==============================================
server_rows    b_s     coded rows that the server processes in a round
coded_rows     c       rows of the coded data
============== ======= ==============================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise, as_noise
from scfl.core.fleet import Fleet, Shape
from scfl.core.sampling import Bernoulli, Subsets
from scfl.errors import InfeasibleError, Problem
from scfl.methods.batches import Batches
from scfl.methods.protocol import (
    Arrivals,
    Code,
    Combination,
    Layout,
    Plan,
    RowsBy,
    ServerOnly,
    State,
)
from scfl.methods.schedule import LearningRate, descend
from scfl.methods.sizing import (
    check_server_rows,
    count_coded_rows,
    held_rows,
    settle_redundancy,
)
from scfl.methods.vocabulary import check_parameters


@dataclass(frozen=True)
class DPCFL:
    """Trains at the server on coded data alone; no client is asked again.

    Without ``server_rows`` a round takes the coded data's share of a mini-batch: coded rows over
    ``batches.subsets``.
    """

    learning_rate: LearningRate = 1.0
    batches: Batches = Batches()
    redundancy: float | None = None
    coded_rows: int | None = None
    noise: Noise | float = 0.0
    layout: Layout = "summed"
    rows_by: RowsBy = "equal"
    server_rows: int | None = None
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "dp-cfl"
    cites: ClassVar[str] = "anand2021differentially"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        redundancy = settle_redundancy(self.redundancy, self.batches)
        rows = count_coded_rows(shape, self.coded_rows, redundancy, self.layout, self.rows_by)
        held = held_rows(rows, self.layout)
        if not held:
            raise InfeasibleError(
                [Problem("redundancy", "0 leaves the server nothing to train on; give more than 0")]
            )
        server_rows = self.server_rows or max(1, round(held / self.batches.subsets))
        check_server_rows(server_rows, held)
        return Plan(
            shape=shape,
            loads=np.zeros(shape.clients, dtype=np.int64),
            wait=ServerOnly(),
            sampling=Subsets(1) if self.batches.rule == "subsets" else Bernoulli(),
            code=Code(rows, server_rows, as_noise(self.noise), self.layout),
            learned=self.learned,
        )

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        assert plan.code is not None
        return Combination(clients=np.zeros(plan.shape.clients), coded=np.ones(plan.code.blocks))

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        return descend(state, direction, self.learning_rate, rows=plan.shape.rows)
