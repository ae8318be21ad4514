"""Deadline rounds weighted by inverse probability (FL-IPW): SCFL without its coded data.

What does coding itself buy? This method shares SCFL's deadline, loads and weights and asks for no
coded data, so that the difference between the two is the code's:

    g = sum_i 1{t_i <= T} g_i / p_i.

With ``momentum`` beta, the strongest rival without coded data that we know, steps add up,
V <- beta V + g and W <- W - eta V (B. T. Polyak, 1964), and later models weigh more in the average.

The weight is that of D. G. Horvitz, D. J. Thompson, "A Generalization of Sampling Without
Replacement From a Finite Universe", JASA 47(260), 1952.

============== =========== ==================================================
here           paper       meaning
============== =========== ==================================================
deadline_s     T           how long a round lasts
redundancy                 the part of a round's rows that it goes without
momentum       beta        how much of the last step is taken again
probability    p_i(T, b_i) arrival probability
============== =========== ==================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.core.fleet import Fleet, Shape
from scfl.methods.batches import Batches
from scfl.methods.protocol import Arrivals, Combination, Plan, State
from scfl.methods.schedule import LearningRate, average_later, descend, step_size
from scfl.methods.sizing import close_round_at, settle_redundancy
from scfl.methods.vocabulary import check_parameters


@dataclass(frozen=True)
class FLIPW:
    """Closes rounds at a deadline and weights arrivals by 1/p, without coded data."""

    learning_rate: LearningRate = 1.0
    batches: Batches = Batches()
    redundancy: float | None = None
    deadline_s: float | None = None
    exclude_unreachable: bool = False
    momentum: float = 0.0
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "fl-ipw"
    cites: ClassVar[str] = "horvitz1952generalization"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        wait, loads, probability = close_round_at(
            shape,
            fleet,
            self.batches,
            deadline_s=self.deadline_s,
            redundancy=settle_redundancy(self.redundancy, self.batches),
            exclude=self.exclude_unreachable,
        )
        return Plan(
            shape=shape,
            loads=loads,
            wait=wait,
            sampling=self.batches.sampling,
            arrival_probability=probability,
            learned=self.learned,
        )

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        return Combination(clients=plan.inverse_probability)

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        if self.momentum == 0:
            return descend(state, direction, self.learning_rate, rows=plan.shape.rows)
        before = 0.0 if state.memory is None else state.memory
        velocity = direction.dtype.type(self.momentum) * before + direction
        eta = direction.dtype.type(step_size(self.learning_rate, state.round, plan.shape.rows))
        return average_later(replace(state, memory=velocity), state.model - eta * velocity)
