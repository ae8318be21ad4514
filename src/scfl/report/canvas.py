"""From a painter to a picture: inline SVG for the page, or a file.

A panel is drawn at the width of a phone's screen and scaled up on wide ones, so that its text is
legible on both; text stays text. Ids get the figure's name, because all figures share one page,
and the same data always give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as Outline

from scfl.report.colours import GRID, INK, MUTED, PAPER, Dash, Style

# Everything is laid out in points; a panel is as wide as a phone's screen has CSS pixels.
PANEL_WIDTH = 340.0
POINTS_PER_INCH = 72

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.facecolor": PAPER,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "scfl",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 9,
    "xtick.major.size": 3,
    "xtick.major.width": 0.7,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 9,
    "ytick.major.size": 3,
    "ytick.major.width": 0.7,
}

Painter = Callable[[Figure], None]


def render_svg(
    paint: Painter, *, name: str, description: str, height: float, width: float = PANEL_WIDTH
) -> Markup:
    """Draw a figure as SVG that can stand inside a page with others."""
    buffer = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.fonttype": "none"}):
        figure = _figure(width, height)
        paint(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    # Safe: matplotlib escapes every text that it draws, and _embed the description.
    return Markup(_embed(buffer.getvalue(), name, description))  # noqa: S704


def save_picture(
    paint: Painter, path: Path, *, height: float, width: float, pixels_per_point: float = 2.5
) -> None:
    """Draw a figure into a file of its own; in an SVG the text becomes outlines."""
    with mpl.rc_context({**_STYLE, "svg.fonttype": "path"}):
        figure = _figure(width, height)
        paint(figure)
        # An SVG's date would make two equal pictures differ; a PNG has none.
        date = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=pixels_per_point * POINTS_PER_INCH, metadata=date)
    if path.suffix == ".svg":
        path.write_text(_round_places(path.read_text(encoding="utf-8")), encoding="utf-8")


def add_axes(figure: Figure, *, left: float, right: float, bottom: float, top: float) -> Axes:
    """Axes with margins in points; a negative margin counts from the opposite edge."""
    width, height = (float(size) * POINTS_PER_INCH for size in figure.get_size_inches())
    edges = (left / width, bottom / height, (width - left - right) / width)
    return figure.add_axes((*edges, (height - bottom - top) / height))


def marker_outline(style: Style, size: float) -> str:
    """A marker as the path data of an SVG, centred on the origin: for legends in the page."""
    marker = MarkerStyle(style.marker)
    outline = marker.get_path().transformed(marker.get_transform())
    letters = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C"}
    data = ""
    for points, code in outline.iter_segments():
        if code == Outline.CLOSEPOLY:
            data += "Z"
            continue
        numbers = (
            f"{(-value if place % 2 else value) * size:.2f}" for place, value in enumerate(points)
        )
        data += letters[code] + " ".join(numbers)
    return data


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width / POINTS_PER_INCH, height / POINTS_PER_INCH))


def _round_places(svg: str) -> str:
    """Places to a hundredth of a point: nobody sees more, and it is half of the bytes."""
    return re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), svg)


def _embed(svg: str, name: str, description: str) -> str:
    """Strip what only a file of its own needs, and make ids unique in the page."""
    body = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="([^"]+)"', body)
    assert box is not None
    body = body[body.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*</defs>", "", body)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="|url\()#([\w.-]+)', body))
    body = re.sub(
        r' id="([\w.-]+)"',
        lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "",
        body,
    )
    body = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", body)
    # The page chooses the font; sizes and weights stay.
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    body = _round_places(body)
    body = re.sub(r"\n\s*", "\n", body)
    title = escape(description)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{box[1]}" role="img" aria-label="{title}" '
        f'style="stroke-linejoin:round;stroke-linecap:butt">{body}'
    )


def line_style(style: Style) -> Literal["-"] | tuple[float, Dash]:
    """A label's dashes as matplotlib takes them."""
    return (0, style.dash) if style.dash else "-"


def legend_entry(label: str, style: Style) -> Line2D:
    """The line that stands for a label in a legend."""
    return Line2D(
        [],
        [],
        color=style.colour,
        linestyle=line_style(style),
        marker=style.marker,
        markersize=5,
        label=label,
    )
