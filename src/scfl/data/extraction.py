"""Turning a set of images into a set of features, once: in pieces, so that it can be gone on with.

A piece is written when it is whole. Columns are then standardised with the means and deviations of
the training rows, cut off at four deviations and divided by them, so that |x| <= 1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from scfl.data.packages import Report
from scfl.data.vgg import Layer, describe_images

PIECE_ROWS = 500
CUT_OFF = 4.0
# Below this deviation a column says nothing; it becomes 0 instead of noise.
_CONSTANT = 1e-6

Images = NDArray[np.uint8]


def extract_features(
    images: Sequence[tuple[str, Images]], layers: Sequence[Layer], folder: Path, report: Report
) -> list[list[Path]]:
    """The features of several arrays of images, each as a list of files of a few hundred rows."""
    folder.mkdir(exist_ok=True)
    pieces = [
        [
            (array[start : start + PIECE_ROWS], folder / f"{name}-{start:06d}.npy")
            for start in range(0, len(array), PIECE_ROWS)
        ]
        for name, array in images
    ]
    everything = [piece for listed in pieces for piece in listed]
    missing = [piece for piece in everything if not piece[1].exists()]
    done = len(everything) - len(missing)
    jobs = max(1, min(cpu_count(), len(missing)))
    report("extracting features", done, len(everything))
    attempts = Parallel(
        n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs
    )(delayed(_extract)(rows, layers, path) for rows, path in missing)
    for _ in attempts:
        done += 1
        report("extracting features", done, len(everything))
    return [[path for _, path in listed] for listed in pieces]


def _extract(rows: Images, layers: Sequence[Layer], path: Path) -> None:
    with threadpool_limits(1, "blas"):
        features = describe_images(rows, layers)
    aside = path.with_suffix(f".{os.getpid()}")
    with aside.open("wb") as file:
        np.save(file, features)
    aside.replace(path)


def measure_columns(pieces: Sequence[Path]) -> NDArray[np.float64]:
    """Mean and deviation of every column, as two rows, from one piece at a time."""
    rows, mean, spread = 0, np.zeros(1), np.zeros(1)
    for path in pieces:
        piece = np.load(path).astype(np.float64)
        own = piece.mean(axis=0)
        shift, together = own - mean, rows + len(piece)
        spread = spread + np.square(piece - own).sum(axis=0)
        spread = spread + np.square(shift) * rows * len(piece) / together
        mean = mean + shift * len(piece) / together
        rows = together
    return np.stack([mean, np.sqrt(spread / rows)])


def standardise(
    pieces: Sequence[Path], columns: NDArray[np.float64], report: Report
) -> NDArray[np.float16]:
    """The pieces together, scaled; half precision holds what the scaling leaves to tell apart."""
    mean, deviation = columns
    scale = np.where(deviation > _CONSTANT, CUT_OFF * deviation, np.inf)
    scaled: list[NDArray[Any]] = []
    for step, path in enumerate(pieces):
        report("scaling features", step, len(pieces))
        scaled.append(np.clip((np.load(path) - mean) / scale, -1, 1).astype(np.float16))
    return np.concatenate(scaled)
