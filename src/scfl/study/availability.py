"""Availability as it stands in a file: a kind, and the parameters of that kind."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scfl.core.availability import (
    Always,
    Availability,
    Departures,
    Diurnal,
    Independent,
    LateJoiners,
    Outages,
    Trace,
)
from scfl.core.parameter import build, suggest
from scfl.errors import ParameterError, Problem

KINDS: dict[str, type[Availability]] = {
    "always": Always,
    "independent": Independent,
    "outages": Outages,
    "diurnal": Diurnal,
    "departures": Departures,
    "late-joiners": LateJoiners,
    "trace": Trace,
}
_COLUMNS = ("client", "from_s", "until_s")


def read_availability(table: Mapping[str, Any], folder: Path) -> Availability:
    """Turn a table into a law; a trace's CSV file lies beside the configuration."""
    given = dict(table)
    kind = given.pop("kind", None)
    if kind is None and not given:
        return Always()
    if kind not in KINDS:
        raise ParameterError(
            [
                Problem("kind", f"{kind!r} is not known; {suggest(str(kind), KINDS)}")
                if kind is not None
                else Problem("kind", f"is missing; choose from {', '.join(KINDS)}")
            ]
        )
    if kind != "trace":
        return build(KINDS[kind], given)
    unknown = sorted(given.keys() - {"file", "intervals"})
    if unknown or len(given) != 1:
        field = unknown[0] if unknown else "file"
        raise ParameterError([Problem(field, "a trace takes either `file` or `intervals`")])
    if "file" in given:
        return load_trace(folder / str(given["file"]))
    return Trace(tuple(_read_interval(entry, "intervals") for entry in given["intervals"]))


def load_trace(path: Path) -> Trace:
    """Read up-times from a CSV file with the columns client, from_s and until_s."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ParameterError([Problem("file", f"{path} cannot be read ({error})")]) from None
    missing = [name for name in _COLUMNS if rows and name not in rows[0]]
    if missing or not rows:
        raise ParameterError(
            [Problem("file", f"{path} needs rows with the columns {', '.join(_COLUMNS)}")]
        )
    return Trace(
        tuple(
            _read_interval([row[name] for name in _COLUMNS], f"{path}, row {number}")
            for number, row in enumerate(rows, start=1)
        )
    )


def describe_availability(law: Availability) -> dict[str, Any]:
    """A law as it could stand in a file."""
    (kind,) = (word for word, known in KINDS.items() if type(law) is known)
    return {"kind": kind, **asdict(law)}  # type: ignore[call-overload]


def _read_interval(entry: Any, where: str) -> tuple[int, float, float]:
    try:
        client, begin, end = entry
        return int(client), float(begin), float(end)
    except (TypeError, ValueError):
        raise ParameterError(
            [Problem(where, f"{entry!r} is not a client's number, a time and a later one")]
        ) from None
