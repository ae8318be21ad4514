"""The noise that a budget needs, method by method, and what the paper's number says afterwards.

A budget is the same for every method; the noise is not: it depends on how many coded rows each
client sends, on the rows that enter each code, and on their weights in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import Noise, as_noise
from scfl.core.fleet import Fleet, Shape
from scfl.core.sampling import subset_count
from scfl.data.problem import Problem
from scfl.errors import InfeasibleError
from scfl.errors import Problem as Issue
from scfl.methods.protocol import Code, Method, Plan
from scfl.methods.releases import list_releases
from scfl.privacy.accountant import noise_for
from scfl.privacy.budget import Budget
from scfl.privacy.mutual_information import COVERS, find_sigma, measure_energy, state_bits

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Floats = NDArray[np.float64]

# Passes over all rows, asked for by every method, seed and budget of a study.
_ENERGIES: WeakKeyDictionary[Problem, dict[tuple[int, bytes], Floats]] = WeakKeyDictionary()
_SCALES: WeakKeyDictionary[Problem, float] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class PrintedBudget:
    """What Theorem 2 says of the coded data: ``bits`` per client, of features over ``scale``."""

    bits: Floats
    scale: float
    sigma: float
    covers: str = COVERS

    @property
    def largest(self) -> float:
        """The paper's eps: the largest client's; infinite where nothing hides an entry."""
        return float(self.bits.max())


def calibrate(method: Method, problem: Problem, fleet: Fleet, budget: Budget) -> Method:
    """The same method with the least noise that keeps every client within the budget.

    An ``epsilon`` is a promise about rows of bounded norm: give a problem from
    :func:`scfl.bound_rows`. It puts noise on the labels too.
    """
    return set_noise(
        method,
        problem.shape,
        fleet,
        budget,
        row_norm=problem.row_norm,
        measure=lambda plan, code: (measure_energies(problem, plan, code), measure_scale(problem)),
    )


def set_noise(
    method: Method,
    shape: Shape,
    fleet: Fleet,
    budget: Budget,
    *,
    row_norm: float | None,
    measure: Callable[[Plan, Code], tuple[Floats, float]],
) -> Method:
    """What ``calibrate`` does, for whoever has no problem at hand.

    ``row_norm`` is what rows are held to. ``measure`` tells the energies of all codes and the scale
    of the features; it is asked where a printed budget needs to know.
    """
    if not budget.calibrates or not hasattr(method, "noise"):
        return method
    own = as_noise(method.noise)
    if own.sigma > 0:
        raise _refuse(
            "noise",
            f"{own.sigma:g} is given, and the budget asks for the noise that it needs; "
            "leave one of them out",
        )
    plan = method.plan(shape, fleet)
    if plan.code is None:
        return method
    if budget.mi_bits is not None:
        energies, scale = measure(plan, plan.code)
        sigma = find_sigma(budget.mi_bits, plan.code.rows, energies, scale=scale)
        return _with_noise(method, replace(own, sigma=sigma))
    assert budget.epsilon is not None
    assert budget.delta is not None
    assert budget.row_norm is not None
    if row_norm is None or row_norm > budget.row_norm:
        raise _refuse(
            "row_norm",
            f"{budget.row_norm:g} is promised, and the problem's rows are not held to it; "
            "pass bound_rows(problem, row_norm)",
        )
    events = [event for events in list_releases(plan, 0) for event in events]
    sigma = noise_for(events, epsilon=budget.epsilon, delta=budget.delta, row_norm=budget.row_norm)
    return _with_noise(method, Noise(sigma, labels=True))


def _with_noise(method: Method, noise: Noise) -> Method:
    fields: dict[str, Any] = {"noise": noise}
    return cast(Method, replace(cast("DataclassInstance", method), **fields))


def _refuse(field: str, sentence: str) -> InfeasibleError:
    return InfeasibleError([Issue(field, sentence)])


def state_budget(problem: Problem, plan: Plan) -> PrintedBudget | None:
    """What Theorem 2 says of a plan's coded data; nothing where no rows are coded."""
    code = plan.code
    if code is None or code.content != "sketch":
        return None
    scale, energies = measure_scale(problem), measure_energies(problem, plan, code)
    bits = state_bits(code.rows, energies, code.noise.sigma, scale=scale).max(axis=0)
    return PrintedBudget(bits=bits, scale=scale, sigma=code.noise.sigma)


def measure_scale(problem: Problem) -> float:
    """The largest absolute entry of all clients' features: dividing by it brings them to 1."""
    if problem not in _SCALES:
        largest = max(float(problem.features.max()), -float(problem.features.min()))
        _SCALES[problem] = largest or 1.0
    return _SCALES[problem]


def measure_energies(problem: Problem, plan: Plan, code: Code) -> Floats:
    """h^2 of every code (subsets by clients), of the rows as they enter it.

    A row that enters with a weight below 1 hides and shows less; the printed formula is kept and
    given the rows as they are coded, with entries still counted as if they could be 1.
    """
    codes = subset_count(plan.sampling) if code.per_subset else 1
    known = _ENERGIES.setdefault(problem, {})
    weight = code.processed_weight
    key = codes, b"" if weight is None else plan.loads.tobytes() + weight.tobytes()
    if key in known:
        return known[key]
    energies = np.empty((codes, plan.shape.clients))
    for client in range(plan.shape.clients):
        rows = problem.features[problem.client(client)]
        cuts = len(rows) * np.arange(codes + 1) // codes
        for part in range(codes):
            some = rows[cuts[part] : cuts[part + 1]]
            weights = None
            if code.processed_weight is not None:
                processed = np.arange(len(some)) < plan.loads[client]
                weights = np.where(processed, code.processed_weight[client], 1.0)
            energies[part, client] = measure_energy(some, weights) if len(some) else np.inf
    known[key] = energies
    return energies
