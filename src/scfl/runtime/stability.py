"""Whether a run can settle: the make-up term against the curvature that the code left behind.

A direction's mean is the gradient of a quadratic; with the make-up term its curvature may have a
negative eigenvalue, and then the model grows along it for as long as training lasts. The server
can tell before the first round, from the coded data that it holds and its own weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.core.theory.estimate import Definiteness, estimate_definiteness
from scfl.methods.protocol import Arrivals, Combination, Method, Plan, State
from scfl.methods.schedule import StepDecay, TheoremOne, step_size

Floats = NDArray[np.float64]


class InstabilityWarning(UserWarning):
    """The make-up term takes away more curvature than there is: training has no limit."""


@dataclass(frozen=True)
class Stability:
    """The curvature that decides, on the scale of X^T X, and how fast the model grows if it does.

    ``folding_rounds`` is the number of rounds in which the model grows e-fold along the worst
    direction; None where nothing grows, or the learning rate is not known.
    """

    curvature: Definiteness
    folding_rounds: float | None = None

    @property
    def warning(self) -> str | None:
        """One sentence with the numbers and the ways out, if there is something to warn of."""
        found = self.curvature
        if not found.indefinite:
            return None
        grows = ""
        if self.folding_rounds is not None:
            grows = f" and the model grows e-fold in about {self.folding_rounds:.3g} rounds"
        return (
            f"the make-up term takes away n sigma^2 = {found.bias:.4g}, more curvature than the "
            "noisy coded data holds: the smallest eigenvalue of X^T X + X~^T X~ / c - n sigma^2 I "
            f"is about {found.estimate:.3g} (at least {found.at_least:.3g}), so training has no "
            f'limit{grows}; use less noise, more coded rows, make-up = "safe" or false where the '
            "method has it, few rounds at a low learning rate, or a method without a make-up term"
        )


def has_make_up(method: Method, plan: Plan) -> bool:
    """Whether there is anything to look at: noisy coded data whose weight shrinks the model.

    Where blocks count only for who is absent, there is no one quadratic, and nothing is foreseen.
    """
    code = plan.code
    if code is None or code.content != "sketch" or code.per_subset or code.noise.sigma == 0:
        return False
    full, empty = (_weigh(method, plan, here) for here in (plan.loads > 0, plan.loads < 0))
    same = np.array_equal(full.coded, empty.coded) and full.shrink == empty.shrink
    return same and full.shrink > 0 and bool((full.coded > 0).all())


def foresee_stability(
    method: Method, plan: Plan, held: CodedData | None, *, rate_known: bool = True
) -> Stability | None:
    """What the server can tell of a run's limit before the first round; None without a make-up."""
    if held is None or plan.code is None or not has_make_up(method, plan):
        return None
    asked = plan.loads > 0
    mean = _weigh(method, plan, asked)
    coded = float(mean.coded.mean())
    found = _estimate(
        held,
        tuple((mean.coded / coded).tolist()),
        shrink=mean.shrink / coded,
        noise_variance=plan.code.noise.sigma**2 * plan.shape.clients,
        share=float((mean.clients * _chance(plan))[asked].mean()) / coded if asked.any() else 0.0,
    )
    rate = getattr(method, "learning_rate", None)
    folding = None
    if rate_known and found.estimate < 0 and isinstance(rate, (int, float, StepDecay, TheoremOne)):
        growth = step_size(rate, 0, plan.shape.rows) * coded * -found.estimate
        folding = 1 / math.log1p(growth)
    return Stability(found, folding)


@lru_cache(maxsize=1)
def _estimate(
    held: CodedData,
    block_weights: tuple[float, ...],
    *,
    shrink: float,
    noise_variance: float,
    share: float,
) -> Definiteness:
    """Look at coded data whose blocks weigh so much and hold that noise in all.

    The last answer is kept: in a search the same code is looked at with every learning rate.
    """
    weights, lengths = np.array(block_weights), held.store.lengths[0]
    rows = held.store.features * np.sqrt(weights / lengths)[held.store.owner, None].astype(
        held.store.features.dtype
    )
    with np.errstate(over="ignore"):
        curvature = rows.T @ rows
    if not np.isfinite(curvature).all():
        rows = rows.astype(np.float64)
        curvature = rows.T @ rows
    return estimate_definiteness(
        curvature,
        coded_rows=float(weights.sum() ** 2 / (weights**2 / lengths).sum()),
        shrink=shrink,
        noise_variance=noise_variance / len(lengths) * float(weights.sum()),
        share=share,
    )


def _weigh(method: Method, plan: Plan, arrived: NDArray[np.bool_]) -> Combination:
    """The weights of the first round if just these arrive."""
    zero = np.zeros((plan.shape.features, plan.shape.outputs))
    return method.combine(plan, Arrivals(0, arrived), State(zero, zero))


def _chance(plan: Plan) -> Floats:
    """The probability that each client's weight counts in a round."""
    asked = (plan.loads > 0).astype(np.float64)
    return asked if plan.arrival_probability is None else asked * plan.arrival_probability
