"""The picture of a grid: one panel per share of clients that leave, one field per cell.

A field says in words what its colour says: how accurate one method is, how far it is above or
below the best of the others, and who that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from scfl.report.canvas import add_axes, save_picture
from scfl.report.colours import INK, MUTED, PAPER, mix

_WIDTH, _FIELD_HEIGHT = 384.0, 36.0
_PANEL_EDGES, _LEGEND = 52.0, 30.0
_AHEAD, _LEVEL, _BEHIND = "#0072b2", "#e5e7eb", "#d55e00"
# A lead of this much has the full colour.
_FULL = 0.02


@dataclass(frozen=True)
class Field:
    """One cell: a method's accuracy, its lead over the best of the others, and that one's label."""

    accuracy: float
    lead: float
    rival: str


def draw_grid(
    panels: Mapping[str, Mapping[tuple[float, int], Field]],
    path: Path,
    *,
    title: str,
    room: float,
) -> Path:
    """Draw every panel's fields, noise downwards and coded rows to the right."""
    noises = sorted({noise for fields in panels.values() for noise, _ in fields})
    rows = sorted({count for fields in panels.values() for _, count in fields})
    panel = len(noises) * _FIELD_HEIGHT + _PANEL_EDGES
    height = len(panels) * panel + _LEGEND

    def compose(figure: Figure) -> None:
        for place, (name, fields) in enumerate(panels.items()):
            bottom = _LEGEND + (len(panels) - 1 - place) * panel
            top = height - bottom - panel
            axes = add_axes(figure, left=46, right=6, bottom=bottom + 32, top=top + 18)
            _lay_out(axes, noises, rows, f"{title}: {name}" if place == 0 else name)
            for (noise, count), field in fields.items():
                _paint(axes, field, rows.index(count), noises.index(noise), room)
        figure.legend(
            handles=[
                Patch(facecolor=mix(_AHEAD, PAPER, 0.35), label="above all others"),
                Patch(facecolor=_LEVEL, label=f"within {room:g} of the best"),
                Patch(facecolor=mix(_BEHIND, PAPER, 0.35), label="below the best"),
            ],
            loc="lower center",
            ncols=3,
            borderaxespad=0.3,
            fontsize=8.5,
        )

    save_picture(compose, path, height=height, width=_WIDTH)
    return path


def _lay_out(axes: Axes, noises: list[float], rows: list[int], title: str) -> None:
    axes.set_xlim(0, len(rows))
    axes.set_ylim(len(noises), 0)
    axes.grid(visible=False)
    axes.set_xticks([place + 0.5 for place in range(len(rows))], [f"{count:,}" for count in rows])
    axes.set_yticks(
        [place + 0.5 for place in range(len(noises))], [f"{noise:g}" for noise in noises]
    )
    axes.tick_params(length=0)
    axes.set_xlabel("coded rows", labelpad=1)
    axes.set_ylabel("noise (sigma)")
    axes.set_title(title, fontsize=9)


def _paint(axes: Axes, field: Field, column: int, line: int, room: float) -> None:
    colour = _LEVEL
    if abs(field.lead) > room:
        strength = 0.3 + 0.7 * min(abs(field.lead) / _FULL, 1.0)
        colour = mix(PAPER, _AHEAD if field.lead > 0 else _BEHIND, 0.65 * strength)
    axes.add_patch(
        Rectangle((column, line), 1, 1, facecolor=colour, edgecolor=PAPER, linewidth=1.5)
    )
    middle = column + 0.5
    axes.text(
        middle, line + 0.3, f"{field.accuracy:.4f}", ha="center", va="center", color=INK, fontsize=9
    )
    axes.text(
        middle,
        line + 0.7,
        f"{field.lead:+.4f} vs. {field.rival}",
        ha="center",
        va="center",
        color=INK if abs(field.lead) > room else MUTED,
        fontsize=6.5,
    )
