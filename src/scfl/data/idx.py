"""The IDX format of MNIST: a magic number, the sizes, then bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.errors import DataError

_UNSIGNED_BYTES = 8
_GZIP = b"\x1f\x8b"


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes."""
    content = path.read_bytes()
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: damaged gzip file ({error}); get it again") from None
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTES]):
        raise DataError(
            f"{path}: not an IDX file of bytes (it starts with {content[:4].hex() or 'nothing'}); "
            "give the original file, plain or gzipped"
        )
    start = 4 + 4 * content[3]
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) != start + prod(sizes):
        raise DataError(
            f"{path}: {len(content)} bytes, but its header promises {start + prod(sizes)} "
            f"(sizes {sizes}); the file was cut short or changed, get it again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(sizes)


def digest(array: NDArray[Any]) -> str:
    """The SHA-256 of the file that holds an array: IDX for bytes, else .npy.

    For MNIST this is the hash of the published file, whichever way the images came.
    """
    header = io.BytesIO()
    array = np.ascontiguousarray(array)
    if array.dtype == np.uint8:
        header.write(bytes([0, 0, _UNSIGNED_BYTES, array.ndim]))
        header.write(np.array(array.shape, dtype=">u4").tobytes())
    else:
        described = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(header, described)
    hashed = hashlib.sha256(header.getvalue())
    hashed.update(array.view(np.uint8).data)
    return hashed.hexdigest()
