"""Curvature: coded data as a preconditioner of the clients' unbiased gradient.

Coded data as a *gradient* brings an error that no number of rounds removes. As *curvature* it
brings speed and no error: with H = sum_j X~_j^T X~_j / c_j, which is about X^T X + noise,

    W <- W - eta (H + ridge I)^-1 sum_i 1{t_i <= T} g_i / p_i,

and the learned model is the average of the iterates with weights 1, 2, 3, ... The step is zero
where the gradient is, whatever the code and its noise. This is the iterative Hessian sketch of
M. Pilanci, M. J. Wainwright, "Iterative Hessian Sketch", JMLR 17, 2016, with one sketch for all
rounds and with stochastic gradients.

The code has a solution of its own, W_0 = (H + ridge I)^-1 sum_j X~_j^T Y~_j / c_j, and training
sets out from there: the first step is taken at alpha W_0, as far along it as the clients' gradient
g at zero wants to go; there it is g + alpha H W_0 as far as the code knows. Where noise leaves
nothing of the labels, W_0 is no direction of descent, and alpha is near 0. Nothing is set by hand:

============== ======== ==========================================================================
here           symbol   rule
============== ======== ==========================================================================
ridge          lambda   the smallest with D(lambda) <= c / 10 (``core/curvature.py``)
gamma          gamma    D, the effective dimension of the data at lambda, over the coded rows c
step           eta      1 / v, v = (1 - sqrt(gamma))^-2 + D / b + max_i (1 - p_i) / p_i
start          alpha    -<g, W_0> / <W_0, H W_0>, at least 0
============== ======== ==========================================================================

v bounds how a step's second moment grows: the code's error in the first term, that of a batch of b
rows in the second, that of missing clients in the third. Twice the step would be the edge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise
from scfl.core.curvature import Preconditioner, know_curvature, price_preconditioner
from scfl.core.fleet import Fleet, Shape
from scfl.methods.batches import Batches
from scfl.methods.coded_rounds import plan_coded_rounds, require_code
from scfl.methods.protocol import Arrivals, Combination, Layout, Plan, RowsBy, State
from scfl.methods.schedule import average_later
from scfl.methods.sizing import held_rows
from scfl.methods.vocabulary import check_parameters

Matrix = NDArray[Any]


@dataclass(frozen=True)
class Curvature:
    """Preconditions the clients' gradient with the coded data; nothing is set by hand.

    ``coded_rows`` are ``redundancy`` of all rows unless they are given; by default each client
    sends a share of them.
    """

    batches: Batches = Batches()
    redundancy: float | None = None
    coded_rows: int | None = None
    noise: Noise | float = 0.0
    layout: Layout = "stacked"
    rows_by: RowsBy = "equal"
    deadline_s: float | None = None
    exclude_unreachable: bool = False
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "curvature"
    cites: ClassVar[str] = "pilanci2016iterative"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        plan = plan_coded_rounds(self, shape, fleet, layout=self.layout, server_rows=0)
        held = held_rows(require_code(plan, "no curvature to know").rows, self.layout)
        making, applying = price_preconditioner(held, shape.features, shape.outputs)
        making += price_start(held, shape) + applying
        return replace(plan, server_setup_macs=making, step_macs=applying)

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        assert plan.code is not None
        return Combination(clients=plan.inverse_probability, coded=np.zeros(plan.code.blocks))

    def step(
        self, plan: Plan, state: State, direction: NDArray[Any], held: CodedData | None
    ) -> State:
        assert held is not None
        known = know_curvature(held, noise_variance=noise_curvature(plan))
        return step_with(known, state, direction, held, eta=1 / second_moment(plan, known))


def step_with(
    known: Preconditioner, state: State, direction: Matrix, held: CodedData, *, eta: float
) -> State:
    """The preconditioned step; the first one sets out from the code's own solution."""
    model = state.model
    if state.round == 0 and not model.any():
        model, direction = start_from_code(known, direction, held)
    return average_later(state, model - direction.dtype.type(eta) * known.apply(direction))


def start_from_code(
    known: Preconditioner, direction: Matrix, held: CodedData
) -> tuple[Matrix, Matrix]:
    """alpha W_0, and the clients' ``direction`` at zero carried over to it."""
    store = held.store
    weights = 1 / np.sqrt(store.lengths[0])[store.owner]
    targets = store.targets * weights[:, None].astype(store.targets.dtype)
    own = known.apply(known.rows.T @ targets)
    bend = known.rows.T @ (known.rows @ own)
    curved = float(np.vdot(own, bend))
    alpha = own.dtype.type(max(-float(np.vdot(direction, own)) / curved, 0.0) if curved else 0.0)
    return alpha * own, direction + alpha * bend


def price_start(held: int, shape: Shape) -> float:
    """Multiply-accumulates of the code's own solution: three passes over its rows."""
    return 3.0 * held * shape.features * shape.outputs


def noise_curvature(plan: Plan) -> float:
    """What noise adds to every eigenvalue of H on average: n sigma^2, summed or stacked."""
    assert plan.code is not None
    return plan.shape.clients * plan.code.noise.sigma**2


def second_moment(plan: Plan, known: Preconditioner, *, weighted: bool = True) -> float:
    """How much larger a preconditioned step can be than the one it is on average.

    Clients that are not ``weighted`` by 1/p miss a step without making the others longer.
    """
    asked = plan.loads > 0
    missing = 0.0
    if weighted and plan.arrival_probability is not None:
        probability = plan.arrival_probability[asked]
        missing = float(((1 - probability) / probability).max(initial=0.0))
    batch = float(plan.loads.sum())
    return float((1 - known.gamma**0.5) ** -2 + known.dimension / batch + missing)
