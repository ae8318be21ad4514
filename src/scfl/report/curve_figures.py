"""Accuracy and loss against virtual time, as panels of the page and as a picture of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from scfl.report.canvas import (
    POINTS_PER_INCH,
    add_axes,
    legend_entry,
    line_style,
    render_svg,
    save_picture,
)
from scfl.report.colours import INK, MUTED, PAPER, Style, assign_styles
from scfl.report.curves import Curve, Lost, Metric, curve_over_seeds, lost_runs
from scfl.study.records import Study
from scfl.study.summary import Clock, Summary, summarise

CLOCK_TITLES: Mapping[Clock, str] = {
    "counted": "Setup counted",
    "apart": "Setup left out, as the paper does",
}
# Markers stand this far apart along a line, as a share of the panel's diagonal.
_MARKER_EVERY = (0.06, 0.16)
# An accuracy panel reaches below the target by so many times what it shows above it.
_BELOW_TARGET = 5.0
# The share of a panel's height that one setup's lane takes, and that all of them take at most.
_LANE, _LANES = 0.05, 0.072
# Clocks share their time axis unless that would squeeze one of them.
_SQUEEZE = 2.0


@dataclass(frozen=True, eq=False)
class Panels:
    """Everything that the panels of one metric show, with axes they share."""

    metric: Metric
    curves: Mapping[Clock, Mapping[str, Curve]]
    lost: Mapping[Clock, Mapping[str, tuple[Lost, ...]]]
    styles: Mapping[str, Style]
    summary: Summary
    values: tuple[float, float]
    ends_s: Mapping[Clock, float]
    optimum: float | None


def collect_panels(
    study: Study, summary: Summary, metric: Metric, clocks: Iterable[Clock]
) -> Panels | None:
    """Compute the curves once; None when no run has any finite value."""
    curves: dict[Clock, dict[str, Curve]] = {}
    lost: dict[Clock, dict[str, tuple[Lost, ...]]] = {}
    for clock in clocks:
        found = {
            label: curve_over_seeds(study.of(label), metric, clock, summary.seeds)
            for label in study.labels
        }
        curves[clock] = {label: curve for label, curve in found.items() if curve is not None}
        lost[clock] = {label: lost_runs(study.of(label), metric, clock) for label in study.labels}
    problem = study.manifest.problem
    optimum = problem.optimum_accuracy if metric == "accuracy" else problem.optimum_loss
    ends = {
        clock: max(
            [float(curve.times_s[-1]) for curve in curves[clock].values()]
            + [float(run.times_s[-1]) for runs in lost[clock].values() for run in runs],
            default=0.0,
        )
        for clock in curves
    }
    if not any(ends.values()):
        return None
    longest = max(ends.values())
    if longest <= _SQUEEZE * min(ends.values()):
        ends = dict.fromkeys(ends, longest)
    # Both clocks have the same values; only the times differ.
    clock, first = next(iter(curves.items()))
    return Panels(
        metric=metric,
        curves=curves,
        lost=lost,
        styles=assign_styles(study.methods),
        summary=summary,
        values=_value_range(
            metric, first.values(), chain.from_iterable(lost[clock].values()), summary, optimum
        ),
        ends_s=ends,
        optimum=optimum,
    )


def draw_panel(panels: Panels, clock: Clock, *, name: str) -> Markup:
    """One metric on one clock, for the page; the legend stands in the page."""

    def paint(figure: Figure) -> None:
        axes = add_axes(figure, left=42, right=44, bottom=34, top=22)
        _paint(axes, panels, clock)

    described = ", ".join(panels.curves[clock])
    return render_svg(
        paint,
        name=name,
        height=232,
        description=f"{panels.metric.capitalize()} against {panels.summary.clock} time, "
        f"{CLOCK_TITLES[clock].lower()}, for {described}; the table above has the numbers",
    )


def curve_picture(
    study: Study,
    path: Path,
    *,
    clocks: tuple[Clock, ...] = ("counted", "apart"),
    target: float | None = None,
    reference: str | None = None,
) -> Path:
    """Write accuracy (or loss) against virtual time as one PNG or SVG, legend included."""
    path = Path(path)
    summary = summarise(study, target=target, reference=reference)
    metric: Metric = "accuracy" if study.manifest.problem.task == "classification" else "loss"
    panels = collect_panels(study, summary, metric, clocks)
    panel_width, height = 349.0, 262.0

    def paint(figure: Figure) -> None:
        for place, clock in enumerate(clocks):
            rest = len(clocks) - 1 - place
            axes = add_axes(
                figure,
                left=46 + place * panel_width,
                right=46 + rest * panel_width,
                bottom=36,
                top=50,
            )
            if panels is not None:
                _paint(axes, panels, clock)
        if panels is not None:
            handles = [legend_entry(label, style) for label, style in panels.styles.items()]
            figure.legend(
                handles=handles,
                loc="upper center",
                ncols=min(len(handles), 3 * len(clocks)),
                borderaxespad=0.4,
                handlelength=2.8,
            )

    save_picture(paint, path, height=height, width=18 + panel_width * len(clocks))
    return path


def _value_range(
    metric: Metric,
    curves: Iterable[Curve],
    lost: Iterable[Lost],
    summary: Summary,
    optimum: float | None,
) -> tuple[float, float]:
    """What the panels of a metric show, whatever the clock."""
    shown = list(curves)
    values = [value for curve in shown for value in (curve.low.min(), curve.high.max())]
    # Of a run that diverged only the start is of interest, not how far it went.
    values += [curve.untrained for curve in shown] or [run.values[0] for run in lost]
    values += [] if optimum is None else [optimum]
    target = summary.target
    values += [target.value] if target is not None and target.metric == metric else []
    low, high = float(min(values)), float(max(values))
    if metric == "loss":
        positive = float(min((value for value in values if value > 0), default=high))
        return positive / 1.3, high * (1.05 if shown else 3.0)
    if shown and target is not None and target.metric == metric:
        # The climb from the untrained model is steep; what tells methods apart is near the target.
        finals = min(float(curve.median[-1]) for curve in shown)
        above = max(high - target.value, 0.01)
        low = max(low, min(target.value - _BELOW_TARGET * above, finals - above))
    span = max(high - low, 1e-3)
    return low - 0.09 * span, min(high + 0.06 * span, max(1.0, high))


def _paint(axes: Axes, panels: Panels, clock: Clock) -> None:
    low, high = panels.values
    if panels.metric == "loss" and low > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(FixedLocator(_log_ticks(low, high)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.set_ylim(low, high)
    axes.set_xlim(0, panels.ends_s[clock] or 1.0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlabel(f"{panels.summary.clock} time (s)")
    axes.set_ylabel("test accuracy" if panels.metric == "accuracy" else "training loss per row")
    axes.set_title(CLOCK_TITLES[clock] if panels.summary.has_setup else "")
    _mark_lines(axes, panels)
    for label, curve in panels.curves[clock].items():
        _paint_curve(axes, curve, panels.styles[label])
    if clock == "counted":
        _paint_setups(axes, panels)
    for label, runs in panels.lost[clock].items():
        for run in runs:
            _paint_lost(axes, run, panels.styles[label], panels.values)
    _mark_reached(axes, panels, clock)


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers for a logarithmic axis: the more decades it spans, the fewer of each."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    steps = (1, 2, 3, 5) if decades < 1 else (1, 2, 5) if decades < 2 else (1,)
    # Very small spans have no round number inside; any tick is better than none.
    ticks = [
        step * 10.0**power
        for power in range(first, last)
        for step in steps
        if low <= step * 10.0**power <= high
    ]
    return ticks if len(ticks) > 1 else [low, math.sqrt(low * high), high]


def _paint_curve(axes: Axes, curve: Curve, style: Style) -> None:
    # During its setup a method still has the untrained model.
    times = np.concatenate([[0.0], curve.times_s])
    median = np.concatenate([[curve.untrained], curve.median])
    axes.fill_between(
        curve.times_s,
        curve.low,
        curve.high,
        step="post",
        color=style.colour,
        alpha=0.16,
        linewidth=0,
    )
    first = int(np.searchsorted(times, curve.start_s, side="right")) - 1
    last = int(np.searchsorted(times, curve.whole_s, side="right"))
    axes.plot(
        times[first:last],
        median[first:last],
        color=style.colour,
        linestyle=line_style(style),
        marker=style.marker,
        markersize=4.2,
        markevery=_MARKER_EVERY,
        drawstyle="steps-post",
    )
    # Thin where half of the seeds have not started, or have ended with the model they learned.
    for part, line in ((slice(first + 1), "-"), (slice(last - 1, None), line_style(style))):
        axes.plot(
            times[part],
            median[part],
            color=style.colour,
            linestyle=line,
            linewidth=0.9,
            drawstyle="steps-post",
            zorder=1.8,
        )


def _paint_setups(axes: Axes, panels: Panels) -> None:
    """A hatched lane per label at the foot of the panel, as long as its setup takes."""
    lanes = [
        (curve.start_s, panels.styles[label])
        for label, curve in panels.curves["counted"].items()
        if curve.start_s > 0
    ]
    height = min(_LANE, _LANES / max(len(lanes), 1))
    for place, (seconds, style) in enumerate(lanes):
        axes.axvspan(
            0,
            seconds,
            ymin=place * height,
            ymax=(place + 0.85) * height,
            facecolor=PAPER,
            edgecolor=style.colour,
            hatch="//////",
            linewidth=0.8,
            zorder=3,
        )
    if lanes:
        axes.annotate(
            "setup",
            (max(seconds for seconds, _ in lanes), len(lanes) * height / 2),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=MUTED,
            bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
            zorder=4,
        )


def _paint_lost(axes: Axes, run: Lost, style: Style, values: tuple[float, float]) -> None:
    """Up to where the run ends or leaves the panel for good."""
    low, high = values
    above = run.values > high
    last = int(np.argmax(above)) + 1 if above[-1] else len(above)
    shown = np.clip(run.values[:last], low, high)
    axes.plot(run.times_s[:last], shown, color=style.colour, linewidth=0.9, alpha=0.7)
    axes.plot(
        run.times_s[last - 1 : last],
        shown[-1:],
        color=style.colour,
        marker="x",
        markersize=7,
        markeredgewidth=2,
        clip_on=False,
        zorder=5,
    )


def _mark_lines(axes: Axes, panels: Panels) -> None:
    """Lines for the target and the optimum, named at the right edge, never on top of each other."""
    marks: list[tuple[float, str]] = []
    target = panels.summary.target
    if target is not None and target.metric == panels.metric:
        axes.axhline(target.value, color=INK, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1.5)
        marks.append((target.value, f"target\n{target.wording.split()[-1]}"))
    if panels.optimum is not None:
        axes.axhline(panels.optimum, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1.5)
        marks.append((panels.optimum, "optimum"))
    figure = axes.figure.get_figure(root=True)
    to_points = POINTS_PER_INCH / (figure.dpi if figure is not None else POINTS_PER_INCH)
    lowest = -math.inf
    for value, text in sorted(marks):
        place = float(axes.transData.transform((0, value))[1]) * to_points
        half = 4.8 * (1 + text.count("\n"))
        shift = max(lowest + half - place, 0.0)
        lowest = place + shift + half
        axes.annotate(
            text,
            (1, value),
            xycoords=("axes fraction", "data"),
            xytext=(4, shift),
            textcoords="offset points",
            va="center",
            fontsize=8,
            linespacing=1.05,
            color=INK,
        )


def _mark_reached(axes: Axes, panels: Panels, clock: Clock) -> None:
    """Drop a line from where each median meets the target: the times of the table."""
    target = panels.summary.target
    if target is None or target.metric != panels.metric:
        return
    for label in panels.summary.labels:
        median = label.reach[clock].spread.median if label.reach else math.inf
        if math.isfinite(median):
            style = panels.styles[label.label]
            axes.plot(
                [median, median],
                [panels.values[0], target.value],
                color=style.colour,
                linewidth=0.9,
                linestyle=(0, (1, 1.5)),
                zorder=1.6,
            )
