"""Raw data that needs no download: scikit-learn's digits, made-up regressions, and files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits as _load_digits

from scfl.core.randomness import Purpose, stream
from scfl.data.scaling import Scaling
from scfl.errors import DataError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows and targets as they come, before features and clients."""

    X: NDArray[Any]
    y: NDArray[Any]
    clients: NDArray[Any] | None = None
    test: tuple[NDArray[Any], NDArray[Any]] | None = None
    scaling: Scaling | None = None


def load_digits() -> Dataset:
    """The 1797 handwritten digits inside scikit-learn, 8 x 8 pixels scaled to [0, 1]."""
    X, y = _load_digits(return_X_y=True)
    return Dataset(X / 16.0, y)


def make_regression(rows: int, columns: int, outputs: int = 1, random_state: int = 0) -> Dataset:
    """Draw Gaussian rows and noisy linear targets, for tests and first steps."""
    rng = stream(random_state, Purpose.SYNTHETIC)
    X = rng.standard_normal((rows, columns)) / columns**0.5
    truth = rng.standard_normal((columns, outputs))
    return Dataset(X, X @ truth + 0.1 * rng.standard_normal((rows, outputs)))


def load_arrays(path: Path) -> Dataset:
    """Read an .npz file: ``X``, ``y`` and, if wanted, ``clients``, ``X_test`` and ``y_test``."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; give the path of an .npz file") from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: not an .npz file of plain arrays ({error}); write one with numpy.savez"
        ) from None
    missing = [name for name in ("X", "y") if name not in arrays]
    if missing:
        raise DataError(
            f"{path}: no array named {missing[0]!r}, only {sorted(arrays)}; "
            "write it with numpy.savez(path, X=X, y=y)"
        )
    if ("X_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{path}: X_test and y_test come together; add the one that is missing")
    test = (arrays["X_test"], arrays["y_test"]) if "X_test" in arrays else None
    return Dataset(arrays["X"], arrays["y"], arrays.get("clients"), test)
