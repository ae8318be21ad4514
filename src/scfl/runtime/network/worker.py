"""A client: it knows two verbs, encode and gradient, and no method.

Nothing here waits, listens or sends: a driver hands over a message and sends the answer. Rows are
loaded and mapped once. A gradient is summed in row blocks, and between two of them the worker asks
whether the round is still the newest; work on a round that is over would make the client late for
the next one too.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import Noise
from scfl.core.gradient import Clip, accumulate_gradient, block_rows
from scfl.core.moments import measure_moments
from scfl.core.randomness import Purpose, stream
from scfl.core.sampling import RowStore, store_rows
from scfl.data.row_norm import hold_rows
from scfl.errors import DataError
from scfl.privacy.budget import GradientNoise
from scfl.privacy.mutual_information import measure_energy
from scfl.runtime.encoding import CodeRequest, encode_part
from scfl.runtime.network.wire import (
    CodePart,
    Describe,
    Described,
    Echo,
    Gradient,
    Message,
    Prepare,
    Prepared,
    Probe,
    Refusal,
    SendCode,
    Work,
    write_frame,
)

Matrix = NDArray[Any]

# Long enough to be told from the clock's own steps, short enough not to be noticed.
_MEASURED_S = 0.1


@dataclass(frozen=True, eq=False)
class Rows:
    """Features and targets, ready for training."""

    features: Matrix
    targets: Matrix


class Holdings(Protocol):
    """What a client holds: it says what it is, and is turned into rows once."""

    @property
    def name(self) -> str: ...

    def describe(self, preparation: Mapping[str, Any]) -> Described: ...

    def prepare(self, classes: list[Any] | None, outputs: int) -> Rows: ...


def never() -> bool:
    """The answer of somebody who never gives up."""
    return False


@dataclass
class Worker:
    """One client's side of the protocol. ``secret`` seeds its code and noise; it is never sent.

    ``preparation`` is what the server said beforehand of how rows will be used: it holds the bound
    on their norm, and on each one's share in a gradient, with the noise that hides it.
    """

    holdings: Holdings
    secret: int = field(repr=False)
    clock: Callable[[], float] = time.perf_counter
    rows: Rows | None = None
    preparation: Mapping[str, Any] = field(default_factory=dict)
    _store: tuple[int, RowStore] | None = None
    coded: tuple[Mapping[str, Any], str, Matrix] | None = field(default=None, repr=False)

    def answer(self, message: Message, superseded: Callable[[], bool] = never) -> Message | None:
        """The answer to a message; None where none is due, because newer work is waiting."""
        reply: Message | None = None
        try:
            match message:
                case Describe():
                    self.preparation = message.preparation
                    reply = self.holdings.describe(message.preparation)
                case Prepare():
                    reply = self._prepare(message)
                case Probe():
                    reply = Echo(message.number, np.zeros(message.reply_bytes, dtype=np.uint8))
                case SendCode():
                    reply = self._send_code(message)
                case Work():
                    reply = self._sum_gradient(message, superseded)
        except DataError as error:
            reply = Refusal(f"{self.holdings.name}: {error}")
        return reply

    def _prepare(self, message: Prepare) -> Prepared:
        rows = self.holdings.prepare(message.classes, message.outputs)
        features, targets = rows.features, rows.targets
        bound = self.preparation.get("row-norm")
        if bound is not None:
            features, targets, _ = hold_rows(features, targets, float(bound))
        self.rows, self._store, self.coded = Rows(features, targets), None, None
        told = bool(self.preparation.get("measure-energy"))
        return Prepared(
            rows=len(features),
            features=features.shape[1],
            outputs=targets.shape[1],
            macs_per_s=measure_macs_per_s(features, targets, self.clock),
            energy=measure_energy(features) if told else 0.0,
            largest=float(np.abs(features).max()) if told else 0.0,
        )

    def _arrange(self, subsets: int) -> RowStore:
        """The client's own rows in subsets, cut as the server cuts them."""
        if self.rows is None:
            raise DataError("asked to work before the rows were prepared")
        if self._store is None or self._store[0] != subsets:
            rows = self.rows
            count = np.array([len(rows.features)])
            self._store = subsets, store_rows(rows.features, rows.targets, count, subsets)
        return self._store[1]

    @property
    def _guard(self) -> GradientNoise | None:
        wanted = self.preparation.get("gradient")
        return None if wanted is None else GradientNoise(**wanted)

    def _send_code(self, message: SendCode) -> CodePart:
        if self.coded is None or self.coded[0] != message.request:
            content = self._encode(message)
            origin = hashlib.sha256(content.data).hexdigest()
            self.coded = message.request, origin, content
        _, origin, content = self.coded
        return CodePart(
            origin=origin,
            offset=message.offset,
            total=len(content),
            array=content[message.offset : message.offset + message.most_bytes],
        )

    def _encode(self, message: SendCode) -> Matrix:
        """All coded rows, part after part, each row's features before its targets, as bytes."""
        wanted = dict(message.request)
        request = CodeRequest(**{**wanted, "noise": Noise(**wanted["noise"])})
        store = self._arrange(request.subsets)
        if request.content == "products":
            moments = measure_moments(store.features, store.targets)
            blocks = [moments.factor.astype(store.features.dtype)]
        else:
            blocks = [
                np.concatenate(
                    encode_part(store, 0, request, part, seed=self.secret, client=message.client),
                    axis=1,
                )
                for part in request.parts
            ]
        coded = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        return np.ascontiguousarray(coded).view(np.uint8).reshape(-1)

    def _sum_gradient(self, message: Work, superseded: Callable[[], bool]) -> Gradient | None:
        started, guard = self.clock(), self._guard
        store, model = self._arrange(message.subsets), message.model
        piece = store.piece(message.subset)
        features, targets = store.features[piece], store.targets[piece]
        into = np.zeros(model.shape[::-1], dtype=model.dtype)
        size = block_rows(*model.shape)
        for rows in _windows(message, len(features)):
            length = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
            for first in range(0, length, size):
                if superseded():
                    return None
                some = (
                    slice(rows.start + first, min(rows.start + first + size, rows.stop))
                    if isinstance(rows, slice)
                    else rows[first : first + size]
                )
                clip = None
                if guard is not None:
                    clip = Clip(np.linalg.norm(features[some], axis=1), guard.norm)
                accumulate_gradient(features[some], targets[some], model, None, into, clip=clip)
        if guard is not None:
            # The same question has the same answer, so asking it again tells nothing more.
            question = int.from_bytes(hashlib.sha256(write_frame(message)).digest())
            drawn = stream(self.secret, Purpose.GRADIENT_NOISE, message.round, question)
            into += (guard.sigma * drawn.standard_normal(into.shape)).astype(into.dtype)
        return Gradient(message.round, self.clock() - started, into)


def measure_macs_per_s(
    features: Matrix | None = None,
    targets: Matrix | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Multiply-accumulates a second of this machine, on these rows or on some of a usual size."""
    if features is None or targets is None:
        features = np.ones((500, 500), dtype=np.float32)
        targets = np.ones((500, 10), dtype=np.float32)
    model = np.zeros((features.shape[1], targets.shape[1]), dtype=features.dtype)
    into = np.zeros(model.shape[::-1], dtype=model.dtype)
    some = features[: block_rows(*model.shape)]
    macs, started = 0.0, clock()
    while (spent := clock() - started) < _MEASURED_S:
        accumulate_gradient(some, targets[: len(some)], model, None, into)
        macs += 2.0 * some.size * model.shape[1]
    return macs / spent


def _windows(message: Work, length: int) -> list[slice] | list[NDArray[np.intp]]:
    """The rows of a subset that a round takes: a window, perhaps in two pieces, or scattered."""
    mask = message.mask
    if mask is not None:
        return [np.flatnonzero(mask[:length])]
    stop = message.start + min(message.count, length)
    if stop <= length:
        return [slice(message.start, stop)]
    return [slice(message.start, length), slice(0, stop - length)]
