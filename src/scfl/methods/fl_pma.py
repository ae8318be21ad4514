"""Federated averaging without coded data: FedAvg, and FL-PMA, which drops the slowest.

H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017 (FedAvg, here with one local step); partial model aggregation with drop rate psi as in
the paper's section V: the server takes the first (1 - psi) n arrivals, A, and steps along

    g = (m / sum_{i in A} l_i) sum_{i in A} g_i,

the average over those who arrived. Dropping clients whose data differ biases the model: FL-PMA(psi)
converges to the optimum of the fast clients.

============== ======= ==========================================
here           paper   meaning
============== ======= ==========================================
drop_fraction  psi     part of the clients a round does without
client_rows    l_i     rows of client i, m in all
============== ======= ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.core.fleet import Fleet, Shape
from scfl.methods.batches import Batches
from scfl.methods.protocol import All, Arrivals, Combination, Fastest, Plan, State
from scfl.methods.schedule import LearningRate, descend
from scfl.methods.vocabulary import check_parameters


@dataclass(frozen=True)
class FLPMA:
    """Waits for the fastest part of the clients and drops the rest."""

    learning_rate: LearningRate = 1.0
    batches: Batches = Batches()
    drop_fraction: float = 0.2
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "fl-pma"
    cites: ClassVar[str] = "sun2022stochastic"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        count = max(1, round((1 - self.drop_fraction) * shape.clients))
        return Plan(
            shape=shape,
            loads=self.batches.loads(shape, fleet),
            wait=All() if count == shape.clients else Fastest(count),
            sampling=self.batches.sampling,
            learned=self.learned,
        )

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        here = int(plan.shape.client_rows[arrivals.arrived].sum())
        weight = plan.shape.rows / here if here else 0.0
        return Combination(clients=np.full(plan.shape.clients, weight))

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        return descend(state, direction, self.learning_rate, rows=plan.shape.rows)


@dataclass(frozen=True)
class FedAvg:
    """Waits for everybody; one local step."""

    learning_rate: LearningRate = 1.0
    batches: Batches = Batches()
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "fedavg"
    cites: ClassVar[str] = "mcmahan2017communication"

    def __post_init__(self) -> None:
        check_parameters(self)

    def _waiting_for_all(self) -> FLPMA:
        return FLPMA(self.learning_rate, self.batches, 0.0, self.learned)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        return self._waiting_for_all().plan(shape, fleet)

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        return self._waiting_for_all().combine(plan, arrivals, state)

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        return self._waiting_for_all().step(plan, state, direction, held)
