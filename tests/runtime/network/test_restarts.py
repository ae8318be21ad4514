"""A server that was killed, or whose disk is full, loses nothing that was kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import scfl
from scfl.errors import OutputError, RunError
from scfl.methods.batches import Batches
from scfl.methods.protocol import Method
from scfl.runtime.network import checkpoint as checkpoints
from scfl.runtime.network.checkpoint import flatten_memory
from scfl.runtime.network.wire import (
    Gradient,
    Message,
)
from scfl.runtime.result import ABSENT
from tests.runtime.network.scripted import (
    start,
)
from tests.runtime.network.trainings import ALL, PROBLEM, TERMS, model_of, play, rounds_of

METHODS: dict[str, Method] = {
    "scfl": TERMS.method,
    "momentum": scfl.FLIPW(batches=Batches(subsets=3), deadline_s=20.0, momentum=0.5),
    "resilient": scfl.Resilient(batches=Batches(subsets=3), coded_rows=40, deadline_s=20.0),
}


@pytest.mark.parametrize("killed_after", [5, 9])
@pytest.mark.parametrize("name", METHODS)
def test_a_server_that_was_killed_goes_on_to_the_same_model(
    name: str, killed_after: int, tmp_path: Path
) -> None:
    """Some are late now and then, one is ever after, and one's answers are no use for a while."""
    terms = replace(TERMS, method=METHODS[name])

    def late(number: int, client: int) -> float:
        return 30.0 if (number * 7 + client) % 5 == 0 or (client == 3 and number >= 3) else 1.0

    def tamper(key: str, message: Message) -> list[Message]:
        broken = key == "1" and isinstance(message, Gradient) and 2 <= message.round < 7
        return [replace(message, array=np.ones((1, 1)))] if broken else [message]  # type: ignore[arg-type]

    whole = play(tmp_path / "whole", terms, delay=late, tamper=tamper).session
    folder = tmp_path / "killed"
    script = start(PROBLEM, terms, folder, seed=5, delay=late, tamper=tamper)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == killed_after)
    # Killed: nothing is closed or saved any more. Another server finds the folder.
    again = start(PROBLEM, terms, folder, seed=5, delay=late, tamper=tamper, now=1e6)
    assert rounds_of(again.session) == killed_after // 4 * 4
    again.join(*ALL)
    again.run()
    session = again.session
    assert rounds_of(session) == 20
    assert np.array_equal(model_of(session), model_of(whole))
    assert session.training is not None
    assert whole.training is not None
    for get in (
        lambda training: training.state.average,
        lambda training: training.estimate.hits,
        lambda training: training.estimate.trust,
        lambda training: training.silent,
        lambda training: sorted(training.sizes.accepted.items()),
    ):
        assert np.array_equal(get(session.training), get(whole.training))
    flattened = [flatten_memory(s.training.state.memory) for s in (session, whole) if s.training]
    assert flattened[0].keys() == flattened[1].keys()
    assert (name == "scfl") == (not flattened[0])
    assert all(np.array_equal(flattened[0][key], flattened[1][key]) for key in flattened[0])
    ledgers = [s.book.finish(4) for s in (session, whole)]
    assert np.array_equal(ledgers[0].status, ledgers[1].status)
    assert np.array_equal(ledgers[0].weight, ledgers[1].weight)
    assert (np.diff(ledgers[0].closed_s) > 0).all()
    faults = [
        {key: count for key, count in s.book.refusals.items() if key[1] != "stale"}
        for s in (session, whole)
    ]
    assert faults[0] == faults[1]
    assert session.order[1].refused == whole.order[1].refused == sum(faults[0].values()) > 0


def test_a_server_that_was_killed_knows_what_is_too_large(
    tmp_path: Path,
) -> None:
    """What was accepted lately tells an answer that is far too large from the first round on."""
    script = start(PROBLEM, TERMS, tmp_path, seed=5, delay=lambda r, c: 1.0)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == 8)

    def tamper(key: str, message: Message) -> list[Message]:
        large = key == "1" and isinstance(message, Gradient)
        return [replace(message, array=1000 * message.array)] if large else [message]  # type: ignore[attr-defined, arg-type]

    again = start(PROBLEM, TERMS, tmp_path, seed=5, delay=lambda r, c: 1.0, tamper=tamper, now=1e6)
    again.join("0", "1")  # two alone could not tell which of them is wrong
    again.run(until=lambda: rounds_of(again.session) == 12)
    refused = [why for who, why in again.session.book.refusals if who == "client 1"]
    assert len([why for why in refused if why.startswith("too large")]) > 0


def test_who_was_sent_away_stays_away_when_the_server_is_restarted(tmp_path: Path) -> None:
    def tamper(key: str, message: Message) -> list[Message]:
        broken = key == "1" and isinstance(message, Gradient)
        return [replace(message, array=np.ones((1, 1)))] if broken else [message]  # type: ignore[arg-type]

    terms = replace(TERMS, rounds=40)
    script = start(PROBLEM, terms, tmp_path, seed=5, tamper=tamper, delay=lambda r, c: 1.0)
    script.join(*ALL)
    script.run(until=lambda: rounds_of(script.session) == 30)
    assert "20 answers" in script.stopped["1"]
    again = start(PROBLEM, terms, tmp_path, seed=5, delay=lambda r, c: 1.0, now=1e6)
    again.join(*ALL)
    again.run()
    assert "20 answers" in again.stopped["1"]
    assert (again.session.book.finish(4).status[-5:, 1] == ABSENT).all()


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


def test_a_spent_budget_stops_with_the_last_model(tmp_path: Path) -> None:
    script = start(PROBLEM, TERMS, tmp_path, seed=5)
    script.session.limit = lambda plan, done: "the privacy budget is spent" if done == 7 else None
    script.join(*ALL)
    script.run()
    assert not script.session.failed
    assert script.session.ended == "the privacy budget is spent"
    assert rounds_of(script.session) == 7
    assert (tmp_path / "checkpoint.npz").exists()
