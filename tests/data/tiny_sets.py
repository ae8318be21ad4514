"""A data set of a few images in every form in which the real ones come, and a registry's client."""

from __future__ import annotations

import gzip
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from scfl.data import catalogue
from scfl.data.idx import digest

Arrays = dict[str, NDArray[np.uint8]]

IDX_NAMES = {
    "X": "train-images-idx3-ubyte",
    "y": "train-labels-idx1-ubyte",
    "X_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


def draw_images(shape: tuple[int, ...], rows: int = 30, test_rows: int = 10) -> Arrays:
    rng = np.random.default_rng(0)
    return {
        "X": rng.integers(0, 256, (rows, *shape), dtype=np.uint8),
        "y": np.arange(rows, dtype=np.uint8) % 3,
        "X_test": rng.integers(0, 256, (test_rows, *shape), dtype=np.uint8),
        "y_test": np.arange(test_rows, dtype=np.uint8) % 3,
    }


def encode_idx(array: NDArray[np.uint8]) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def write_idx_files(folder: Path, arrays: Arrays, *, gzipped: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in IDX_NAMES.items():
        content = encode_idx(arrays[name])
        if gzipped:
            (folder / f"{file}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / file).write_bytes(content)
    return folder


def pack(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "package")
    return archive


def known_as(
    entry: catalogue.ImageSet, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> catalogue.ImageSet:
    """Let ``arrays`` pass for the real set, wherever the machine has that."""
    tiny = replace(
        entry,
        digests={name: digest(array) for name, array in arrays.items()},
        installed=None,
    )
    monkeypatch.setitem(catalogue._SETS, entry.name, tiny)
    return tiny


def install_client(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a shell script in place of a registry's client."""
    folder.mkdir(parents=True, exist_ok=True)
    client = folder / name
    client.write_text(f"#!/bin/sh\n{script}\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
