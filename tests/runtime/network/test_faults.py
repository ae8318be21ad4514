"""Everything that can go wrong with a client or the server, on a script: each has its handling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scfl
from scfl.errors import OutputError, RunError
from scfl.methods.batches import Batches
from scfl.methods.protocol import Method
from scfl.runtime.network import checkpoint as checkpoints
from scfl.runtime.network.session import Session
from scfl.runtime.network.terms import Terms
from scfl.runtime.network.wire import (
    CodePart,
    Described,
    Echo,
    Gradient,
    Message,
    Refusal,
    write_frame,
)
from scfl.runtime.network.worker import Worker
from scfl.runtime.result import ABSENT, ARRIVED, LATE, NOT_ASKED
from tests.runtime.network.scripted import (
    Script,
    Share,
    make_small_fleet,
    make_small_problem,
    start,
)

PROBLEM = make_small_problem()
TERMS = Terms(
    method=scfl.SCFL(batches=Batches(subsets=3), coded_rows=40, deadline_s=20.0),
    clients=4,
    rounds=20,
    seed=5,
    dtype="float64",
    fleet=make_small_fleet(PROBLEM),
    checkpoint_every=4,
)
ALL = ("0", "1", "2", "3")


def model_of(session: Session) -> Any:
    assert session.training is not None
    return session.training.state.model


def rounds_of(session: Session) -> int:
    return 0 if session.training is None else session.training.state.round


def play(folder: Path, terms: Terms = TERMS, **script: Any) -> Script:
    made = start(PROBLEM, terms, folder, seed=5, **script)
    made.join(*ALL)
    made.run()
    return made


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


@pytest.mark.parametrize("server_too", [False, True])
def test_an_upload_that_stopped_half_way_is_resumed(
    server_too: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scfl.runtime.network.upload.PIECE_BYTES", 640)  # a quarter of a code
    whole = play(tmp_path / "whole").session
    offsets: list[int] = []

    def watch(key: str, message: Message) -> list[Message]:
        if key == "1" and isinstance(message, CodePart):
            offsets.append(message.offset)
            if message.offset == 640 and offsets.count(640) == 1:
                return []  # this piece is lost, and the client with it
        return [message]

    folder = tmp_path / "resumed"
    script = start(PROBLEM, TERMS, folder, seed=5, tamper=watch)
    script.join(*ALL)
    script.run(until=lambda: 640 in offsets)
    if server_too:
        script = start(PROBLEM, TERMS, folder, seed=5, tamper=watch, now=script.now)
        script.join(*ALL)
    else:
        script.session.leave("1", script.now)
        script.join("1")
    script.run()
    assert offsets == [0, 640, 640, 1280, 1920]
    assert np.array_equal(model_of(script.session), model_of(whole))


def test_two_draws_of_a_code_never_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that forgot its code sends another one from the start."""
    monkeypatch.setattr("scfl.runtime.network.upload.PIECE_BYTES", 640)
    offsets: list[int] = []

    def watch(key: str, message: Message) -> list[Message]:
        if key == "1" and isinstance(message, CodePart):
            offsets.append(message.offset)
        return [message]

    script = start(PROBLEM, TERMS, tmp_path, seed=5, tamper=watch)
    script.join(*ALL)
    script.run(until=lambda: 640 in offsets)
    script.session.leave("1", script.now)
    script.pending = [entry for entry in script.pending if entry[2] != "1"]
    script.workers["1"] = Worker(Share(PROBLEM, 1, "client 1"), secret=6)
    script.join("1")
    script.run()
    assert offsets[2:] == [640, 0, 640, 1280, 1920] or offsets[2:] == [1280, 0, 640, 1280, 1920]
    uploads = list((tmp_path / "uploads").glob("1-*.part"))
    assert len(uploads) == 1
    assert uploads[0].stat().st_size == 40 * 8 * 8


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: replace(p, total=10**15), "upload of 1000000000000000 bytes"),
        (lambda p: replace(p, offset=5), "bytes from 5 on"),
        (lambda p: replace(p, array=p.array[:-8]), "were asked for"),
        (lambda p: replace(p, origin="../../etc/passwd"), "no checksum"),
        (lambda p: replace(p, array=np.full_like(p.array, 255)), "not finite"),
    ],
)
def test_an_upload_that_was_not_asked_for_is_refused(
    change: Callable[[CodePart], Message], sentence: str, tmp_path: Path
) -> None:
    def tamper(key: str, message: Message) -> list[Message]:
        return [change(message)] if key == "3" and isinstance(message, CodePart) else [message]

    terms = replace(TERMS, least=3, setup_s=5.0)
    script = start(PROBLEM, terms, tmp_path / "run", seed=5, tamper=tamper)
    script.join(*ALL)
    script.run()
    assert script.session.members == [0, 1, 2]
    assert any(sentence in event.sentence for event in script.session.events)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert not list((tmp_path / "run").rglob("3-*"))


@pytest.mark.parametrize("killed_after", [5, 9])
def test_a_server_that_was_killed_goes_on_to_the_same_model(
    killed_after: int, tmp_path: Path
) -> None:
    late = lambda r, c: 30.0 if (r * 7 + c) % 5 == 0 else 1.0  # noqa: E731 - one line says it
    whole = play(tmp_path / "whole", delay=late).session
    script = start(PROBLEM, TERMS, tmp_path / "killed", seed=5, delay=late)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == killed_after)
    # Killed: nothing is closed or saved any more. Another server finds the folder.
    again = start(PROBLEM, TERMS, tmp_path / "killed", seed=5, delay=late, now=1e6)
    assert rounds_of(again.session) == killed_after // 4 * 4
    again.join(*ALL)
    again.run()
    session = again.session
    assert rounds_of(session) == 20
    assert np.array_equal(model_of(session), model_of(whole))
    assert session.training is not None
    assert whole.training is not None
    assert np.array_equal(session.training.state.average, whole.training.state.average)
    assert np.array_equal(session.training.estimate.hits, whole.training.estimate.hits)
    ledgers = [s.book.finish(4) for s in (session, whole)]
    assert np.array_equal(ledgers[0].status, ledgers[1].status)
    assert np.array_equal(ledgers[0].weight, ledgers[1].weight)
    assert (np.diff(ledgers[0].closed_s) > 0).all()


def test_another_training_is_not_gone_on_with(tmp_path: Path) -> None:
    play(tmp_path)
    with pytest.raises(OutputError, match="holds another training"):
        start(PROBLEM, replace(TERMS, seed=6), tmp_path)


def test_a_checkpoint_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.npz").write_bytes(b"PK\x03\x04 not quite")
    with pytest.raises(OutputError, match="no checkpoint that can be read"):
        start(PROBLEM, TERMS, tmp_path)


def test_a_full_disk_ends_the_run_and_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = start(PROBLEM, TERMS, tmp_path, seed=5)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == 6)
    kept = (tmp_path / "checkpoint.npz").read_bytes()

    def no_space(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints.os, "fsync", no_space)
    with pytest.raises(RunError, match=r"cannot be written \(No space left on device\); make room"):
        script.run()
    assert (tmp_path / "checkpoint.npz").read_bytes() == kept
    assert not list(tmp_path.glob("*.unfinished")) + list(tmp_path.glob(".*.unfinished"))


def test_a_full_disk_during_an_upload_names_the_client(tmp_path: Path) -> None:
    script = start(PROBLEM, TERMS, tmp_path, seed=5)
    (tmp_path / "uploads").write_text("a file where a folder belongs")
    script.join(*ALL)
    with pytest.raises(RunError, match="cannot take the upload of client 0"):
        script.run()


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


def test_a_spent_budget_stops_with_the_last_model(tmp_path: Path) -> None:
    script = start(PROBLEM, TERMS, tmp_path, seed=5)
    script.session.limit = lambda plan, done: "the privacy budget is spent" if done == 7 else None
    script.join(*ALL)
    script.run()
    assert not script.session.failed
    assert script.session.ended == "the privacy budget is spent"
    assert rounds_of(script.session) == 7
    assert (tmp_path / "checkpoint.npz").exists()


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


def test_a_make_up_term_without_a_limit_is_told_when_training_begins(tmp_path: Path) -> None:
    """From the coded data that came over the wire, before the first round."""
    noisy = scfl.SCFL(learning_rate=0.01, coded_rows=40, deadline_s=20.0, noise=30.0)
    session = play(tmp_path, replace(TERMS, method=noisy, rounds=1)).session
    said = [event.sentence for event in session.events]
    begun = next(place for place, words in enumerate(said) if words.startswith("training begins"))
    assert said[begun + 1].startswith("warning: the make-up term takes away")
    calm = play(tmp_path / "calm", replace(TERMS, rounds=1)).session
    assert not any(event.sentence.startswith("warning") for event in calm.events)
