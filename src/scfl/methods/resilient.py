"""Resilient: curvature for those who are here, and a prediction for those who are gone.

Every client has a model of its gradient at the server. Its block of coded data says how the
gradient changes, and what the client itself has answered says where it stands: with G_i the average
of its answers and V_i the average of the models that they were given for, both with weights
1, 2, 3, ..., and H_i = X~_i^T X~_i / c_i,

    g^_i(W) = (1 - theta_i) h_i'(V_i) + theta_i G_i  +  (H_i + mu I) (W - V_i),
    W <- W - eta (H + lambda I)^-1 [ sum_arrived g_i(W)  +  sum_missing g^_i(W) ],

where h_i'(V) = X~_i^T (X~_i V - Y~_i) / c_i - sigma^2 V is the code's own opinion of the gradient.

*Safe.* Noise is only ever in the slope, H_i + mu, and it is not subtracted: no departure, noise or
code size makes the system indefinite. Where the sketch knows nothing, the slope is mu > 0 and holds
the model at V_i, where the client was last heard of. *Exact.* While everybody is heard from now and
then, V_i tends to W and G_i to its gradient, so the fixed point is the least-squares solution, and
no arrival probability is needed: outages that nobody foresaw do no harm.

============== ======= ==========================================================================
here           symbol  rule
============== ======= ==========================================================================
ridge, step, start     as in ``curvature.py``, without the term for missing clients
anchor         mu      ``_ANCHOR`` (lambda + n sigma^2) / n: of each client's share of what lifts H
trust          theta   S / (S + Q): S estimates the code's error, Q that of the answers (below)
============== ======= ==========================================================================

    S = (||X_i||^2 + d sigma^2) ||X~_i W - Y~_i||^2 / c_i^2
    Q = (||X_i||^2 + d sigma^2) ||X~_i (W - V_i)||^2 / c_i^2
        + ||X_i||^2 ||R_i||^2 (4 / (3 k b_i) - 1 / l_i)_+

are the variances of ``core/theory/variance.py`` without their small last term, after k answers of
b_i rows each; ||X_i||^2 and ||R_i||^2, the residuals at V_i, are estimated from the code alone. The
control variates are those of D. Jhunjhunwala et al., "FedVARP", UAI 2022, with a slope.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData, Noise
from scfl.core.curvature import know_curvature, price_preconditioner
from scfl.core.fleet import Fleet, Shape
from scfl.methods.batches import Batches
from scfl.methods.coded_rounds import plan_coded_rounds, require_code
from scfl.methods.curvature import noise_curvature, price_start, second_moment, step_with
from scfl.methods.protocol import Arrivals, Combination, Plan, RowsBy, State
from scfl.methods.vocabulary import check_parameters

Matrix = NDArray[Any]
Floats = NDArray[np.float64]

# Without an anchor the loss crept up after departures; with the whole share of the ridge it stood
# still early. 0.1 to 0.3 ended best on MNIST and Fashion-MNIST.
_ANCHOR = 0.3


@dataclass(frozen=True)
class Resilient:
    """Curvature for those who are here; code and last answers for those who are gone."""

    batches: Batches = Batches()
    redundancy: float | None = None
    coded_rows: int | None = None
    noise: Noise | float = 0.0
    rows_by: RowsBy = "equal"
    deadline_s: float | None = None
    exclude_unreachable: bool = False
    learned: Literal["average", "last"] = "average"
    name: ClassVar[str] = "resilient"
    cites: ClassVar[str] = "jhunjhunwala2022fedvarp"

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, shape: Shape, fleet: Fleet) -> Plan:
        plan = plan_coded_rounds(self, shape, fleet, layout="stacked", server_rows=0)
        held = int(require_code(plan, "nobody to stand in").rows.sum())
        making, applying = price_preconditioner(held, shape.features, shape.outputs)
        making += price_start(held, shape) + applying
        return replace(plan, server_setup_macs=making, step_macs=applying, individual=True)

    def combine(self, plan: Plan, arrivals: Arrivals, state: State) -> Combination:
        assert plan.code is not None
        arrived = arrivals.arrived
        missing = int(plan.code.rows[~arrived].sum())
        return Combination(
            clients=np.ones(len(arrived)),
            coded=np.zeros(plan.code.blocks),
            memory=vars(listen(state, arrivals)),
            # Four products of coded rows with a matrix as large as the model.
            macs=4.0 * missing * plan.shape.features * plan.shape.outputs,
        )

    def step(self, plan: Plan, state: State, direction: Matrix, held: CodedData | None) -> State:
        assert held is not None
        heard, noise = hear(state, plan.shape.clients), noise_curvature(plan)
        known = know_curvature(held, noise_variance=noise)
        anchor = _ANCHOR * (known.ridge + noise) / plan.shape.clients
        for client in np.flatnonzero(~heard.arrived).tolist():
            direction = direction + predict(plan, heard, held, client, state.model, anchor=anchor)
        eta = 1 / second_moment(plan, known, weighted=False)
        return step_with(known, state, direction, held, eta=eta)


@dataclass(frozen=True, eq=False)
class Heard:
    """What clients have answered: averages of answers and of the models they were given for."""

    answers: Matrix
    models: Matrix
    count: NDArray[np.int64]
    arrived: NDArray[np.bool_]


def hear(state: State, clients: int) -> Heard:
    """What was heard so far: at first, or where clients changed, nothing; nobody is missed."""
    if state.memory is not None and len(state.memory["count"]) == clients:
        return Heard(**state.memory)
    zeros = np.zeros((clients, *state.model.shape), dtype=state.model.dtype)
    return Heard(zeros, zeros, np.zeros(clients, dtype=np.int64), np.ones(clients, dtype=bool))


def listen(state: State, arrivals: Arrivals) -> Heard:
    """Take this round's answers into the averages, later ones with more weight."""
    arrived, gradients = arrivals.arrived, arrivals.gradients
    before = hear(state, len(arrived))
    if gradients is None:
        return replace(before, arrived=arrived)
    share = np.where(arrived, 2 / (before.count + 2), 0.0).astype(state.model.dtype)[:, None, None]
    return replace(
        before,
        answers=before.answers + share * (gradients - before.answers),
        models=before.models + share * (state.model - before.models),
        count=before.count + arrived,
        arrived=arrived,
    )


def predict(
    plan: Plan, heard: Heard, held: CodedData, client: int, model: Matrix, *, anchor: float
) -> Matrix:
    """g^_i(W): the gradient that a missing client would have sent."""
    assert plan.code is not None
    own = held.store.owner == client
    rows, targets = held.store.features[own], held.store.targets[own]
    length, variance = len(rows), plan.code.noise.sigma**2
    center = heard.models[client]
    away = model - center
    change, residual = rows @ away, rows @ center - targets
    opinion = rows.T @ residual / length - model.dtype.type(variance) * center
    trust = model.dtype.type(
        weigh_answers(plan, heard, client, rows, residual=residual, change=change)
    )
    slope = rows.T @ change / length + model.dtype.type(anchor) * away
    predicted: Matrix = (1 - trust) * opinion + trust * heard.answers[client] + slope
    return predicted


def weigh_answers(
    plan: Plan, heard: Heard, client: int, rows: Matrix, *, residual: Matrix, change: Matrix
) -> float:
    """theta: how much of the prediction's height comes from the client's own answers."""
    assert plan.code is not None
    count = int(heard.count[client])
    if count == 0:
        return 0.0
    noise, length = plan.code.noise, len(rows)
    variance = noise.sigma**2
    noisy = _square(rows) / length
    data = max(noisy - variance * plan.shape.features, 0.0)
    bias = _square(heard.models[client]) + noise.labels * plan.shape.outputs
    left = max(_square(residual) / length - variance * bias, 0.0)
    seen = 0.75 * count * min(int(plan.loads[client]), int(plan.shape.client_rows[client]))
    sampling = max(1 / seen - 1 / int(plan.shape.client_rows[client]), 0.0)
    code = noisy * _square(residual + change) / length**2
    answers = data * left * sampling + noisy * _square(change) / length**2
    return code / (code + answers) if code + answers > 0 else 1.0


def _square(matrix: Matrix) -> float:
    return float(np.square(matrix, dtype=np.float64).sum())
