"""Whatever a client answers, the others train on; what does not count is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scfl
from scfl.methods.batches import Batches
from scfl.runtime.network.wire import (
    Echo,
    Gradient,
    Message,
    write_frame,
)
from scfl.runtime.result import ABSENT, ARRIVED, LATE
from tests.runtime.network.scripted import (
    start,
)
from tests.runtime.network.trainings import ALL, PROBLEM, TERMS, model_of, play, rounds_of


def tamper_with(change: Callable[[Gradient], list[Any]]) -> Callable[..., list[Any]]:
    """Client 1 sends something else than its gradient in rounds 3 to 6."""

    def tamper(key: str, message: Message) -> list[Any]:
        if key == "1" and isinstance(message, Gradient) and 3 <= message.round < 7:
            return change(message)
        return [message]

    return tamper


BROKEN: dict[str, tuple[Callable[[Gradient], list[Any]], str]] = {
    "cut short": (lambda g: [write_frame(g)[:-3]], "an array"),
    "no message": (lambda g: [b"nonsense"], "a header"),
    "shape": (lambda g: [replace(g, array=g.array[:, :-1])], "wrong shape"),
    "type": (lambda g: [replace(g, array=g.array.astype(np.float32))], "wrong type"),
    "nan": (lambda g: [replace(g, array=np.full_like(g.array, np.nan))], "not finite"),
    "size": (lambda g: [replace(g, array=1000 * g.array)], "too large"),
    "duplicate": (lambda g: [g, g], "duplicate"),
    "other round": (lambda g: [replace(g, round=1)], "duplicate"),
    "future": (lambda g: [replace(g, round=10**6)], "unasked"),
    "negative": (lambda g: [replace(g, round=-1)], "unasked"),
    "unasked": (lambda g: [g, Echo(7)], "a message 'echo' that nobody asked for"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_answer_is_refused_and_counted_and_training_goes_on(
    fault: str, tmp_path: Path
) -> None:
    change, word = BROKEN[fault]
    session = play(tmp_path, tamper=tamper_with(change)).session
    assert session.phase == "done"
    assert not session.failed
    assert rounds_of(session) == 20
    counted = {why: n for (name, why), n in session.book.refusals.items() if name == "client 1"}
    assert sum(n for why, n in counted.items() if why.startswith(word)) == 4, counted
    assert {name for name, _ in session.book.refusals} == {"client 1"}
    assert sum(event.sentence.startswith("client 1: an answer") for event in session.events) == 4
    ledger = session.book.finish(4)
    first_counts = fault in {"duplicate", "unasked"}
    assert (ledger.status[3:7, 1] == (ARRIVED if first_counts else LATE)).all()
    assert (ledger.status[7:] == ARRIVED).all()
    # Where it is clear that nothing better comes, nobody waits for it.
    waits = fault in {"other round", "future", "negative"}
    assert (np.diff(ledger.closed_s)[2:6] == (20.0 if waits else 0.0)).all()
    honest = play(tmp_path / "honest").session
    scale = np.abs(model_of(honest)).max()
    assert np.abs(model_of(session) - model_of(honest)).max() < 0.5 * scale
    # Its weight falls with each refusal, and recovers with good answers.
    others = ledger.weight[:, 0] / ledger.weight[0, 0]
    trust = ledger.weight[:, 1] / ledger.weight[0, 1] / others
    assert trust[7] < 0.15
    assert trust[7] < trust[19] < 1


def test_a_client_that_is_never_of_use_is_not_asked_any_more(tmp_path: Path) -> None:
    def tamper(key: str, message: Message) -> list[Message]:
        broken = key == "1" and isinstance(message, Gradient)
        return [replace(message, array=np.array([[1.0]]))] if broken else [message]  # type: ignore[arg-type]

    script = play(tmp_path, replace(TERMS, rounds=30), tamper=tamper)
    assert "20 answers" in script.stopped["1"]
    assert script.session.book.finish(4).status[-1, 1] == ABSENT
    assert rounds_of(script.session) == 30


def test_the_late_are_dropped_by_round_number_and_their_delay_is_noted(tmp_path: Path) -> None:
    deadline, script = 20.0, play(tmp_path, delay=lambda r, c: 27.0 if (r, c) == (4, 2) else 1.0)
    ledger = script.session.book.finish(4)
    assert ledger.status[4, 2] == LATE
    assert ledger.delay_s[4, 2] == pytest.approx(27.0)
    assert ledger.bytes_up[4, 2] == ledger.bytes_up[4, 1] > 0
    lasted = np.diff(ledger.closed_s, prepend=0)
    assert lasted[4] == pytest.approx(deadline)
    assert lasted[[3, 5]] == pytest.approx(1.0)
    assert script.session.book.refusals["client 2", "stale"] == 1


def test_who_answers_after_the_deadline_is_late_even_if_the_server_is_later(
    tmp_path: Path,
) -> None:
    """What counts is when an answer came, not when somebody got round to reading it."""
    script = start(PROBLEM, TERMS, tmp_path, seed=5, delay=lambda r, c: 1.0 if c else np.inf)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == 4)
    training = script.session.training
    assert training is not None
    assert training.open is not None
    after = training.open.closes_at + 0.1
    late = Gradient(4, 0.1, np.ones((2, 6)))
    script.session.receive("0", late, after)
    script.run()
    ledger = script.session.book.finish(4)
    assert ledger.status[4, 0] == LATE
    assert ledger.delay_s[4, 0] == pytest.approx(20.1)


def test_being_late_is_no_fault(tmp_path: Path) -> None:
    """It lowers the probability of being in time, and is not held against anybody beyond that."""
    late = lambda r, c: 27.0 if c == 2 and r % 2 else 1.0  # noqa: E731 - one line says it
    session = play(tmp_path, delay=late).session
    assert session.training is not None
    assert (session.training.estimate.trust == 1).all()
    assert session.training.estimate.probability[2] < session.training.estimate.probability[1] - 0.1
    assert session.order[2].refused == 0


def test_a_model_that_explodes_is_never_kept(tmp_path: Path) -> None:
    terms = replace(
        TERMS,
        rounds=3000,
        method=scfl.FedAvg(batches=Batches(subsets=1), learning_rate=1e6),
        evaluate_every=1000,
    )
    with np.errstate(all="ignore"):
        session = play(tmp_path, terms).session
    assert session.failed
    assert "no longer finite" in session.ended
    assert np.isfinite(model_of(session)).all()
