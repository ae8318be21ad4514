"""All errata: found by name, computed, and written as the page of the documentation."""

from __future__ import annotations

from scfl.core.parameter import suggest
from scfl.errata import convergence, cost, privacy
from scfl.errata.erratum import Erratum, Figure
from scfl.errors import ParameterError, Problem

ERRATA: dict[str, Erratum] = {
    erratum.name: erratum for erratum in (*convergence.ERRATA, *privacy.ERRATA, *cost.ERRATA)
}

_HEAD = """# Where the paper says more than holds

Each point with a small computation that shows it; `scfl errata` makes them all, `scfl errata NAME`
one, and `scfl errata --page` this page, which the tests compare with what they compute. Symbols
are the paper's. What is true instead stands in `scfl.core.theory` and `scfl.privacy`.
"""


def find_erratum(name: str) -> Erratum:
    """The erratum of that name, or the nearest name in the error."""
    if name not in ERRATA:
        raise ParameterError([Problem("errata", f"{name!r} is not known; {suggest(name, ERRATA)}")])
    return ERRATA[name]


def write_page() -> str:
    """The page of the documentation, computed anew."""
    return "\n".join([_HEAD, *map(write_section, ERRATA.values())])


def write_section(erratum: Erratum) -> str:
    """One erratum in five lines of Markdown."""
    return (
        f"## {erratum.title}\n\n"
        f"- **{erratum.place}, printed:** {erratum.printed}\n"
        f"- **True:** {erratum.true}\n"
        f"- **Shown by** `scfl errata {erratum.name}`: {list_figures(erratum.demonstrate())}.\n"
        f"- **Here:** {erratum.consequence}\n"
    )


def list_figures(figures: tuple[Figure, ...]) -> str:
    """The numbers of a demonstration in a row."""
    return "; ".join(f"{figure.label} **{figure.text}**" for figure in figures)
