"""One shot: every client uploads its sums of products once, and the server solves.

Least squares needs no rounds where clients may send exact sufficient statistics:

    W = (sum_i X_i^T X_i)^-1 sum_i X_i^T Y_i.

Each client computes and uploads (d + o)(d + o + 1) / 2 numbers; the server adds them up, factors
the sum and is done. This is what every method with rounds has to beat, and what it releases is
exact: X_i^T X_i of a few rows gives much of them away. It is the "summation form" of C.-T. Chu et
al., "Map-Reduce for Machine Learning on Multicore", NIPS 2006.

============== =============== =============================================
here           usual           meaning
============== =============== =============================================
coded rows     R, R^T R = A^TA the triangular factor of A = [X Y], d + o rows
============== =============== =============================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.core.fleet import Fleet, Shape
from scfl.core.moments import measure_moments
from scfl.methods.protocol import Arrivals, Code, Combination, Plan, ServerOnly, State


@dataclass(frozen=True)
class OneShot:
    """Uploads exact sums of products once; the server solves, and there are no rounds."""

    name: ClassVar[str] = "one-shot"
    cites: ClassVar[str] = "chu2006mapreduce"

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        width = shape.features + shape.outputs
        return Plan(
            shape=shape,
            loads=np.zeros(shape.clients, dtype=np.int64),
            wait=ServerOnly(),
            code=Code(
                rows=np.full(shape.clients, width, dtype=np.int64),
                server_rows=width,
                content="products",
            ),
            server_setup_macs=width**3 / 6 + shape.features**2 * shape.outputs,
            rounds=1,
            learned="last",
        )

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        return Combination(clients=np.zeros(plan.shape.clients), coded=np.ones(1))

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        assert held is not None
        solution = measure_moments(held.store.features, held.store.targets).solution
        solution = solution.astype(state.model.dtype)
        return replace(state, model=solution, average=solution, round=state.round + 1)
