"""One look per method, everywhere."""

from __future__ import annotations

from itertools import combinations

import pytest

from scfl.methods.registry import known_methods
from scfl.report import colours
from scfl.report.colours import STATUS_COLOURS, assign_styles, mix, style_of

NAMES = (
    *("scfl", "fedavg", "fl-pma", "cfl-fb", "codedfedl", "dp-cfl", "fl-ipw", "one-shot"),
    *("curvature", "stand-in", "doubly-robust", "resilient", "adaptive-scfl"),
)


def luminance(colour: str) -> float:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_every_registered_method_has_a_look_of_its_own() -> None:
    assert set(known_methods()) <= set(NAMES)
    looks = {name: style_of(name) for name in NAMES}
    assert len({look.colour for look in looks.values()}) == len(NAMES)
    # In greyscale, dash and marker must do.
    assert len({(look.dash, look.marker) for look in looks.values()}) == len(NAMES)
    assert STATUS_COLOURS["late"] not in {look.colour for look in looks.values()}


def test_statuses_stay_apart_in_greyscale() -> None:
    for one, other in combinations(STATUS_COLOURS.values(), 2):
        assert abs(luminance(one) - luminance(other)) > 30


def test_labels_of_one_method_differ() -> None:
    methods = {"scfl": "scfl", "a": "fl-pma", "b": "fl-pma", "c": "fl-pma", "d": "fl-pma"}
    styles = assign_styles(methods)
    assert styles["scfl"] == style_of("scfl")
    assert styles["a"] == style_of("fl-pma")
    assert len({style.colour for style in styles.values()}) == 5
    assert len({style.dash for label, style in styles.items() if label != "scfl"}) == 4


def test_a_method_keeps_its_look_whoever_stands_beside_it() -> None:
    alone = assign_styles({"x": "dp-cfl"})["x"]
    assert assign_styles({"y": "scfl", "x": "dp-cfl", "z": "mine"})["x"] == alone
    assert style_of("mine") == style_of("mine")
    assert style_of("mine").colour in {style.colour for style in colours._SPARE}


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, "#000000"), (1.0, "#ff8000"), (0.5, "#804000")]
)
def test_colours_mix(share: float, expected: str) -> None:
    assert mix("#000000", "#ff8000", share) == expected
