"""The experiments that ship with scfl: a study, what to draw of it, and what should come out.

``<name>/config.toml`` is an ordinary study with two tables more: ``[figure]`` says what is drawn
and tested, and ``[quick]`` what a version for a coffee break or a CI run changes. ``expected.json``
beside it has what came out when it was last run for the documentation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from scfl.core.parameter import build, suggest
from scfl.errors import ConfigError, ParameterError, Problem
from scfl.experiments.levels import FigureSection, Level, spread_levels
from scfl.study.config import check_tables, parse_tables

Edition = Literal["full", "quick"]


@dataclass(frozen=True)
class Experiment:
    """A named experiment in one edition, its studies checked and in the order drawn."""

    name: str
    edition: Edition
    figure: FigureSection
    levels: tuple[Level, ...]
    expected: Mapping[str, Any] | None


def list_experiments() -> tuple[str, ...]:
    """The names that ship with scfl."""
    shelf = files("scfl.experiments")
    return tuple(
        sorted(entry.name for entry in shelf.iterdir() if entry.joinpath("config.toml").is_file())
    )


def load_experiment(name: str, edition: Edition = "full") -> Experiment:
    """Read and check an experiment: one that ships with scfl, or a file of one's own."""
    if name.endswith(".toml"):
        path = Path(name)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        beside, folder, label = path.parent / "expected.json", path.parent, path.parent.name
    else:
        known = list_experiments()
        if name not in known:
            raise ParameterError([Problem(name, f"is no experiment; {suggest(name, known)}")])
        shelf = files("scfl.experiments").joinpath(name)
        text, folder, label = shelf.joinpath("config.toml").read_text("utf-8"), Path(), name
        beside = Path(str(shelf.joinpath("expected.json")))
    expected = json.loads(beside.read_text("utf-8")) if beside.is_file() else {}
    return read_experiment(
        text, name=label, edition=edition, folder=folder, expected=expected.get(edition)
    )


def read_experiment(
    text: str,
    *,
    name: str,
    edition: Edition = "full",
    folder: Path = Path(),
    expected: Mapping[str, Any] | None = None,
) -> Experiment:
    """Turn the text of a configuration into an experiment."""
    tables = parse_tables(text, name)
    changes = tables.pop("quick", {})
    if edition == "quick":
        if not changes:
            raise ConfigError([Problem("quick", f"is missing; {name} has no quick version")])
        tables = _change(tables, changes)
    try:
        figure = build(FigureSection, tables.pop("figure", {}))
    except ParameterError as error:
        raise ConfigError([problem.within("figure") for problem in error.problems]) from None
    study = check_tables(tables, name=name, folder=folder)
    return Experiment(name, edition, figure, spread_levels(study, figure), expected)


def _change(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The tables with some keys changed, and the methods left out that ``leave-out`` names."""
    changed = dict(tables)
    for key, value in changes.items():
        if key == "leave-out":
            kept = {
                label: entry for label, entry in tables["methods"].items() if label not in value
            }
            changed["methods"] = kept
        elif isinstance(value, Mapping) and isinstance(tables.get(key), Mapping):
            changed[key] = _change(tables[key], value)
        else:
            changed[key] = value
    return changed
