"""Checks of parameters: each failure is one sentence, and all failures are reported at once."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from numbers import Integral, Real
from types import TracebackType
from typing import Any, Self, TypeVar, get_args, get_type_hints

import numpy as np

from scfl.errors import ParameterError, Problem

T = TypeVar("T")


class Requirements:
    """Collect what is wrong with an object's parameters; raise once, on leaving the block.

    >>> with Requirements() as require:
    ...     require.count("coded_rows", 300, at_least=1)
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and self.problems:
            raise ParameterError(self.problems)

    def that(self, holds: bool, field: str, sentence: str) -> None:
        """Note a problem with ``field`` unless ``holds``."""
        if not holds:
            self.problems.append(Problem(field, sentence))

    def count(
        self, field: str, value: Any, *, at_least: int = 0, at_most: int | None = None
    ) -> None:
        """Require a whole number in a closed range."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        inside = whole and at_least <= value and (at_most is None or value <= at_most)
        allowed = f"at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        self.that(inside, field, f"{show(value)} is not allowed; give a whole number {allowed}")

    def number(
        self,
        field: str,
        value: Any,
        *,
        above: float | None = None,
        at_least: float | None = None,
        below: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Require a finite number within the given bounds."""
        bounds = {"above": above, "at least": at_least, "below": below, "at most": at_most}
        given = {word: bound for word, bound in bounds.items() if bound is not None}
        allowed = " and ".join(f"{word} {bound:g}" for word, bound in given.items())
        number = isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
        inside = (
            number
            and (above is None or value > above)
            and (at_least is None or value >= at_least)
            and (below is None or value < below)
            and (at_most is None or value <= at_most)
        )
        sentence = f"{show(value)} is not allowed; give a finite number {allowed}"
        self.that(inside, field, sentence.rstrip())

    def choice(self, field: str, value: Any, choices: Collection[str]) -> None:
        """Require one of a few words."""
        self.that(
            isinstance(value, str) and value in choices,
            field,
            f"{value!r} is not known; {suggest(str(value), choices)}",
        )


def show(value: Any) -> str:
    """A value as it would be typed, also where NumPy made it."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number that no double holds.
        return False


def suggest(word: str, known: Collection[str]) -> str:
    """Say the nearest known word, or all of them when none is near."""
    near = get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else "choose from " + ", ".join(sorted(known))


def build(kind: type[T], table: Mapping[str, Any]) -> T:
    """Make a parameter object from a table with kebab-case keys; report every problem at once.

    A nested table becomes the parameter object that the field asks for; where the field admits
    several, the one that knows most of the keys.
    """
    known = {field.name.replace("_", "-"): field for field in fields(kind) if field.init}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    problems, values = [], {}
    for key, value in table.items():
        try:
            if key not in known:
                raise ParameterError(f"there is no such key; {suggest(key, known)}")
            values[known[key].name] = _read_value(hints[known[key].name], value)
        except ParameterError as error:
            problems += [problem.within(key) for problem in error.problems]
    missing = [
        Problem(key, "is missing; give it a value")
        for key, field in known.items()
        if field.default is MISSING and field.default_factory is MISSING and key not in table
    ]
    if missing:
        raise ParameterError(problems + missing)
    try:
        made = kind(**values)
    except ParameterError as error:
        said = [Problem(p.where.replace("_", "-"), p.sentence) for p in error.problems]
        raise ParameterError(problems + said) from None
    if problems:
        raise ParameterError(problems)
    return made


def _read_value(hint: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _build_nested(hint, value)
    if takes_tables_only(hint):
        raise ParameterError(f"{value!r} is a value; write a table of its keys")
    return tuple(value) if isinstance(value, list) else value


def takes_tables_only(hint: Any) -> bool:
    """Whether a field of this type is always a parameter object, never a bare value."""
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    return all(isinstance(kind, type) and is_dataclass(kind) for kind in kinds)


def _build_nested(hint: Any, table: Mapping[str, Any]) -> Any:
    candidates = get_args(hint) or (hint,)
    kinds = [kind for kind in candidates if isinstance(kind, type) and is_dataclass(kind)]
    if not kinds:
        raise ParameterError([Problem("", f"{dict(table)!r} is a table; give a single value")])
    keys = {key.replace("-", "_") for key in table}
    return build(max(kinds, key=lambda kind: len(keys & {f.name for f in fields(kind)})), table)
