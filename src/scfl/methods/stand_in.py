"""Stand-in: a client's coded block takes its place exactly when it is late or gone.

Codes are stacked, so the server can tell whose block is whose. With h_i the block's gradient,

    g = sum_i [ 1{t_i <= T} g_i  +  1{t_i > T} (h_i - sigma^2 W) ],      W <- W - eta_r g.

Over codes, E h_i = grad f_i + sigma^2 W, and arrivals do not depend on codes: the mean is the
gradient. Given the code, client i's part is off by (1 - p_i) (h_i - sigma^2 W - grad f_i), where
SCFL's is off by half of it: the error is in proportion to how often the code is needed. The idea of
a surrogate that answers for the absent is that of D. Jhunjhunwala, P. Sharma, A. Nagarkatti,
G. Joshi, "FedVARP", UAI 2022, with a sketch in the place of the last answer.

============== ======= ======================================================
here           symbol  meaning
============== ======= ======================================================
coded          1{..}   weight of a block: 1 while its client is late or gone
shrink                 sigma^2 for each block that counts: removes its noise
============== ======= ======================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise
from scfl.core.fleet import Fleet, Shape
from scfl.methods.batches import Batches
from scfl.methods.coded_rounds import plan_coded_rounds, require_code, weigh_blocks
from scfl.methods.protocol import Arrivals, Combination, Plan, RowsBy, State
from scfl.methods.schedule import LearningRate, descend
from scfl.methods.vocabulary import check_parameters


@dataclass(frozen=True)
class StandIn:
    """A client's stacked code answers for it exactly when it is late or gone."""

    learning_rate: LearningRate = 1.0
    batches: Batches = Batches()
    redundancy: float | None = None
    coded_rows: int | None = None
    noise: Noise | float = 0.0
    rows_by: RowsBy = "equal"
    deadline_s: float | None = None
    server_rows: int | None = None
    exclude_unreachable: bool = False
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "stand-in"
    cites: ClassVar[str] = "jhunjhunwala2022fedvarp"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        plan = plan_coded_rounds(self, shape, fleet, layout="stacked", server_rows=self.server_rows)
        require_code(plan, "nobody to stand in")
        return plan

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        here = arrivals.arrived.astype(np.float64)
        # Absent clients have no gradient to weigh; the ledger reads 1 as the weight that they lost.
        return weigh_blocks(plan, clients=np.ones(len(here)), coded=1 - here)

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        return descend(state, direction, self.learning_rate, rows=plan.shape.rows)
