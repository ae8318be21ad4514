"""A study as a file: which problem, which machines, which methods, how long, how often.

Keys are kebab-case. Every table becomes a frozen dataclass whose own checks speak, so a mistake in
a file and the same mistake in Python get the same sentence.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scfl.core.availability import Always, Availability
from scfl.core.parameter import build, suggest
from scfl.errors import ConfigError, ParameterError, Problem
from scfl.methods.budget import check_budget
from scfl.methods.protocol import Method
from scfl.privacy.budget import Budget
from scfl.study.availability import read_availability
from scfl.study.methods import read_methods
from scfl.study.sections import (
    ClockSection,
    FleetSection,
    PartitionSection,
    ProblemSection,
    ReportSection,
    SearchSection,
)


@dataclass(frozen=True)
class StudyConfig:
    """A checked configuration. ``methods`` are the finished objects, by label, in file order."""

    name: str
    seeds: tuple[int, ...]
    problem: ProblemSection
    partition: PartitionSection
    fleet: FleetSection
    clock: ClockSection
    report: ReportSection
    search: SearchSection
    privacy: Budget
    methods: Mapping[str, Method]
    availability: Availability = field(default_factory=Always)
    folder: Path = field(default=Path(), compare=False)


_SECTIONS: dict[str, type[Any]] = {
    "problem": ProblemSection,
    "partition": PartitionSection,
    "fleet": FleetSection,
    "clock": ClockSection,
    "report": ReportSection,
    "search": SearchSection,
    "privacy": Budget,
}
_TOP = ("name", "seeds", "availability", "defaults", "methods", *_SECTIONS)


def parse_tables(text: str, where: str) -> dict[str, Any]:
    """Parse TOML; ``where`` names the text in the error."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from None


def read_tables(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Read a TOML file and apply ``a.b=value`` overrides to it."""
    try:
        tables = parse_tables(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    for override in overrides:
        _apply(tables, override)
    return tables


def check_tables(tables: Mapping[str, Any], *, name: str, folder: Path = Path()) -> StudyConfig:
    """Turn tables into a study, or raise one error that lists every problem."""
    problems = [
        Problem(key, f"there is no such table or key; {suggest(key, _TOP)}")
        for key in tables
        if key not in _TOP
    ]
    sections = {}
    for key, kind in _SECTIONS.items():
        table = _collect(lambda key=key: _table(tables, key), problems)
        if table is None:
            continue
        try:
            sections[key] = build(kind, table)
        except ParameterError as error:
            problems += [problem.within(key) for problem in error.problems]
    methods = _collect(
        lambda: read_methods(_table(tables, "methods"), _table(tables, "defaults")), problems
    )
    if "privacy" in sections and methods is not None:
        problems += check_budget(sections["privacy"], tables, methods)
    availability = _collect(lambda: _read_availability(tables, folder), problems)
    seeds = _collect(lambda: _read_seeds(tables.get("seeds", 5)), problems)
    given = tables.get("name", name)
    if not isinstance(given, str) or not given:
        problems.append(Problem("name", f"{given!r} is not a name; give a word or two in quotes"))
    if problems or methods is None or seeds is None or availability is None:
        raise ConfigError(problems)
    return StudyConfig(
        name=given,
        seeds=seeds,
        methods=methods,
        availability=availability,
        folder=folder,
        **sections,
    )


def load_study_config(path: Path, overrides: Sequence[str] = ()) -> StudyConfig:
    """Read and check a configuration file; its own folder is where relative paths start."""
    return check_tables(read_tables(path, overrides), name=path.stem, folder=path.parent)


def _collect(make: Any, problems: list[Problem]) -> Any:
    try:
        return make()
    except (ParameterError, ConfigError) as error:
        problems += error.problems
        return None


def _table(tables: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = tables.get(key, {})
    if not isinstance(table, Mapping):
        raise ParameterError([Problem(key, f"{table!r} is a value; write a table [{key}]")])
    return table


def _read_availability(tables: Mapping[str, Any], folder: Path) -> Availability:
    try:
        return read_availability(_table(tables, "availability"), folder)
    except ParameterError as error:
        raise ParameterError([issue.within("availability") for issue in error.problems]) from None


def _read_seeds(seeds: Any) -> tuple[int, ...]:
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1:
        return tuple(range(seeds))
    whole = isinstance(seeds, list) and all(type(seed) is int and seed >= 0 for seed in seeds)
    if not whole or not seeds or len(set(seeds)) < len(seeds):
        raise ParameterError(
            [
                Problem(
                    "seeds",
                    f"{seeds!r} is not allowed; give how many (at least 1) "
                    "or a list of different whole numbers from 0",
                )
            ]
        )
    return tuple(seeds)


def _apply(tables: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"--set {override}: write --set table.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table = tables
    for depth, key in enumerate(keys[:-1]):
        nested = table.get(key)
        if nested is None and keys[0] == "methods" and depth == 1:
            raise ConfigError(
                f"--set {override}: the file has no [methods.{key}]; {suggest(key, list(table))}"
            )
        if nested is None:
            nested = table[key] = {}
        if not isinstance(nested, dict):
            nested = table[key] = {}
        table = nested
    table[keys[-1]] = value
