"""The pictures of an experiment: scores against virtual time, and accuracy against the budget.

Each picture is one panel with its legend below, as wide as a phone's screen, so that two stand side
by side on a wide page and above each other on a narrow one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from scfl.report.canvas import add_axes, legend_entry, line_style, save_picture
from scfl.report.colours import INK, MUTED, Style, assign_styles
from scfl.report.curves import Curve, Metric, curve_over_seeds
from scfl.study.records import Run, Study
from scfl.study.summary import Clock, Spread, spread_over_seeds

_WIDTH, _PANEL_HEIGHT, _LEGEND_LINE = 384.0, 236.0, 13.0
_LEGEND_COLUMNS = 3
# A panel of this width shows no more of a step curve.
_POINTS = 150
# With the setup counted the clock runs from seconds to days; before this nothing happens.
_FIRST_SECOND = 10.0
# An accuracy panel shows this much more below the worst final result than is between them all.
_BELOW = 0.6
CLOCK_WORDS: Mapping[Clock, str] = {
    "apart": "setup left out, as the paper does",
    "counted": "encoding and upload counted",
}


@dataclass(frozen=True)
class Point:
    """What one label came to at one budget: None is no noise at all."""

    budget: float | None
    accuracy: Spread
    diverged: int


def draw_curves(study: Study, path: Path, *, metric: Metric, clock: Clock) -> Path:
    """Every label's median and band against virtual time, with both iterates' optimum."""
    seeds = len(study.manifest.seeds)
    found = {
        label: curve_over_seeds(study.of(label), metric, clock, seeds, most_points=_POINTS)
        for label, method in study.methods.items()
        # One upload that is the whole training has no place on a clock that leaves it out.
        if clock == "counted" or method != "one-shot"
    }
    curves = {label: curve for label, curve in found.items() if curve is not None}
    styles = assign_styles(study.methods)
    problem = study.manifest.problem
    optimum = problem.optimum_accuracy if metric == "accuracy" else problem.optimum_loss

    def paint(axes: Axes) -> None:
        low, high = _value_range(metric, list(curves.values()), optimum)
        axes.set_ylim(low, high)
        if metric == "loss":
            _scale_log(axes, low, high)
        _lay_out_time(axes, list(curves.values()), clock)
        axes.set_ylabel("test accuracy" if metric == "accuracy" else "training loss per row")
        axes.set_title(f"{problem.name}, {CLOCK_WORDS[clock]}")
        if optimum is not None:
            axes.axhline(optimum, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1.5)
        for label, curve in curves.items():
            _paint_curve(axes, curve, styles[label], once=study.methods[label] == "one-shot")

    handles = [legend_entry(label, styles[label]) for label in curves]
    if optimum is not None:
        handles.append(Line2D([], [], color=MUTED, linestyle=(0, (1, 2)), label="optimum"))
    return _save(paint, handles, path)


def draw_budgets(
    points: Mapping[str, Sequence[Point]],
    flat: Mapping[str, Spread],
    methods: Mapping[str, str],
    path: Path,
    *,
    title: str,
    axis: str,
    chance: float | None,
    optimum: float | None,
) -> Path:
    """Final accuracy against the budget, no noise at the right end.

    ``flat`` labels release no coded data, so that a budget for it means nothing to them. Where
    every label has budgets of its own, round numbers stand below the axis instead of budgets.
    """
    styles = assign_styles(methods)
    lines = [[point.budget for point in line if point.budget] for line in points.values()]
    budgets = sorted({budget for line in lines for budget in line})
    # "No noise" stands as far from the largest budget as the budgets stand from each other.
    steps = max(max(map(len, lines)) - 1, 1)
    step = (budgets[-1] / budgets[0]) ** (1 / steps) if len(budgets) > 1 else 2.0
    bare = budgets[-1] * step
    shared = all(sorted(line) == budgets for line in lines)
    marks = budgets if shared else _round_numbers(budgets[0], budgets[-1])

    def paint(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_xlim(budgets[0] / step**0.4, bare * step**0.4)
        axes.xaxis.set_major_locator(FixedLocator([*marks, bare]))
        axes.xaxis.set_minor_locator(NullLocator())
        names = {**{value: f"{value:g}" for value in marks}, bare: "no noise"}
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: names[min(names, key=lambda known: abs(known - value))])
        )
        axes.axvline(bare / step**0.5, color=MUTED, linewidth=0.7)
        axes.set_xlabel(axis)
        axes.set_ylabel("final test accuracy")
        axes.set_title(title)
        for value in (optimum, chance):
            if value is not None:
                axes.axhline(value, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1.5)
        for label, spread in flat.items():
            style = styles[label]
            axes.axhspan(spread.low, spread.high, color=style.colour, alpha=0.12, linewidth=0)
            axes.axhline(spread.median, color=style.colour, linestyle=line_style(style), zorder=2)
        for label, line in points.items():
            _paint_points(axes, line, styles[label], bare)

    handles = [legend_entry(label, styles[label]) for label in (*points, *flat)]
    handles.append(Line2D([], [], color=MUTED, linestyle=(0, (1, 2)), label="optimum and chance"))
    if any(point.diverged for line in points.values() for point in line):
        handles.append(
            Line2D([], [], color=INK, marker="x", linestyle="", label="some seeds diverged")
        )
    return _save(paint, handles, path)


def _round_numbers(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers, and thrice these."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [
        mark for power in powers for mark in (10.0**power, 3 * 10.0**power) if low <= mark <= high
    ]


def spread_of(runs: Sequence[Run], value: Callable[[Run], float]) -> Spread:
    """The median and band of one number over seeds."""
    found = spread_over_seeds(map(value, runs), len(runs))
    assert found is not None  # a label exists because a run has it
    return found


def _save(paint: Callable[[Axes], None], handles: list[Line2D], path: Path) -> Path:
    legend = _LEGEND_LINE * math.ceil(len(handles) / _LEGEND_COLUMNS) + 4

    def compose(figure: Figure) -> None:
        axes = add_axes(figure, left=46, right=16, bottom=34 + legend, top=22)
        paint(axes)
        figure.legend(
            handles=handles,
            loc="lower center",
            ncols=_LEGEND_COLUMNS,
            borderaxespad=0.3,
            handlelength=2.6,
            columnspacing=1.2,
            fontsize=8.5,
        )

    save_picture(compose, path, height=_PANEL_HEIGHT + legend, width=_WIDTH)
    return path


def _paint_curve(axes: Axes, curve: Curve, style: Style, *, once: bool) -> None:
    times = np.concatenate([[0.0], curve.times_s, [axes.get_xlim()[1]]])
    median = np.concatenate([[curve.untrained], curve.median, curve.median[-1:]])
    axes.fill_between(
        curve.times_s,
        curve.low,
        curve.high,
        step="post",
        color=style.colour,
        alpha=0.12,
        linewidth=0,
    )
    # What is over in one step keeps its line; what could go on ends where it was stopped.
    shown = slice(0, None if once else -1)
    axes.plot(
        times[shown],
        median[shown],
        color=style.colour,
        linestyle=line_style(style),
        drawstyle="steps-post",
        linewidth=1.5,
        marker=style.marker,
        markersize=3.6,
        markevery=(0.04, 0.14),
        zorder=3,
    )


def _paint_points(axes: Axes, line: Sequence[Point], style: Style, bare: float) -> None:
    ordered = sorted(line, key=lambda point: math.inf if point.budget is None else point.budget)
    places = [bare if point.budget is None else point.budget for point in ordered]
    spreads = [point.accuracy for point in ordered]
    axes.fill_between(
        places,
        [spread.low for spread in spreads],
        [spread.high for spread in spreads],
        color=style.colour,
        alpha=0.12,
        linewidth=0,
    )
    axes.plot(
        places,
        [spread.median for spread in spreads],
        color=style.colour,
        linestyle=line_style(style),
        marker=style.marker,
        markersize=5,
        zorder=3,
    )
    for place, point in zip(places, ordered, strict=True):
        if point.diverged:
            axes.plot(
                [place],
                [point.accuracy.low],
                marker="x",
                color=style.colour,
                markersize=7,
                zorder=4,
            )


def _lay_out_time(axes: Axes, curves: Sequence[Curve], clock: Clock) -> None:
    end = max((float(curve.times_s[-1]) for curve in curves), default=1.0)
    if clock == "counted" and any(curve.start_s > 0 for curve in curves):
        axes.set_xscale("log")
        axes.set_xlim(_FIRST_SECOND, 1.6 * max(end, 2 * _FIRST_SECOND))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("virtual time (s, logarithmic)")
    else:
        axes.set_xlim(0, end)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.set_xlabel("virtual time (s)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _value_range(
    metric: Metric, curves: Sequence[Curve], optimum: float | None
) -> tuple[float, float]:
    """From somewhat below the worst final result to the best: what tells methods apart."""
    finals = [float(curve.median[-1]) for curve in curves] + ([optimum] if optimum else [])
    low, high = min(finals, default=0.0), max(finals, default=1.0)
    if metric == "loss":
        start = max((curve.untrained for curve in curves), default=high)
        return low / 1.06, max(start * 1.05, high)
    span = max(high - low, 0.02)
    return max(0.0, low - _BELOW * span), min(1.0, high + 0.08 * span)


def _scale_log(axes: Axes, low: float, high: float) -> None:
    axes.set_yscale("log")
    places = [
        step * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for step in (1, 1.5, 2, 3, 4, 5, 7)
    ]
    axes.yaxis.set_major_locator(FixedLocator([place for place in places if low <= place <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
