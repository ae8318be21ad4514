"""Coded data on its way in: resumed, never mixed, never more than was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import scfl
from scfl.errors import RunError
from scfl.runtime.network.wire import (
    CodePart,
    Message,
)
from scfl.runtime.network.worker import Worker
from tests.runtime.network.scripted import (
    Share,
    start,
)
from tests.runtime.network.trainings import ALL, PROBLEM, TERMS, model_of, play


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


def test_a_full_disk_during_an_upload_names_the_client(tmp_path: Path) -> None:
    script = start(PROBLEM, TERMS, tmp_path, seed=5)
    (tmp_path / "uploads").write_text("a file where a folder belongs")
    script.join(*ALL)
    with pytest.raises(RunError, match="cannot take the upload of client 0"):
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
