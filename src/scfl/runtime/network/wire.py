"""The messages between the server and its clients, and their form on the wire.

A frame is the length of a header (4 bytes), the header (JSON: which message, its plain fields, the
type and shape of its array) and the array's bytes. Nothing in it is code, and reading it allocates
nothing that its sender could choose: an array is a view of the bytes that are already there, and
a shape that they do not fill is refused.

========================== ===========================================================
server to client           client to server
========================== ===========================================================
``Describe`` what you hold ``Described``: rows, columns, the labels that occur
``Prepare`` for training   ``Prepared``: width, outputs, measured compute rate
``Probe`` the link         ``Echo``: as many bytes as were asked for
``SendCode`` from a byte   ``CodePart``: these bytes of the coded data
``Work`` on a round        ``Gradient``: the plain sum over the rows asked for
``Stop``                   ``Refusal``: one sentence on why the client cannot go on
========================== ===========================================================
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scfl.errors import DataError

Matrix = NDArray[Any]

_LENGTH = struct.Struct("<I")
_MOST_HEADER = 256 * 1024
_DTYPES: dict[str, np.dtype[Any]] = {
    "f4": np.dtype("<f4"),
    "f8": np.dtype("<f8"),
    "u1": np.dtype("u1"),
}


def _nothing() -> Matrix:
    return np.zeros(0, dtype=np.uint8)


class FrameError(DataError):
    """A frame that is no message: cut short, too long, of an unknown kind or shape."""


@dataclass(frozen=True, eq=False)
class Describe:
    """Say what you hold. ``task`` and the rest of ``preparation`` say how it will be used."""

    preparation: Mapping[str, Any]
    kind: ClassVar[str] = "describe"


@dataclass(frozen=True, eq=False)
class Described:
    """Rows, the names of the columns, and the class labels that occur, or None for regression."""

    name: str
    rows: int
    columns: list[str]
    labels: list[Any] | None
    kind: ClassVar[str] = "described"


@dataclass(frozen=True, eq=False)
class Prepare:
    """Turn your rows into features and targets; ``classes`` are everybody's, in this order."""

    classes: list[Any] | None
    outputs: int
    kind: ClassVar[str] = "prepare"


@dataclass(frozen=True, eq=False)
class Prepared:
    """Ready to train. ``macs_per_s`` was measured on the client's own rows.

    ``energy`` and ``largest`` are what the paper's printed privacy number needs to know of the
    features; they depend on the data, and are 0 unless they were asked for.
    """

    rows: int
    features: int
    outputs: int
    macs_per_s: float
    energy: float = 0.0
    largest: float = 0.0
    kind: ClassVar[str] = "prepared"


@dataclass(frozen=True, eq=False)
class Probe:
    """Answer with so many bytes, so that the link's rates can be told."""

    number: int
    reply_bytes: int
    array: Matrix = field(default_factory=_nothing)
    kind: ClassVar[str] = "probe"


@dataclass(frozen=True, eq=False)
class Echo:
    """The answer to a probe."""

    number: int
    array: Matrix = field(default_factory=_nothing)
    kind: ClassVar[str] = "echo"


@dataclass(frozen=True, eq=False)
class SendCode:
    """Send at most so many bytes of your coded data from ``offset`` on.

    ``request`` is a ``CodeRequest`` in plain values. The server pulls, so it never holds more of an
    upload than it asked for, and an interrupted one goes on where it stopped.
    """

    client: int
    offset: int
    most_bytes: int
    request: Mapping[str, Any]
    kind: ClassVar[str] = "send-code"


@dataclass(frozen=True, eq=False)
class CodePart:
    """A piece of the coded data; another ``origin`` is another draw, which never mixes with it."""

    origin: str
    offset: int
    total: int
    array: Matrix
    kind: ClassVar[str] = "code-part"


@dataclass(frozen=True, eq=False)
class Work:
    """Sum the gradient over these rows of a subset: a window that wraps around, or the coins' rows.

    ``array`` is the model, and after it the coins, packed, where there are any. Only the newest
    round counts: this message supersedes all before it.
    """

    round: int
    subsets: int
    subset: int
    start: int
    count: int
    coins: int
    shape: list[int]
    precision: str
    array: Matrix
    kind: ClassVar[str] = "work"

    @property
    def model(self) -> Matrix:
        dtype = _DTYPES[self.precision]
        size = math.prod(self.shape) * dtype.itemsize
        model: Matrix = self.array[:size].view(dtype).reshape(self.shape)
        return model

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """Which rows of the subset are in, where a coin decides."""
        if not self.coins:
            return None
        size = math.prod(self.shape) * _DTYPES[self.precision].itemsize
        return np.unpackbits(self.array[size:], count=self.coins).astype(bool)


@dataclass(frozen=True, eq=False)
class Gradient:
    """The answer to ``Work``: X^T (X W - Y) over the rows, and the seconds that it took."""

    round: int
    compute_s: float
    array: Matrix
    kind: ClassVar[str] = "gradient"


@dataclass(frozen=True, eq=False)
class Stop:
    """Training is over."""

    reason: str
    kind: ClassVar[str] = "stop"


@dataclass(frozen=True, eq=False)
class Refusal:
    """The client cannot go on, and says why in one sentence."""

    sentence: str
    kind: ClassVar[str] = "refusal"


Message = (
    Describe
    | Described
    | Prepare
    | Prepared
    | Probe
    | Echo
    | SendCode
    | CodePart
    | Work
    | Gradient
    | Stop
    | Refusal
)
_KINDS: dict[str, type[Any]] = {
    kind.kind: kind
    for kind in (
        Describe,
        Described,
        Prepare,
        Prepared,
        Probe,
        Echo,
        SendCode,
        CodePart,
        Work,
        Gradient,
        Stop,
        Refusal,
    )
}
_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "list[str]": (list,),
    "list[int]": (list,),
    "list[Any] | None": (list, type(None)),
    "Mapping[str, Any]": (dict,),
}


def pack_work(
    model: Matrix,
    *,
    round_number: int,
    subsets: int,
    subset: int,
    start: int,
    count: int,
    mask: NDArray[np.bool_] | None = None,
) -> Work:
    """Put a model, and the coins that chose the rows, into one message."""
    parts = [np.ascontiguousarray(model).view(np.uint8).ravel()]
    if mask is not None:
        parts.append(np.packbits(mask))
    return Work(
        round=round_number,
        subsets=subsets,
        subset=subset,
        start=start,
        count=count,
        coins=0 if mask is None else len(mask),
        shape=list(model.shape),
        precision=model.dtype.str[1:],
        array=np.concatenate(parts),
    )


def write_frame(message: Message) -> bytes:
    """A message as bytes."""
    plain = {f.name: getattr(message, f.name) for f in fields(message) if f.name != "array"}
    array = getattr(message, "array", None)
    header: dict[str, Any] = {"kind": message.kind, "fields": plain}
    body = b""
    if array is not None:
        ordered = np.ascontiguousarray(array)
        header["array"] = [ordered.dtype.str[1:], list(ordered.shape)]
        body = ordered.tobytes()
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-(_LENGTH.size + len(head)) % 8)  # so that the array is aligned
    return _LENGTH.pack(len(head)) + head + body


def read_frame(frame: bytes, *, most_bytes: int) -> Message:
    """The message in a frame; anything else is a ``FrameError`` that says what is wrong."""
    if len(frame) > most_bytes:
        raise FrameError(f"a message of {len(frame)} bytes; at most {most_bytes} are taken")
    if len(frame) < _LENGTH.size:
        raise FrameError(f"a message of {len(frame)} bytes, cut short before its header")
    (size,) = _LENGTH.unpack_from(frame)
    if size > min(_MOST_HEADER, len(frame) - _LENGTH.size):
        raise FrameError(f"a header of {size} bytes in a message of {len(frame)}")
    try:
        header = json.loads(frame[_LENGTH.size : _LENGTH.size + size])
        kind = _KINDS[header["kind"]]
        plain = dict(header["fields"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FrameError("a header that names no known message") from None
    wanted = {f.name: str(f.type) for f in fields(kind)}
    has_array = wanted.pop("array", None) is not None
    if plain.keys() != wanted.keys() or has_array != ("array" in header):
        raise FrameError(f"a message {kind.kind!r} with other fields than it has")
    for name, value in plain.items():
        if not isinstance(value, _PLAIN[wanted[name]]) or isinstance(value, bool):
            raise FrameError(f"{kind.kind}: {name} is {str(value)[:40]!r}, which it cannot be")
    body = memoryview(frame)[_LENGTH.size + size :]
    if has_array:
        plain["array"] = _read_array(header["array"], body)
    elif len(body):
        raise FrameError(f"a message {kind.kind!r} with {len(body)} bytes too many")
    message: Message = kind(**plain)
    return message


def _read_array(described: Any, body: memoryview) -> Matrix:
    try:
        name, shape = described
        dtype = _DTYPES[name]
        whole = len(shape) <= 2 and all(type(size) is int and size >= 0 for size in shape)
    except (TypeError, ValueError, KeyError):
        whole = False
    if not whole:
        raise FrameError(f"an array of type and shape {str(described)[:60]}")
    if math.prod(shape) * dtype.itemsize != len(body):
        raise FrameError(f"an array of shape {shape} {name} in {len(body)} bytes, cut short or not")
    return np.frombuffer(body, dtype=dtype).reshape(shape)
