"""A training on disk: whole or not there, and enough to go on as if nothing had happened.

One file holds the model, its average, what the method remembers, the arrival estimates, the ledger
and the curve so far, and who the clients are; the coded data lies beside it as it came. The file is
written aside, flushed and renamed, so a server that is killed leaves the last whole one. It is read
without executing anything.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.errors import OutputError, RunError

Matrix = NDArray[Any]

_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Arrays by name, and plain facts."""

    arrays: Mapping[str, Matrix]
    facts: Mapping[str, Any]


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file in one step; what cannot be written leaves the old one in place."""
    sink = io.BytesIO()
    facts = json.dumps({"format": _FORMAT, **checkpoint.facts}).encode()
    np.savez(sink, facts=np.frombuffer(facts, dtype=np.uint8), **checkpoint.arrays)  # type: ignore[arg-type]
    write_whole(path, sink.getvalue())


def write_whole(path: Path, content: bytes, *, flush: bool = True) -> None:
    """Write a file aside, flush it, and put it in its place.

    What is written again in a moment needs no flush, for which a busy disk may take its time.
    """
    aside = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            file.write(content)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise RunError(
            f"{path} cannot be written ({error.strerror}); make room and start again: training "
            "goes on from what is there"
        ) from None


def load_checkpoint(path: Path) -> Checkpoint | None:
    """Read a checkpoint back; None if there is none."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        facts = json.loads(arrays.pop("facts").tobytes())
        if facts.get("format") != _FORMAT:
            raise ValueError(f"format {facts.get('format')}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise OutputError(
            f"{path} is no checkpoint that can be read ({error}); choose another folder, or remove "
            "it to start over"
        ) from None
    return Checkpoint(arrays, facts)


def flatten_memory(memory: Any, name: str = "memory") -> dict[str, Matrix]:
    """What a method remembers between rounds, as arrays by name: None, arrays, and tables of both.

    Names spell the way: ``memory``, ``memory/velocity``, ...
    """
    if memory is None:
        return {}
    if isinstance(memory, (np.ndarray, int, float)):
        return {name: np.asarray(memory)}
    if isinstance(memory, Mapping):
        parts = [flatten_memory(part, f"{name}/{key}") for key, part in memory.items()]
        return {key: array for part in parts for key, array in part.items()}
    raise RunError(
        f"the method remembers a {type(memory).__name__}, which no checkpoint can hold; keep "
        "arrays, or a dict of arrays, in State.memory"
    )


def unflatten_memory(arrays: Mapping[str, Matrix], name: str = "memory") -> Any:
    """Undo ``flatten_memory``."""
    if name in arrays:
        value = arrays[name]
        return value if value.ndim else value.item()
    keys = {k.removeprefix(f"{name}/").split("/")[0] for k in arrays if k.startswith(f"{name}/")}
    return {key: unflatten_memory(arrays, f"{name}/{key}") for key in sorted(keys)} or None
