"""A budget on a network: noise for it, rows and gradients held to it, an end when it is spent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scfl
from scfl.data.row_norm import measure_norms
from scfl.errors import ConfigError, InfeasibleError, RunError
from scfl.methods.batches import Batches
from scfl.methods.protocol import Plan
from scfl.privacy.accountant import account_for
from scfl.privacy.budget import Budget
from scfl.privacy.events import Gradients, Sketch
from scfl.runtime.calibration import state_budget
from scfl.runtime.network.allowance import (
    Limit,
    account_clients,
    count_rounds_within,
    list_protection,
)
from scfl.runtime.network.config import check_network
from scfl.runtime.network.session import Session
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.wire import CodePart, Describe, Gradient, Message, Prepare, pack_work
from scfl.runtime.network.worker import Worker
from tests.runtime.network.scripted import (
    Script,
    Share,
    make_small_fleet,
    make_small_problem,
    start,
)

PROBLEM = make_small_problem()
ALL = ("0", "1", "2", "3")
BUDGET = Budget(epsilon=4.0, delta=1e-5, row_norm=1.5)
COVERED = replace(BUDGET, epsilon=1.0, gradient_norm=0.5, gradient_noise=20.0)
METHOD = scfl.SCFL(batches=Batches(subsets=3), coded_rows=40, deadline_s=20.0, learning_rate=0.1)


def terms_of(budget: Budget, method: Any = METHOD, **others: Any) -> Terms:
    given: dict[str, Any] = {"clients": 4, "rounds": 12, "seed": 5, "dtype": "float64"} | others
    return Terms(
        method=method,
        fleet=make_small_fleet(PROBLEM),
        budget=budget,
        preparation=list_protection(budget),
        **given,
    )


def play(folder: Path, terms: Terms, **script: Any) -> Script:
    limit = script.pop("limit", None)
    made = start(PROBLEM, terms, folder, seed=5, **script)
    if limit is not None:
        made.session.limit = limit
    made.join(*ALL)
    made.run()
    return made


def plan_of(session: Session) -> Plan:
    assert session.plan is not None
    return session.plan


@pytest.mark.parametrize("layout", ["summed", "stacked"])
def test_a_budget_gives_the_simulators_noise_and_its_code(layout: Any, tmp_path: Path) -> None:
    """Clients scale their rows down by themselves, and code them with the noise that is needed."""
    method = replace(METHOD, layout=layout, make_up=False)
    session = play(tmp_path, terms_of(BUDGET, method)).session
    bounded = scfl.bound_rows(PROBLEM, 1.5)
    assert bounded.scaled_down is not None
    assert bounded.scaled_down.sum() > 0
    fleet = make_small_fleet(PROBLEM)
    calibrated = scfl.calibrate(method, bounded, fleet, BUDGET)
    code = plan_of(session).code
    assert code is not None
    assert code.noise == calibrated.noise  # type: ignore[attr-defined]
    wanted = scfl.simulate(bounded, fleet, calibrated, rounds=1, random_state=5)
    assert session.training is not None
    assert session.training.held is not None
    assert wanted.held is not None
    held, simulated = session.training.held.store, wanted.held.store
    assert np.abs(held.features - simulated.features).max() < 1e-10
    assert np.abs(held.targets - simulated.targets).max() < 1e-10


def test_the_printed_budget_is_kept_by_what_clients_say_of_their_rows(tmp_path: Path) -> None:
    budget = Budget(mi_bits=0.2)
    session = play(tmp_path, terms_of(budget)).session
    calibrated = scfl.calibrate(METHOD, PROBLEM, make_small_fleet(PROBLEM), budget)
    code = plan_of(session).code
    assert code is not None
    assert code.noise.sigma == pytest.approx(calibrated.noise.sigma)  # type: ignore[attr-defined]
    printed = state_budget(PROBLEM, plan_of(session))
    assert printed is not None
    assert printed.largest == pytest.approx(0.2)
    assert not play(tmp_path / "silent", terms_of(Budget())).session.order[0].energy
    coded = scfl.CodedFedL(batches=Batches(subsets=3), redundancy=0.3)
    with pytest.raises(InfeasibleError, match="give epsilon, delta and row_norm instead"):
        play(tmp_path / "weighted", terms_of(budget, coded))


def make_worker(budget: Budget, secret: int = 1) -> Worker:
    worker = Worker(Share(PROBLEM, 1, "client 1"), secret=secret)
    worker.answer(Describe(list_protection(budget)))
    worker.answer(Prepare(None, 0))
    return worker


def ask(worker: Worker, model: Any, round_number: int = 0) -> Any:
    work = pack_work(model, round_number=round_number, subsets=1, subset=0, start=0, count=37)
    answer = worker.answer(work)
    assert isinstance(answer, Gradient)
    return answer.array


def test_clients_cut_and_hide_their_gradients() -> None:
    """The mean of many answers is the sum of cut rows, and their spread the noise.

    600 answers: the mean of an entry is off by sigma / sqrt(600), of which five are allowed; the
    standard deviation over all 7,200 entries has a relative error of 1/120, of which five as well.
    """
    model = 3.0 * np.random.default_rng(0).standard_normal((6, 2))
    worker = make_worker(COVERED)
    assert worker.rows is not None
    assert measure_norms(worker.rows.features, worker.rows.targets).max() <= 1.5
    answers = np.array([ask(worker, model, number) for number in range(600)])
    obvious, cut = np.zeros((2, 6)), 0
    for x, y in zip(worker.rows.features, worker.rows.targets, strict=True):
        own = np.outer(x @ model - y, x)
        cut += np.linalg.norm(own) > 0.5
        obvious += own * min(1.0, 0.5 / np.linalg.norm(own))
    assert cut > 10
    sigma = 0.5 * 20
    assert np.abs(answers.mean(axis=0) - obvious).max() < 5 * sigma / 600**0.5
    assert (answers - obvious).std() == pytest.approx(sigma, rel=5 / 120)


def test_the_same_question_has_the_same_answer_and_any_other_another_noise() -> None:
    """A server that was restarted asks again; differences of answers must not reveal the noise."""
    model = np.zeros((6, 2))
    worker = make_worker(COVERED)
    assert np.array_equal(ask(worker, model), ask(worker, model))
    for other in (
        ask(worker, model + 1e-9),
        ask(worker, model, 1),
        ask(make_worker(COVERED, 2), model),
    ):
        assert np.abs(other - ask(worker, model)).max() > 1.0


def test_an_epsilon_that_is_spent_ends_training_in_time_with_its_model(tmp_path: Path) -> None:
    limit = Limit(COVERED, most_epsilon=1.3)
    session = play(tmp_path, terms_of(COVERED, rounds=5000), limit=limit).session
    assert not session.failed
    assert "one round more would exceed it" in session.ended
    assert session.training is not None
    assert 0 < session.asked == session.training.state.round < 5000
    plan = plan_of(session)
    spent, beyond = (
        max(a.whole.epsilon for a in account_clients(plan, rounds, COVERED) if a.whole is not None)
        for rounds in (session.asked, session.asked + 3)  # a subset's turn comes every three rounds
    )
    assert spent <= 1.3 < beyond
    assert (tmp_path / "checkpoint.npz").exists()


def test_coins_that_the_server_tosses_hide_nothing(tmp_path: Path) -> None:
    """By hand: each row may take part in every round."""
    method = replace(METHOD, batches=Batches(subsets=3, rule="bernoulli"))
    session = play(tmp_path, terms_of(COVERED, method)).session
    plan = plan_of(session)
    assert plan.code is not None
    for client, account in enumerate(account_clients(plan, 12, COVERED)):
        events = (
            Sketch(int(plan.code.rows[client]), plan.code.noise.sigma, True, "summed"),
            Gradients(12, int(plan.loads[client]), sigma=10.0, norm=0.5, turns=12, rate=1.0),
        )
        assert account == account_for(events, delta=1e-5, row_norm=1.5)


@pytest.mark.parametrize(("every", "lasts", "at_least"), [(5, 8, 20), (20, 3, 3)])
def test_a_server_that_is_killed_again_and_again_never_asks_for_more_than_allowed(
    every: int, lasts: int, at_least: int, tmp_path: Path
) -> None:
    """Also where it never gets to its first checkpoint."""
    asked: list[tuple[int, bytes]] = []

    def count(key: str, message: Message) -> list[Message]:
        if key == "1" and isinstance(message, Gradient):
            asked.append((message.round, message.array.tobytes()))
        return [message]

    terms = terms_of(BUDGET, rounds=1000, checkpoint_every=every)
    limit = Limit(BUDGET, most_gradients=60)
    for life in range(40):
        script = start(PROBLEM, terms, tmp_path, seed=5, tamper=count, now=1e5 * life)
        script.session.limit = limit
        script.join(*ALL)
        known = len(asked)
        script.run(until=lambda known=known: len(asked) >= known + lasts)
        if script.session.phase == "done":
            break
    assert script.session.ended.startswith("the budget of 60 gradients")
    assert at_least < len(asked) <= 60


@pytest.mark.parametrize(
    ("budget", "limit", "sentence"),
    [
        (BUDGET, 8.0, "not all that clients send is covered"),
        (COVERED, 0.5, "comes to epsilon 1; allow more"),
        (COVERED, 1.0001, "comes to epsilon 1; allow more"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_told_before_anything_is_sent(
    budget: Budget, limit: float, sentence: str, tmp_path: Path
) -> None:
    sent: list[Message] = []

    def watch(key: str, message: Message) -> list[Message]:
        sent.append(message)
        return [message]

    with pytest.raises(RunError, match=sentence):
        play(tmp_path, terms_of(budget), limit=Limit(budget, most_epsilon=limit), tamper=watch)
    assert not any(isinstance(message, (CodePart, Gradient)) for message in sent)


def test_who_sends_no_gradients_is_never_at_the_limit() -> None:
    fleet = make_small_fleet(PROBLEM)
    method = scfl.calibrate(scfl.DPCFL(coded_rows=40), scfl.bound_rows(PROBLEM, 1.5), fleet, BUDGET)
    plan = method.plan(PROBLEM.shape, fleet)
    assert Limit(BUDGET, most_gradients=1, most_epsilon=4.0)(plan, 10**6) is None
    assert count_rounds_within(plan, BUDGET, 3.9) == 0


def test_a_newcomer_whom_the_noise_does_not_cover_is_refused(tmp_path: Path) -> None:
    """Stacked codes by size: the largest client sends the most rows, and comes last."""
    owner = np.repeat(np.arange(4), [30, 30, 30, 120])
    rows = np.random.default_rng(2).standard_normal((len(owner), 8)) / 3
    names = PROBLEM.client_names
    large = scfl.make_problem(
        rows[:, :6], rows[:, 6:], clients=owner, client_names=names, dtype="float64"
    )
    method = replace(METHOD, layout="stacked", rows_by="size")
    for name, budget in (("covered", BUDGET), ("free", Budget())):
        terms = terms_of(budget, method, least=3, enrol_s=5.0, rounds=40)
        script = start(large, terms, tmp_path / name, seed=5, delay=lambda r, c: 1.0)
        script.join("0", "1", "2")
        script.run(until=lambda script=script: bool(script.session.book.rows))
        script.join("3")
        script.run()
        code = plan_of(script.session).code
        assert code is not None
        if name == "covered":
            assert "exceed the budget" in script.stopped["3"]
            assert script.session.members == [0, 1, 2]
        else:
            assert code.rows[3] > code.rows[:3].max()
            assert script.session.members == [0, 1, 2, 3]


TABLES = {
    "network": {"out": "out", "clients": 3, "rounds": 5},
    "method": {"name": "scfl", "coded-rows": 30, "deadline-s": 1.0},
    "privacy": {"epsilon": 4.0, "delta": 1e-5, "row-norm": 1.5},
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"method": {"noise": 0.5}}, "method.noise: 0.5 is given, and [privacy] asks"),
        ({"method": {"name": "fl-ipw"}}, "privacy: no method here has noise"),
        ({"privacy": {"row-norm": None}}, "privacy.row-norm: is missing"),
        ({"privacy": {"epsilon": -1.0}}, "privacy.epsilon: -1.0 is not allowed"),
        ({"privacy": {"epsilonn": 1.0}}, "privacy.epsilonn: there is no such key; did you mean"),
        ({"network": {"most-epsilon": 0.0}}, "network.most-epsilon: 0.0 is not allowed"),
    ],
)
def test_a_mistake_in_the_budget_is_a_sentence(change: dict[str, Any], sentence: str) -> None:
    tables: dict[str, Any] = {
        name: {
            key: value
            for key, value in {**table, **change.get(name, {})}.items()
            if value is not None
        }
        for name, table in TABLES.items()
    }
    if change.get("method", {}).get("name") == "fl-ipw":
        del tables["method"]["coded-rows"]
    with pytest.raises(ConfigError) as raised:
        check_network(tables)
    assert sentence in str(raised.value)


def test_a_limit_in_epsilon_needs_a_delta() -> None:
    tables: dict[str, Any] = {
        "network": {**TABLES["network"], "most-epsilon": 4.0},
        "method": TABLES["method"],
    }
    with pytest.raises(ConfigError, match=r"network.most-epsilon: .* give \[privacy\] delta"):
        check_network(tables)


def test_the_configuration_reaches_clients_and_the_account() -> None:
    privacy = {"epsilon": 4.0, "delta": 1e-5, "row-norm": 1.5, "gradient-norm": 1.0}
    privacy["gradient-noise"] = 20.0
    tables: dict[str, Any] = {**TABLES, "privacy": privacy}
    config = check_network(tables)
    assert config.terms.preparation["row-norm"] == 1.5
    assert config.terms.preparation["gradient"] == {"norm": 1.0, "multiplier": 20.0}
    assert config.terms.budget == config.privacy
    assert config.terms.fingerprint != check_network({**tables, "privacy": {}}).terms.fingerprint
