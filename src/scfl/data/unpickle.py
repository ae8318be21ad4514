"""Reading pickles of NumPy arrays without running anything that they name.

A pickle may call any function it names. Here it can name four, and what it gets are the stand-ins
below, so dictionaries, lists, numbers, text and arrays of numbers can be read, and nothing else.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scfl.errors import DataError


def read_pickle(path: Path, encoding: Literal["ASCII", "bytes"] = "ASCII") -> Any:
    """Read a pickle of arrays; ``encoding="bytes"`` is for those that Python 2 wrote."""
    try:
        return _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding=encoding).load()
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle can raise anything
        raise DataError(f"{path}: a damaged pickle ({error}); get it again") from None


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module.replace("numpy._core", "numpy.core"), name]
        except KeyError:
            raise DataError(
                f"it wants to run {module}.{name}; only arrays of numbers are read from a pickle"
            ) from None


class _Kind:
    """Stands for a NumPy type, whose order of bytes the pickle gives afterwards."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.kind = np.dtype(code.decode() if isinstance(code, bytes) else code)
        if self.kind.kind not in "biuf":
            raise DataError(f"it holds an array of type {self.kind}; only numbers are read")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] in (">", b">"):
            self.kind = self.kind.newbyteorder(">")


class _Array(np.ndarray[Any, Any]):
    """Stands for an array, which the pickle gives its shape, type and numbers afterwards."""

    def __setstate__(self, state: Any) -> None:
        version, shape, stand_in, by_columns, content = state
        super().__setstate__((version, shape, stand_in.kind, by_columns, content))


def _start_array(*_: object) -> _Array:
    return np.empty(0, dtype=np.int8).view(_Array)


def _encode(text: str, codec: str) -> bytes:
    """How Python 3 writes bytes for Python 2: as the letters with those codes."""
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _start_array,
    ("numpy", "ndarray"): object,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,
}
