"""Stochastic coded federated learning (SCFL).

Y. Sun, J. Shao, S. Li, Y. Mao, J. Zhang, "Stochastic Coded Federated Learning with Convergence and
Privacy Guarantees", IEEE ISIT 2022. Every round the server waits a fixed time T and no longer, and

    g = 1/2 [ sum_i 1{t_i <= T} g_i / p_i  +  g_s  -  n sigma^2 W ],      W <- W - eta_r g.

============== ============= =====================================================
here           paper         meaning
============== ============= =====================================================
loads          b_i           rows that client i processes in a round
server_rows    b_s           coded rows that the server processes in a round
coded_rows     c             rows of the coded data
noise.sigma    sigma         noise on each coded entry
deadline_s     T             how long a round lasts
probability    p_i(T, b_i)   arrival probability
shrink         n sigma^2 / 2 the make-up term: removes the bias that the noise brings
============== ============= =====================================================

The weight 1/p_i makes the clients' half unbiased; the make-up term makes the coded half so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise
from scfl.core.curvature import effective_rows, measure_curvature
from scfl.core.fleet import Fleet, Shape
from scfl.core.theory.estimate import estimate_definiteness
from scfl.methods.batches import Batches
from scfl.methods.coded_rounds import plan_coded_rounds
from scfl.methods.protocol import Arrivals, Code, Combination, Layout, Plan, RowsBy, State
from scfl.methods.schedule import LearningRate, descend
from scfl.methods.vocabulary import check_parameters

# Of the curvature that noise adds, what a safe make-up term leaves in the weakest direction.
_KEPT = 0.1


@dataclass(frozen=True)
class SCFL:
    """Weights arrivals by 1/p and adds coded data, less the bias of its noise.

    ``redundancy`` is the part of a round's rows that coded data may stand in for: it sets both the
    coded rows (that part of all rows) and the deadline (the first at which the other rows are
    expected), unless ``coded_rows`` or ``deadline_s`` are given. With ``layout="stacked"``
    clients share the coded rows out among themselves instead of each sending all of them.
    ``make_up="safe"`` takes only as much of the noise's bias out as leaves the system positive
    definite: the printed term makes it indefinite once there is much noise.
    """

    learning_rate: LearningRate = 1.0
    batches: Batches = Batches()
    redundancy: float | None = None
    coded_rows: int | None = None
    noise: Noise | float = 0.0
    layout: Layout = "summed"
    rows_by: RowsBy = "equal"
    deadline_s: float | None = None
    server_rows: int | None = None
    make_up: bool | Literal["safe"] = True
    exclude_unreachable: bool = False
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "scfl"
    cites: ClassVar[str] = "sun2022stochastic"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        return plan_coded_rounds(
            self, shape, fleet, layout=self.layout, server_rows=self.server_rows
        )

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        if plan.code is None:
            return Combination(clients=plan.inverse_probability)
        bias = plan.shape.clients * plan.code.noise.sigma**2 if self.make_up else 0.0
        if self.make_up == "safe":
            # Known from the first step on; before it the model is zero, and so is the term.
            bias = 0.0 if state.memory is None else state.memory
        return Combination(
            clients=0.5 * plan.inverse_probability,
            coded=np.full(plan.code.blocks, 0.5),
            shrink=0.5 * bias,
        )

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        after = descend(state, direction, self.learning_rate, rows=plan.shape.rows)
        if self.make_up != "safe" or held is None or state.memory is not None:
            return after
        assert plan.code is not None
        return replace(after, memory=limit_make_up(plan.shape, plan.code, held))


def limit_make_up(shape: Shape, code: Code, held: CodedData) -> float:
    """The most of n sigma^2 that may be taken away from the curvature X^T X + H.

    Its smallest eigenvalue, as the server estimates it, stays above ``_KEPT`` of what the noise
    put there; otherwise the model grows without bound along some direction.
    """
    bias = shape.clients * code.noise.sigma**2
    if bias == 0:
        return 0.0
    found = estimate_definiteness(
        measure_curvature(held),
        coded_rows=effective_rows(held),
        shrink=bias,
        noise_variance=bias,
    )
    return float(np.clip(bias + found.estimate - _KEPT * bias, 0.0, bias))
