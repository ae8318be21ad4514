"""How good features are: a ridge classifier in one place, its penalty chosen on held-out rows.

python -m benchmarks.probe cifar-10-vgg16
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from scfl.data.install import identify_set, load_set

PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
HELD_OUT = 0.1


def solve(
    products: NDArray[np.float32], sums: NDArray[np.float32], penalty: float
) -> NDArray[np.float64]:
    ridge = products.astype(np.float64)
    ridge[np.diag_indices_from(ridge)] += penalty
    model: NDArray[np.float64] = linalg.solve(ridge, sums.astype(np.float64), assume_a="pos")
    return model


def main(name: str) -> None:
    data = load_set(identify_set(name)[0])
    assert data.test is not None
    order = np.random.default_rng(0).permutation(len(data.X))
    kept, held = np.split(order, [round(len(order) * (1 - HELD_OUT))])
    classes = np.unique(data.y)
    targets = (data.y[:, None] == classes).astype(np.float32) - 1 / len(classes)

    def accuracy(X: NDArray[np.float32], y: NDArray[np.uint8], model: NDArray[np.float64]) -> float:
        return float((classes[(X @ model).argmax(axis=1)] == y).mean())

    X = np.asarray(data.X, dtype=np.float32)
    products, sums = X[kept].T @ X[kept], X[kept].T @ targets[kept]
    scores = {}
    for penalty in PENALTIES:
        scores[penalty] = accuracy(X[held], data.y[held], solve(products, sums, penalty))
        print(f"penalty {penalty:g}: {scores[penalty]:.4f} of the held-out rows")
    best = max(scores, key=lambda penalty: scores[penalty])
    model = solve(products + X[held].T @ X[held], sums + X[held].T @ targets[held], best)
    tested = accuracy(np.asarray(data.test[0], dtype=np.float32), data.test[1], model)
    top = linalg.eigvalsh(products, subset_by_index=[len(products) - 1, len(products) - 1])[0]
    print(f"{name}: {tested:.4f} test accuracy with penalty {best:g}")
    print(f"full gradients are stable below a learning rate of {2 * len(kept) / top:.3g}")


if __name__ == "__main__":
    main(sys.argv[1])
