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

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise, as_noise
from scfl.core.fleet import Fleet, Shape
from scfl.methods.batches import Batches
from scfl.methods.protocol import Arrivals, Code, Combination, Layout, Plan, RowsBy, State
from scfl.methods.schedule import LearningRate, descend
from scfl.methods.sizing import (
    close_round_at,
    count_coded_rows,
    count_server_rows,
    held_rows,
    settle_redundancy,
)
from scfl.methods.vocabulary import check_parameters


@dataclass(frozen=True)
class SCFL:
    """Weights arrivals by 1/p and adds coded data, less the bias of its noise.

    ``redundancy`` is the part of a round's rows that coded data may stand in for: it sets both the
    coded rows (that part of all rows) and the deadline (the first at which the other rows are
    expected), unless ``coded_rows`` or ``deadline_s`` are given. With ``layout="stacked"``
    clients share the coded rows out among themselves instead of each sending all of them.
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
    make_up: bool = True
    exclude_unreachable: bool = False
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "scfl"
    cites: ClassVar[str] = "sun2022stochastic"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        redundancy = settle_redundancy(self.redundancy, self.batches)
        wait, loads, probability = close_round_at(
            shape,
            fleet,
            self.batches,
            deadline_s=self.deadline_s,
            redundancy=redundancy,
            exclude=self.exclude_unreachable,
        )
        rows = count_coded_rows(shape, self.coded_rows, redundancy, self.layout, self.rows_by)
        held = held_rows(rows, self.layout)
        code = None
        if held:
            server_rows = count_server_rows(shape, fleet, wait, held, self.server_rows)
            code = Code(rows, server_rows, as_noise(self.noise), self.layout)
        return Plan(
            shape=shape,
            loads=loads,
            wait=wait,
            sampling=self.batches.sampling,
            arrival_probability=probability,
            code=code,
            learned=self.learned,
        )

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        if plan.code is None:
            return Combination(clients=plan.inverse_probability)
        sigma = plan.code.noise.sigma if self.make_up else 0.0
        return Combination(
            clients=0.5 * plan.inverse_probability,
            coded=np.full(plan.code.blocks, 0.5),
            shrink=0.5 * plan.shape.clients * sigma**2,
        )

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        return descend(state, direction, self.learning_rate, rows=plan.shape.rows)
