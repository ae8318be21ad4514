"""How much clients may tell: the noise that a budget asks for, and for how many rounds it lasts.

Nobody here sees rows, so all follows from the plan and from what clients said of themselves. Coins
that decide which rows take part are tossed by the server: it knows them, and they hide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.fleet import Fleet
from scfl.errors import InfeasibleError, Problem
from scfl.methods.protocol import Code, Method, Plan, ServerOnly
from scfl.methods.releases import list_releases
from scfl.privacy.accountant import Account, account_for, noise_for
from scfl.privacy.budget import Budget
from scfl.privacy.events import Release
from scfl.privacy.mutual_information import state_bits
from scfl.runtime.calibration import PrintedBudget, set_noise
from scfl.runtime.network.clients import Client, shape_of

Floats = NDArray[np.float64]

# A budget that lasts longer than this is no limit.
_MANY_ROUNDS = 1 << 40


def list_protection(budget: Budget) -> dict[str, Any]:
    """What clients are told beforehand, so that what they send keeps within a budget."""
    told: dict[str, Any] = {"row-norm": budget.row_norm}
    if budget.protects_gradients is not None:
        told["gradient"] = asdict(budget.protects_gradients)
    if budget.mi_bits is not None:
        told["measure-energy"] = True
    return {name: value for name, value in told.items() if value is not None}


def calibrate_method(
    method: Method, fleet: Fleet, budget: Budget, clients: Sequence[Client]
) -> Method:
    """The method with the least noise that keeps every one of these clients within the budget."""
    return set_noise(
        method,
        shape_of(clients),
        fleet,
        budget,
        row_norm=budget.row_norm,
        measure=lambda _, code: _measured(code, clients),
    )


def _measured(code: Code, clients: Sequence[Client]) -> tuple[Floats, float]:
    if code.per_subset or code.processed_weight is not None:
        raise InfeasibleError(
            [
                Problem(
                    "mi_bits",
                    "is known on a network for codes of all rows with one weight, which this "
                    "method does not make; give epsilon, delta and row_norm instead",
                )
            ]
        )
    scale = max(client.largest for client in clients) or 1.0
    return np.array([[client.energy for client in clients]]), scale


def refuse_newcomer(plan: Plan, budget: Budget, clients: Sequence[Client]) -> str | None:
    """Why the last client cannot be covered by the noise that everybody's code has, or None."""
    code = plan.code
    if code is None or not budget.calibrates:
        return None
    if budget.mi_bits is not None:
        energies, scale = _measured(code, clients)
        bits = state_bits(code.rows, energies, code.noise.sigma, scale=scale)
        return None if bits.max() <= budget.mi_bits else _beyond(f"{budget.mi_bits:g} bits")
    assert budget.epsilon is not None
    assert budget.delta is not None
    assert budget.row_norm is not None
    needed = noise_for(
        list_releases(plan, 0)[-1],
        epsilon=budget.epsilon,
        delta=budget.delta,
        row_norm=budget.row_norm,
    )
    # Its own noise may be a hair below what the same question answers another time.
    return None if needed <= code.noise.sigma * (1 + 1e-9) else _beyond(f"{budget.epsilon:g}")


def _beyond(what: str) -> str:
    return (
        f"with the noise that training began with, its coded data would exceed the budget of {what}"
    )


def list_told(plan: Plan, asked: int, budget: Budget) -> list[tuple[Release, ...]]:
    """What each client has sent when it was asked for so many gradients."""
    return list_releases(plan, asked, budget.protects_gradients, own_coins=False)


def account_clients(plan: Plan, asked: int, budget: Budget) -> list[Account]:
    """What is guaranteed of that."""
    return [
        account_for(events, delta=budget.delta, row_norm=budget.row_norm)
        for events in list_told(plan, asked, budget)
    ]


@dataclass(eq=False)
class Limit:
    """Asked before each round: why no client may be asked for one gradient more, or None."""

    budget: Budget
    most_gradients: int | None = None
    most_epsilon: float | None = None
    _counted: tuple[Plan, int] | None = None

    def __call__(self, plan: Plan, asked: int) -> str | None:
        most, bound = self.most_gradients, self.most_epsilon
        if most is not None and asked >= most and not isinstance(plan.wait, ServerOnly):
            return f"the budget of {most} gradients per client is spent; the model so far is kept"
        if bound is None:
            return None
        if self._counted is None or self._counted[0] is not plan:
            self._counted = plan, count_rounds_within(plan, self.budget, bound)
        return None if asked < self._counted[1] else self._tell(plan, asked, bound)

    def _tell(self, plan: Plan, asked: int, bound: float) -> str:
        if any(account.whole is None for account in account_clients(plan, asked + 1, self.budget)):
            return (
                f"most-epsilon {bound:g} cannot be kept, as not all that clients send is covered "
                "by a guarantee; give [privacy] an epsilon, and gradient-norm and gradient-noise"
            )
        accounts = account_clients(plan, asked, self.budget)
        spent = max(account.whole.epsilon for account in accounts if account.whole is not None)
        if not asked or spent > bound:
            return (
                f"most-epsilon {bound:g} cannot be kept: what clients send before the first round "
                f"comes to epsilon {spent:.4g}; allow more, or give more noise"
            )
        return (
            f"epsilon {spent:.4g} of {bound:g} is spent, and one round more would exceed it; "
            "the model so far is kept"
        )


def count_rounds_within(plan: Plan, budget: Budget, most_epsilon: float) -> int:
    """For how many rounds every client stays within ``most_epsilon``.

    Something without a guarantee exceeds every bound.
    """

    def keeps(rounds: int) -> bool:
        accounts = account_clients(plan, rounds, budget)
        return all(
            account.whole is not None and account.whole.epsilon <= most_epsilon
            for account in accounts
        )

    known, tried = 0, 1
    while tried < _MANY_ROUNDS and keeps(tried):
        known, tried = tried, 2 * tried
    if tried >= _MANY_ROUNDS:
        return _MANY_ROUNDS
    while tried - known > 1:
        middle = (known + tried) // 2
        known, tried = (middle, tried) if keeps(middle) else (known, middle)
    return known


def state_printed(plan: Plan, clients: Sequence[Client]) -> PrintedBudget | None:
    """The paper's number for a plan, where clients said what it takes."""
    code: Any = plan.code
    if code is None or code.content != "sketch" or not any(client.largest for client in clients):
        return None
    energies, scale = _measured(code, clients)
    bits = state_bits(code.rows, energies, code.noise.sigma, scale=scale).max(axis=0)
    return PrintedBudget(bits=bits, scale=scale, sigma=code.noise.sigma)
