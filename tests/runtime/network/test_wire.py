"""Frames: what is written is read back, and what is no frame is refused without any harm."""

from __future__ import annotations

import json
import struct
import tracemalloc
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.runtime.network.wire import (
    CodePart,
    Describe,
    Described,
    Echo,
    FrameError,
    Gradient,
    Message,
    Prepare,
    Prepared,
    Probe,
    Refusal,
    SendCode,
    Stop,
    pack_work,
    read_frame,
    write_frame,
)

MASK = np.array([True, False, True, True, False, False, True, False, True])
MESSAGES: list[Message] = [
    Describe({"task": "auto"}),
    Described("a", 3, ["x"], ["yes", 1]),
    Prepare(None, 0),
    Prepared(3, 2, 1, 1e9),
    Probe(1, 0, np.zeros(5, dtype=np.uint8)),
    Echo(1),
    SendCode(0, 0, 100, {"rows": 3}),
    CodePart("0" * 64, 0, 10, np.zeros(10, dtype=np.uint8)),
    pack_work(
        np.arange(6.0).reshape(3, 2),
        round_number=1,
        subsets=1,
        subset=0,
        start=0,
        count=9,
        mask=MASK,
    ),
    Gradient(1, 0.1, np.ones((2, 3), dtype=np.float32)),
    Stop("done"),
    Refusal("no"),
]


def read(frame: bytes) -> Any:
    return read_frame(frame, most_bytes=10_000)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.kind)
def test_every_message_comes_through(message: Message) -> None:
    back = read(write_frame(message))
    assert type(back) is type(message)
    for field in fields(message):
        assert np.array_equal(getattr(back, field.name), getattr(message, field.name))


def test_a_model_and_the_coins_come_through() -> None:
    work = read(write_frame(MESSAGES[8]))
    assert np.array_equal(work.model, np.arange(6.0).reshape(3, 2))
    assert np.array_equal(work.mask, MASK)


@given(st.integers(0, len(MESSAGES) - 1), st.data())
def test_a_damaged_frame_is_refused_or_another_message(which: int, data: st.DataObject) -> None:
    frame = bytearray(write_frame(MESSAGES[which]))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    frame = frame[: data.draw(st.integers(0, len(frame)))]
    try:
        read(bytes(frame))
    except FrameError as error:
        assert str(error)  # noqa: PT017 - whatever it says, it is one of ours


def with_header(header: dict[str, Any], body: bytes = b"") -> bytes:
    head = json.dumps(header).encode()
    return struct.pack("<I", len(head)) + head + body


@pytest.mark.parametrize(
    "array",
    [
        ["f8", [10**9, 10**9]],
        ["f8", [2**62, 4]],
        ["f8", [-1, -1]],
        ["O", [1]],
        ["f8", [1, 1, 1]],
        ["f8", [True]],
        "f8",
        None,
    ],
)
def test_a_huge_or_strange_array_is_refused_before_anything_is_allocated(array: Any) -> None:
    frame = with_header(
        {"kind": "gradient", "fields": {"round": 0, "compute_s": 0.0}, "array": array}, bytes(8)
    )
    tracemalloc.start()
    with pytest.raises(FrameError):
        read(frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        with_header({"kind": "gradient"}),
        with_header({"kind": "os.system", "fields": {}}),
        with_header({"kind": "echo", "fields": {"number": True}, "array": ["u1", [0]]}),
        with_header({"kind": "echo", "fields": {"number": "1"}, "array": ["u1", [0]]}),
        with_header({"kind": "stop", "fields": {"reason": "x"}}, b"more"),
        with_header({"kind": "stop", "fields": {"reason": "x", "also": 1}}),
        bytes(10_001),
        struct.pack("<I", 3) + b"[1]",
        struct.pack("<I", 5000) + b"[" * 5000,
    ],
)
def test_what_is_no_message_is_refused(frame: bytes) -> None:
    with pytest.raises(FrameError):
        read(frame)


def test_a_message_that_is_sound_but_too_long_is_refused() -> None:
    """By its length, and by that of its header, which would grow when it is parsed."""
    with pytest.raises(FrameError, match="at most 10000 are taken"):
        read(write_frame(Echo(0, np.zeros(20_000, dtype=np.uint8))))
    with pytest.raises(FrameError, match="a header of"):
        read_frame(write_frame(Stop("x" * 300_000)), most_bytes=10**6)
