"""Learning curves over seeds: every seed's trace on one time grid, then the median and the band.

At any time a run stands where its last evaluation found it: before its training starts that is the
untrained model, after its end the one it learned. So a median curve steps over the target exactly
where the median of the seeds' times lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scfl.study.records import Run
from scfl.study.summary import Clock, spread_over_seeds

Floats = NDArray[np.float64]
Metric = Literal["accuracy", "loss"]

# More points than this no panel can show.
_MOST_POINTS = 400


@dataclass(frozen=True, eq=False)
class Curve:
    """One label on one clock: from the first seed's start to the last seed's end.

    ``start_s`` and ``whole_s`` are the medians of the seeds' starts and ends: before and after
    them the curve rests on models that are not being trained.
    """

    times_s: Floats
    median: Floats
    low: Floats
    high: Floats
    start_s: float
    whole_s: float
    untrained: float


@dataclass(frozen=True, eq=False)
class Lost:
    """A run that diverged: what was recorded while it was finite."""

    times_s: Floats
    values: Floats


def curve_over_seeds(
    runs: Sequence[Run],
    metric: Metric,
    clock: Clock,
    seeds: int,
    *,
    most_points: int = _MOST_POINTS,
) -> Curve | None:
    """The curve of the runs that did not diverge, or None when there is none to draw."""
    lines = [
        (times, values)
        for run in runs
        if not run.diverged
        for times, values in [_line(run, metric, clock)]
        if times.size
    ]
    if not lines:
        return None
    starts = [times[0] for times, _ in lines]
    ends = [times[-1] for times, _ in lines]
    start = float(np.median(starts))
    grid = np.unique(np.concatenate([times for times, _ in lines] + [np.array([start])]))
    if grid.size > most_points:
        # Thinned by rank, so that points stay dense where models were evaluated often.
        keep = np.linspace(0, grid.size - 1, most_points).round().astype(np.int64)
        grid = grid[keep]
    table = np.array([_hold(grid, times, values) for times, values in lines])
    spreads = [spread_over_seeds(column.tolist(), seeds) for column in table.T]
    median, low, high = (
        np.array([getattr(spread, part) for spread in spreads])
        for part in ("median", "low", "high")
    )
    untrained = float(np.median([values[0] for _, values in lines]))
    return Curve(grid, median, low, high, start, float(np.median(ends)), untrained)


def lost_runs(runs: Sequence[Run], metric: Metric, clock: Clock) -> tuple[Lost, ...]:
    """The runs that diverged, as far as they were finite."""
    lines = [_line(run, metric, clock) for run in runs if run.diverged]
    return tuple(Lost(times, values) for times, values in lines if times.size)


def _hold(grid: Floats, times: Floats, values: Floats) -> Floats:
    """The last value known at each time of the grid; before the first, the first."""
    held: Floats = values[np.maximum(np.searchsorted(times, grid, side="right") - 1, 0)]
    return held


def _line(run: Run, metric: Metric, clock: Clock) -> tuple[Floats, Floats]:
    values: Floats = run.trace.accuracy if metric == "accuracy" else run.trace.loss
    times = run.trace.training_time_s + (run.setup_time_s if clock == "counted" else 0.0)
    finite = np.isfinite(values)
    return times[finite], values[finite]
