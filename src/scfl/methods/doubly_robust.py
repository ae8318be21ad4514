"""Doubly robust: coded data predicts each client's gradient, and arrivals correct the prediction.

With h_i the gradient of client i's own block, less its noise: h_i' = h_i - sigma^2 W,

    g = sum_i [ h_i'  +  (1{t_i <= T} / p_i) (g_i - h_i') ],      W <- W - eta_r g.

E 1{t_i <= T} = p_i, so the mean over arrivals *for the given code* is sum_i grad f_i: there is no
error floor, whatever the code and its noise. Its variance over arrivals is

    sum_i (1 - p_i)/p_i ||g_i - h_i'||^2      beside      sum_i (1 - p_i)/p_i ||g_i||^2

of plain 1/p_i weights: smaller whenever ||h_i'||^2 < 2 <g_i, h_i'>, that is whenever the
prediction is closer to the gradient than zero is. The estimator is that of J. M. Robins,
A. Rotnitzky, L. P. Zhao, "Estimation of Regression Coefficients When Some Regressors Are Not Always
Observed", JASA 89(427), 1994. A client that is never asked is predicted only.

============== ========== =================================================
here           symbol     meaning
============== ========== =================================================
clients        1/p_i      weight of an arrival
coded          1 - 1/p_i  weight of a block whose client arrived; 1 if not
============== ========== =================================================
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
class DoublyRobust:
    """Stacked codes predict every gradient; arrivals correct the prediction by 1/p."""

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
    name: ClassVar[str] = "doubly-robust"
    cites: ClassVar[str] = "robins1994estimation"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        plan = plan_coded_rounds(self, shape, fleet, layout="stacked", server_rows=self.server_rows)
        require_code(plan, "nothing to predict from")
        return plan

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        inverse = plan.inverse_probability
        return weigh_blocks(
            plan, clients=inverse, coded=1 - np.where(arrivals.arrived, inverse, 0.0)
        )

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        return descend(state, direction, self.learning_rate, rows=plan.shape.rows)
