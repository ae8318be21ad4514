"""One colour, dash and marker per method, the same in every figure; and the colours of statuses.

The palette stays apart for colour-blind readers (it extends Okabe and Ito's); dashes and markers
keep curves apart in greyscale. Vermilion is kept for "late", so that no method wears it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

Dash = tuple[float, ...]

INK = "#24292f"
MUTED = "#6b7280"
GRID = "#e5e7eb"
PAPER = "#ffffff"

_SOLID: Dash = ()
_LONG: Dash = (6, 2)
_DOTTED: Dash = (1.2, 1.6)
_DASH_DOT: Dash = (6, 1.6, 1.2, 1.6)
_SHORT: Dash = (3, 1.5)
_DASH_DOT_DOT: Dash = (6, 1.5, 1.2, 1.5, 1.2, 1.5)
_DASHES = (_SOLID, _LONG, _DASH_DOT, _SHORT, _DOTTED, _DASH_DOT_DOT)


@dataclass(frozen=True)
class Style:
    """How one label is drawn; an empty dash is a solid line."""

    colour: str
    dash: Dash
    marker: str


_METHODS = {
    "scfl": Style("#0072b2", _SOLID, "o"),
    "fedavg": Style("#4a4a4a", _LONG, "s"),
    "fl-pma": Style("#e69f00", _DASH_DOT, "^"),
    "cfl-fb": Style("#cc79a7", _SHORT, "D"),
    "codedfedl": Style("#009e73", _DASH_DOT_DOT, "v"),
    "dp-cfl": Style("#56b4e9", _DOTTED, "P"),
    "fl-ipw": Style("#882255", _SHORT, "X"),
    "one-shot": Style("#999933", _DOTTED, "h"),
    "curvature": Style("#332288", _LONG, "<"),
    "stand-in": Style("#a0522d", _DASH_DOT, "p"),
    "doubly-robust": Style("#44aa99", _SHORT, ">"),
    "resilient": Style("#e0607e", _SOLID, "d"),
    "adaptive-scfl": Style("#7b6fd0", _DASH_DOT_DOT, "*"),
}
_SPARE = (
    Style("#7a8b00", _SOLID, "o"),
    Style("#b35c9e", _LONG, "s"),
    Style("#2f7f86", _DASH_DOT, "^"),
    Style("#8c6d46", _SHORT, "D"),
    Style("#5f6caf", _DASH_DOT_DOT, "v"),
)

# What happened to a client in a round: a calm ground for the usual, loud for the exceptions.
STATUS_COLOURS = {
    "arrived": "#a9cfe8",
    "late": "#d55e00",
    "absent": "#1f2328",
    "not-asked": "#f1f2f4",
}
# What clients cost and move: encoding, upload before training, upload and download in rounds.
COST_COLOURS = {
    "encoding": "#8d7fc7",
    "setup": "#463a86",
    "up": "#1b8a8f",
    "down": "#b7dcd9",
}


def style_of(method: str) -> Style:
    """The style of a method; one that is not registered here still has one of its own."""
    known = _METHODS.get(method)
    return known or _SPARE[zlib.crc32(method.encode()) % len(_SPARE)]


def assign_styles(methods: Mapping[str, str]) -> dict[str, Style]:
    """A style for each label of a method: labels that share one differ in shade and dash."""
    seen: dict[str, int] = {}
    styles: dict[str, Style] = {}
    for label, method in methods.items():
        turn = seen.get(method, 0)
        seen[method] = turn + 1
        styles[label] = _variant(style_of(method), turn)
    return styles


def mix(colour: str, other: str, share: float) -> str:
    """The colour with a ``share`` of the other mixed in."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def _variant(style: Style, turn: int) -> Style:
    if turn == 0:
        return style
    towards, share = (("#ffffff", 0.45), ("#000000", 0.4), ("#ffffff", 0.65))[(turn - 1) % 3]
    dash = _DASHES[(_DASHES.index(style.dash) + turn) % len(_DASHES)]
    return Style(mix(style.colour, towards, share), dash, style.marker)


def _channels(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return red, green, blue
