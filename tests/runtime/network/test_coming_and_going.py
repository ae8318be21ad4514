"""Clients come late, go, come back, claim names and do not fit; training goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scfl
from scfl.errors import RunError
from scfl.methods.batches import Batches
from scfl.methods.protocol import Method
from scfl.runtime.network.wire import (
    CodePart,
    Described,
    Message,
    Prepared,
    Refusal,
)
from scfl.runtime.network.worker import Worker
from scfl.runtime.result import ABSENT, ARRIVED, NOT_ASKED
from tests.runtime.network.scripted import (
    Share,
    make_small_fleet,
    start,
)
from tests.runtime.network.trainings import ALL, PROBLEM, TERMS, model_of, rounds_of


@pytest.mark.parametrize("method", [TERMS.method, scfl.FedAvg(batches=Batches(subsets=3))])
def test_who_is_killed_in_a_round_and_stays_away_costs_no_time(
    method: Method, tmp_path: Path
) -> None:
    script = start(PROBLEM, replace(TERMS, method=method), tmp_path, seed=5, delay=lambda r, c: 1.0)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == 6)
    script.session.advance(script.now)  # the next round is open, and its work is on the way
    assert script.session.training is not None
    assert script.session.training.open is not None
    script.session.leave("3", script.now + 0.5)
    script._deliver()
    script.pending = [entry for entry in script.pending if entry[2] != "3"]
    script.run()
    ledger = script.session.book.finish(4)
    assert (ledger.status[6:, 3] == ABSENT).all()
    assert (np.diff(ledger.closed_s) <= 1.0 + 1e-9).all()
    assert ledger.weight_lost[-1, 3] > 0


def test_who_comes_back_takes_part_again_and_uploads_nothing_twice(tmp_path: Path) -> None:
    parts: list[str] = []

    def watch(key: str, message: Message) -> list[Message]:
        parts.extend([key] * isinstance(message, CodePart))
        return [message]

    script = start(PROBLEM, TERMS, tmp_path, seed=5, tamper=watch, delay=lambda r, c: 1.0)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == 6)
    script.session.leave("3", script.now)
    script.run(until=lambda: rounds_of(script.session) == 9)
    script.workers["again"] = Worker(Share(PROBLEM, 3, "client 3"), secret=99)
    script.delay = lambda r, c: 1.0
    script.workers["3"] = script.workers["again"]  # a new process on the same machine
    script.join("3")
    script.run()
    ledger = script.session.book.finish(4)
    assert (ledger.status[10:, 3] == ARRIVED).all()
    assert parts.count("3") == 1


def test_who_comes_late_takes_part_from_then_on(tmp_path: Path) -> None:
    terms = replace(TERMS, least=3, enrol_s=5.0, rounds=40)
    script = start(PROBLEM, terms, tmp_path, seed=5, delay=lambda r, c: 1.0)
    script.join("0", "1", "2")
    script.run(until=lambda: rounds_of(script.session) == 6)
    script.join("3")
    script.run()
    session = script.session
    ledger = session.book.finish(4)
    assert (ledger.status[:6, 3] == NOT_ASKED).all()
    assert (ledger.status[8:, 3] == ARRIVED).all()
    assert session.members == [0, 1, 2, 3]
    assert session.training is not None
    assert session.training.plan.shape.rows == len(PROBLEM.features)
    # The newcomer's rows count: the end is that of everybody's data, not of the first three's.
    whole = scfl.simulate(PROBLEM, make_small_fleet(PROBLEM), TERMS.method, rounds=2000)
    few = whole.model_last - model_of(session)
    assert np.abs(few).max() < 0.6 * np.abs(whole.model_last).max()


def test_a_name_has_one_holder_and_the_holder_has_its_rows(tmp_path: Path) -> None:
    script = start(PROBLEM, TERMS, tmp_path, seed=5, delay=lambda r, c: 1.0)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == 3)
    # Another connection claims the name of somebody who is here.
    script.workers["9"] = Worker(Share(PROBLEM, 1, "client 1"), secret=1)
    script.join("9")
    script.run(until=lambda: rounds_of(script.session) == 6)
    assert "is taken by another connection" in script.stopped["9"]
    # Somebody who is known tries another name, that of a client who is away.
    script.session.leave("1", script.now)
    script.session.leave("2", script.now)
    script.workers["2"] = Worker(Share(PROBLEM, 1, "client 1"), secret=1)
    script.join("2")
    script.run(until=lambda: rounds_of(script.session) == 9)
    assert "it was 'client 2' before" in script.stopped["2"]
    # Somebody comes back under its name with other rows.
    script.workers["1"] = Worker(Share(PROBLEM, 2, "client 1"), secret=1)
    script.join("1")
    script.run()
    assert "other rows" in script.stopped["1"]
    assert rounds_of(script.session) == 20


@pytest.mark.parametrize("restarted", [False, True])
def test_where_nodes_are_registered_a_name_stays_with_its_node(
    restarted: bool, tmp_path: Path
) -> None:
    """Somebody with a key of their own claims the name of a client that is away."""
    for registered in (True, False):
        terms, folder = replace(TERMS, registered=registered), tmp_path / str(registered)
        script = start(PROBLEM, terms, folder, seed=5, delay=lambda r, c: 1.0)
        script.join(*ALL)
        script.run(until=lambda script=script: rounds_of(script.session) == 4)
        if restarted:
            script = start(PROBLEM, terms, folder, seed=5, delay=lambda r, c: 1.0, now=100.0)
            script.join("0", "2", "3")
        else:
            script.session.leave("1", script.now)
        script.workers["9"] = Worker(Share(PROBLEM, 1, "client 1"), secret=1)
        script.join("9")
        script.run(until=lambda script=script: rounds_of(script.session) == 8)
        assert ("9" in script.stopped) == registered
        if registered:
            assert "'client 1' belongs to another node" in script.stopped["9"]
            script.join("1")
            script.run()
            assert script.session.order[1].key == "1"


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"name": ""}, "a name must be"),
        ({"name": "x" * 1000}, "a name must be"),
        ({"name": "two\nlines"}, "a name must be"),
        ({"rows": 0}, "0 rows"),
        ({"rows": 10**30}, "cannot be trained on"),
        ({"columns": []}, "no names"),
        ({"columns": [3]}, "no names"),
        ({"labels": [[1]]}, "neither words nor numbers"),
        ({"columns": ["x0", "other"]}, "not the others': other"),
        ({"labels": [1, 2]}, "its targets are class labels, the others' numbers"),
    ],
)
def test_who_does_not_fit_is_sent_home_in_one_sentence(
    told: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    def tamper(key: str, message: Message) -> list[Message]:
        return (
            [replace(message, **told)]
            if key == "3" and isinstance(message, Described)
            else [message]
        )

    terms = replace(TERMS, least=3, enrol_s=5.0)
    script = start(PROBLEM, terms, tmp_path, seed=5, tamper=tamper)
    script.join(*ALL)
    script.run()
    assert sentence in script.stopped["3"]
    assert script.session.members == [0, 1, 2]
    assert rounds_of(script.session) == 20


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"rows": 31}, "it prepared 31 rows of 30"),
        ({"features": 10**9}, "it has 1000000000 features, its columns make 6"),
        ({"features": 0}, "no features or no outputs"),
        ({"outputs": 10**9}, "a model of 6 x 1000000000 fits into no message"),
        ({"macs_per_s": -1.0}, "a compute rate of -1.0"),
        ({"macs_per_s": float("inf")}, "a compute rate of inf"),
        ({"energy": float("nan")}, "features of energy nan"),
    ],
)
def test_what_a_client_says_of_its_rows_makes_the_server_allocate_nothing(
    told: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """It is the first to be ready, so there is nobody to compare it with."""

    def tamper(key: str, message: Message) -> list[Message]:
        broken = key == "0" and isinstance(message, Prepared)
        return [replace(message, **told)] if broken else [message]

    terms = replace(TERMS, least=3, enrol_s=5.0)
    script = start(PROBLEM, terms, tmp_path, seed=5, tamper=tamper)
    script.join(*ALL)
    script.run()
    assert sentence in script.stopped["0"]
    assert rounds_of(script.session) == 20


def test_coins_are_not_tossed_for_more_rows_than_anybody_has(tmp_path: Path) -> None:
    def tamper(key: str, message: Message) -> list[Message]:
        lies = key == "3" and isinstance(message, Described)
        return [replace(message, rows=10**8)] if lies else [message]

    method = scfl.SCFL(batches=Batches(subsets=3, rule="bernoulli"), deadline_s=20.0)
    terms = replace(TERMS, method=method, least=3, enrol_s=5.0)
    script = start(PROBLEM, terms, tmp_path, seed=5, tamper=tamper)
    script.join(*ALL)
    script.run()
    assert "100000000 rows cannot be trained on" in script.stopped["3"]


def test_too_few_clients_are_a_sentence_with_a_way_out(tmp_path: Path) -> None:
    script = start(PROBLEM, replace(TERMS, enrol_s=5.0), tmp_path)
    script.join("0", "2")
    with pytest.raises(RunError, match=r"2 of 4 clients came within 5 s and 4 are needed; start"):
        script.run()


def test_nobody_waits_for_a_client_that_was_sent_away(tmp_path: Path) -> None:
    def tamper(key: str, message: Message) -> list[Message]:
        broken = key == "3" and isinstance(message, Described)
        return [Refusal("client 3: share.csv: row 3 is missing") if broken else message]

    script = start(PROBLEM, replace(TERMS, enrol_s=1000.0), tmp_path, tamper=tamper)
    script.join(*ALL)
    with pytest.raises(RunError, match=r"3 of 4 clients .* refused: client 3: share.csv: row 3"):
        script.run()
    assert script.now < 10


def test_nobody_for_too_long_ends_the_run_with_its_model(tmp_path: Path) -> None:
    script = start(PROBLEM, TERMS, tmp_path, seed=5, delay=lambda r, c: 1.0)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == 6)
    for key in ALL:
        script.session.leave(key, script.now)
    with pytest.raises(
        RunError, match="no client was there for 60 s; the model of round 7 is kept"
    ):
        script.run()


def test_who_comes_late_changes_nothing_for_the_others(tmp_path: Path) -> None:
    """A plan for all four from the start would have another deadline and other loads."""
    method = scfl.SCFL(batches=Batches(subsets=3), redundancy=0.5, coded_rows=40, layout="stacked")
    fleet = make_small_fleet(PROBLEM)
    slow = replace(fleet, macs_per_s=fleet.macs_per_s * [1, 1, 1, 1e-5])
    terms = replace(TERMS, method=method, fleet=slow, least=3, enrol_s=5.0, rounds=40)
    script = start(PROBLEM, terms, tmp_path, seed=5)
    script.join("0", "1", "2")
    script.run(until=lambda: rounds_of(script.session) == 6)
    before = script.session.plan
    assert before is not None
    script.join("3")
    script.run(until=lambda: len(script.session.members) == 4)
    plan = script.session.plan
    assert plan is not None
    assert plan.wait == before.wait
    assert np.array_equal(plan.loads[:3], before.loads)
    assert plan.code is not None
    assert before.code is not None
    assert np.array_equal(plan.code.rows[:3], before.code.rows)
    whole = method.plan(PROBLEM.shape, slow)
    assert whole.wait != plan.wait
    # A server that is restarted finds the same plan.
    script.run()
    again = start(PROBLEM, replace(terms, rounds=41), tmp_path, seed=5, now=1e6).session.plan
    assert again is not None
    assert again.wait == plan.wait
    assert np.array_equal(again.loads, plan.loads)
