"""Coded data on its way in: pulled piece by piece into a file, so that no upload fills the memory.

The server asks for a piece, gets it, and asks for the next; it knows beforehand how many bytes
there are to come. What is here is on disk, so an upload that stopped half-way goes on where it was,
whether the client or the server was restarted. A client that coded anew (another ``origin``) starts
over: pieces of two draws never mix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.core.moments import measure_moments
from scfl.core.sampling import store_blocks
from scfl.methods.protocol import Plan
from scfl.runtime.encoding import CodeRequest, list_requests
from scfl.runtime.network.wire import CodePart, SendCode

Matrix = NDArray[Any]

PIECE_BYTES = 4_000_000
_ORIGIN = re.compile(r"[0-9a-f]{64}")


@dataclass
class Upload:
    """One client's coded data, as far as it has come."""

    folder: Path
    client: int
    request: CodeRequest
    width: int
    dtype: np.dtype[Any]
    origin: str = ""
    received: int = 0

    def __post_init__(self) -> None:
        for path in self.folder.glob(f"{self.client}-*.part"):
            self.origin = path.stem.partition("-")[2]
            self.received = path.stat().st_size

    @property
    def rows(self) -> int:
        """Rows of all parts together."""
        return self.request.rows * len(self.request.parts)

    @property
    def total(self) -> int:
        """Bytes of the whole."""
        return self.rows * self.width * self.dtype.itemsize

    @property
    def complete(self) -> bool:
        return self.received == self.total

    @property
    def path(self) -> Path:
        return self.folder / f"{self.client}-{self.origin}.part"

    def next_request(self) -> SendCode:
        """Ask for the piece after what is here."""
        return SendCode(
            client=self.client,
            offset=self.received,
            most_bytes=PIECE_BYTES,
            request=asdict(self.request),
        )

    def take(self, part: CodePart) -> str | None:
        """Write a piece down; say why if it is none that was asked for."""
        if part.total != self.total:
            return f"an upload of {part.total} bytes, {self.total} were asked for"
        if not _ORIGIN.fullmatch(part.origin):
            return "an upload whose origin is no checksum"
        if part.origin != self.origin:
            self.forget()
            self.origin = part.origin
            if part.offset != 0:
                return None
        if part.offset != self.received:
            return f"bytes from {part.offset} on, those from {self.received} on were asked for"
        wanted = min(PIECE_BYTES, self.total - self.received)
        if part.array.dtype != np.uint8 or part.array.size != wanted:
            return f"{part.array.nbytes} bytes, {wanted} were asked for"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(part.array.tobytes())
        self.received += wanted
        return None

    def forget(self) -> None:
        """Start over."""
        for path in self.folder.glob(f"{self.client}-*.part"):
            path.unlink()
        self.origin, self.received = "", 0

    def read(self, first: int, count: int) -> Iterator[tuple[int, Matrix]]:
        """Coded rows, features and targets side by side, a few megabytes at a time."""
        row_bytes = self.width * self.dtype.itemsize
        size = max(1, PIECE_BYTES // row_bytes)
        for start in range(0, count, size):
            some = min(size, count - start)
            flat = np.fromfile(
                self.path,
                dtype=self.dtype,
                count=some * self.width,
                offset=(first + start) * row_bytes,
            )
            yield start, flat.reshape(some, self.width)

    def inspect(self) -> tuple[float, str | None]:
        """The mean square of an entry, and why the upload cannot be used, if so."""
        total = 0.0
        for _, rows in self.read(0, self.rows):
            if not np.isfinite(rows).all():
                return np.nan, "coded data that is not finite"
            total += float(np.square(rows, dtype=np.float64).sum())
        return total / (self.rows * self.width), None


def open_uploads(folder: Path, plan: Plan, dtype: np.dtype[Any]) -> list[Upload]:
    """What every client of a plan is to send; what an earlier server got of it is still here."""
    width = plan.shape.features + plan.shape.outputs
    return [
        Upload(folder, client, request, width, dtype)
        for client, request in enumerate(list_requests(plan))
    ]


def assemble_code(uploads: Sequence[Upload], plan: Plan) -> CodedData | None:
    """Add the uploads up, or stand them side by side, as the plan's layout says.

    ``uploads`` are those of the plan's clients, in order. What has to be held is allocated once.
    """
    code = plan.code
    if code is None:
        return None
    features, dtype = plan.shape.features, uploads[0].dtype
    if code.content == "products":
        return _add_products(uploads, features)
    parts = len(uploads[0].request.parts)
    rows = [code.rows[0]] if code.layout == "summed" else code.rows
    lengths = np.tile(np.asarray(rows, dtype=np.int64), (parts, 1))
    held_features = np.zeros((int(lengths.sum()), features), dtype=dtype)
    held_targets = np.zeros((len(held_features), plan.shape.outputs), dtype=dtype)
    begins = np.concatenate([[0], lengths.ravel().cumsum()[:-1]]).reshape(lengths.shape)
    for number, upload in enumerate(uploads):
        block = 0 if code.layout == "summed" else number
        for part in range(parts):
            for start, piece in upload.read(part * upload.request.rows, upload.request.rows):
                first = int(begins[part, block]) + start
                held_features[first : first + len(piece)] += piece[:, :features]
                held_targets[first : first + len(piece)] += piece[:, features:]
    return CodedData(store_blocks(held_features, held_targets, lengths))


def _add_products(uploads: Sequence[Upload], features: int) -> CodedData:
    """Factors of everybody's products, stacked, have the products of all as theirs."""
    rows = np.concatenate([piece for u in uploads for _, piece in u.read(0, u.rows)])
    summed = measure_moments(rows[:, :features], rows[:, features:])
    count = len(summed.factor)
    factor = (count**0.5 * summed.factor).astype(rows.dtype)
    return CodedData(
        store_blocks(
            np.ascontiguousarray(factor[:, :features]),
            np.ascontiguousarray(factor[:, features:]),
            np.array([[count]]),
        )
    )
