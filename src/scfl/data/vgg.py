"""The convolutions of VGG-16 in NumPy, and 4096 features of a small image from their last blocks.

Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition"
(2015), trained on ImageNet. No registry carries its fully connected layers, whose 4096 outputs are
commonly taken for features, so these are of another kind: the outputs of the fourth and the fifth
block, each averaged over the four quarters of the image (2 x 4 x 512).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from scfl.data.unpickle import read_pickle
from scfl.errors import DataError

Floats = NDArray[np.float32]
Layer = tuple[Floats, Floats]

_BLOCKS = (2, 2, 3, 3, 3)
# What ImageNet's pixels, from 0 to 1, were standardised with when the network was trained.
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)
# So few images at a time that the windows of the widest layer stay near the processor.
_BATCH = 8


def read_layers(path: Path) -> list[Layer]:
    """Kernels (height, width, inputs, outputs) and biases of the 13 convolutions, in order."""
    content = read_pickle(path)
    try:
        named: Mapping[str, Any] = content["VGG16_0"]
        layers = [named[f"Conv_{number}"] for number in range(sum(_BLOCKS))]
        return [(np.asarray(layer["kernel"]), np.asarray(layer["bias"])) for layer in layers]
    except (KeyError, TypeError, IndexError):
        raise DataError(f"{path}: does not hold the 13 convolutions of VGG-16") from None


def describe_images(images: NDArray[np.uint8], layers: Sequence[Layer]) -> Floats:
    """The features of images (rows, height, width, colours), one row each."""
    batches = [
        _describe_batch(images[start : start + _BATCH], layers)
        for start in range(0, len(images), _BATCH)
    ]
    return np.concatenate(batches)


def _describe_batch(images: NDArray[np.uint8], layers: Sequence[Layer]) -> Floats:
    maps: Floats = (images.astype(np.float32) / np.float32(255) - _MEAN) / _DEVIATION
    quarters, remaining = [], iter(layers)
    for block, depth in enumerate(_BLOCKS):
        maps = maps if block == 0 else _halve(maps)
        for _ in range(depth):
            maps = _convolve(maps, *next(remaining))
        if block >= len(_BLOCKS) - 2:
            quarters.append(_average_quarters(maps))
    return np.concatenate(quarters, axis=1)


def _convolve(maps: Floats, kernel: Floats, bias: Floats) -> Floats:
    """A 3 x 3 convolution with zeros around, then max(0, .): one product of windows by kernels."""
    height, width, inputs, outputs = kernel.shape
    around = ((0, 0), (height // 2, height // 2), (width // 2, width // 2), (0, 0))
    windows = sliding_window_view(np.pad(maps, around), (height, width), axis=(1, 2))
    rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, height * width * inputs)
    sums: Floats = rows @ kernel.reshape(-1, outputs)
    sums += bias
    np.maximum(sums, 0, out=sums)
    return sums.reshape(*maps.shape[:3], outputs)


def _halve(maps: Floats) -> Floats:
    """The largest of every 2 x 2 neighbours."""
    above = np.maximum(maps[:, ::2, ::2], maps[:, ::2, 1::2])
    below = np.maximum(maps[:, 1::2, ::2], maps[:, 1::2, 1::2])
    larger: Floats = np.maximum(above, below)
    return larger


def _average_quarters(maps: Floats) -> Floats:
    rows, height, width, channels = maps.shape
    quarters = maps.reshape(rows, 2, height // 2, 2, width // 2, channels)
    averages: Floats = quarters.mean(axis=(2, 4)).reshape(rows, 4 * channels)
    return averages
