"""Looking at a model while it trains: loss, accuracy, and whether it is still sane."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scfl.data.problem import Problem
from scfl.methods.protocol import Combination, Method, State
from scfl.runtime.result import Trace
from scfl.runtime.stability import Stability

Matrix = NDArray[Any]

# A loss this many times that of the zero model is beyond what any step out of bad luck explains.
_EXPLODED = 100.0
# From so many numbers on, the products of the rows are soon cheaper than the rows themselves, if
# there are more rows than columns.
_LARGE = 20_000_000


class Evaluator:
    """Collects the curve of a run."""

    def __init__(self, problem: Problem, learned: Literal["average", "last"]) -> None:
        self.problem, self.learned = problem, learned
        self.rows: list[tuple[float, ...]] = []
        self.last_round = -1
        self.exploded = False

    def look(self, state: State, clock: float, bytes_up: float, bytes_down: float) -> None:
        """Evaluate both iterates and note the point."""
        last, average = evaluate_models(self.problem, [state.model, state.average])
        learned = average if self.learned == "average" else last
        self.rows.append((state.round, clock, *learned, *last, *average, bytes_up, bytes_down))
        self.last_round = state.round
        limit = _EXPLODED * self.rows[0][2]
        self.exploded = not (last[0] <= limit and average[0] <= limit)

    def is_due(
        self,
        round_number: int,
        clock: float,
        *,
        every: int,
        every_s: float | None,
        growth: float | None = None,
    ) -> bool:
        """Whether it is time for another look: by growth, by the clock, or by rounds."""
        if growth is not None:
            return round_number >= self.last_round * (1 + growth)
        if every_s is None:
            return round_number % every == 0
        return clock // every_s > self.rows[-1][1] // every_s

    def trace(self) -> Trace:
        columns = np.array(self.rows, dtype=np.float64).T
        return Trace(columns[0].astype(np.int32), *columns[1:])


def evaluate_models(problem: Problem, models: list[Matrix]) -> list[tuple[float, float]]:
    """Training loss per row and accuracy (NaN for regression) of several models at once."""
    side_by_side = np.concatenate(models, axis=1)
    rows, width = problem.features.shape
    large = rows > width and rows * width > _LARGE
    fitted = None if large else problem.features @ side_by_side
    tested, truth = fitted, None
    if problem.classes is not None and len(problem.test_targets):
        tested = problem.test_features @ side_by_side
        truth = problem.test_targets.argmax(axis=1)
    elif problem.classes is not None:
        tested = problem.features @ side_by_side if fitted is None else fitted
        truth = problem.targets.argmax(axis=1)
    values = []
    for place, model in enumerate(models):
        outputs = slice(place * model.shape[1], (place + 1) * model.shape[1])
        if fitted is None:
            loss = problem.moments.loss(model)
        else:
            residual = fitted[:, outputs] - problem.targets
            loss = float(np.square(residual, dtype=np.float64).sum()) / (2 * len(residual))
        right = np.nan
        if tested is not None and truth is not None:
            right = float((tested[:, outputs].argmax(axis=1) == truth).mean())
        values.append((loss, right))
    return values


def largest_stable_rate(problem: Problem) -> float:
    """The learning rate (per row) above which plain gradient descent on all rows diverges."""
    hessian = problem.moments.curvature
    vector: Matrix = np.ones(len(hessian))
    curvature = 1.0
    for _ in range(30):
        vector = hessian @ (vector / np.linalg.norm(vector))
        curvature = float(np.linalg.norm(vector))
    return 2 * len(problem.features) / curvature


def explain_divergence(
    problem: Problem,
    method: Method,
    combination: Combination,
    state: State,
    stability: Stability | None = None,
) -> str:
    """One sentence with the likely cause and the way out; ``stability`` is what was foreseen."""
    limit = largest_stable_rate(problem)
    rate = getattr(method, "learning_rate", None)
    said = f"the model exploded by round {state.round}"
    if isinstance(rate, (int, float)) and rate > 0.8 * limit:
        return (
            f"{said}: the learning rate {rate:g} is too large for this problem, on which full "
            f"gradients are stable below about {limit:.3g}; try {limit / 4:.2g}"
        )
    if stability is not None and stability.warning is not None:
        return f"{said}: {stability.warning}"
    if combination.shrink > 0 and stability is None:
        return (
            f"{said}: the make-up term (shrink {combination.shrink:.3g}) may take away more "
            "curvature than the noisy coded data of the absent adds; use less noise, more coded "
            "rows or fewer rounds"
        )
    heaviest = float(combination.clients.max(initial=0.0))
    return (
        f"{said}: the steps are too noisy (a client's gradient counts up to {heaviest:.3g} times); "
        "try a lower learning rate, larger batches or a later deadline"
    )
