"""CodedFedL: coded federated learning with mini-batches.

S. Prakash et al., "Coded Computing for Low-Latency Federated Learning Over Wireless Edge
Networks", IEEE JSAC 39(1), 2021. Each client splits its rows into B batches; batch k of everybody
is global batch k. It has a code of its own of u = c/B rows, its own processed rows (the first l*_i
of each client's batch) and the encoding weights of CFL-FB. A round takes one global batch and
scales its gradient by B:

    g = B [ sum_{i: T_i <= t*} X_ik^T (X_ik W - Y_ik)|processed  +  (1/u) X~_k^T (X~_k W - Y~_k) ].

Loads and t* come from the load allocation for the m/B rows of a global batch, all but u of which
are expected to return. Noise adds the bias B n sigma^2 W: there is no make-up term.

============== ========= ==================================================
here           paper     meaning
============== ========= ==================================================
subsets        B         global batches
redundancy     u B / m   coded rows of a global batch over its rows
loads          l*_i      rows of its batch that client i processes
============== ========= ==================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise, as_noise
from scfl.core.fleet import Fleet, Shape
from scfl.core.parameter import Requirements
from scfl.methods.batches import Batches
from scfl.methods.cfl_fb import combine_hidden_code, plan_hidden_code
from scfl.methods.protocol import Arrivals, Combination, Layout, Plan, RowsBy, State
from scfl.methods.schedule import LearningRate, descend
from scfl.methods.sizing import settle_redundancy
from scfl.methods.vocabulary import check_parameters


@dataclass(frozen=True)
class CodedFedL:
    """Takes mini-batches; a code for each stands in for who is usually late."""

    learning_rate: LearningRate = 1.0
    batches: Batches = Batches()
    redundancy: float | None = None
    noise: Noise | float = 0.0
    layout: Layout = "summed"
    rows_by: RowsBy = "equal"
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "codedfedl"
    cites: ClassVar[str] = "prakash2021coded"

    def __post_init__(self) -> None:
        check_parameters(self)
        with Requirements() as require:
            require.that(
                self.batches.rows is None and self.batches.rule == "subsets",
                "batches",
                "CodedFedL allocates its own loads within fixed subsets; give subsets only",
            )

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        return plan_hidden_code(
            shape,
            fleet,
            subsets=self.batches.subsets,
            redundancy=settle_redundancy(self.redundancy, self.batches),
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
