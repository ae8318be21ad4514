"""The conformance suite for methods: run it on a method of your own before you trust its curves.

    from scfl.testing import check_method
    check_method(MyMethod(learning_rate=1.0), unbiased=True)

Each check raises ``AssertionError`` with a sentence that says what the method did. Everything runs
on problems of a few rows and takes a second or two.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.fleet import Fleet, Shape, wireless_edge
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import draw_subsets, largest_loads, subset_count
from scfl.data.partition import LabelSorted
from scfl.data.problem import Problem, make_problem
from scfl.methods.protocol import Arrivals, Deadline, Fastest, Method, Plan, ServerOnly, State
from scfl.runtime.direction import compute_direction
from scfl.runtime.encoding import collect_code
from scfl.runtime.simulator import close_round, simulate

Matrix = NDArray[Any]

_CLIENTS = 5
# A correct mean strays this many standard errors less than once in a million entries.
_STANDARD_ERRORS = 5.5


def check_method(
    method: Method, *, unbiased: bool = False, exact: bool = False, replicates: int = 4000
) -> None:
    """Check that a method keeps the rules, and the promises that are made for it.

    ``unbiased`` promises that the direction's mean over code, noise, batches and arrivals is the
    gradient of the whole problem; ``exact`` that training ends in the least-squares solution.
    """
    check_form(method)
    problem, fleet = small_problem(), wireless_edge(_CLIENTS, erasure=0.3, random_state=1)
    check_plan(method, problem.shape, fleet)
    check_purity(method, problem, fleet)
    check_every_arrival(method, problem, fleet)
    check_repeatable(method, problem, fleet)
    check_learns(method)
    if unbiased:
        check_unbiased(method, problem, fleet, replicates)
    if exact:
        check_exact(method)


def small_problem(*, noise: float = 0.3, rows: int = 40) -> Problem:
    """A regression whose clients hold different rows: few rows, three features, two outputs."""
    rng = stream(7, Purpose.SYNTHETIC)
    X = rng.standard_normal((rows, 3)) * [1.0, 0.8, 0.6] + 0.2
    y = X @ rng.standard_normal((3, 2)) + noise * rng.standard_normal((rows, 2))
    return make_problem(X, y, clients=LabelSorted(_CLIENTS), dtype="float64")


def check_form(method: Method) -> None:
    """A method is a frozen dataclass of plain parameters that can be sent to other processes."""
    kind = type(method).__name__
    frozen = is_dataclass(method) and vars(type(method))["__dataclass_params__"].frozen
    assert frozen, f"{kind} must be a dataclass(frozen=True): parameters identify a run"
    assert isinstance(getattr(method, "name", None), str), f"{kind}.name must be a string"
    assert all(field.name != "name" for field in fields(method)), (
        f"{kind}.name must be a ClassVar, not a parameter"
    )
    try:
        json.dumps(asdict(method))
    except TypeError as error:
        raise AssertionError(f"{kind}: parameters must be plain values ({error})") from None
    try:
        copy = pickle.loads(pickle.dumps(method))  # noqa: S301 - our own bytes
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise AssertionError(f"{kind} must survive pickling: {error}") from None
    assert copy == method, f"{kind} must come back from pickling as it was"


def check_plan(method: Method, shape: Shape, fleet: Fleet) -> None:
    """A plan asks for what clients have and for what can arrive."""
    plan, name = method.plan(shape, fleet), method.name
    most = largest_loads(plan.sampling, shape.client_rows)
    assert plan.loads.shape == (shape.clients,), f"{name}: plan.loads needs one entry per client"
    assert ((plan.loads >= 0) & (plan.loads <= most)).all(), (
        f"{name}: loads {plan.loads.tolist()} go beyond the rows of a round, {most.tolist()}"
    )
    if isinstance(plan.wait, Deadline):
        assert plan.wait.seconds > 0, f"{name}: the deadline {plan.wait.seconds} is not positive"
        expected = fleet.law.cdf(fleet.work(shape, plan.loads), plan.wait.seconds)
        given = plan.arrival_probability
        assert given is not None, f"{name}: a plan with a deadline says its arrival probabilities"
        asked = plan.loads > 0
        np.testing.assert_allclose(
            given[asked], expected[asked], err_msg=f"{name}: these are not the law's probabilities"
        )
        assert (given[asked] > 0).all(), f"{name}: a client that can never arrive is asked"
    if isinstance(plan.wait, Fastest):
        assert 1 <= plan.wait.count <= shape.clients, f"{name}: waits for {plan.wait.count} clients"
    if isinstance(plan.wait, ServerOnly):
        assert plan.code is not None, f"{name}: asks no client and holds no coded data"
    if plan.code is not None:
        assert plan.code.rows.shape == (shape.clients,), f"{name}: code.rows needs one per client"
        if plan.code.layout == "summed":
            assert len(set(plan.code.rows.tolist())) == 1, f"{name}: summed codes differ in rows"


def check_purity(method: Method, problem: Problem, fleet: Fleet) -> None:
    """The decisions give the same answer twice and leave their arguments alone."""
    name, plan = method.name, method.plan(problem.shape, fleet)
    _assert_same(plan, method.plan(problem.shape, fleet), f"{name}.plan")
    held = collect_code(_store(problem, plan), plan, 0, "clients")
    model = np.full((problem.shape.features, problem.shape.outputs), 0.1)
    state = State(model, model.copy())
    arrivals = Arrivals(0, plan.loads > 0)
    before = pickle.dumps((plan, held, state, arrivals))
    once = method.combine(plan, arrivals, state)
    _assert_same(once, method.combine(plan, arrivals, state), f"{name}.combine")
    after = method.step(plan, state, model, held)
    _assert_same(after, method.step(plan, state, model, held), f"{name}.step")
    assert after.round == state.round + 1, f"{name}.step must count the round"
    assert pickle.dumps((plan, held, state, arrivals)) == before, (
        f"{name} changed an argument in place; return new arrays instead"
    )


def check_every_arrival(method: Method, problem: Problem, fleet: Fleet) -> None:
    """Whoever arrives (nobody, one, all), the weights are finite and have the right shape."""
    plan, name = method.plan(problem.shape, fleet), method.name
    asked = plan.loads > 0
    zero = np.zeros((problem.shape.features, problem.shape.outputs))
    for who in (np.zeros_like(asked), asked & (np.arange(len(asked)) == asked.argmax()), asked):
        with np.errstate(all="raise"):
            try:
                combination = method.combine(plan, Arrivals(0, who), State(zero, zero))
            except FloatingPointError as error:
                raise AssertionError(f"{name}.combine with {who.sum()} arrivals: {error}") from None
        assert combination.clients.shape == asked.shape, f"{name}: one weight per client, please"
        assert np.isfinite(combination.clients).all(), (
            f"{name}.combine with {who.sum()} arrivals: weights {combination.clients}"
        )
        if plan.code is not None:
            assert combination.coded.shape == (plan.code.blocks,), f"{name}: one weight per block"
            assert np.isfinite(combination.coded).all(), f"{name}: coded weights must be finite"
        assert np.isfinite(combination.shrink), f"{name}: shrink must be finite"


def check_repeatable(method: Method, problem: Problem, fleet: Fleet) -> None:
    """The same seed gives the same bytes, another seed another run."""
    first, again, other = (
        simulate(problem, fleet, method, rounds=5, random_state=seed) for seed in (3, 3, 4)
    )
    assert first.model_last.tobytes() == again.model_last.tobytes(), (
        f"{method.name}: two runs with one seed differ; draw no random numbers in a decision"
    )
    assert first.virtual_time_s == again.virtual_time_s
    assert first.ledger.status.shape == other.ledger.status.shape


def check_learns(method: Method) -> None:
    """On a problem that a linear model solves, training removes most of the loss."""
    problem = small_problem(noise=0.0)
    fleet = wireless_edge(_CLIENTS, erasure=0.1, random_state=1)
    result = simulate(problem, fleet, method, rounds=200, evaluate_every=200)
    assert result.diverged is None, f"{method.name}: {result.diverged}"
    start, end = result.trace.loss_last[0], result.trace.loss_last[-1]
    assert end < 0.1 * start, (
        f"{method.name}: 200 rounds took the loss from {start:.3g} to {end:.3g}; "
        "give the suite a method whose learning rate suits rows of norm 1"
    )


def check_unbiased(method: Method, problem: Problem, fleet: Fleet, replicates: int) -> None:
    """The mean direction is the gradient X^T (X W - Y) of the whole problem."""
    model = np.array([[0.7, -0.4], [0.2, 0.9], [-0.6, 0.3]])
    wanted = problem.features.T @ (problem.features @ model - problem.targets)
    check_mean_direction(method, problem, fleet, model=model, wanted=wanted, replicates=replicates)


def check_mean_direction(
    method: Method,
    problem: Problem,
    fleet: Fleet,
    *,
    model: Matrix,
    wanted: Matrix,
    replicates: int = 4000,
) -> None:
    """The direction's mean over code, noise, batches and arrivals is ``wanted``."""
    draw = direction_sampler(method, problem, fleet, model)
    drawn = np.array([draw(seed) for seed in range(replicates)])
    mean, error = drawn.mean(axis=0), drawn.std(axis=0) / replicates**0.5
    off = np.abs(mean - wanted) / np.maximum(error, 1e-9 * np.abs(wanted).max())
    assert off.max() < _STANDARD_ERRORS, (
        f"{method.name}: over {replicates} draws the mean direction is {off.max():.1f} standard "
        f"errors off: {mean.round(3).tolist()} instead of {wanted.round(3).tolist()}"
    )


def direction_sampler(
    method: Method, problem: Problem, fleet: Fleet, model: Matrix
) -> Callable[[int], Matrix]:
    """A function that draws the direction of a first round at a fixed model, seed by seed."""
    plan = method.plan(problem.shape, fleet)
    store = _store(problem, plan)
    asked = plan.loads > 0
    work = fleet.work(problem.shape, plan.loads)
    state = State(model, model)

    def draw(seed: int) -> Matrix:
        held = collect_code(store, plan, seed, "clients")
        delays = fleet.law.sample(work, 1, stream(seed, Purpose.DELAYS, 0))[0]
        arrived, _ = close_round(plan.wait, delays, asked, 0.0)
        return compute_direction(
            plan,
            method.combine(plan, Arrivals(0, arrived), state),
            model,
            store=store,
            held=held,
            arrived=arrived,
            subset=int(draw_subsets(seed, 0, 1, subset_count(plan.sampling))[0]),
            round_number=0,
            seed=seed,
        )

    return draw


def check_exact(method: Method) -> None:
    """Training ends in the least-squares solution of all rows."""
    problem = small_problem()
    fleet = wireless_edge(_CLIENTS, erasure=0.1, random_state=1)
    result = simulate(problem, fleet, method, rounds=2000, evaluate_every=2000)
    solution = np.linalg.lstsq(problem.features, problem.targets, rcond=None)[0]
    off = np.abs(result.model_last - solution).max() / np.abs(solution).max()
    assert off < 1e-4, f"{method.name}: ends {off:.2%} away from the least-squares solution"


def _store(problem: Problem, plan: Plan) -> Any:
    return problem.arrange(subset_count(plan.sampling))


def _assert_same(one: Any, other: Any, what: str) -> None:
    assert pickle.dumps(one) == pickle.dumps(other), f"{what} gives two answers to one question"


__all__ = ["check_mean_direction", "check_method", "direction_sampler", "small_problem"]
