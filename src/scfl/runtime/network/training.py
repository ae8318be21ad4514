"""Rounds as they happen: who is asked for what, which answers count, when a round is over.

No clock is read and nothing is sent here: whoever drives it says what time it is and what came.
The decisions are the method's, the same three as in the simulator; with the same arrivals, the same
model comes out (to rounding: here each client sums its own rows first).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import Draw, draw_rows, draw_subsets, subset_count, subset_lengths
from scfl.methods.protocol import (
    Arrivals,
    Deadline,
    Fastest,
    Method,
    Plan,
    ServerOnly,
    State,
)
from scfl.runtime.direction import add_parts, compute_coded_gradients
from scfl.runtime.network.estimate import Estimate
from scfl.runtime.network.inspection import Sizes, refuse_matrix
from scfl.runtime.network.wire import Gradient, Work, pack_work

Matrix = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# So many rounds back it is known who has answered.
_REMEMBERED = 64
# What became of an answer, when it was none that counts.
STALE, UNASKED, DUPLICATE = "stale", "unasked", "duplicate"


@dataclass(eq=False)
class OpenRound:
    """A round that is under way; clients by their place in the plan."""

    plan: Plan
    subset: int
    opened_at: float
    closes_at: float
    asked: Mask
    draw: Draw
    came_at: dict[int, float] = field(default_factory=dict)
    late_at: dict[int, float] = field(default_factory=dict)
    gradients: dict[int, Matrix] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    coded: list[Matrix] | None = None

    @property
    def pending(self) -> int:
        """How many may still answer."""
        heard = self.came_at.keys() | self.refused.keys() | self.gone
        return int(self.asked.sum()) - len(heard)

    @property
    def enough(self) -> bool:
        """Whether all that the round waits for has happened."""
        wait = self.plan.wait
        if isinstance(wait, Fastest) and len(self.came_at) >= wait.count:
            return True
        return self.pending == 0

    def rows_of(self, client: int) -> float:
        """The rows that a client was asked for."""
        coins = self.draw.coins_of(client)
        return float(self.draw.count[client] if coins is None else coins.sum())


@dataclass(frozen=True, eq=False)
class ClosedRound:
    """What a round came to; arrays have one entry per client of the plan."""

    asked: Mask
    arrived: Mask
    gone: Mask
    delays: Floats
    weights: Floats
    refused: dict[int, str]
    opened_at: float
    subset: int


@dataclass(eq=False)
class Training:
    """Where training stands, and the round that is open. Clients are places in ``plan``."""

    method: Method
    plan: Plan
    held: CodedData | None
    state: State
    estimate: Estimate
    seed: int
    patience_s: float
    learn: bool = True
    sizes: Sizes = field(default_factory=Sizes)
    silent: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    open: OpenRound | None = None
    failed: str | None = None
    answered: dict[int, deque[int]] = field(default_factory=dict)

    def open_round(self, now: float, here: Mask) -> list[tuple[int, Work]]:
        """Begin the next round with those who are here; the work that each is asked for."""
        plan, number = self.plan, self.state.round
        if plan.arrival_probability is not None and self.learn:
            plan = replace(plan, arrival_probability=self.estimate.probability)
        count = subset_count(plan.sampling)
        subset = int(draw_subsets(self.seed, number, 1, count)[0])
        asked = (plan.loads > 0) & here
        if isinstance(plan.wait, ServerOnly):
            asked = np.zeros_like(asked)
        drawn = draw_rows(
            subset_lengths(plan.shape.client_rows, count)[subset],
            plan.sampling,
            plan.loads,
            partial(stream, self.seed, Purpose.CLIENT_BATCHES, 1, number),
        )
        lasts = plan.wait.seconds if isinstance(plan.wait, Deadline) else self.patience_s
        self.open = OpenRound(plan, subset, now, now + lasts, asked, drawn)
        return [
            (
                client,
                pack_work(
                    self.state.model,
                    round_number=number,
                    subsets=count,
                    subset=subset,
                    start=int(drawn.start[client]),
                    count=int(drawn.count[client]),
                    mask=drawn.coins_of(client),
                ),
            )
            for client in np.flatnonzero(asked).tolist()
        ]

    def take(self, client: int, answer: Gradient, at: float) -> str | None:
        """Keep an answer that came ``at`` some time; say why if it does not count."""
        why, model = self._place(client, answer.round, at), self.state.model
        if why is None:
            assert self.open is not None
            why = refuse_matrix(answer.array, model.shape[::-1], model.dtype)
            if why is None:
                self.open.came_at[client] = at
                self.open.gradients[client] = answer.array.T
            else:
                self.open.refused[client] = why
        return why

    def _place(self, client: int, number: int, at: float) -> str | None:
        """Why an answer to a round is none that the open round waits for, or None."""
        current, before = self.open, self.answered.setdefault(client, deque(maxlen=_REMEMBERED))
        if number in before:
            return DUPLICATE
        if 0 <= number < self.state.round:
            before.append(number)
            return STALE
        if current is None or number != self.state.round or not current.asked[client]:
            return UNASKED
        if client in current.refused:
            return DUPLICATE
        before.append(number)
        if at > current.closes_at:
            current.late_at.setdefault(client, at)
            return STALE
        return None

    def refuse(self, client: int, why: str) -> None:
        """What somebody sent cannot even be read: nobody waits for another answer."""
        current = self.open
        if current is not None and current.asked[client] and client not in current.came_at:
            current.refused.setdefault(client, why)

    def distrust(self, client: int) -> None:
        """Somebody sent what is no use: it weighs less for a while."""
        self.estimate = self.estimate.distrust(client)

    def lose(self, client: int) -> None:
        """Somebody is gone: nobody waits for them."""
        current = self.open
        if current is not None and current.asked[client] and client not in current.came_at:
            current.gone.add(client)

    def compute(self) -> bool:
        """The server's own part, while it waits; False when there is nothing left to do."""
        current = self.open
        if current is None or current.coded is not None:
            return False
        current.coded = (
            []
            if self.held is None or self.plan.code is None
            else compute_coded_gradients(
                self.plan,
                self.state.model,
                held=self.held,
                subset=current.subset,
                round_number=self.state.round,
                seed=self.seed,
            )
        )
        return True

    def is_over(self, now: float) -> bool:
        """Whether the open round can close: at its deadline, or with nobody left to wait for."""
        current = self.open
        return (
            current is not None
            and current.coded is not None
            and (now >= current.closes_at or current.enough)
        )

    def close_round(self) -> ClosedRound:
        """Weigh what came, and step. A step that leads nowhere finite is not taken."""
        current = self.open
        assert current is not None
        assert current.coded is not None
        self.open = None
        clients = len(current.asked)
        for client, why in self.sizes.sort_out(
            {c: (matrix, current.rows_of(c)) for c, matrix in current.gradients.items()}
        ).items():
            current.refused[client] = why
            del current.gradients[client]
        counted = sorted(current.gradients, key=current.came_at.__getitem__)
        if isinstance(current.plan.wait, Fastest):
            counted = counted[: current.plan.wait.count]
        arrived = _mask(counted, clients)
        scaled = {
            c: current.gradients[c].dtype.type(current.draw.scale[c]) * current.gradients[c]
            for c in counted
        }
        # Who is away was due to be asked: only rounds in a row tell a departure from a delay.
        known = np.zeros(clients, dtype=np.int64)
        known[: len(self.silent)] = self.silent
        before = Arrivals(self.state.round - 1, np.ones(clients, dtype=bool), known)
        arrivals = before.following(arrived, self.plan.loads > 0)
        self.silent = arrivals.silent
        if current.plan.individual:
            arrivals = replace(arrivals, gradients=_stack(scaled, clients, self.state.model))
        combination = self.method.combine(current.plan, arrivals, self.state)
        if combination.memory is not None:
            self.state = replace(self.state, memory=combination.memory)
        combination = replace(combination, clients=combination.clients * self.estimate.trust)
        with np.errstate(over="ignore", invalid="ignore"):
            direction = add_parts(combination, self.state.model, scaled, current.coded)
            stepped = self.method.step(current.plan, self.state, direction, self.held)
        if np.isfinite(stepped.model).all() and np.isfinite(stepped.average).all():
            self.state = stepped
        else:
            self.failed = (
                f"the model is no longer finite after round {self.state.round + 1}; the last good "
                "one is kept; try a lower learning rate"
            )
        gone, refused = _mask(current.gone, clients), _mask(current.refused, clients)
        self.estimate = self.estimate.watch(current.asked & ~gone, arrived, refused)
        delays = np.full(clients, np.nan)
        for client, at in (current.late_at | current.came_at).items():
            delays[client] = at - current.opened_at
        return ClosedRound(
            asked=current.asked,
            arrived=arrived,
            gone=gone,
            delays=delays,
            weights=combination.clients,
            refused=current.refused,
            opened_at=current.opened_at,
            subset=current.subset,
        )


def _stack(gradients: Mapping[int, Matrix], clients: int, model: Matrix) -> Matrix:
    """Clients by d by o, zeros for those without a gradient."""
    stacked = np.zeros((clients, *model.shape), dtype=model.dtype)
    for client, gradient in gradients.items():
        stacked[client] = gradient
    return stacked


def _mask(some: Any, size: int) -> Mask:
    chosen = np.zeros(size, dtype=bool)
    chosen[list(some)] = True
    return chosen
