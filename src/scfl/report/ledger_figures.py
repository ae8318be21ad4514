"""The participation ledger as pictures: who took part in which round, and what weight was lost.

Rows are clients, the fastest on top, in the same order for every method. A picture has at most as
many cells as pixels: where a cell holds several rounds (or clients), its colour mixes what
happened in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from scfl.report.canvas import PANEL_WIDTH, add_axes, render_svg
from scfl.report.colours import MUTED, PAPER, STATUS_COLOURS
from scfl.study.participation import Participation
from scfl.study.records import STATUSES
from scfl.study.wording import format_weight

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# More rows than this are not named one by one, and bars become an outline.
MOST_NAMED = 40
MOST_ROWS = 250
# An outline of many bars is averaged to this many steps, so that it stays readable.
_MOST_STEPS = 100
_FOOT = 34.0
_HEAD = 20.0


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a figure: which clients in which order, their names, and how high it all is."""

    order: Ints
    names: Sequence[str]
    caption: str = "client, fastest on top"

    @property
    def clients(self) -> int:
        return len(self.order)

    @property
    def named(self) -> bool:
        return self.clients <= MOST_NAMED

    @property
    def height(self) -> float:
        each = 10.5 if self.clients <= 25 else 8.5
        body = max(each * self.clients, 40.0) if self.named else 300.0
        return body + _FOOT + _HEAD

    @property
    def left(self) -> float:
        """Room for the longest name, in points."""
        longest = max((len(name) for name in self.names), default=1) if self.named else 5
        return 25.0 + 5.1 * longest


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that fit beside a row: without the words that all begin with, and cut."""
    words = [name.split() for name in names]
    shared = 0
    while all(len(each) > shared + 1 and each[shared] == words[0][shared] for each in words):
        shared += 1
    tails = [" ".join(each[shared:]) for each in words] if len(words) > 1 else list(names)
    return tuple(tail if len(tail) <= 12 else tail[:11] + "…" for tail in tails)


def draw_rounds(part: Participation, rows: Rows, *, name: str) -> Markup:
    """Clients by rounds, coloured by what happened."""
    picture = status_picture(part.counts[rows.order])

    def paint(figure: Figure) -> None:
        axes = add_axes(figure, left=rows.left, right=18, bottom=_FOOT, top=_HEAD)
        extent = (0.5, part.rounds + 0.5, rows.clients - 0.5, -0.5)
        axes.imshow(picture, aspect="auto", interpolation="none", extent=extent)
        axes.grid(False)
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_title("What happened in each round")
        label_rows(axes, rows)
        if rows.clients <= 25:
            for edge in range(1, rows.clients):
                axes.axhline(edge - 0.5, color=PAPER, linewidth=0.8)

    return render_svg(
        paint,
        name=name,
        height=rows.height,
        description=f"For each of {rows.clients} clients, fastest on top, and each of "
        f"{part.rounds} rounds: whether it arrived, was late, absent or not asked; "
        "the table below has the counts",
    )


def draw_totals(part: Participation, rows: Rows, *, name: str) -> Markup:
    """Beside it, with the same rows: shares of the rounds, and weight given and lost."""

    def paint(figure: Figure) -> None:
        middle = (rows.left + PANEL_WIDTH - 12) / 2
        left = add_axes(
            figure, left=rows.left, right=PANEL_WIDTH - middle + 13, bottom=_FOOT, top=_HEAD
        )
        right = add_axes(figure, left=middle + 11, right=12, bottom=_FOOT, top=_HEAD)
        shares = 100 * part.status_rounds[rows.order] / part.rounds
        stack_bars(left, shares, [STATUS_COLOURS[status] for status in STATUSES])
        left.set_xlim(0, 100)
        left.xaxis.set_major_locator(FixedLocator([0, 50, 100]))
        left.set_xlabel("% of the rounds")
        left.set_title("Share of rounds")
        label_rows(left, rows)
        weights = np.stack([part.weight[rows.order], part.weight_lost[rows.order]], axis=1)
        stack_bars(right, weights, [STATUS_COLOURS["arrived"], PAPER], lost=1)
        right.xaxis.set_major_locator(MaxNLocator(3))
        right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_weight(value)))
        right.set_xlim(0, max(float(weights.sum(axis=1).max()) * 1.04, 1e-9))
        right.set_xlabel("sum of weights")
        right.set_title("Weight given, lost")
        label_rows(right, rows, words=False)

    return render_svg(
        paint,
        name=name,
        height=rows.height,
        description="Per client, fastest on top: the share of rounds in which it arrived, and the "
        "weight that it gave and lost; the table below has the numbers",
    )


def status_picture(counts: NDArray[np.int64]) -> Floats:
    """Clients by bins by statuses as colours, with several clients to a row if there are many."""
    clients = len(counts)
    if clients > MOST_ROWS:
        cuts = np.arange(MOST_ROWS) * clients // MOST_ROWS
        counts = np.add.reduceat(counts, cuts, axis=0)
    total = counts.sum(axis=2, keepdims=True)
    # A cell without any entry in the ledger is a client that nobody asked.
    empty = np.eye(len(STATUSES))[STATUSES.index("not-asked")]
    share = np.where(total > 0, counts / np.maximum(total, 1), empty)
    palette = np.array([to_rgb(STATUS_COLOURS[status]) for status in STATUSES])
    picture: Floats = np.clip(share @ palette, 0, 1)
    return picture


def mean_rows(values: Floats, most: int) -> Floats:
    """Average neighbouring rows until there are at most ``most``."""
    if len(values) <= most:
        return values
    cuts = np.arange(most) * len(values) // most
    sizes = np.diff(np.append(cuts, len(values)))
    mean: Floats = np.add.reduceat(values, cuts, axis=0) / sizes[:, None]
    return mean


def stack_bars(axes: Axes, parts: Floats, colours: Sequence[str], lost: int | None = None) -> None:
    """Bars end to end per row; an outline when the rows are too many for bars."""
    clients = len(parts)
    places: Floats = np.arange(clients, dtype=np.float64)
    if clients > MOST_NAMED:
        parts = mean_rows(parts, _MOST_STEPS)
        places = (np.arange(len(parts)) + 0.5) * clients / len(parts) - 0.5
    edges = np.concatenate([np.zeros((len(parts), 1)), np.cumsum(parts, axis=1)], axis=1)
    for part, colour in enumerate(colours):
        hatched = part == lost
        edge = STATUS_COLOURS["late"] if hatched else "none"
        hatch = "//////" if hatched else None
        if not parts[:, part].any():
            continue
        if clients <= MOST_NAMED:
            some = np.flatnonzero(parts[:, part] > 0)
            starts, ends, tops = edges[some, part], edges[some, part + 1], places[some] - 0.39
            bottoms = tops + 0.78
            corners = [(starts, tops), (ends, tops), (ends, bottoms), (starts, bottoms)]
            axes.add_collection(
                # One collection, because a patch per bar takes several times as long to draw.
                PolyCollection(
                    list(np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)),
                    facecolors=colour,
                    edgecolors=edge,
                    linewidths=0.6 if hatched else 0,
                    hatch=hatch,
                )
            )
        else:
            axes.fill_betweenx(
                places,
                edges[:, part],
                edges[:, part + 1],
                step="mid",
                facecolor=colour,
                edgecolor=edge,
                linewidth=0,
                hatch=hatch,
            )
    axes.grid(False, axis="y")


def label_rows(axes: Axes, rows: Rows, *, words: bool = True) -> None:
    """Name the rows beside the axes; as plain text, because ticks take long to draw."""
    axes.set_ylim(rows.clients - 0.5, -0.5)
    axes.yaxis.set_major_locator(NullLocator())
    if not words:
        return
    named = {row: rows.names[client] for row, client in enumerate(rows.order.tolist())}
    if not rows.named:
        named = {0: "1", rows.clients - 1: f"{rows.clients:,}"}
    for row, name in named.items():
        axes.annotate(
            name,
            (0, row),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            fontsize=8,
            color=MUTED,
        )
    axes.annotate(
        rows.caption,
        (0, 0.5),
        xycoords="axes fraction",
        xytext=(12 - rows.left, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        rotation=90,
        fontsize=9.5,
    )
