"""Looking at a model that is trained on data nobody here can see.

With test rows of the server's own, loss and accuracy are theirs. Without, the loss is estimated
from the coded data, which was sent once and costs no further privacy:

    E ||X~ W - Y~||^2 / c  =  ||X W - Y||^2  +  n sigma^2 (||W||^2 + o, if labels are noised too)

The estimate is rough where coded rows are few, and is not made for codes that weigh their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scfl.core.coding import CodedData
from scfl.methods.protocol import Plan, State
from scfl.runtime.network.worker import Holdings, Rows
from scfl.runtime.result import Trace

Matrix = NDArray[Any]

_CHUNK_ROWS = 4096


@dataclass(eq=False)
class Curve:
    """The points of a training, one row each, in the order of ``Trace``."""

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def trace(self) -> Trace:
        columns = np.array(self.rows, dtype=np.float64).reshape(-1, 10).T
        return Trace(columns[0].astype(np.int32), *columns[1:])


@dataclass(eq=False)
class Watcher:
    """Measures models, on the server's own rows if it holds any."""

    holdings: Holdings | None = None
    _tests: Rows | None = None
    _classify: bool = False
    _plan: Plan | None = None
    _held: CodedData | None = None

    @property
    def source(self) -> str:
        """What losses are measured on."""
        if self._tests is not None:
            return "test rows"
        return "coded data" if self._held is not None else "nothing"

    @property
    def test_rows(self) -> int:
        """How many rows of the server's own models are measured on."""
        return 0 if self._tests is None else len(self._tests.features)

    def hold(self, plan: Plan, held: CodedData | None, classes: list[Any] | None) -> None:
        """The coded data of who takes part now, and the classes that they agreed on."""
        if self.holdings is not None and self._tests is None:
            self._tests = self.holdings.prepare(classes, len(classes or ()))
            self._classify = classes is not None
        weighted = plan.code is not None and plan.code.processed_weight is not None
        self._plan, self._held = plan, None if weighted else held

    def look(
        self, curve: Curve, state: State, clock: float, bytes_up: float, bytes_down: float
    ) -> None:
        """Measure the last and the average model, and note the point."""
        last, average = self.measure(state.model), self.measure(state.average)
        learned = last if self._plan is not None and self._plan.learned == "last" else average
        curve.rows.append((state.round, clock, *learned, *last, *average, bytes_up, bytes_down))

    def measure(self, model: Matrix) -> tuple[float, float]:
        """Loss per row and accuracy; NaN where there is nothing to tell them by."""
        tests = self._tests
        if tests is not None:
            outputs = tests.features @ model
            loss = float(np.square(outputs - tests.targets, dtype=np.float64).sum())
            right = float("nan")
            if self._classify:
                right = float((outputs.argmax(axis=1) == tests.targets.argmax(axis=1)).mean())
            return loss / (2 * len(outputs)), right
        return self._estimate_loss(model), float("nan")

    def _estimate_loss(self, model: Matrix) -> float:
        plan, held = self._plan, self._held
        if plan is None or plan.code is None or held is None:
            return float("nan")
        store, total = held.store, 0.0
        part_lengths = store.lengths.ravel()
        ends = part_lengths.cumsum()
        for first, stop, length in zip(ends - part_lengths, ends, part_lengths, strict=True):
            squares = 0.0
            for start in range(int(first), int(stop), _CHUNK_ROWS):
                some = slice(start, min(start + _CHUNK_ROWS, int(stop)))
                residual = store.features[some] @ model - store.targets[some]
                squares += float(np.square(residual, dtype=np.float64).sum())
            total += squares / float(length)
        noise = plan.code.noise
        if noise.sigma:
            extra = float(np.square(model, dtype=np.float64).sum())
            extra += model.shape[1] if noise.labels else 0
            total -= plan.shape.clients * noise.sigma**2 * extra * len(store.lengths)
        return max(total, 0.0) / (2 * plan.shape.rows)
