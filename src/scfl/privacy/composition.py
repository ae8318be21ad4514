"""The whole protocol: the sketch and the noisy gradients of all rounds, composed.

Renyi divergences add up over everything that a client sends, also where one message depends on the
last. The sketch's is known in closed form; those of (sub-sampled) Gaussian gradients, and the step
from divergences to (epsilon, delta), are dp-accounting's. Sub-sampling counts only where each row
is drawn by a coin of its own that stays with the client; rows that take fixed turns are counted as
present in each of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.errors import InfeasibleError, Problem
from scfl.privacy.events import Gradients, Release, Sketch
from scfl.privacy.sketch import bound_ratio, bound_renyi

_ORDERS = np.concatenate([1 + np.geomspace(0.01, 9, 60), np.geomspace(10.5, 1024, 60)])


def require_accounting() -> Any:
    """dp-accounting, or a sentence on how to get it; asked for before anything runs."""
    try:
        return import_module("dp_accounting")
    except ImportError:
        raise InfeasibleError(
            [
                Problem(
                    "gradient_noise",
                    "is accounted for by dp-accounting, which is not installed; "
                    "install it with pip install 'scfl[privacy]'",
                )
            ]
        ) from None


def compose(events: Sequence[Release], *, delta: float, row_norm: float) -> float:
    """The epsilon at ``delta`` of noisy sketches and noisy gradients together."""
    accounting = require_accounting()
    orders = _usable_orders(events, row_norm)
    accountant = accounting.rdp.RdpAccountant(orders)
    divergences: NDArray[np.float64] = np.zeros(len(orders))
    for event in events:
        if isinstance(event, Gradients):
            accountant.compose(_describe(accounting, event))
        elif isinstance(event, Sketch):
            ratio = bound_ratio(event.sigma, row_norm=row_norm * event.row_weight)
            divergences += [
                bound_renyi(float(order), rows=event.rows, ratio=ratio) for order in orders
            ]
    epsilon, _ = accounting.rdp.compute_epsilon(orders, accountant.rdp + divergences, delta)
    return float(epsilon)


def _describe(accounting: Any, event: Gradients) -> Any:
    assert event.norm is not None
    assert event.turns is not None
    gradient = accounting.GaussianDpEvent(event.sigma / event.norm)
    if event.rate < 1:
        gradient = accounting.PoissonSampledDpEvent(event.rate, gradient)
    return accounting.SelfComposedDpEvent(gradient, event.turns)


def _usable_orders(events: Sequence[Release], row_norm: float) -> NDArray[np.float64]:
    """Orders at which every sketch's divergence is finite, packed towards where it stops."""
    limit = min(
        (
            1 + 1 / bound_ratio(event.sigma, row_norm=row_norm * event.row_weight)
            for event in events
            if isinstance(event, Sketch)
        ),
        default=np.inf,
    )
    if np.isinf(limit):
        return _ORDERS
    inside = 1 + (limit - 1) * np.concatenate(
        [np.geomspace(1e-3, 0.5, 40), np.linspace(0.52, 0.999, 40)]
    )
    return np.unique(np.concatenate([_ORDERS[_ORDERS < limit], inside]))
