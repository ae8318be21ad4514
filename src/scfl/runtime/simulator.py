"""The virtual clock: run a method on a fleet whose delays are drawn, not waited for.

The simulator knows who arrives before any arithmetic, so a round is one fused pass over exactly
the rows that count. Everything a method decides comes from its plan, combine and step; a network
driver calls the same three.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from scfl.core.availability import Presence
from scfl.core.coding import CodedData
from scfl.core.fleet import Fleet, check_fits
from scfl.core.parameter import Requirements
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import RowStore, draw_subsets, subset_count
from scfl.data.problem import Problem
from scfl.methods.protocol import (
    All,
    Arrivals,
    Combination,
    Deadline,
    Fastest,
    Method,
    Plan,
    State,
    Wait,
)
from scfl.privacy.budget import GradientNoise
from scfl.runtime.direction import Guard, compute_direction, compute_gradients, make_guard
from scfl.runtime.encoding import Coding, hold_code, price_setup
from scfl.runtime.evaluation import Evaluator, explain_divergence
from scfl.runtime.result import ABSENT, ARRIVED, LATE, NOT_ASKED, Ledger, Result
from scfl.runtime.stability import InstabilityWarning, foresee_stability

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Rounds whose delays are drawn at once. Part of what a seed means: never change it.
_CHUNK = 256
# A horizon that is a whole number of rounds admits the last one in spite of rounding.
_ROUNDING = 1e-9


def simulate(
    problem: Problem,
    fleet: Fleet,
    method: Method,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    random_state: int = 0,
    evaluate_every: int = 10,
    evaluate_every_s: float | None = None,
    evaluate_growth: float | None = None,
    count_setup: bool = True,
    coding: Coding = "clients",
    gradient_noise: GradientNoise | None = None,
) -> Result:
    """Train on the virtual clock for a number of rounds, a number of virtual seconds, or both.

    ``seconds`` is read off the clock: with ``count_setup`` the coded data has to be encoded and
    uploaded within it too. ``random_state`` fixes code, noise, batches and delays, and two methods
    with the same one meet the same delays. The model is looked at every so many rounds, or, with
    ``evaluate_every_s``, every so many seconds of training, however short a method's rounds are;
    with ``evaluate_growth``, when there have been so much more rounds than at the last look: 0.05
    knows when a model was how good to 5%, early in every round, later seldom.
    ``gradient_noise`` clips each row's gradient and has every client add noise before it sends.

    Where the make-up term leaves training without a limit, an ``InstabilityWarning`` says so before
    the first round.
    """
    with Requirements() as require:
        require.that(
            rounds is not None or seconds is not None,
            "rounds",
            "say how long to train: give rounds, seconds, or both",
        )
        if rounds is not None:
            require.count("rounds", rounds, at_least=1)
        if seconds is not None:
            require.number("seconds", seconds, above=0)
        require.count("random_state", random_state)
        require.count("evaluate_every", evaluate_every, at_least=1)
        require.that(
            evaluate_every_s is None or evaluate_every_s > 0,
            "evaluate_every_s",
            f"{evaluate_every_s!r} is not allowed; give seconds above 0",
        )
        require.that(
            evaluate_growth is None or evaluate_growth > 0,
            "evaluate_growth",
            f"{evaluate_growth!r} is not allowed; give a share above 0",
        )
        require.choice("coding", coding, ("clients", "gram-shortcut"))
    check_fits(fleet, problem.shape)
    plan = method.plan(problem.shape, fleet)
    setup = price_setup(plan, fleet)
    rounds = min((most for most in (rounds, plan.rounds) if most is not None), default=None)
    budget = np.inf if seconds is None else seconds - (setup.seconds if count_setup else 0.0)
    asked, unsent = plan.loads > 0, 0
    message_bytes = fleet.message_bits(problem.shape) / 8
    evaluator, ledger = Evaluator(problem, plan.learned), _LedgerWriter(asked)
    shape = problem.shape
    zero = np.zeros((shape.features, shape.outputs), dtype=problem.features.dtype)
    state, closed_s, combination = State(zero, zero), 0.0, None
    due = partial(
        evaluator.is_due, every=evaluate_every, every_s=evaluate_every_s, growth=evaluate_growth
    )

    def look() -> None:
        down = state.round * message_bytes * asked.sum()
        evaluator.look(state, closed_s, down - unsent * message_bytes, down)

    # A run that diverges overflows; it is told by its model, not by a warning.
    with threadpool_limits(1, "blas"), np.errstate(over="ignore", invalid="ignore"):
        store = problem.arrange(subset_count(plan.sampling))
        held = hold_code(problem, store, plan, random_state, coding)
        stability = foresee_stability(method, plan, held)
        if stability is not None and stability.warning is not None:
            said = f"{method.name}: {stability.warning}"
            warnings.warn(said, InstabilityWarning, stacklevel=2)
        look()
        for played in play_rounds(
            method,
            plan,
            fleet,
            state,
            store=store,
            held=held,
            budget_s=budget,
            seed=random_state,
            guard=None if gradient_noise is None else make_guard(store, gradient_noise),
        ):
            state, closed_s, combination = played.state, played.closed_s, played.combination
            ledger.write(played)
            unsent += int((asked & np.isinf(played.delays)).sum())
            broken = not np.isfinite(state.model).all()
            if broken or state.round == rounds or due(state.round, closed_s):
                look()
            if evaluator.exploded or state.round == rounds:
                break
        if evaluator.last_round < state.round:
            look()
        diverged = None
        if evaluator.exploded and combination is not None:
            diverged = explain_divergence(problem, method, combination, state, stability)
    return Result(
        problem=problem,
        method=method,
        plan=plan,
        seed=random_state,
        trace=evaluator.trace(),
        ledger=ledger.finish(message_bytes),
        setup=setup,
        setup_counted=count_setup,
        model_last=state.model,
        model_average=state.average,
        held=held,
        stability=stability,
        gradient_noise=gradient_noise,
        diverged=diverged,
    )


@dataclass(frozen=True, eq=False)
class PlayedRound:
    """A round that is over: who was here, with which weights, when it closed, what it led to.

    The delay of who is absent, down or gone before an answer, is infinite.
    """

    arrived: Mask
    delays: Floats
    combination: Combination
    closed_s: float
    state: State


class _Batch(TypedDict):
    """Which rows a round takes, and of whom."""

    store: RowStore
    arrived: Mask
    subset: int
    round_number: int
    seed: int
    guard: Guard | None


def play_rounds(
    method: Method,
    plan: Plan,
    fleet: Fleet,
    state: State,
    *,
    store: RowStore,
    held: CodedData | None,
    budget_s: float,
    seed: int,
    guard: Guard | None = None,
) -> Iterator[PlayedRound]:
    """Play one round after another for as long as the budget of virtual seconds lasts."""
    server_s, step_s = server_seconds(plan, fleet)
    asked, clock = plan.loads > 0, 0.0
    presence = fleet.availability.draw(len(fleet), seed)
    arrivals = Arrivals(-1, asked)
    for number, delays, subset in _draw_rounds(plan, fleet, seed):
        stays = presence.until(number, clock)
        delays = np.where(clock + delays <= stays, delays, np.inf)
        arrived, lasts = close_round(plan.wait, delays, asked, server_s)
        if isinstance(plan.wait, (All, Fastest)) and not arrived.any():
            lasts = max(lasts, _idle_seconds(presence, stays, asked, clock))
        if np.isinf(lasts):
            return
        batch: _Batch = {
            "store": store,
            "arrived": arrived,
            "subset": subset,
            "round_number": number,
            "seed": seed,
            "guard": guard,
        }
        arrivals = arrivals.following(arrived, asked)
        if plan.individual:
            arrivals = replace(arrivals, gradients=compute_gradients(plan, state.model, **batch))
        combination = method.combine(plan, arrivals, state)
        lasts += step_s + combination.macs / fleet.server_macs_per_s
        if clock + lasts > budget_s * (1 + _ROUNDING):
            return
        clock += lasts
        direction = compute_direction(
            plan, combination, state.model, held=held, gradients=arrivals.gradients, **batch
        )
        if combination.memory is not None:
            state = replace(state, memory=combination.memory)
        state = method.step(plan, state, direction, held)
        yield PlayedRound(arrived, delays, combination, clock, state)


def server_seconds(plan: Plan, fleet: Fleet) -> tuple[float, float]:
    """What a round takes the server: beside the clients, and when they are through."""
    rows = plan.code.server_rows if plan.code else 0
    return fleet.server_seconds(plan.shape, rows), plan.step_macs / fleet.server_macs_per_s


def _idle_seconds(presence: Presence, stays: Floats, asked: Mask, clock: float) -> float:
    """How long nobody can be waited for: until the last link breaks, or until somebody is back."""
    broken = float(stays[asked].max(initial=-np.inf))
    if np.isfinite(broken):
        return broken - clock
    return float(presence.again(clock)[asked].min(initial=np.inf)) - clock


def close_round(wait: Wait, delays: Floats, asked: Mask, server_s: float) -> tuple[Mask, float]:
    """Who is here when the round closes, and how long it lasted.

    No round is shorter than the server's own work, and no answer is waited for that cannot come.
    """
    if isinstance(wait, Deadline):
        return asked & (delays <= wait.seconds), max(wait.seconds, server_s)
    coming = asked & np.isfinite(delays)
    if isinstance(wait, (All, Fastest)) and coming.any():
        number = wait.count if isinstance(wait, Fastest) else int(coming.sum())
        order = np.argsort(np.where(coming, delays, np.inf), kind="stable")
        first = order[: min(number, int(coming.sum()))]
        arrived = np.zeros_like(asked)
        arrived[first] = True
        return arrived, max(float(delays[first[-1]]), server_s)
    return np.zeros_like(asked), server_s


def _draw_rounds(plan: Plan, fleet: Fleet, seed: int) -> Iterator[tuple[int, Floats, int]]:
    """The rounds without end: number, every client's delay, and the subset of rows it takes."""
    work = fleet.work(plan.shape, plan.loads)
    for chunk in count():
        delays = fleet.law.sample(work, _CHUNK, stream(seed, Purpose.DELAYS, chunk))
        subsets = draw_subsets(seed, chunk * _CHUNK, _CHUNK, subset_count(plan.sampling))
        for place in range(_CHUNK):
            yield chunk * _CHUNK + place, delays[place], int(subsets[place])


class _LedgerWriter:
    """Collects who took part, round by round."""

    def __init__(self, asked: Mask) -> None:
        self._asked = asked
        self._rounds: list[tuple[Mask, Floats, Floats]] = []
        self._closed: list[float] = []

    def write(self, played: PlayedRound) -> None:
        self._rounds.append((played.arrived, played.delays, played.combination.clients))
        self._closed.append(played.closed_s)

    def finish(self, message_bytes: float) -> Ledger:
        size = (len(self._rounds), len(self._asked))
        arrived, delays, weights = (
            np.array([entry[part] for entry in self._rounds]).reshape(size) for part in range(3)
        )
        absent = np.isinf(delays)
        status = np.where(arrived.astype(bool), ARRIVED, np.where(absent, ABSENT, LATE))
        return Ledger(
            status=np.where(self._asked, status, NOT_ASKED).astype(np.int8),
            delay_s=np.where(self._asked & ~absent, delays, np.nan).astype(np.float32),
            weight=np.where(self._asked, weights, 0).astype(np.float32),
            closed_s=np.array(self._closed, dtype=np.float64),
            message_bytes=message_bytes,
        )
