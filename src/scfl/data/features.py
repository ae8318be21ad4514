"""Feature maps that every client can build for itself from a shared seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import RBFSampler

from scfl.core.parameter import Requirements


@dataclass(frozen=True)
class RandomFourier:
    """Random Fourier features of the Gaussian kernel exp(-|x - y|^2 / (2 width^2)).

    Every feature is at most sqrt(2 / dimensions) in size, and a row's norm is about 1.
    """

    dimensions: int = 500
    width: float = 5.0
    random_state: int = 0
    name: ClassVar[str] = "random-fourier"

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.count("dimensions", self.dimensions, at_least=1)
            require.number("width", self.width, above=0)
            require.count("random_state", self.random_state, at_most=2**32 - 1)

    def transform(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Map rows; the same seed and number of columns give the same map on every machine."""
        if not len(rows):
            return np.zeros((0, self.dimensions))
        sampler = RBFSampler(
            gamma=1 / (2 * self.width**2),
            n_components=self.dimensions,
            random_state=self.random_state,
        )
        sampler.fit(np.zeros((1, rows.shape[1]), dtype=rows.dtype))
        mapped: NDArray[Any] = sampler.transform(rows)
        return mapped


FeatureMap = RandomFourier
