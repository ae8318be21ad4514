"""Adaptive SCFL: the coded gradient counts for as much as the server finds it worth.

    g = (1 - w_r) sum_i 1{t_i <= T} g_i / p_i  +  w_r (g_s - s W),      W <- W - eta_r g.

SCFL has w = 1/2 throughout. But the clients' half errs afresh in every round, with variance V_r,
and r rounds average that out; the coded half errs by the same amount in all of them, because the
code is drawn once, with variance S (``core/theory/variance.py``). The mean of r rounds is off by

    (1 - w)^2 V / r  +  w^2 S,        least at        w_r = V / (V + r S),

and never more than SCFL's 1/2. So it starts as SCFL, and tends to uncoded rounds as they go on, at
once where noise or few coded rows make S large. The server knows V from how much successive
directions differ, ||g_r - g_{r-1}||^2 / (2 (1 - w)^2), and S from how its coded rows scatter. It
looks at S in the rounds 1, 2, 4, 8, ...; the looks are paid for in advance. The make-up term s is
SCFL's safe one: as much of n sigma^2 as leaves X^T X + H - s I positive definite, which then holds
for every w up to 1/2.

============== ======= ===================================================
here           symbol  meaning
============== ======= ===================================================
coded          w_r     weight of the coded gradient in round r = 1, 2, ...
fresh          V       variance of the clients' part in one round
lasting        S       variance of the coded gradient over codes
bias           s       the safe make-up term
============== ======= ===================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise, as_noise
from scfl.core.fleet import Fleet, Shape
from scfl.core.theory.estimate import estimate_coded_variance
from scfl.methods.batches import Batches
from scfl.methods.coded_rounds import plan_coded_rounds, require_code
from scfl.methods.protocol import Arrivals, Combination, Layout, Plan, RowsBy, State
from scfl.methods.scfl import limit_make_up
from scfl.methods.schedule import LearningRate, descend
from scfl.methods.vocabulary import check_parameters

# Looks at the coded variance that are on the clock: enough for a thousand rounds.
_LOOKS = 11


@dataclass(frozen=True)
class AdaptiveSCFL:
    """SCFL whose weight on coded data follows its variance and its lasting error."""

    learning_rate: LearningRate = 1.0
    batches: Batches = Batches()
    redundancy: float | None = None
    coded_rows: int | None = None
    noise: Noise | float = 0.0
    layout: Layout = "summed"
    rows_by: RowsBy = "equal"
    deadline_s: float | None = None
    server_rows: int | None = None
    exclude_unreachable: bool = False
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "adaptive-scfl"
    cites: ClassVar[str] = "sun2022stochastic"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        plan = plan_coded_rounds(
            self, shape, fleet, layout=self.layout, server_rows=self.server_rows
        )
        code = require_code(plan, "nothing to weigh")
        held = float(code.rows.sum() if self.layout == "stacked" else code.rows[0])
        looking = _LOOKS * held * shape.features * (shape.outputs + 1)
        # Products of the coded rows, and their eigenvalues.
        limiting = held * shape.features**2 / 2 + 2 / 3 * shape.features**3
        noisy = as_noise(self.noise).sigma > 0
        return replace(plan, server_setup_macs=looking + noisy * limiting)

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        assert plan.code is not None
        weight = _weight(state)
        # Known from the first step on; before it the model is zero, and so is the term.
        bias = _Seen(**(state.memory or {})).bias
        return Combination(
            clients=(1 - weight) * plan.inverse_probability,
            coded=np.full(plan.code.blocks, weight),
            shrink=weight * bias,
        )

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        assert held is not None
        seen = _Seen(**(state.memory or {}))
        lasting, bias = seen.lasting, seen.bias
        if state.memory is None:
            assert plan.code is not None
            bias = limit_make_up(plan.shape, plan.code, held)
        if state.round & (state.round + 1) == 0:
            lasting = estimate_coded_variance(held, state.model)
        fresh = seen.fresh
        if seen.direction is not None:
            # Half of the squared difference of two rounds is the variance of one, and their drift.
            change = np.square(direction - seen.direction, dtype=np.float64).sum()
            sample = float(change) / (2 * (1 - _weight(state)) ** 2)
            share = min(1.0, 2 / (state.round + 1))
            fresh += share * (sample - fresh)
        after = descend(state, direction, self.learning_rate, rows=plan.shape.rows)
        return replace(
            after, memory={"direction": direction, "fresh": fresh, "lasting": lasting, "bias": bias}
        )


@dataclass(frozen=True, eq=False)
class _Seen:
    """The last direction, and the two variances as far as they are known."""

    direction: NDArray[Any] | None = None
    fresh: float = 0.0
    lasting: float = 0.0
    bias: float = 0.0


def _weight(state: State) -> float:
    """The weight of the coded gradient in the round to come."""
    if state.memory is None or state.round < 2:
        return 0.5
    seen = _Seen(**state.memory)
    total = seen.fresh + (state.round + 1) * seen.lasting
    return min(0.5, seen.fresh / total) if total > 0 else 0.5
