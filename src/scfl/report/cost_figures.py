"""What a study cost: seconds before training per client, bytes per method, and who holds what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from scfl.report.canvas import add_axes, render_svg
from scfl.report.colours import COST_COLOURS, INK, PAPER
from scfl.report.ledger_figures import MOST_ROWS, Rows, label_rows, mean_rows, stack_bars
from scfl.study.records import ClientRecord
from scfl.study.summary import Summary
from scfl.study.wording import format_bytes, format_seconds

Floats = NDArray[np.float64]

_FOOT = 34.0
_HEAD = 20.0
# Counts are written into the cells of a picture this small.
_MOST_WRITTEN = (30, 12)
_BLUES = LinearSegmentedColormap.from_list("share", ["#f7f9fb", "#9ecae1", "#2171b5", "#08306b"])


def draw_setup(
    label: str, clients: Sequence[ClientRecord], rows: Rows, *, setup_s: float, name: str
) -> Markup:
    """Encoding and upload seconds of each client; the slowest decides when training starts."""
    parts = np.array([[client.encoding_s, client.coded_upload_s] for client in clients])

    def paint(figure: Figure) -> None:
        axes = add_axes(figure, left=rows.left, right=14, bottom=_FOOT, top=_HEAD)
        stack_bars(axes, parts[rows.order], [COST_COLOURS["encoding"], COST_COLOURS["setup"]])
        axes.set_xlim(0, max(float(parts.sum(axis=1).max()), setup_s) * 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))
        axes.axvline(setup_s, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
        axes.set_xlabel("seconds before training")
        axes.set_title(f"{label}: training starts after {format_seconds(setup_s)}")
        label_rows(axes, rows)

    return render_svg(
        paint,
        name=name,
        height=rows.height,
        description=f"{label}: seconds that each client takes to encode and to upload its coded "
        f"data; training starts after {format_seconds(setup_s)}",
    )


def draw_bytes(summary: Summary, *, name: str) -> Markup:
    """Bytes moved per method: before training, up and down in the rounds (medians over seeds)."""
    shown = [
        (label, label.bytes_up, label.bytes_down)
        for label in summary.labels
        if label.bytes_up and label.bytes_down
    ]
    names = [label.label for label, _, _ in shown]
    parts = np.array(
        [
            [
                label.setup_bytes_up.median,
                max(up.median - label.setup_bytes_up.median, 0),
                down.median,
            ]
            for label, up, down in shown
        ]
    ).reshape(-1, 3)
    totals = parts.sum(axis=1)
    longest = max(map(len, names), default=1)

    def paint(figure: Figure) -> None:
        axes = add_axes(figure, left=14 + 5.6 * longest, right=16, bottom=_FOOT, top=_HEAD)
        stack_bars(axes, parts, [COST_COLOURS["setup"], COST_COLOURS["up"], COST_COLOURS["down"]])
        axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
        axes.yaxis.set_major_locator(FixedLocator(list(range(len(shown)))))
        axes.set_yticklabels(names)
        axes.tick_params(axis="y", length=0)
        largest = float(totals.max(initial=1.0))
        axes.set_xlim(0, largest * 1.24)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
        for place, total in enumerate(totals):
            axes.annotate(
                format_bytes(float(total)),
                (total, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        axes.set_xlabel("bytes, all clients together")
        axes.set_title("Bytes moved by each method")

    listed = "; ".join(
        f"{label} {format_bytes(float(total))}" for label, total in zip(names, totals, strict=True)
    )
    return render_svg(
        paint,
        name=name,
        height=_FOOT + _HEAD + max(22.0 * len(shown), 40.0),
        description=f"Bytes moved per method, setup, rounds up and rounds down: {listed}",
    )


def draw_partition(
    client_classes: Sequence[Sequence[int]], classes: Sequence[str], rows: Rows, *, name: str
) -> Markup:
    """Clients by classes: how many rows of each class each client holds."""
    counts = np.array(client_classes, dtype=np.float64)[rows.order]
    written = counts.shape[0] <= _MOST_WRITTEN[0] and counts.shape[1] <= _MOST_WRITTEN[1]

    def paint(figure: Figure) -> None:
        axes = add_axes(figure, left=rows.left, right=10, bottom=_FOOT, top=_HEAD)
        extent = (-0.5, len(classes) - 0.5, rows.clients - 0.5, -0.5)
        picture = mean_rows(counts, MOST_ROWS)
        axes.imshow(
            picture, aspect="auto", interpolation="none", extent=extent, cmap=_BLUES, vmin=0
        )
        axes.grid(False)
        if written:
            _write_counts(axes, counts)
        step = -(-len(classes) // 12)
        axes.xaxis.set_major_locator(FixedLocator(list(range(0, len(classes), step))))
        axes.set_xticklabels([_cut(classes[place]) for place in range(0, len(classes), step)])
        axes.set_xlabel("class")
        axes.set_title("Rows of each class")
        label_rows(axes, rows)

    return render_svg(
        paint,
        name=name,
        height=rows.height,
        description=f"How many rows of each of {len(classes)} classes each of {rows.clients} "
        "clients holds",
    )


def draw_holdings(client_rows: Sequence[int], rows: Rows, *, name: str) -> Markup:
    """Rows per client."""
    parts = np.array(client_rows, dtype=np.float64)[rows.order][:, None]

    def paint(figure: Figure) -> None:
        axes = add_axes(figure, left=rows.left, right=14, bottom=_FOOT, top=_HEAD)
        stack_bars(axes, parts, ["#2171b5"])
        axes.set_xlim(0, float(parts.max()) * 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("rows")
        axes.set_title("Rows per client")
        label_rows(axes, rows)

    return render_svg(
        paint,
        name=name,
        height=rows.height,
        description=f"How many rows each of {rows.clients} clients holds, "
        f"from {min(client_rows)} to {max(client_rows)}",
    )


def _write_counts(axes: Axes, counts: Floats) -> None:
    largest = counts.max(initial=1)
    for row, column in np.argwhere(counts > 0).tolist():
        value = counts[row, column]
        axes.text(
            column,
            row,
            f"{value:,.0f}" if value < 10_000 else f"{value / 1000:.0f}k",
            ha="center",
            va="center",
            fontsize=7,
            color=PAPER if value > 0.55 * largest else INK,
        )


def _cut(name: str) -> str:
    return name if len(name) <= 6 else name[:5] + "…"
