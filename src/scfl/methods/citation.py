"""Where a method comes from, for `scfl methods` and `scfl cite`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from scfl.errors import ParameterError, Problem
from scfl.methods.protocol import Method


def summarise_method(kind: type[Method]) -> str:
    """The first line of a method's docstring."""
    return (kind.__doc__ or "").strip().partition("\n")[0]


def cite_method(kind: type[Method]) -> str:
    """The BibTeX entry of a method's source."""
    key = getattr(kind, "cites", None)
    if key not in _references():
        raise ParameterError([Problem("method", f"{kind.name} names no source to cite")])
    return _references()[key]


def cite_shortly(kind: type[Method]) -> str:
    """First author and year, as in ``Sun 2022``; nothing for a method without a source."""
    key = getattr(kind, "cites", None)
    if key not in _references():
        return ""
    entry = _references()[key]
    author = re.search(r"author\s*=\s*{([^,]+),", entry)
    year = re.search(r"year\s*=\s*{(\d+)}", entry)
    return f"{author[1] if author else key} {year[1] if year else ''}".strip()


@cache
def _references() -> dict[str, str]:
    text = files("scfl.methods").joinpath("references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+{([^,]+),.*?^}$", text, re.MULTILINE | re.DOTALL)
    bodies = re.findall(r"^@\w+{[^,]+,.*?^}$", text, re.MULTILINE | re.DOTALL)
    return dict(zip(entries, bodies, strict=True))
